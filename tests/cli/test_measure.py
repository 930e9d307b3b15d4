"""`unclump measure`: what it prints, and what it refuses."""

import base64
import dataclasses
import io
import json
import math
import re
import shlex
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save_file

import unclump as uc
from tests.small_tables import clump
from unclump._text import FileError, sanitise
from unclump.cli import main, parser
from unclump.tables.comparison_methods import Map
from unclump.tables.findings import Health
from unclump.tables.verdict import FAULTS


@pytest.fixture(autouse=True)
def few_simulations(monkeypatch):
    monkeypatch.setattr(sys.modules["unclump.tables.health"], "_SIMULATIONS", 99)


@pytest.fixture
def planted(tmp_path, points):
    """A table with a duplicate, a near duplicate, a zero row and a NaN row, and names to find them by."""
    x = points(60, 12)
    x[30], x[31], x[40], x[41] = x[5], x[6] + 1e-4, 0, math.nan
    names = [f"word{row}" for row in range(60)]
    names[30] = "\x1b]0;owned\x07<script>alert(1)</script>"
    path = tmp_path / "table.npz"
    uc.save(path, uc.Table(x, names))
    return path


def run(capsys, *arguments):
    assert main(["measure", *map(str, arguments)]) == 0
    out, err = capsys.readouterr()
    assert err == ""  # no progress bar where nobody watches
    return out


def test_a_table_is_measured_and_its_faults_are_named(planted, capsys):
    out = run(capsys, planted)
    assert out.startswith("60 rows x 12 dimensions, float64\n")
    assert r"5 'word5', 30 '\x1b]0;owned\x07<script>alert(1)</script>'" in out
    assert "6 'word6', 31 'word31'" in out
    assert "40 'word40' (zero), 41 'word41' (NaN)" in out
    verdict, advice = out.splitlines()[-2:]
    assert verdict.startswith("verdict: 2 rows have no direction (NaN, infinite or zero)")
    assert "; duplicates: 2 rows are equal, in 1 group;" in verdict
    assert advice.startswith(f"try: unclump spread {planted} --duplicates-only -o ")
    assert all(c.isprintable() or c == "\n" for c in out)


def test_json_holds_the_same_in_plain_ascii(planted, capsys):
    out = run(capsys, planted, "--json")
    assert out.isascii()
    assert "\x1b" not in out
    said = json.loads(out)
    assert said["file"] == str(planted)
    assert said["duplicates"][0]["rows"] == [5, 30]
    assert said["duplicates"][0]["names"] == ["word5", "\x1b]0;owned\x07<script>alert(1)</script>"]
    assert [bad["row"] for bad in said["bad_rows"]] == [40, 41]
    table = uc.load(planted)
    expected = uc.health(table.points, names=table.names).to_dict() | {"file": said["file"], "notes": []}
    assert expected["verdict"].pop("commands") == ["unclump spread FILE --duplicates-only -o OUT"]
    (command,) = said["verdict"].pop("commands")
    assert command.startswith(f"unclump spread {planted} --duplicates-only -o ")
    assert said == expected


def test_names_and_tensor_are_chosen(tmp_path, capsys):
    np.savez(tmp_path / "two.npz", a=np.eye(4), b=np.ones((3, 5)))
    (tmp_path / "names.txt").write_text("x\ny\nz\n")
    out = run(capsys, tmp_path / "two.npz", "--tensor", "b", "--names", tmp_path / "names.txt", "--quiet")
    assert out.startswith("3 rows x 5 dimensions")
    assert "0 'x', 1 'y', 2 'z'" in out


def test_the_seed_is_that_of_simulated_pvalues(tmp_path, points, capsys):
    np.save(tmp_path / "few.npy", points(4, 3).numpy())
    first, again, other = (run(capsys, tmp_path / "few.npy", "--json", "--seed", seed) for seed in (1, 1, 2))
    assert first == again != other


