"""The comparison's file: what is written is read back, and anything else is refused in one line."""

import json

import numpy as np
import pytest

from tests.comparisons import EXAMPLE
from unclump.tables.comparison_files import load_comparison, save_comparison
from unclump.tables.files import FileError


def test_what_is_written_is_read(tmp_path):
    save_comparison(tmp_path / "c.json", EXAMPLE)
    assert load_comparison(tmp_path / "c.json") == EXAMPLE
    save_comparison(tmp_path / "c.json", EXAMPLE)  # a comparison may replace a comparison
    assert [path.name for path in tmp_path.iterdir()] == ["c.json"]
    assert (tmp_path / "c.json").stat().st_size < 2000


def test_it_prints_a_line_for_each_method_and_the_recommendation():
    lines = str(EXAMPLE).splitlines()
    assert lines[0].split() == ["Spearman", "overlap@10", "rank"]
    assert lines[1].split() == ["as", "it", "is", "0.550", "(0.500", "to", "0.600)", "0.750", "87.2"]
    assert lines[2].split()[-1] == "better"
    assert "recommended: whiten 1; it raises Spearman" in lines


def change(**changes):
    return lambda content: content | changes


def change_method(**changes):
    return lambda content: content | {"methods": [content["methods"][0] | changes]}


WRONG = {
    "another format": change(format="unclump comparison 2"),
    "a count in words": change(rows="many"),
    "a negative count": change(rows=-1),
    "a figure without a name": change(figure={"source": "a", "items": 1, "left_out": 0}),
    "columns without titles": change(columns=[{"key": "figure"}]),
    "methods as a number": change(methods=3),
    "a value that is not a number": change_method(values={"figure": "0.5", "overlap": 0.7, "rank": 1.0}),
    "a value that is not finite": change_method(values={"figure": float("nan"), "overlap": 0.7, "rank": 1.0}),
    "a value beyond all numbers": change_method(values={"figure": 10**400, "overlap": 0.7, "rank": 1.0}),
    "a value that is missing": change_method(values={"figure": 0.5}),
    "an interval of one": change_method(intervals={"figure": [0.5]}),
    "an interval of no column": change_method(intervals={"hubness": [0.5, 0.6]}),
    "advice that is not listed": change(recommendation={"method": "pray", "command": "", "reason": ""}),
    "notes that are numbers": change(notes=[3]),
    "a list": lambda content: [content],
}


@pytest.mark.parametrize("wrong", WRONG)
def test_anything_else_is_refused(wrong, tmp_path):
    path = tmp_path / "c.json"
    path.write_text(json.dumps(WRONG[wrong](EXAMPLE.to_dict())))
    with pytest.raises(FileError, match="is not a comparison that unclump repair wrote") as error:
        load_comparison(path)
    assert str(path) in str(error.value)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[" * 100_000, b" " * (2**20 + 1)], ids=len)
def test_what_is_no_json_is_refused(content, tmp_path):
    (tmp_path / "c.json").write_bytes(content)
    with pytest.raises(FileError, match="is not a comparison"):
        load_comparison(tmp_path / "c.json")


def test_no_other_file_is_overwritten(tmp_path):
    np.save(tmp_path / "words.npy", np.eye(3))
    before = (tmp_path / "words.npy").read_bytes()
    with pytest.raises(FileError, match="is not a comparison"):
        save_comparison(tmp_path / "words.npy", EXAMPLE)
    assert (tmp_path / "words.npy").read_bytes() == before
    with pytest.raises(FileError, match="its folder does not exist"):
        save_comparison(tmp_path / "nowhere" / "c.json", EXAMPLE)
