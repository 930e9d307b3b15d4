"""`torchrun -m unclump measure`: several processes measure the shards of one table, and one of them prints."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import unclump as uc
from tests.launch import ROOT, environment, launch
from unclump.cli import main
from unclump.tables.findings import Health

SIZES = {"uneven": (500, 90, 210), "empty": (300, 500), "one": (800,), "few": (3, 4, 2)}  # rows of each shard


def torchrun(*program):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m"]
    return subprocess.run(
        [*command, *program], cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=200, check=False
    )


@pytest.fixture
def shards(tmp_path, points):
    """A table with duplicates and bad rows across shards, cut in several ways; names and frequencies."""
    x = points(800, 12).float() + 0.1
    x[501], x[700] = x[3], x[20] * (1 + 1e-6) + 1e-5
    x[7], x[799, 1] = 0, math.nan
    for kind, sizes in SIZES.items():
        for number, part in enumerate(x[: sum(sizes)].split(sizes)):
            save_file({"w": part.contiguous()}, tmp_path / f"{kind}-{number}.safetensors")
    for number, part in enumerate(x.split((650, 150))):
        first = 650 * number
        uc.save(tmp_path / f"named-{number}.parquet", uc.Table(part, [f"word {first + i}" for i in range(len(part))]))
    np.save(tmp_path / "other.npy", x[:50, :5].numpy())
    (tmp_path / "words.txt").write_text("\n".join(f"w{row}" for row in range(800)))
    (tmp_path / "counts.txt").write_text("\n".join(str((row * 7) % 800) for row in range(800)))
    return tmp_path


def commands(folder):
    parts = {kind: [str(path) for path in sorted(folder.glob(f"{kind}-*"))] for kind in (*SIZES, "named")}
    own = ["--names", str(folder / "words.txt"), "--frequencies", str(folder / "counts.txt")]
    return [
        [*parts["uneven"], "--exact"],
        [*parts["uneven"], "--sample", "300", *own],
        [*parts["empty"], "--sample", "200"],
        [*parts["empty"], "--exact", *own],
        [*parts["one"], "--sample", "200", "--save", str(folder / "saved.health")],
        [*parts["named"], "--sample", "200", "--fail-on", "duplicates"],
        [*parts["few"], "--exact"],
    ]


def refusals(folder):
    parts = [str(path) for path in sorted(folder.glob("uneven-*"))]
    (folder / "notes.txt").write_text("not a result")
    return {
        "expected rows of 12 float32 numbers without names, as in the shards of process": [
            parts[0], str(folder / "other.npy"),
        ],
        "is not what `unclump measure --save` wrote": [*parts, "--save", str(folder / "notes.txt")],
        "expected 800 names, one per line and row, got 1": [*parts, "--names", str(folder / "notes.txt")],
        "expected a fault for --fail-on": [*parts, "--fail-on", "everything"],
        "no such file or directory (process ": [str(folder / "missing.npy"), *parts],
    }  # fmt: skip


def assert_same(found, expected, where=""):
    """Equal, but for rounding: sums of several processes are added in another order."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for key, value in expected.items():
            assert_same(found[key], value, f"{where}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for number, pair in enumerate(zip(found, expected, strict=True)):
            assert_same(*pair, f"{where}[{number}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-9), where
    else:
        assert found == expected, where


@pytest.mark.parametrize("processes", [pytest.param(2, marks=pytest.mark.deep), 3])
def test_processes_print_what_one_does_and_stop_together(processes, shards, capsys):
    asked = [["measure", *words, "--json"] for words in commands(shards)]
    refused = {message: ["measure", *words] for message, words in refusals(shards).items()}
    (shards / "commands.json").write_text(json.dumps([*asked, *refused.values()]))
    launch(processes, "tests.commands_of_ranks", shards / "commands.json")
    results = []
    for rank in range(processes):
        results.append(json.loads((shards / f"rank-{rank}.json").read_text()))
    saved = Health.load(shards / "saved.health")
    for number, words in enumerate(asked):
        code = main(words)
        out, _ = capsys.readouterr()
        codes = [result[number]["code"] for result in results]
        assert codes == [code] + [0] * (processes - 1), words  # else torchrun would end the first one while it writes
        assert_same(json.loads(results[0][number]["out"]), json.loads(out))
        assert {(result[number]["out"], result[number]["err"]) for result in results[1:]} == {("", "")}
    assert saved.fingerprint == Health.load(shards / "saved.health").fingerprint
    for number, (message, words) in enumerate(refused.items(), start=len(asked)):
        answers = [result[number] for result in results]
        assert [answer["code"] for answer in answers] == [2] * processes, words
        assert message in answers[0]["err"]
        assert answers[0]["err"].count("\n") == 1
        assert [answer["err"] + answer["out"] for answer in answers[1:]] == [""] * (processes - 1)


@pytest.mark.deep  # as what is refused above, in one launch
def test_a_shard_that_is_missing_ends_a_real_launch_with_one_message(shards):
    parts = [str(shards / f"uneven-{number}.safetensors") for number in (0, 1, 9)]
    done = torchrun("unclump", "measure", *parts)
    said = [line for line in done.stderr.splitlines() if line.startswith("unclump measure:")]
    assert len(said) == 1
    assert "uneven-9.safetensors: no such file or directory (process 1 of 2)" in said[0]
    assert done.returncode != 0
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("rank", "said"),
    [
        pytest.param("0", {"needs more memory than is available (process 0 of 2)"}, marks=pytest.mark.deep),
        ("1", {"needs more memory than is available (process 1 of 2)"}),
        pytest.param("killed", set(), marks=pytest.mark.deep),
    ],
)
def test_a_process_that_runs_out_of_memory_ends_all(rank, said, shards):
    parts = [str(path) for path in sorted(shards.glob("uneven-*"))]
    done = torchrun("tests.rank_out_of_memory", rank, "measure", *parts, "--sample", "300")
    beginning = "unclump measure: "
    lines = {line.removeprefix(beginning) for line in done.stderr.splitlines() if line.startswith(beginning)}
    waiting = "another process ended: it says why, or was killed, as for want of memory"
    assert said <= lines <= said | {waiting}  # which the first may not come to say before torchrun ends it
    assert "src/unclump" not in done.stderr  # no traceback of ours; torchrun has one of its own
    assert done.returncode != 0
    assert done.stdout == ""


def test_a_real_launch_prints_once(shards):
    parts = [str(path) for path in sorted(shards.glob("uneven-*"))]
    done = torchrun("unclump", "measure", *parts, "--sample", "300")
    assert done.returncode == 0, done.stderr[:3000]
    assert done.stdout.count("rows x") == 1
    assert done.stdout.startswith("800 rows x 12 dimensions, float32\n")
    assert "exact duplicates: 2 rows in 1 group" in done.stdout


def test_ranks_must_share_their_draws():
    rows = torch.eye(4)
    assert uc.health(rows, gather=True) == uc.health(rows)
    with pytest.raises(TypeError, match="expected gather to be True, False"):
        uc.health(rows, gather="all")