def bad_files(tmp_path):
    np.save(tmp_path / "one.npy", np.ones((1, 3)))
    np.save(tmp_path / "lonely.npy", np.array([[1.0, 0.0], [0.0, 0.0]]))
    np.save(tmp_path / "good.npy", np.eye(3))
    np.save(tmp_path / "pickle.npy", np.array([{}, {}]), allow_pickle=True)
    (tmp_path / "cut.npy").write_bytes((tmp_path / "good.npy").read_bytes()[:-8])
    (tmp_path / "names.txt").write_text("only one\n")
    (tmp_path / "broken.txt").write_text("a 1 2 3\nb 4 5 6\nc 1 x 3\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.npy"], "missing.npy: no such file"),
        (["one.npy"], "at least 2 rows"),
        (["lonely.npy"], "expected at least 2 rows with a direction, got 1 of 2"),
        (["pickle.npy"], "pickle.npy"),
        (["cut.npy"], "cut.npy"),
        (["broken.txt"], "line 3: expected 3 numbers, got 'x'"),
        (["good.npy", "--names", "names.txt"], "expected 3 names, one per line and row, got 1"),
        (["good.npy", "--tensor", "key"], "leave out --tensor 'key'"),
        (["bad\x1b[31mname.npy"], r"bad\x1b[31mname.npy"),
    ],
    ids=lambda value: value[0].encode("unicode_escape").decode() if isinstance(value, list) else "",
)
def test_what_cannot_be_measured_is_one_line_and_exit_code_2(arguments, message, tmp_path, monkeypatch, capsys):
    bad_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["measure", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("unclump measure: ")
    assert message in err
    assert err.count("\n") == 1
    assert "\x1b" not in err


def test_a_terminal_without_unicode_gets_escapes(tmp_path, monkeypatch):
    uc.save(tmp_path / "table.npz", uc.Table(torch.ones(2, 3), ["ångström", "日本"]))
    terminal = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(terminal, encoding="ascii", write_through=True))
    assert main(["measure", str(tmp_path / "table.npz")]) == 0
    assert rb"0 '\xe5ngstr\xf6m', 1 '\u65e5\u672c'" in terminal.getvalue()


