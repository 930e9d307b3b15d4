"""Objectives on real processes: what each checks is in `tests/ranks.py`."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

import unclump as uc
from tests.launch import environment, launch
from tests.sharded import Words, compare
from tests.sharded_optimisers import OPTIMISERS, WORDS, alone, load, optimiser, train
from unclump.distributed.ranks import Alone

ROOT = Path(__file__).parents[2]
NUMBERS = "objectives,company,sets,zero_rows,balanced,neighbours,measures,training,dtensor"
OF_OPTIMISERS = "sphere_fsdp,sphere_shards,sphere_checkpoint"


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    """The folder that three processes, and then two, have left: the checks of `tests.ranks` in two launches."""
    folder = tmp_path_factory.mktemp("ranks")
    three = f"{NUMBERS},disperse,{OF_OPTIMISERS},draws,ties,groups,differences_are_refused,too_few_points,death"
    launch(3, "tests.ranks", three, folder)
    launch(2, "tests.ranks", f"disperse,{OF_OPTIMISERS},fsdp,replicas,metric", folder)
    return folder


def test_three_processes_have_the_numbers_of_one(left):
    """And a run that three began is one that two can end."""
    waited = [float(path.read_text()) for path in left.glob("heard-*")]
    assert len(waited) == 2  # of the third, which died
    assert max(waited) < 25


@pytest.mark.deep
def test_two_processes_have_the_numbers_of_one(tmp_path):
    launch(2, "tests.ranks", NUMBERS, tmp_path)


@pytest.mark.deep
def test_without_compiled_loops_three_processes_have_the_numbers_of_one(tmp_path, monkeypatch):
    monkeypatch.setenv("UNCLUMP_NATIVE", "0")
    launch(3, "tests.ranks", f"{NUMBERS},draws,ties,groups", tmp_path)


def test_optimisers_of_sharded_models_are_those_of_one_process(left):
    """With a state that three ranks save, two load and save again, and one loads."""
    for name in OPTIMISERS:
        model = Words(torch.float64)
        optimizer = optimiser(name, model)
        load(left / f"{name} of 2", model, optimizer)
        train(model, optimizer, WORDS, 2)
        compare(model, alone(name, 10), 1e-12)


def test_examples_of_the_page_run(tmp_path):
    """All of them in one launch: torch takes longer to start than they take."""
    plain, *programs = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "distributed.md").read_text(), re.DOTALL)
    exec(compile(plain, "distributed.md", "exec"), {})
    starts, ends = 'dist.init_process_group("gloo")', "dist.destroy_process_group()"
    together = re.sub(rf"{re.escape(starts)}.*", "", "\n".join(programs)).replace(ends, "")  # once in a launch
    (tmp_path / "example.py").write_text(f"import torch.distributed as dist\n{starts}\n{together}\n{ends}\n")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*torchrun, "example.py"], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert (tmp_path / "state" / "latest").read_text() == "step-51"


def test_one_process_needs_no_group(points):
    x = points(6, 4)
    assert_close(uc.KoLeo(gather=True)(x), uc.KoLeo()(x))
    expected = "KoLeo(k=1, group_size=None, distance='chordal', neighbours='exact', gather=True)"
    assert repr(uc.KoLeo(gather=True)) == expected
    assert repr(uc.SphericalVariance(gather=uc.Shards())) == "SphericalVariance(gather=Shards())"


def test_processes_that_were_started_must_be_introduced(points, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(RuntimeError, match=r"on one of 3 processes; call torch\.distributed\.init_process_group"):
        uc.KoLeo(gather=True)(points(6, 4))


def test_alone_everything_is_here(points):
    x, ranks = points(4, 3), Alone([4])
    assert_close([ranks.sum(x), ranks.minimum(x), ranks.rows(x), ranks.agree(x)], [x] * 4)
    assert list(ranks.ring(x)) == []
    assert ranks.total == 4
    added = ranks.add_back(x.clone()[None], torch.tensor([[3, 3, 0, 0]]), x[None])[0]
    assert_close(added, x + torch.stack([x[2] + x[3], 0 * x[0], 0 * x[0], x[0] + x[1]]))


def test_a_run_alone_takes_shards_and_refuses_averages(points):
    x = points(6, 3)
    spread, plain = (uc.disperse(x, uc.KoLeo(gather=gather), steps=3) for gather in (uc.Shards(), False))
    assert_close(spread.points, plain.points)
    with pytest.raises(ValueError, match=r"expected gather=unclump\.Shards\(\)"):
        uc.disperse(x, uc.KoLeo(gather=True), steps=3)


def test_importing_unclump_loads_neither_the_checkpoints_of_torch_nor_frameworks():
    """Seconds of imports that a table in one process has no use for."""
    script = """
import sys, unclump
assert not {"torch.distributed.checkpoint", "unclump.integrations", "transformers", "lightning"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], check=True, env=environment())
