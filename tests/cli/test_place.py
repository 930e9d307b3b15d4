"""`unclump place`: new rows after the old ones, which stay to the bit."""

import json
import math
import os
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import unclump as uc
from tests.small_tables import clump
from unclump.cli import main, place

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = clump(30, 4)
    np.savez("words.npz", vectors=x.numpy(), words=np.array([f"w{i}" for i in range(30)]))
    np.save("vectors.npy", x.numpy())
    Path("tokens.txt").write_text("north\nsouth\n\x1b[31mred\n")


def test_names_are_appended_and_rows_are_far_from_all(capsys):
    assert main(["place", "words.npz", "--new", "tokens.txt", "-o", "out.npz"]) == 0
    old, new = uc.load("words.npz"), uc.load("out.npz")
    assert new.names == [*old.names, "north", "south", "\x1b[31mred"]
    assert new.points.shape == (33, 4)
    assert torch.equal(new.points[:30], old.points)
    near = uc.nearest_angles(new.points)[30:]
    told = re.search(r"3 rows added to 30; the nearest other row is (.+)° to (.+)° away", capsys.readouterr().out)
    assert [float(value) for value in told.groups()] == pytest.approx(
        [math.degrees(near.min()), math.degrees(near.max())], abs=1e-4
    )
    assert near.min() > math.radians(60)


def test_one_row_has_one_distance(capsys):
    assert main(["place", "vectors.npy", "--count", "1", "-o", "out.npy"]) == 0
    assert re.search(r"1 row added to 30; the nearest other row is [\d.]+° away\n", capsys.readouterr().out)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_old_rows_are_the_same_and_new_ones_have_the_median_norm(dtype):
    x = clump(31, 5, dtype)
    save_file({"t": x}, "t.safetensors")
    assert main(["place", "t.safetensors", "--count", "3", "-o", "out.safetensors"]) == 0
    new = uc.load("out.safetensors").points
    assert new.dtype == dtype
    assert new[:31].contiguous().view(torch.uint8).equal(x.view(torch.uint8))
    norms = new[31:].double().norm(dim=-1)
    torch.testing.assert_close(norms, x.double().norm(dim=-1).median().expand(3), rtol=4e-3, atol=0)


def test_names_that_have_a_file_of_their_own(capsys):
    Path("names.txt").write_text("".join(f"w{i}\n" for i in range(30)))
    assert main(["place", "vectors.npy", "--names", "names.txt", "--new", "tokens.txt", "-o", "out.npy"]) == 0
    assert len(uc.load("out.npy").points) == 33
    assert "they are the lines of names.txt, then of tokens.txt" in capsys.readouterr().out


def test_in_place():
    assert main(["place", "vectors.npy", "--count", "2", "--in-place"]) == 0
    assert len(uc.load("vectors.npy").points) == 32
    assert sorted(os.listdir()) == ["tokens.txt", "vectors.npy", "words.npz"]


@pytest.mark.parametrize("example", re.findall(r"^  (unclump place .*?)   ", place.EXAMPLES, flags=re.MULTILINE))
def test_examples_of_the_help_run(example):
    assert main(shlex.split(example)[1:]) == 0


def folder():
    Path("model").mkdir()
    save_file({"embed_tokens.weight": clump(30, 4)}, "model/model.safetensors")
    Path("model/config.json").write_text("{}")


def aligned():
    np.savez("aligned.npz", vectors=clump(30, 4).numpy(), counts=np.arange(30))


NEW, OUT = ["--new", "tokens.txt"], ["-o", "out.npz"]
REFUSED = {
    "missing file": (None, ["no.npz", *NEW, *OUT], "no.npz: no such file"),
    "missing names": (None, ["words.npz", "--new", "no.txt", *OUT], "no.txt: no such file"),
    "no names": (None, ["vectors.npy", *NEW, "-o", "out.npy"], "use --count N, or --names FILE"),
    "no new names": (None, ["words.npz", "--count", "3", *OUT], "use --new FILE"),
    "count": (None, ["vectors.npy", "--count", "0", "-o", "out.npy"], "expected --count >= 1"),
    "known": ("north\n\x1b[31m\nw7\n", ["words.npz", *NEW, *OUT], "line 3: 'w7' is already in words.npz"),
    "repeated": ("a\nb\n\x1b\n\x1b\n", ["words.npz", *NEW, *OUT], r"line 4: '\x1b' is already on line 3"),
    "empty line": ("a\n\nb\n", ["words.npz", *NEW, *OUT], "line 2 is empty"),
    "empty": ("\n", ["words.npz", *NEW, *OUT], "tokens.txt: is empty"),
    "space": ("a b\n", ["words.npz", *NEW, "-o", "out.bin"], "row 30 is 'a b'"),
    "itself": (None, ["words.npz", *NEW, "-o", "words.npz"], "allow it with --in-place"),
    "model": (folder, ["model", "--count", "2", "-o", "other"], "its tokenizer and head would not fit"),
    "aligned": (aligned, ["aligned.npz", "--count", "2", *OUT], "'counts' of"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_makes_no_sense_is_one_line_and_nothing_is_written(case, capsys, at_the_door):
    prepare, arguments, message = REFUSED[case]
    if isinstance(prepare, str):
        Path("tokens.txt").write_text(prepare)
    elif prepare is not None:
        prepare()
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    assert main(["place", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.startswith("unclump place: ")
    assert err.count("\n") == 1
    assert "\x1b" not in err
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before


def test_json_says_the_same(capsys):
    arguments = ["place", "words.npz", "--new", "tokens.txt", "-o", "out.npz"]
    assert main([*arguments, "--json", "--quiet", "--device", "cpu"]) == 0
    told = json.loads(capsys.readouterr().out)
    near = uc.nearest_angles(uc.load("out.npz").points)[30:]
    assert (told["rows"], told["added"]) == (30, 3)
    assert told["nearest_of_added"]["smallest_degrees"] == pytest.approx(math.degrees(near.min()), abs=1e-4)
    assert main([*arguments, "--quiet"]) == 0
    assert capsys.readouterr().out == ""


def test_padding_stays_where_it_is(capsys):
    x = clump(30, 4)
    x[[0, 7]] = 0
    np.save("padded.npy", x.numpy())
    assert main(["place", "padded.npy", "--count", "2", "-o", "out.npy"]) == 0
    after = uc.load("out.npy").points
    assert torch.equal(after[:30], x)
    assert after[30:].norm(dim=1).min() > 0
    assert "row 0 is zero, row 7 is zero: without a direction, as padding is; unchanged" in capsys.readouterr().out