def test_a_progress_bar_is_for_those_who_watch(planted, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["measure", str(planted)]) == 0
    assert "58.0/58.0" in capsys.readouterr().err  # the rows that have a direction
    assert main(["measure", str(planted), "--quiet"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("faults", "code"),
    [("duplicates", 1), ("rank,near-duplicates", 1), ("rank, cone", 0), ("directions", 1), ("norms", 0)],
)
def test_chosen_faults_are_an_exit_code(faults, code, planted, capsys):
    assert main(["measure", str(planted), "--fail-on", faults]) == code
    assert "verdict: " in capsys.readouterr().out


@pytest.mark.parametrize("faults", ["duplicate", "", "rank,,cone", "structured"])
def test_unknown_faults_are_refused_before_the_work(faults, capsys):
    assert main(["measure", "missing.npy", "--fail-on", faults]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "expected a fault for --fail-on to be one of 'directions', 'duplicates'" in err


def test_advice_is_a_command_that_runs(tmp_path, points, capsys):
    x = points(60, 12)
    x[5] = x[30]
    np.save(tmp_path / "my table.npy", x.numpy())
    command = run(capsys, tmp_path / "my table.npy").splitlines()[-1]
    program, *arguments = shlex.split(command.removeprefix("try: "))
    assert program == "unclump"
    assert main(arguments) == 0
    capsys.readouterr()
    out = run(capsys, tmp_path / "my table-better.npy")
    assert out.splitlines()[-1].startswith("verdict: healthy")
    assert "try: " not in out


def run_advice(out):
    commands = [line.removeprefix("try: ") for line in out.splitlines() if line.startswith("try: ")]
    for command in commands:
        assert main([*shlex.split(command)[1:], "--quiet"]) == 0
    return commands


def test_advice_in_json_is_a_command_that_runs(tmp_path, points, capsys):
    x = points(60, 12)
    x[5] = x[30]
    np.save(tmp_path / "my table.npy", x.numpy())
    (command,) = json.loads(run(capsys, tmp_path / "my table.npy", "--json"))["verdict"]["commands"]
    assert main([*shlex.split(command)[1:], "--quiet"]) == 0
    assert uc.health(uc.load(tmp_path / "my table-better.npy").points).verdict.is_healthy
    capsys.readouterr()
    page = tmp_path / "page.html"
    assert main(["report", str(tmp_path / "my table.npy"), "-o", str(page), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["health"]["verdict"]["commands"] == [command]


def test_advice_reads_the_table_as_it_was_read(tmp_path, points, monkeypatch, capsys):
    few = [Map("centre")]  # of the methods that are compared
    monkeypatch.setattr("unclump.tables.comparison_run.candidates", lambda d, rows: iter(few))
    x = (points(60, 12) + 3).numpy()
    x[5] = x[30]
    np.savez(tmp_path / "two.npz", other=np.eye(3), table=x)
    (tmp_path / "names.txt").write_text("\n".join(f"w{row}" for row in range(60)))
    out = run(capsys, tmp_path / "two.npz", "--tensor", "table", "--names", tmp_path / "names.txt")
    commands = run_advice(out)  # for duplicates and a cone
    assert [shlex.split(command)[2] for command in commands] == [
        str(tmp_path / f"two{end}.npz") for end in ("", "-better")
    ]
    assert uc.health(uc.load(tmp_path / "two-better.npz", tensor="table").points).verdict.findings == ("cone",)


def test_advice_for_a_format_that_is_only_read_writes_another(tmp_path, points, capsys):
    x = points(60, 12)
    x[5] = x[30]
    rows = [json.dumps({"id": f"w{row}", "embedding": values}) for row, values in enumerate(x.tolist())]
    (tmp_path / "words.jsonl").write_text("\n".join(rows))
    assert run_advice(run(capsys, tmp_path / "words.jsonl"))
    assert uc.health(uc.load(tmp_path / "words-better.npz").points).verdict.is_healthy


def test_the_folder_of_a_model_is_measured_from_within(tmp_path, points, monkeypatch, capsys):
    x = points(60, 12).float()
    x[5] = x[30]
    (tmp_path / "model").mkdir()
    save_file({"wte.weight": x}, tmp_path / "model" / "model.safetensors")
    monkeypatch.chdir(tmp_path / "model")
    assert run_advice(run(capsys, "."))
    assert uc.health(uc.load(tmp_path / "model-better").points).verdict.is_healthy


@pytest.mark.parametrize("command", sorted({command for command in FAULTS.values() if command}))
def test_every_advised_command_is_one_of_ours(command):
    assert parser().parse_args(command.split()[1:]).command == command.split()[1]


def test_norms_are_compared_with_the_frequencies_of_a_file(tmp_path, points, capsys):
    np.save(tmp_path / "table.npy", (points(50, 4) * torch.arange(1, 51).unsqueeze(1)).numpy())
    (tmp_path / "counts.txt").write_text("\n".join(map(str, range(50))))
    out = run(capsys, tmp_path / "table.npy", "--json", "--frequencies", tmp_path / "counts.txt")
    assert json.loads(out)["verdict"]["findings"] == ["norms"]
    for text, message in (
        ("1\n2", "expected 50 frequencies, one per line and row, got 2"),
        ("x\n" * 50, "line 1: expected a"),
    ):
        (tmp_path / "counts.txt").write_text(text)
        assert main(["measure", str(tmp_path / "table.npy"), "--frequencies", str(tmp_path / "counts.txt")]) == 2
        assert message in capsys.readouterr().err


def test_what_was_saved_is_what_was_measured(planted, tmp_path, capsys):
    out = run(capsys, planted, "--save", tmp_path / "saved")
    table = uc.load(planted)
    measured = uc.health(table.points, names=table.names)
    loaded = Health.load(tmp_path / "saved", names=table.names)
    assert dataclasses.replace(loaded, bad_rows=measured.bad_rows) == measured
    for name in ("nearest_angles", "occurrences", "spectrum"):
        assert torch.equal(getattr(loaded, name), getattr(measured, name))
    assert [row.row for row in loaded.bad_rows] == [40, 41]
    assert out.startswith(str(loaded))
    assert out.endswith(f"written to {sanitise(tmp_path / 'saved')}\n")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("table.npy", "is not what `unclump measure --save` wrote, and is not overwritten; name another file"),
        ("words.txt", "is not what `unclump measure --save` wrote, and is not overwritten; name another file"),
        ("no/table.health", "its folder does not exist; create it first"),
        ("folder", "is a folder; name a file in it"),
    ],
)
def test_nothing_but_a_saved_result_is_overwritten(target, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "words.txt").write_text("{}")
    np.save("table.npy", clump(30, 4).numpy())
    result = uc.health(np.load("table.npy"))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    with pytest.raises(FileError, match=message):
        result.save(target)
    monkeypatch.setattr("unclump.cli._shares.read_shards", None)  # nothing is read before
    assert main(["measure", "table.npy", "--save", target]) == 2
    assert capsys.readouterr().err == f"unclump measure: {target}: {message}\n"
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_a_saved_result_is_overwritten_by_the_next(planted, tmp_path, capsys):
    (tmp_path / "saved").write_text('{"kind": "unclump health", "format": 0}')
    run(capsys, planted, "--save", tmp_path / "saved")
    assert Health.load(tmp_path / "saved").n == 60


def encoded(*values):
    return base64.b64encode(np.array(values, "<f8").tobytes()).decode()


def test_files_that_were_not_saved_by_us_are_refused_in_one_line(planted, tmp_path, capsys):
    run(capsys, planted, "--save", tmp_path / "saved")
    whole = (tmp_path / "saved").read_text()
    saved = json.loads(whole)
    damaged = [{"spectrum": "?"}, {"n": "x"}, {"new": 1}, {"verdict": {}}, {"min_angle": "x"}, {"format": 1}]
    damaged += [
        {"bad_rows": [[60, "zero"]]},
        {"bad_rows": [[-1, "zero"]]},
        {"bad_rows": [[1, 2]]},
        {"bad_rows": []},  # fewer than the arrays were made without
        {"duplicates": [{"rows": [5, 60], "angle": 0.0}]},
        {"clumps": [{"rows": [5, 6], "angle": "x"}]},
        {"dead_dimensions": [12]},
        {"hubness": "x"},
        {"orphans": "x"},
        {"k": -1},
        {"d": 10**400},
        {"n": 10**18},
        {"tests": {"rayleigh": ["x", 0.5]}},
        {"intervals": {"hubness": ["x", 1.0]}},
        {"verdict": saved["verdict"] | {"text": 1}},
        {"sampled": encoded(40.0), "nearest_angles": encoded(0.5)},  # a row without a direction
        {"sampled": encoded(60.0), "nearest_angles": encoded(0.5)},
        {"sampled": encoded(5.0)},
        {"occurrences": saved["spectrum"]},
        {"nearest_angles": ""},
    ]
    texts = ["", "[]", "{", "null", '"a"', whole[:-9], whole.replace("unclump health", "other"), "[" * 10**5]
    texts.append(whole.replace('"n": 60', '"n": 1e999'))
    for text in (*texts, *(json.dumps(saved | change) for change in damaged)):
        (tmp_path / "bad").write_text(text)
        with pytest.raises(FileError, match=r"^[^\n]*bad: [^\n]+$"):
            Health.load(tmp_path / "bad")
    (tmp_path / "bad").write_text(json.dumps(saved | {"format": 1}))
    with pytest.raises(FileError, match="saved by another version of unclump; measure the table again"):
        Health.load(tmp_path / "bad")


def test_what_takes_long_is_announced_before_it_begins(tmp_path, points, monkeypatch, capsys):
    np.save(tmp_path / "table.npy", points(500, 8).numpy())
    assert main(["measure", str(tmp_path / "table.npy"), "--sample", "100"]) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("unclump.cli._estimate._SILENT", 0)
    monkeypatch.setattr("unclump.tables.health.survey", None)  # nothing is measured after it
    for options, says in ((["--sample", "100"], "100 sampled rows"), (["--exact"], "all rows"), ([], "all rows")):
        assert main(["measure", str(tmp_path / "table.npy"), *options]) == 2
        assert re.match(
            rf"500 x 8: about \d+ s and 0\.\d GB beside the file; neighbours of {says}", capsys.readouterr().err
        )
    assert main(["measure", str(tmp_path / "table.npy"), "--quiet"]) == 2
    assert capsys.readouterr().err.startswith("unclump measure: ")


def test_a_sample_has_intervals_in_degrees(tmp_path, points, capsys):
    np.save(tmp_path / "table.npy", points(500, 8).numpy())
    said = json.loads(run(capsys, tmp_path / "table.npy", "--sample", "100", "--json"))
    assert said["sampled_rows"] == 100
    low, high = said["intervals"]["median_nearest_angle_degrees"]
    assert low < said["median_nearest_angle_degrees"] < high < low + 20
    assert said == json.loads(run(capsys, tmp_path / "table.npy", "--sample", "100", "--json"))
    assert said != json.loads(run(capsys, tmp_path / "table.npy", "--sample", "100", "--json", "--seed", "1"))
    assert said["hubness"]["orphans"] is None


@pytest.mark.parametrize("options", [["--sample", "1"], ["--sample", "-5"]])
def test_samples_of_fewer_than_two_rows_are_refused(options, tmp_path, points, capsys):
    np.save(tmp_path / "table.npy", points(50, 8).numpy())
    assert main(["measure", str(tmp_path / "table.npy"), *options]) == 2
    assert "expected sample" in capsys.readouterr().err


def test_shards_are_measured_as_one_table(tmp_path, points, capsys):
    x = points(90, 12)
    x[80] = x[4]
    np.save(tmp_path / "whole.npy", x.numpy())
    for number, part in enumerate(x.split(40)):
        np.save(tmp_path / f"part-{number}.npy", part.numpy())
    shards = [tmp_path / f"part-{number}.npy" for number in range(3)]
    whole, parts = (json.loads(run(capsys, *files, "--json")) for files in ([tmp_path / "whole.npy"], shards))
    assert parts.pop("files") == list(map(str, shards))
    assert whole.pop("file") == str(tmp_path / "whole.npy")
    assert [len(one["verdict"].pop("commands")) for one in (whole, parts)] == [1, 0]  # none takes shards
    assert whole == parts
    assert parts["duplicates"][0]["rows"] == [4, 80]
    text = run(capsys, *shards)
    assert "try: " not in text
    assert text.splitlines()[1].startswith("one table in 3 files: ")
    line = run(capsys, *shards[:2]).splitlines()[1]
    assert line.startswith("one table in 2 files: ")
    assert "to compare them: unclump report " in line
    assert "one table" not in run(capsys, tmp_path / "whole.npy")


COUNTED = {
    "named.csv": "id,key,x,y,z\n",
    "unnamed.csv": "Unnamed: 0,x,y,z\n",
    "plain.csv": "",
    "one.tsv": "n\tx\ty\tz\n",
    "five.csv": "",
    "selected.tsv": "",
}
COUNTS_FROM = {"one.tsv": 1, "five.csv": 5}


@pytest.mark.parametrize("name", COUNTED)
def test_numbers_of_rows_are_no_coordinates_and_that_is_said(name, tmp_path, capsys, points):
    x, first = points(12, 3).float(), COUNTS_FROM.get(name, 0)
    numbers = [7, 9, 10, 44, 45, 46, 100, 1000, 1002, 1003, 1004, 2**40] if name == "selected.tsv" else range(12)
    heading, mark = COUNTED[name], "\t" if name.endswith("tsv") else ","
    ids = 2 if heading.startswith("id") else 1
    lines = [
        mark.join([*[str(first + number)] * ids, *(f"{v:.9g}" for v in row)])
        for number, row in zip(numbers, x.tolist(), strict=True)
    ]
    (tmp_path / name).write_text(heading + "\n".join(lines))
    table = uc.load(tmp_path / name)
    torch.testing.assert_close(table.points.float(), x)
    said = json.loads(run(capsys, tmp_path / name, "--json"))
    assert said["d"] == 3
    column = {"named.csv": "key", "unnamed.csv": "Unnamed: 0", "one.tsv": "n"}.get(name, "column 1")
    assert said["notes"] == [f"columns of numbers that were not read as coordinates: '{column}'"]
    assert said["notes"][0] in run(capsys, tmp_path / name)
    uc.save(tmp_path / f"new-{name}", table.with_points(2 * table.points))
    back = uc.load(tmp_path / f"new-{name}")
    torch.testing.assert_close(back.points, 2 * table.points)  # and the numbers of rows are kept
    assert back.source.notes == table.source.notes


@pytest.mark.parametrize("kind", [pa.int64(), pa.float32()], ids=str)
@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_an_id_in_parquet_and_arrow_is_no_coordinate(suffix, kind, tmp_path, capsys, points):
    x = points(12, 3).float().numpy()
    columns = {"id": pa.array(range(12), kind), **{f"v{i}": pa.array(x[:, i]) for i in range(3)}}
    table = pa.table(columns)
    if suffix == ".parquet":
        pq.write_table(table, tmp_path / "t.parquet")
    else:
        with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as file:
            file.write_table(table)
    said = json.loads(run(capsys, tmp_path / f"t{suffix}", "--json"))
    assert (said["d"], said["notes"]) == (3, ["columns of numbers that were not read as coordinates: 'id'"])


def test_columns_that_only_begin_like_row_numbers_are_coordinates(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,c\n0,0.5,1\n1,0.25,2\n2,0.5,2\n4,1,1\n")
    assert uc.load(tmp_path / "t.csv").points.shape == (4, 3)
    (tmp_path / "nine.csv").write_text("".join(f"{5 + row},0.5,{row % 3}\n" for row in range(9)))
    assert uc.load(tmp_path / "nine.csv").points.shape == (9, 3)  # which chance may do
    (tmp_path / "falls.csv").write_text("".join(f"{5 + row % 11},0.5,{row % 3}\n" for row in range(12)))
    assert uc.load(tmp_path / "falls.csv").points.shape == (12, 3)
    (tmp_path / "range.csv").write_text("".join(f"{3 * row},{3 * row + 1},{3 * row + 2}\n" for row in range(1, 13)))
    assert uc.load(tmp_path / "range.csv").points.shape == (12, 3)  # nothing would be left
    (tmp_path / "x.csv").write_text("x0,x1,x2\n0,0.5,1\n1,0.25,2\n2,0.5,2\n")
    assert uc.load(tmp_path / "x.csv").points.shape == (3, 3)  # a series is the table, whatever its numbers


def test_equal_rows_are_listed_once_and_ranks_are_told_apart(planted, capsys):
    out = run(capsys, planted)
    assert out.count("5 'word5', 30") == 1
    assert "\nother near duplicates, closer than 1.0000°: 2 rows in 1 group\n" in out
    for line in ("effective rank of the directions", "centred effective rank", "effective rank with norms"):
        assert out.count(f"\n{line}") == 1
        assert out.partition(f"\n{line}")[2].partition("\n")[0].endswith("  limit law")  # beside uniform points'
    assert "\nrank correlation of norm and row order" in out


def test_every_command_takes_json_and_quiet_and_those_that_search_a_device():
    """But for the script of completions, which a shell reads."""
    commands = next(action for action in parser()._actions if action.dest == "command").choices
    options = {name: set(command._option_string_actions) for name, command in commands.items()}
    del options["completion"]
    assert len(options) >= 9
    assert [name for name, known in options.items() if not {"--json", "--quiet"} <= known] == []
    assert {name for name, known in options.items() if "--device" in known} >= {"measure", "report", "spread", "place"}


@pytest.mark.parametrize("command", [["measure"], ["report", "-o", "page.html"]], ids=lambda words: words[0])
def test_a_device_is_used_or_refused(command, planted, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, *rest = command
    assert main([name, str(planted), *rest, "--device", "cpu", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said if name == "measure" else said["health"])["verdict"]["findings"]
    assert main([name, str(planted), *rest, "--device", "cuda:77"]) == 2
    assert "expected --device that torch can use here" in capsys.readouterr().err
