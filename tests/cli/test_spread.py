"""`unclump spread`: what it writes, to the bit, what it tells, and what it refuses."""

import io
import itertools
import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import unclump as uc
from tests.small_tables import clump, seeded
from unclump.cli import main, spread
from unclump.cli._comparison import sample_rows

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
FEW = ["--steps", "20", "--quiet"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def words(n=120, d=6):
    """words.npz: rows of many norms around an axis, with names."""
    np.savez("words.npz", vectors=clump(n, d).numpy(), words=np.array([f"w{i}" for i in range(n)]))
    return uc.load("words.npz")


def raw(x):
    return x.contiguous().view(torch.uint8).reshape(len(x), -1)


def moves(x, y):
    return uc.angle(uc.project(x.double()), uc.project(y.double()))


def test_a_table_is_opened_and_told_before_and_after(capsys):
    before = words()
    assert main(["spread", "words.npz", "-o", "out.npz", "--quiet"]) == 0
    after = uc.load("out.npz")
    lines = capsys.readouterr().out.splitlines()
    told = {line[:20].strip(): re.findall(r"[\d.]+(?=°|$|\s)", line[20:]) for line in lines}
    assert after.names == before.names
    assert after.points.dtype == before.points.dtype
    assert uc.spherical_variance(after.points) > 0.95 > uc.spherical_variance(before.points) + 0.5
    for name, measure in [
        ("smallest angle", lambda x: math.degrees(uc.min_angle(x))),
        ("median nearest angle", lambda x: math.degrees(uc.nearest_angles(x).quantile(0.5))),
        ("spherical variance", uc.spherical_variance),
    ]:
        assert [float(value) for value in told[name]] == pytest.approx(
            [measure(before.points), measure(after.points)], abs=1e-4
        )
    moved = moves(before.points, after.points)
    assert float(told["largest move"][0]) == pytest.approx(math.degrees(moved.max()), abs=1e-4)
    assert float(told["mean move"][0]) == pytest.approx(math.degrees(moved.mean()), abs=1e-4)
    overlap = uc.neighbour_overlap(before.points, after.points, samples=None)
    assert float(told["overlap@10"][0]) == pytest.approx(overlap, abs=1e-4)


def test_rows_are_unit_or_keep_their_norms():
    before = words().points
    assert main(["spread", "words.npz", "-o", "unit.npz", *FEW]) == 0
    torch.testing.assert_close(uc.load("unit.npz").points.norm(dim=-1), torch.ones(120))
    assert main(["spread", "words.npz", "-o", "kept.npz", "--keep-norms", *FEW]) == 0
    torch.testing.assert_close(uc.load("kept.npz").points.norm(dim=-1), before.norm(dim=-1))


@each_dtype
@pytest.mark.parametrize("norms", [["--keep-norms"], []])
def test_the_bound_on_moves_holds_for_the_written_file(dtype, norms):
    save_file({"table": clump(150, 8, dtype)}, "t.safetensors")
    assert (
        main(["spread", "t.safetensors", "-o", "out.safetensors", "--max-move", "4", *norms, *FEW, "--lr", "5.7"]) == 0
    )
    before, after = uc.load("t.safetensors").points, uc.load("out.safetensors").points
    assert after.dtype == dtype
    assert moves(before, after).max() <= math.radians(4)
    assert moves(before, after).max() > math.radians(3)


def test_copies_that_a_bound_keeps_together_are_told(capsys):
    x = clump(60, 6)
    x[7] = x[3]
    np.save("copies.npy", x.numpy())
    assert main(["spread", "copies.npy", "-o", "out.npy", "--max-move", "0.0001", *FEW]) == 0
    assert "some rows are still within" in (text := capsys.readouterr().out)
    assert "--duplicates-only separates copies" in text
    assert main(["spread", "copies.npy", "-o", "out.npy", *FEW]) == 0
    assert "still within" not in capsys.readouterr().out


@each_dtype
def test_frozen_rows_are_the_same_to_the_bit(dtype):
    save_file({"table": clump(60, 8, dtype)}, "t.safetensors")
    Path("rows.txt").write_text("0\n#17\n59\n")
    assert main(["spread", "t.safetensors", "-o", "out.safetensors", "--freeze", "rows.txt", *FEW]) == 0
    before, after = uc.load("t.safetensors").points, uc.load("out.safetensors").points
    same = (raw(before) == raw(after)).all(dim=1).nonzero()[:, 0]
    assert same.tolist() == [0, 17, 59]
    torch.testing.assert_close(
        after.double().norm(dim=-1), before.double().norm(dim=-1), rtol=4 * torch.finfo(dtype).eps, atol=0
    )


def test_rows_are_frozen_by_name():
    before = words().points
    Path("rows.txt").write_bytes(b"w3\r\nw100\r\n")
    assert main(["spread", "words.npz", "-o", "out.npz", "--freeze", "rows.txt", *FEW]) == 0
    assert (uc.load("out.npz").points == before).all(dim=1).nonzero()[:, 0].tolist() == [3, 100]


@each_dtype
def test_duplicates_only_parts_the_clumps_and_leaves_the_rest_to_the_bit(dtype, capsys):
    x = torch.randn(80, 8, generator=seeded(), dtype=torch.float64).to(dtype)
    x[70] = x[4]
    x[71] = 3 * x[4]
    save_file({"table": x}, "t.safetensors")
    assert main(["spread", "t.safetensors", "-o", "out.safetensors", "--duplicates-only"]) == 0
    after = uc.load("out.safetensors").points
    assert (raw(after) != raw(x)).any(dim=1).nonzero()[:, 0].tolist() == [4, 70, 71]
    assert uc.min_angle(after) > math.radians(1.5)
    near = max(uc.duplicate_angle(80, 8), 4 * torch.finfo(dtype).eps)  # what rounding to bfloat16 may hide is more
    assert f"3 rows had another row within {math.degrees(near):.4g}°" in capsys.readouterr().out


@pytest.mark.parametrize("options", [FEW, ["--duplicates-only", "--quiet"], ["--freeze", "rows.txt", *FEW]], ids=str)
def test_padding_stays_and_is_told_by_name(options, capsys):
    before = words()
    before.points[[0, 7]] = 0
    before.points[9] = before.points[11]
    uc.save("words.npz", before, in_place=True)
    Path("rows.txt").write_text("w0\nw3\n")
    assert main(["spread", "words.npz", "-o", "out.npz", *options]) == 0
    after, (out, err) = uc.load("out.npz").points, capsys.readouterr()
    assert not after[[0, 7]].any()
    assert (moves(before.points, after)[[9, 11]] > 1e-4).all()
    assert "row 0 'w0' is zero, row 7 'w7' is zero: without a direction, as padding is; unchanged" in out
    assert "nan" not in out
    assert not err
    assert main(["spread", "words.npz", "--try-moves", "5", *FEW]) == 0
    assert "nan" not in capsys.readouterr().out


def test_strengths_are_tried_without_writing(capsys):
    words()
    assert main(["spread", "words.npz", "--try-moves", "3,30", *FEW]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines[1:4]] == ["0°", "3°", "30°"]
    at_bound, overlaps, variances = ([float(line[column]) for line in lines[1:4]] for column in (1, 2, 3))
    assert at_bound[0] == 0 <= at_bound[2] < at_bound[1]
    assert overlaps == sorted(overlaps, reverse=True)
    assert variances == sorted(variances)
    assert os.listdir() == ["words.npz"]
    assert main(["spread", "words.npz", "-o", "out.npz", "--max-move", "30", *FEW]) == 0
    assert f"{uc.spherical_variance(uc.load('out.npz').points):.4f}" == lines[3][3]  # what was promised


def test_objectives_come_by_name_with_their_options():
    words()
    kernel = ["--objective", "energy", "--option", "kernel=riesz", "--option", "kernel.s=2"]
    assert main(["spread", "words.npz", "-o", "out.npz", *kernel, *FEW, "--keep-norms"]) == 0
    expected = uc.disperse(
        uc.load("words.npz").points,
        uc.Energy(uc.Riesz(s=2)),
        steps=20,
        lr=0.01,
        schedule=lambda step: 1 - step / 20,
    ).points
    torch.testing.assert_close(uc.project(uc.load("out.npz").points), expected)


def test_in_place(here):
    before = words()
    assert main(["spread", "words.npz", "--in-place", *FEW]) == 0
    assert not torch.equal(uc.load("words.npz").points, before.points)
    assert main(["spread", "words.npz", "--in-place", "-o", str(here / "words.npz"), *FEW]) == 0
    assert os.listdir() == ["words.npz"]


def test_the_seed_decides():
    words()
    for name, seed in [("a", "1"), ("b", "1"), ("c", "2")]:
        assert main(["spread", "words.npz", "-o", f"{name}.npz", "--seed", seed, *FEW]) == 0
    a, b, c = (uc.load(f"{name}.npz").points for name in "abc")
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


EXAMPLES = re.findall(r"^  (unclump spread .*?)(?:   .*)?$", spread.EXAMPLES, flags=re.MULTILINE)


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_of_the_help_run(example):
    words()
    Path("rows.txt").write_text("w3\n")
    assert main([*shlex.split(example)[1:], *([] if "only" in example else FEW)]) == 0


# Refusals: one line, exit code 2, and every file as it was.


def broken(name, content):
    Path(name).write_bytes(content)


def make_inputs():
    words()
    np.save("one.npy", np.ones((1, 4), np.float32))
    x = clump(20, 4)
    np.save("whole.npy", x.numpy())
    broken("cut.npy", Path("whole.npy").read_bytes()[:-9])
    save_file({"t": x}, "whole.safetensors")
    broken("cut.safetensors", Path("whole.safetensors").read_bytes()[:-9])
    np.save("pickle.npy", np.array([{}, []], dtype=object), allow_pickle=True)
    broken("broken.txt", b"a 1 2 3\nb 1 2 3\nc 1 x 3\n")
    Path("folder").mkdir()
    for name, value, rows in (("nan", math.nan, [7]), ("zero", 0.0, range(1, 20))):
        y = x.clone()
        y[list(rows)] = value
        np.savez(f"{name}.npz", vectors=y.numpy(), words=np.array([f"\x1b[31mw{i}" for i in range(20)]))
    Path("few.txt").write_text("a\nb\n")
    Path("unknown.txt").write_text("w1\nw2\n\x1b[2Jevil\n")
    Path("beyond.txt").write_text("0\n120\n")
    Path("empty.txt").write_text("")
    np.savez("digits.npz", vectors=x.numpy(), words=np.array([str(19 - i) for i in range(20)]))
    Path("five.txt").write_text("5\n")
    np.savez("two.npz", a=x.numpy(), b=x.numpy())


OUT = ["-o", "out.npz"]
REFUSED = {
    "missing file": (["no.npy", *OUT], "no.npy: no such file"),
    "folder": (["folder", *OUT], "folder: is a folder without model.safetensors"),
    "truncated npy": (["cut.npy", *OUT], "cut.npy: "),
    "truncated safetensors": (["cut.safetensors", *OUT], "cut.safetensors: "),
    "pickle": (["pickle.npy", *OUT], "pickle.npy: "),
    "wrong key": (["words.npz", "--tensor", "vektors", *OUT], "holds no 'vektors'; it holds 'vectors'"),
    "several": (["two.npz", *OUT], "pick one with --tensor: 'a'"),
    "one row": (["one.npy", *OUT], "expected at least 2 rows"),
    "broken line": (["broken.txt", *OUT], "line 3: expected 3 numbers, got 'x'"),
    "nan": (["nan.npz", *OUT], r"row 7 '\x1b[31mw7' is NaN"),
    "zero": (["zero.npz", *OUT], r"expected at least 2 rows that are not zero, got 1"),
    "names": (["words.npz", "--names", "few.txt", *OUT], "few.txt: expected 120 names, one per line and row, got"),
    "itself": (["words.npz", "-o", "words.npz"], "allow it with --in-place"),
    "nowhere": (["words.npz"], "name a file with -o"),
    "two places": (["words.npz", "--in-place", *OUT], "leave one out"),
    "no folder": (["words.npz", "-o", "no/out.npz"], "its folder does not exist"),
    "freeze unknown": (["words.npz", *OUT, "--freeze", "unknown.txt"], r"line 3: no row is named '\x1b[2Jevil'"),
    "freeze beyond": (
        ["words.npz", *OUT, "--freeze", "beyond.txt"],
        "line 2: there is no row 120; the last one is 11",
    ),
    "freeze nothing": (["words.npz", *OUT, "--freeze", "empty.txt"], "empty.txt: is empty"),
    "freeze ambiguous": (
        ["digits.npz", *OUT, "--freeze", "five.txt"],
        "the name of row 14 and the number of another",
    ),
    "freeze missing": (["words.npz", *OUT, "--freeze", "no.txt"], "no.txt: no such file"),
    "objective": (["words.npz", *OUT, "--objective", "slised"], "did you mean 'sliced'?"),
    "option": (["words.npz", *OUT, "--option", "circle=3"], "did you mean 'circles'?"),
    "option syntax": (["words.npz", *OUT, "--option", "circles"], "expected --option KEY=VALUE"),
    "option value": (["words.npz", *OUT, "--option", "circles=many"], "expected circles to be an int"),
    "kernel": (["words.npz", *OUT, "--objective", "mmd", "--option", "kernel=gausian"], "did you mean 'gaussian'?"),
    "kernel option": (["words.npz", *OUT, "--objective", "mmd", "--option", "kernel.gama=1"], "did you mean 'gamma'?"),
    "steps": (["words.npz", *OUT, "--steps", "0"], "expected steps >= 1"),
    "batch size": (["words.npz", *OUT, "--batch-size", "1"], "expected --batch-size >= 2"),
    "lr": (["words.npz", *OUT, "--lr", "-1"], "expected --lr > 0"),
    "max move": (["words.npz", *OUT, "--max-move", "0"], "expected --max-move > 0"),
    "moves": (["words.npz", "--try-moves", "5;10"], "expected --try-moves as degrees such as 5,10,20"),
    "moves and output": (["words.npz", "--try-moves", "5", *OUT], "expected --try-moves without --output"),
    "within": (["words.npz", *OUT, "--within", "2"], "together with --duplicates-only"),
    "no use": (["words.npz", *OUT, "--duplicates-only", "--steps", "3"], "without --steps"),
    "checkpoint": (["words.npz", *OUT, "--checkpoint", "out.npz"], "expected a separate file for --checkpoint"),
    "other checkpoint": (
        ["words.npz", *OUT, "--checkpoint", "two.npz"],
        "expected a checkpoint of disperse in two",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_makes_no_sense_is_one_line_and_nothing_is_written(case, capsys, at_the_door):
    make_inputs()
    before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    arguments, message = REFUSED[case]
    assert main(["spread", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.startswith("unclump spread: ")
    assert err.count("\n") == 1
    assert "\x1b" not in err
    assert {path: path.read_bytes() for path in Path().iterdir() if path.is_file()} == before


# Runs that end early.

LIMITED = """
import resource, signal, sys
from unclump.cli import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sys.dont_write_bytecode = True  # which Python would cut short, too, for every program after this one
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
sys.exit(main(sys.argv[1:]))
"""
KILLED = """
import os, signal, sys
from unclump.cli import main
def dies(file, table):
    file.write(b"PK half of a file")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
import dataclasses
from unclump.tables.files._formats import FORMATS
FORMATS["npz"] = dataclasses.replace(FORMATS["npz"], write=dies)
sys.exit(main(sys.argv[1:]))
"""


def program(source, *arguments, **options):
    environment = os.environ | {"PYTHONPATH": str(Path(uc.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", source, *arguments], stderr=subprocess.PIPE, text=True, env=environment, **options
    )


def test_a_full_disk_and_a_kill_leave_the_old_file():
    words()
    before = Path("words.npz").read_bytes()
    full = program(LIMITED, "spread", "words.npz", "--in-place", *FEW)
    said = full.communicate(timeout=120)[1]  # before the other begins: a writer removes what a killed one left
    assert full.returncode == 2
    assert said == "unclump spread: words.npz: could not be written, nothing was changed: file too large\n"
    killed = program(KILLED, "spread", "words.npz", "--in-place", *FEW)
    killed.communicate(timeout=120)
    assert killed.returncode == -signal.SIGKILL
    assert Path("words.npz").read_bytes() == before
    assert len(list(Path().glob(".unclump-*"))) == 1  # of the one that was killed


@pytest.fixture
def interrupted(monkeypatch):
    """Ctrl-C comes at the thirtieth step of the run."""
    draw, calls = uc.Sliced.draw, []

    def press(self, *given):
        calls.append(given)
        if len(calls) == 30:
            os.kill(os.getpid(), signal.SIGINT)
        return draw(self, *given)

    monkeypatch.setattr(uc.Sliced, "draw", press)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


RUN = ["spread", "words.npz", "-o", "out.npz", "--steps", "60", "--quiet"]


def test_ctrl_c_writes_no_table_and_the_checkpoint_goes_on(interrupted, capsys):
    words()
    assert main([*RUN, "--checkpoint", "run.pt"]) == 130
    said = "unclump spread: interrupted; no table was written; the same command resumes from run.pt\n"
    assert capsys.readouterr() == ("", said)
    assert sorted(os.listdir()) == ["run.pt", "words.npz"]
    assert torch.load("run.pt", weights_only=True)["step"] == 30
    assert main([*RUN, "--checkpoint", "run.pt"]) == 0
    assert sorted(os.listdir()) == ["out.npz", "words.npz"]
    resumed = uc.load("out.npz").points
    assert main(RUN) == 0
    assert torch.equal(uc.load("out.npz").points, resumed)


def test_ctrl_c_without_a_checkpoint(interrupted, capsys):
    words()
    assert main(RUN) == 130
    assert "nothing was written (with --checkpoint FILE the run could be resumed)" in capsys.readouterr().err
    assert os.listdir() == ["words.npz"]


def test_json_says_the_same_in_degrees(capsys):
    words()
    assert main(["spread", "words.npz", "-o", "out.npz", *FEW, "--json", "--device", "cpu", "--max-move", "4"]) == 0
    told = json.loads(capsys.readouterr().out)
    before, after = (uc.load(name).points for name in ("words.npz", "out.npz"))
    assert told["moves"]["largest_degrees"] == pytest.approx(math.degrees(moves(before, after).max()), abs=1e-4)
    assert told["after"]["smallest_angle_degrees"] == pytest.approx(math.degrees(uc.min_angle(after)), abs=1e-4)
    assert told["output"] == "out.npz"
    at_bound = int((moves(before, after) > math.radians(3.99)).sum())
    assert told["moves"]["rows_at_bound"] == at_bound > 0
    assert main(["spread", "words.npz", "--try-moves", "2,4", *FEW, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["max_moves"]
    assert [line["max_move_degrees"] for line in told] == [0, 2, 4]
    assert told[0]["overlap@10"] == 1 > told[2]["overlap@10"]


def test_the_learning_rate_is_in_degrees():
    before = words().points
    for degrees in (0.5, 1.0):
        assert main(["spread", "words.npz", "-o", "out.npz", "--steps", "1", "--lr", str(degrees), "--quiet"]) == 0
        moved = moves(before, uc.load("out.npz").points)
        assert math.degrees(moved.median()) == pytest.approx(degrees, rel=0.3)


@pytest.mark.parametrize("device", ["cuda:99", "nonsense"])
def test_a_device_that_is_not_there_is_refused(device, capsys):
    words()
    assert main(["spread", "words.npz", "-o", "out.npz", "--device", device]) == 2
    assert re.fullmatch(
        rf"unclump spread: expected --device that torch can use here, such as cpu, got '{device}': .*\n",
        capsys.readouterr().err,
    )


class Terminal(io.StringIO):
    """A stderr that a person watches."""

    def isatty(self):
        return True


def test_the_larger_a_table_the_fewer_rows_are_compared():
    """A search for 10,000 of a million rows in 384 dimensions took minutes, three times."""
    assert sample_rows(60_000, 384) is None
    sizes = [len(sample_rows(n, d)) for n, d in ((60_001, 100), (1_000_000, 100), (1_000_000, 384))]
    assert sizes == [10_000, 6_000, 2_048]


@pytest.mark.parametrize(
    ("command", "stages"),
    [
        (
            ["spread", "words.npz", "-o", "out.npz", "--steps", "3"],
            "reading measuring neighbours preparing step rounding writing measuring neighbours comparing",
        ),
        (
            ["place", "words.npz", "--new", "new.txt", "-o", "out.npz"],
            "reading preparing searching placing writing measuring neighbours",
        ),
        (["spread", "words.npz", "--try-moves", "1", "--steps", "3"],
         "reading measuring neighbours preparing step rounding measuring neighbours comparing"),
    ],
)  # fmt: skip
def test_every_stage_of_a_large_table_is_shown_as_it_begins(command, stages, monkeypatch):
    """A table of a million rows takes minutes to read and to measure: no part of it is silent."""
    monkeypatch.setattr("unclump.cli._comparison._MAX_ROWS", 10)
    Path("new.txt").write_text("north\n")
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    words()
    assert main(command) == 0
    lines = [line for line in re.split(r"[\r\n]", shown.getvalue()) if line.strip()]
    names = ["step" if "step" in line else re.match("[a-z]+", line)[0] for line in lines]
    assert " ".join(name for name, _ in itertools.groupby(names)) == stages
    assert re.search(r"(^|[\r\n]) *[\r\n]*$", shown.getvalue())  # the last line is erased
    shown.truncate(0)
    assert main([*command, "--quiet"]) == 0
    assert shown.getvalue() == ""


@pytest.mark.parametrize("command", [["spread", "words.npz"], ["place", "words.npz", "--count", "1"]])
def test_the_first_line_does_not_wait_for_torch(command):
    """To import it takes a second or two: until then a terminal would show nothing."""
    code = f"""
import io, sys
class Terminal(io.StringIO):
    def isatty(self):
        return True
from unclump.cli import main
sys.modules["torch"], sys.stderr = None, Terminal()
main([*{command}, "-o", "out.npz"])
print(sys.stderr.getvalue())
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout.strip().startswith("reading words.npz")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16], ids=str)
def test_a_pass_over_a_large_table_tells_what_all_pairs_tell(dtype, monkeypatch, capsys):
    uc.save("words.npy", uc.Table(clump(120, 6, dtype)))
    found = []
    for limit in (60_000, 10):
        monkeypatch.setattr("unclump.cli._comparison._MAX_ROWS", limit)
        assert main(["spread", "words.npy", "-o", "out.npy", "--json", "--max-move", "3", *FEW]) == 0
        found.append(json.loads(capsys.readouterr().out))
    whole, sampled = ({k: v for k, v in one.items() if isinstance(v, dict | float)} for one in found)
    assert set(whole) == {"before", "after", "moves", "overlap@10"}
    assert whole["overlap@10"] < 1
    assert sampled == {k: pytest.approx(v, rel=1e-9) for k, v in whole.items()}
