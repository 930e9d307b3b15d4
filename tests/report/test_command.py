"""`unclump report`: where it writes, what it says, what it refuses."""

import json
import re

import pytest
import torch

import unclump as uc
from tests.small_tables import clump
from unclump.cli import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    uc.save("words.npz", uc.Table(clump(30, 4), names=[f"word-{k}" for k in range(30)]))
    uc.save("plain.npy", uc.Table(clump(30, 4)))
    return tmp_path


def test_the_page_stands_in_the_present_folder_under_the_files_name(folder, capsys):
    (folder / "deep").mkdir()
    uc.save("deep/words.npy", uc.Table(clump(30, 4)))
    assert main(["report", "deep/words.npy"]) == 0
    assert capsys.readouterr().out == "words.report.html\n"
    assert (folder / "words.report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_quiet_says_nothing(folder, capsys):
    assert main(["report", "words.npz", "-o", "page.html", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_columns_of_files_that_share_a_name_all_arrive(folder):
    for place in ("a", "b", "c"):
        (folder / place).mkdir()
        (folder / place / "topics.txt").write_text("\n".join(f"{place}{k % 3}" for k in range(30)))
    labels = [word for place in ("a", "b", "c") for word in ("--labels", f"{place}/topics.txt")]
    assert main(["report", "words.npz", "-o", "page.html", *labels]) == 0
    page = (folder / "page.html").read_text(encoding="utf-8")
    for title in ("topics", "topics.txt", "topics.txt (2)"):
        assert f'"title":"{title}"' in page.replace('"title": "', '"title":"')


def test_the_page_says_how_it_was_made_and_nothing_of_this_machine(folder, capsys):
    command = [
        "report",
        str(folder / "words.npz"),
        "-o",
        str(folder / "page.html"),
        "--tensor",
        "points",
        "--seed",
        "3",
    ]
    assert main(command) == 0
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert "<code>unclump report words.npz -o page.html --tensor points --seed 3</code>" in page
    assert f"unclump {uc.__version__}" in page
    assert str(folder) not in page
    assert folder.name not in page


def test_notes_on_both_tables_are_printed(folder, capsys):
    for name, first in (("before.csv", 0), ("after.csv", 1)):
        rows = clump(30, 3).tolist()
        (folder / name).write_text("".join(f"{first + row},{x},{y},{z}\n" for row, (x, y, z) in enumerate(rows)))
    note = "columns of numbers that were not read as coordinates: 'column 1'"
    assert main(["report", "before.csv", "-o", "page.html"]) == 0
    assert capsys.readouterr().out == f"{note}\npage.html\n"
    assert main(["report", "before.csv", "after.csv", "-o", "page.html"]) == 0
    assert capsys.readouterr().out == f"before.csv: {note}\nafter.csv: {note}\npage.html\n"
    uc.save("three.npy", uc.Table(clump(30, 3)))
    assert main(["report", "three.npy", "before.csv", "-o", "page.html", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == [f"before.csv: {note}"]


def test_a_measurement_that_takes_long_is_announced_unless_it_was_saved(folder, monkeypatch, capsys):
    monkeypatch.setattr("unclump.cli._estimate._SILENT", 0)
    assert main(["measure", "plain.npy", "--save", "plain.health", "--quiet"]) == 0
    for arguments, lines in ([], 1), (["plain.npy"], 2), (["--from", "plain.health"], 0), (["--quiet"], 0):
        capsys.readouterr()
        assert main(["report", "plain.npy", *arguments, "-o", "page.html"]) == 0
        assert capsys.readouterr().err.count("beside the file; neighbours of all rows\n") == lines


def test_names_may_come_from_another_file(folder, capsys):
    (folder / "names.txt").write_text("\n".join(f"other-{k}" for k in range(30)))
    assert main(["report", "plain.npy", "--names", "names.txt", "-o", "page.html"]) == 0
    assert "other-17" in (folder / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.npy"], "missing.npy: no such file"),
        (["words.npz", "missing.npy"], "missing.npy: no such file"),
        (["words.npz", "-o", "no/page.html"], "its folder does not exist"),
        (["words.npz", "-o", "folder.html"], "is a folder"),
        (["words.npz", "-o", "words.npz"], "a report is an HTML page; name a file that ends in .html"),
        (["words.npz", "plain.npy", "-o", "plain.npy"], "a report is an HTML page"),
        (["missing.npy", "-o", "plain.npy"], "a report is an HTML page"),  # before any work
        (["missing.npy", "-o", "no/page.html"], "its folder does not exist"),
        (["words.npz", "-o", "link.html"], "is what the table was read from"),
        (["words.npz", "--tensor", "wrong"], "holds no 'wrong'"),
        (["words.npz", "narrow.npy"], "the same dimension, got 4 and 3"),
        (["zeros.npy"], "at least 2 rows with a direction"),
    ],
)
def test_what_makes_no_sense_is_one_line_exit_code_2_and_nothing_written(folder, arguments, message, capsys):
    uc.save("narrow.npy", uc.Table(clump(30, 3)))
    uc.save("zeros.npy", uc.Table(torch.zeros(4, 3)))
    (folder / "link.html").symlink_to("words.npz")
    (folder / "folder.html").mkdir()
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert main(["report", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("unclump report: ")
    assert message in err
    assert err.count("\n") == 1
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_a_failed_write_leaves_the_old_page(folder, monkeypatch, capsys):
    (folder / "page.html").write_text("old")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    assert main(["report", "words.npz", "-o", "page.html"]) == 2
    assert "no space left" in capsys.readouterr().err
    assert (folder / "page.html").read_text() == "old"
    assert sorted(path.name for path in folder.iterdir()) == ["page.html", "plain.npy", "words.npz"]


def test_a_page_of_what_was_saved_is_the_page_of_the_table(folder, capsys):
    assert main(["measure", "words.npz", "--save", "words.health"]) == 0
    assert main(["report", "words.npz", "-o", "one.html"]) == 0
    assert main(["report", "words.npz", "-o", "two.html", "--from", "words.health"]) == 0
    one, two = ((folder / name).read_text(encoding="utf-8") for name in ("one.html", "two.html"))
    assert one.replace("-o one.html", "-o two.html --from words.health") == two


def test_nothing_is_measured_again(folder, monkeypatch):
    assert main(["measure", "words.npz", "--save", "words.health"]) == 0
    monkeypatch.setattr("unclump.report.table_view.health", None)
    assert main(["report", "words.npz", "--from", "words.health"]) == 0


def test_what_was_saved_of_another_table_is_refused(folder, capsys):
    assert main(["measure", "plain.npy", "--save", "plain.health"]) == 0
    assert main(["report", "words.npz", "--from", "plain.health"]) == 0  # which has the same points
    uc.save("moved.npy", uc.Table(clump(30, 4) + 1))
    assert main(["report", "moved.npy", "--from", "plain.health"]) == 2
    assert "expected the health of this table, got that of another" in capsys.readouterr().err


def test_a_page_of_a_sample_names_rows_of_the_table(folder, capsys):
    x = torch.randn(400, 6, generator=torch.Generator().manual_seed(0))
    x[::2] = 0
    x[301] = x[101] + 0.1 * x[301]
    uc.save("padded.npz", uc.Table(x, names=[f"name-{k}" for k in range(400)]))
    assert main(["measure", "padded.npz", "--save", "saved", "--sample", "390"]) == 0
    assert main(["report", "padded.npz", "--from", "saved"]) == 0
    page = (folder / "padded.report.html").read_text(encoding="utf-8")
    listed = page[page.index("Closest pairs") :]
    assert {"name-101", "name-301"} == set(re.findall(r"name-\d+", listed)[:2])
