"""`unclump demo` on a small table: numbers, files, and the commands that come next."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from unclump._text import sanitise
from unclump.cli import demo, main


@pytest.fixture(autouse=True)
def _few_rows(monkeypatch):
    monkeypatch.setattr(demo, "ROWS", 120)
    monkeypatch.setattr(demo, "DIMENSIONS", 8)


def smallest_angle(path):
    rows = np.load(path)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = rows @ rows.T
    np.fill_diagonal(cosines, -1)
    return np.arccos(cosines.max())


def test_the_clump_comes_apart_and_the_page_shows_both_tables(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    folder = tmp_path / "a folder"
    assert main(["demo", "-o", str(folder)]) == 0
    printed, err = capsys.readouterr()
    assert err == ""  # no bars where there is no terminal, such as in a log file
    assert smallest_angle(folder / "dispersed.npy") > 2 * smallest_angle(folder / "clumped.npy")
    page = (folder / "report.html").read_text()
    assert "clumped.npy" in page
    assert "dispersed.npy" in page
    assert (folder / "before_after.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "report.html").resolve().as_uri() in printed
    assert f"unclump measure '{folder / 'clumped.npy'}'" in printed


def test_without_matplotlib_the_figure_is_left_out_and_said(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["demo", "-o", str(tmp_path)]) == 0
    assert "Figure  needs matplotlib" in capsys.readouterr().out
    assert (tmp_path / "report.html").exists()
    assert main(["demo", "-o", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"].keys() == {"before", "after", "report"}


def test_a_file_in_the_folder_s_place_is_one_line(tmp_path, capsys):
    (tmp_path / "taken").write_text("")
    assert main(["demo", "-o", str(tmp_path / "taken")]) == 2
    assert capsys.readouterr().err == f"unclump demo: {sanitise(tmp_path / 'taken')}: is a file; name a folder\n"


def test_json_and_quiet(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    assert main(["demo", "-o", str(tmp_path / "demo"), "--json"]) == 0
    out, err = capsys.readouterr()
    said = json.loads(out)
    assert said["files"]["report"] == str(tmp_path / "demo" / "report.html")
    assert Path(said["files"]["figure"]).read_bytes().startswith(b"\x89PNG")
    before, after = said["measures"]["before"], said["measures"]["after"]
    assert 0 < 2 * before["min_angle_degrees"] < after["min_angle_degrees"] < 90  # numbers, not text
    assert main(["demo", "-o", str(tmp_path / "demo"), "--quiet"]) == 0
    assert (err, *capsys.readouterr()) == ("", "", "")
