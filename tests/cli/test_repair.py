"""`unclump fit`, `apply` and `repair`: maps from table to file to table, and advice with its evidence."""

import json
import os
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from scipy.stats import spearmanr

import unclump as uc
from tests.small_tables import clump, seeded
from unclump.cli import apply, fit, main, repair
from unclump.tables import comparison_methods
from unclump.tables.comparison import Recommendation
from unclump.tables.comparison_files import load_comparison
from unclump.tables.comparison_methods import Map, Move

N = 120


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Words whose meaning is in small directions, beside a wide one; pairs, queries and labels by the meaning."""
    monkeypatch.chdir(tmp_path)
    meaning = torch.randn(N, 5, generator=seeded())
    x = torch.cat([6 * torch.randn(N, 1, generator=seeded(1)), meaning], dim=1) + 2
    np.savez("words.npz", vectors=x.numpy(), words=np.array([f"w{i}" for i in range(N)]))
    np.save("docs.npy", x.numpy())
    np.save("q.npy", (x[:40] + torch.tensor([9.0, 0, 0, 0, 0, 0])).numpy())
    unit = uc.project(meaning)
    first, second = torch.randint(N, (2, 300), generator=seeded(2))
    scores = (unit[first] * unit[second]).sum(dim=1)
    lines = [f"w{a}\tw{b}\t{s:.4f}" for a, b, s in zip(first.tolist(), second.tolist(), scores.tolist(), strict=True)]
    Path("judged.tsv").write_text("# first\tsecond\tjudged\n" + "\n".join([*lines, "w1\tnobody\t1.0"]) + "\n")
    Path("r.tsv").write_text("".join(f"{i}\t{i}\n" for i in range(40)))
    Path("classes.txt").write_text("".join(f"{'left' if row[0] < 0 else 'right'}\n" for row in unit))


@pytest.fixture
def few_methods(monkeypatch):
    """Two maps instead of all methods."""

    def few(d, rows):
        return iter([Map("centre"), Map("whiten", 1.0)])

    monkeypatch.setattr(comparison_methods, "candidates", few)
    monkeypatch.setattr("unclump.tables.comparison_run.candidates", few)


def printed(capsys):
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("name", "dtype"), [("t.npy", "f4"), ("t.npz", "f2"), ("t.safetensors", "f8"), ("t.csv", "f4")]
)
def test_a_fitted_map_applied_is_fit_transform(name, dtype, capsys):
    x = clump(40, 5, torch.float64).numpy().astype(dtype)
    names = [f"row {i}" for i in range(40)] if name in ("t.npz", "t.csv") else None
    uc.save(name, uc.Table(torch.from_numpy(x), names))
    assert main(["fit", name, "-o", "map.safetensors", "--method", "whiten", "--strength", "0.5"]) == 0
    assert main(["apply", "map.safetensors", name, "-o", f"out-{name}"]) == 0
    before, after = uc.load(name), uc.load(f"out-{name}")
    assert after.names == before.names == names
    assert after.points.dtype == before.points.dtype
    expected = uc.Isotropy("whiten", strength=0.5).fit_transform(before.points)
    torch.testing.assert_close(after.points, expected)
    assert "written to" in printed(capsys)


def test_queries_are_mapped_as_the_table_is():
    assert main(["fit", "docs.npy", "-o", "map.safetensors", "--quiet"]) == 0
    np.save("two.npy", np.load("docs.npy")[:2])
    assert main(["apply", "map.safetensors", "two.npy", "-o", "mapped.npy"]) == 0
    assert main(["apply", "map.safetensors", "docs.npy", "-o", "all.npy"]) == 0
    np.testing.assert_allclose(np.load("mapped.npy"), np.load("all.npy")[:2], rtol=1e-5)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".jsonl", ".csv", ".txt"])
def test_a_single_query_is_mapped(suffix, capsys):
    assert main(["fit", "docs.npy", "-o", "map.safetensors", "--quiet"]) == 0
    query = uc.load("docs.npy").points[3:4].float()
    if suffix == ".jsonl":
        Path("q.jsonl").write_text(json.dumps({"v": query[0].tolist()}))
    else:
        uc.save(f"q{suffix}", uc.Table(query, None if suffix == ".npy" else ["what"]))
    output = f"mapped{suffix}" if suffix != ".jsonl" else "mapped.npy"
    assert main(["apply", "map.safetensors", f"q{suffix}", "-o", output]) == 0
    assert "1 row mapped by whiten" in printed(capsys)
    expected = uc.Isotropy.load("map.safetensors").transform(query)
    torch.testing.assert_close(uc.load(output).points.float(), expected)


def test_a_zero_query_stays_and_a_bad_one_is_refused(capsys):
    assert main(["fit", "docs.npy", "-o", "map.safetensors", "--quiet"]) == 0
    np.save("zero.npy", np.zeros((1, 6), np.float32))
    assert main(["apply", "map.safetensors", "zero.npy", "-o", "out.npy"]) == 0
    assert not np.load("out.npy").any()
    np.save("nan.npy", np.full((1, 6), np.nan, np.float32))
    assert main(["apply", "map.safetensors", "nan.npy", "-o", "other.npy"]) == 2
    assert "row 0 is NaN" in capsys.readouterr().err
    np.save("five.npy", np.ones((1, 5), np.float32))
    assert main(["apply", "map.safetensors", "five.npy", "-o", "other.npy"]) == 2
    assert "expected rows in 6 dimensions" in capsys.readouterr().err
    assert not Path("other.npy").exists()


def test_a_large_file_is_mapped_a_block_at_a_time(monkeypatch):
    """At most a block of rows is computed at once, and the bar counts all of them."""
    assert main(["fit", "docs.npy", "-o", "map.safetensors", "--quiet"]) == 0
    monkeypatch.setattr("unclump.tables.files._writing.BLOCK", 7 * 6 * 4)
    heights, transform = [], uc.Isotropy.transform
    monkeypatch.setattr(uc.Isotropy, "transform", lambda self, x: heights.append(len(x)) or transform(self, x))
    x = np.load("docs.npy").astype(np.float32)
    np.save("single.npy", x)
    assert main(["apply", "map.safetensors", "single.npy", "-o", "out.npy"]) == 0
    assert (sum(heights), max(heights)) == (len(x), 7)
    np.testing.assert_array_equal(np.load("out.npy"), uc.Isotropy.load("map.safetensors").transform(x))


def test_every_option_of_fit_arrives():
    assert main(["fit", "docs.npy", "-o", "m.safetensors", "--method", "all-but-the-top", "--directions", "2"]) == 0
    x = uc.load("docs.npy").points
    assert torch.equal(
        uc.Isotropy.load("m.safetensors").matrix, uc.Isotropy("all_but_the_top", directions=2).fit(x).matrix
    )
    assert main(["fit", "docs.npy", "-o", "m.safetensors", "--shrinkage", "0.3"]) == 0
    assert torch.equal(uc.Isotropy.load("m.safetensors").matrix, uc.Isotropy(shrinkage=0.3).fit(x).matrix)
    words = ["--method", "learn", "--objective", "energy", "--option", "kernel=riesz", "--steps", "3", "--seed", "4"]
    assert main(["fit", "docs.npy", "-o", "m.safetensors", *words]) == 0
    expected = uc.Isotropy("learn", objective=uc.Energy(uc.Riesz()), steps=3, generator=seeded(4)).fit(x)
    assert torch.equal(uc.Isotropy.load("m.safetensors").matrix, expected.matrix)


def test_fit_and_apply_print_json(capsys):
    assert main(["fit", "words.npz", "-o", "m.safetensors", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) | {"rows": N, "dimensions": 6, "method": "whiten"} == {
        "file": "words.npz", "map": "m.safetensors", "method": "whiten", "strength": 1.0, "rows": N, "dimensions": 6,
        "notes": [],
    }  # fmt: skip
    assert main(["apply", "m.safetensors", "words.npz", "-o", "out.npz", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["output"] == "out.npz"


def test_padding_is_named_and_stays(capsys):
    x = np.load("docs.npy")
    x[7] = 0
    np.save("padded.npy", x)
    assert main(["fit", "padded.npy", "-o", "m.safetensors"]) == 0
    assert main(["apply", "m.safetensors", "padded.npy", "-o", "out.npy"]) == 0
    assert "row 7 is zero" in printed(capsys)
    assert (np.load("out.npy")[7] == 0).all()


def test_repair_recommends_what_raises_the_figure_and_writes_it(capsys, few_methods):
    words = "repair words.npz --pairs judged.tsv -o better.npz --map map.safetensors --save c.json --quiet"
    assert main(words.split()) == 0
    text = printed(capsys)
    assert "recommended: whiten, strength 1; Spearman" in text
    assert "written to better.npz" in text
    comparison = load_comparison("c.json")
    assert (comparison.figure.items, comparison.figure.left_out, comparison.figure.source) == (300, 1, "judged.tsv")
    whitened = uc.Isotropy("whiten").fit_transform(uc.load("words.npz").points)
    assert torch.equal(uc.load("better.npz").points, whitened)
    assert uc.load("better.npz").names == uc.load("words.npz").names
    assert torch.equal(uc.Isotropy.load("map.safetensors").transform(uc.load("words.npz").points), whitened)


def test_a_long_comparison_is_announced_and_a_short_or_quiet_one_is_not(capsys, few_methods, monkeypatch):
    assert main(["repair", "docs.npy"]) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("unclump.cli._estimate._SILENT", 0)
    assert main(["repair", "docs.npy", "--sample", "100"]) == 0
    notice = rf"comparing \d+ repairs on 100 of {N} rows x 6: may take minutes, .*; --sample compares fewer\n"
    assert re.fullmatch(notice, capsys.readouterr().err)
    assert main(["repair", "docs.npy", "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_json_says_what_was_written_and_what_was_noted(capsys, few_methods):
    x = np.load("docs.npy")
    x[7] = 0
    np.save("padded.npy", x)
    words = "repair padded.npy --labels classes.txt -o better.npy --map map.safetensors --quiet --json"
    assert main(words.split()) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["written"] == [name for name in ("map.safetensors", "better.npy") if Path(name).exists()]
    assert any("row 7 is zero" in note for note in result["notes"])
    not_written = {"map.safetensors", "better.npy"} - set(result["written"])
    assert {note.split()[0] for note in result["notes"] if "was not written" in note} == not_written


def test_the_recommended_command_does_what_repair_writes(few_methods):
    assert main(["repair", "words.npz", "--pairs", "judged.tsv", "-o", "better.npz", "--save", "c.json"]) == 0
    for command in load_comparison("c.json").recommendation.command.split(" && "):
        assert main(shlex.split(command.replace("better.npz", "again.npz"))[1:]) == 0
    assert torch.equal(uc.load("again.npz").points, uc.load("better.npz").points)


@pytest.mark.parametrize("method", [Map("learn", 0.5), Move("koleo", 10)])
def test_the_printed_command_has_all_options_and_the_saved_one_no_folders(method, tmp_path, monkeypatch, capsys):
    few = lambda d, rows: iter([method])  # noqa: E731
    monkeypatch.setattr(comparison_methods, "candidates", few)
    monkeypatch.setattr("unclump.tables.comparison_run.candidates", few)
    monkeypatch.setattr("unclump.tables.comparison_run.recommend", recommend_the_last)
    os.mkdir("in.puts")
    np.savez("in.puts/two", other=np.eye(3), table=np.load("docs.npy"))
    Path("in.puts/names.txt").write_text("".join(f"w{i}\n" for i in range(N)))
    words = "repair in.puts/two.npz --tensor table --names in.puts/names.txt --seed 3 --by-index --save c.json"
    assert main(words.split()) == 0
    command = next(line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("  unclump"))
    for part in command.split(" && "):
        assert main(shlex.split(part)[1:]) == 0
    assert main([*words.split(), "-o", "out.npz"]) == 0
    written = [uc.load(path, tensor="table").points for path in ("in.puts/two-better.npz", "out.npz")]
    assert torch.equal(*written)
    assert "in.puts" not in Path("c.json").read_text()
    assert load_comparison("c.json").recommendation.command == command.replace("in.puts/", "").replace(
        "two-better", "out"
    )


def test_names_may_begin_with_a_hash(few_methods, capsys):
    np.savez("words.npz", vectors=np.load("docs.npy"), words=np.array([f"##{i}" for i in range(N)]))
    lines = [f"##{i}\t##{i + 1}\t{i}" for i in range(20)]
    Path("pairs.tsv").write_text("\n".join(["# a comment", "#", *lines]))
    assert main(["repair", "words.npz", "--pairs", "pairs.tsv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["figure"]["items"] == 20


def recommend_the_last(methods, figure, *, by_index):
    return Recommendation(methods[-1].name, methods[-1].command, "")


def test_the_page_takes_the_comparison_of_a_table_with_padding(few_methods):
    x = np.load("docs.npy")
    x[7] = 0
    np.save("padded.npy", x)
    assert main(["repair", "padded.npy", "--save", "c.json"]) == 0
    comparison = load_comparison("c.json")
    assert (comparison.rows, comparison.compared_rows) == (N, N - 1)
    assert not any("chosen at random" in note for note in comparison.notes)
    assert main(["report", "padded.npy", "--comparison", "c.json", "--layout", "pca", "-o", "page.html"]) == 0


def test_retrieval_has_queries_that_follow(capsys, few_methods):
    assert main(["repair", "docs.npy", "--queries", "q.npy", "--relevant", "r.tsv", "-k", "1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["figure"] == {"name": "recall@1", "source": "r.tsv", "items": 40, "left_out": 0}
    by_name = {method["name"]: method["values"]["figure"] for method in result["methods"]}
    x, queries = (uc.load(name).points for name in ("docs.npy", "q.npy"))
    isotropy = uc.Isotropy("whiten").fit(x)
    cosines = uc.project(isotropy.transform(queries)) @ uc.project(isotropy.transform(x)).mT
    assert by_name["whiten, strength 1"] == pytest.approx((cosines.argmax(dim=1) == torch.arange(40)).float().mean())
    assert by_name["whiten, strength 1"] > by_name["as it is"]


def test_labels(capsys, few_methods):
    assert main(["repair", "docs.npy", "--labels", "classes.txt", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["figure"]["name"], result["figure"]["items"]) == ("k-NN accuracy", N)
    assert 0.5 < result["methods"][0]["values"]["figure"] < result["methods"][2]["values"]["figure"]


def test_nothing_is_written_where_nothing_helps(capsys, few_methods):
    x = torch.randn(N, 6, generator=seeded()) * torch.tensor([20.0, 20, 1, 1, 1, 1])
    np.savez("words.npz", vectors=x.numpy(), words=np.array([f"w{i}" for i in range(N)]))
    unit = uc.project(x[:, :2])
    lines = [f"w{a}\tw{b}\t{float(unit[a] @ unit[b]):.4f}\n" for a in range(30) for b in range(a)]
    Path("judged.tsv").write_text("".join(lines))
    assert main(["repair", "words.npz", "--pairs", "judged.tsv", "-o", "better.npz", "--map", "m.safetensors"]) == 0
    text = printed(capsys)
    assert "recommended: as it is; no method clearly raises Spearman" in text
    assert "better.npz was not written: the table should stay as it is" in text
    assert "m.safetensors was not written: no map is recommended" in text
    assert not Path("better.npz").exists()
    assert not Path("m.safetensors").exists()


def test_rows_without_a_direction_are_left_out_of_pairs_and_labels(capsys, few_methods):
    x = np.load("docs.npy")
    x[3] = 0
    np.save("padded.npy", x)
    Path("pairs.tsv").write_text("".join(f"{i}\t{i + 1}\t{i}\n" for i in range(20)))
    assert main(["repair", "padded.npy", "--pairs", "pairs.tsv", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["figure"]["items"], result["figure"]["left_out"], result["rows"]) == (18, 2, N)
    first = np.array([i for i in range(20) if i not in (2, 3)])
    norms = np.linalg.norm(x, axis=1)
    cosines = (x[first] * x[first + 1]).sum(axis=1) / norms[first] / norms[first + 1]
    expected = spearmanr(cosines, first)[0]
    assert result["methods"][0]["values"]["figure"] == pytest.approx(expected, abs=1e-4)
    assert main(["repair", "padded.npy", "--labels", "classes.txt", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["figure"]["items"] == N - 1


def write(name, text):
    return lambda: Path(name).write_text(text)


@pytest.mark.parametrize(
    ("prepare", "command", "message"),
    [
        (None, "fit docs.npy -o map.npy", "name a file that ends in .safetensors"),
        (None, "fit docs.npy -o nowhere/map.safetensors", "its folder does not exist"),
        (None, "fit docs.npy -o m.safetensors --strength 2", "strength from 0 to 1, got 2"),
        (None, "fit docs.npy -o m.safetensors --directions 2", "directions only with the method 'all_but_the_top'"),
        (None, "fit docs.npy -o m.safetensors --method learn --option circles=3", "--option together with --objective"),
        (None, "apply docs.npy docs.npy -o out.npy", "is not a map that unclump wrote"),
        (None, "apply docs.npy map.safetensors -o out.npy", "map.safetensors: is a map, and maps come before tables"),
        (None, "apply map.safetensors docs.npy", "name a file with -o"),
        (None, "apply map.safetensors docs.npy -o docs.npy", "allow it with --in-place"),
        (None, "apply map.safetensors other.npy -o out.npy", "expected rows in 6 dimensions"),
        (None, "apply map.safetensors nan.npy -o out.npy", "row 2 is NaN"),
        (None, "apply map.safetensors table.safetensors -o map.safetensors", "than the map map.safetensors"),
        (None, "repair docs.npy -o docs.npy", "is what the table was read from"),
        (None, "repair docs.npy --save docs.npy", "is not a comparison"),
        (None, "repair docs.npy --map table.safetensors", "is not a map"),
        (None, "repair docs.npy -o m.safetensors --map ./m.safetensors", "is named for two outputs"),
        (None, "repair docs.npy -o map.safetensors --map map.safetensors", "is named for two outputs"),
        (None, "repair docs.npy --queries q.npy", "--queries together with --relevant"),
        (None, "repair docs.npy --pairs judged.tsv --labels classes.txt", "one figure, got --pairs and --labels"),
        (None, "repair docs.npy --pairs judged.tsv", "at least 10 pairs of rows that are in the table, got 0"),
        (None, "repair docs.npy --queries other.npy --relevant r.tsv", "in the 6 dimensions of FILE, got 5"),
        (None, "repair docs.npy --sample 3", "--sample >= 100, got 3"),
        (write("bad.tsv", "w1\tw2\n"), "repair words.npz --pairs bad.tsv", "line 1: expected 3 fields"),
        (write("bad.tsv", "w1\tw2\tmuch\n"), "repair words.npz --pairs bad.tsv", "a number as score, got 'much'"),
        (write("bad.tsv", "w1\tw2\tnan\n"), "repair words.npz --pairs bad.tsv", "a number as score, got 'nan'"),
        (write("bad.tsv", "99\t1\n"), "repair docs.npy --queries q.npy --relevant bad.tsv", "a query from 0 to 39"),
        (write("bad.txt", "a\nb\n"), "repair docs.npy --labels bad.txt", f"expected {N} labels"),
        (write("bad.txt", "a\n" * N), "repair docs.npy --labels bad.txt", "two labels or more, got one"),
    ],
)  # fmt: skip
def test_what_is_refused_is_one_line_and_changes_nothing(prepare, command, message, capsys):
    np.save("other.npy", clump(20, 5).numpy())
    nan = np.load("docs.npy")
    nan[2, 1] = np.nan
    np.save("nan.npy", nan)
    save_file({"points": uc.load("docs.npy").points}, "table.safetensors")
    uc.Isotropy("centre").fit(uc.load("docs.npy").points).save("map.safetensors")
    if prepare is not None:
        prepare()
    before = {name: Path(name).read_bytes() for name in os.listdir()}
    assert main(shlex.split(command)) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
    assert {name: Path(name).read_bytes() for name in os.listdir()} == before


def prepared():
    np.save("queries.npy", np.load("q.npy"))
    uc.Isotropy().fit(uc.load("docs.npy").points).save("map.safetensors")
    np.save("images.npy", np.load("docs.npy"))


@pytest.mark.parametrize(
    "example",
    [
        line
        for module in (fit, apply, repair)
        for line in re.findall(r"^  (unclump .*?)(?:   .*)?$", module.EXAMPLES, flags=re.MULTILINE)
    ],
)
def test_examples_of_the_help_run(example, few_methods):
    prepared()
    assert main(shlex.split(example)[1:]) == 0


@pytest.mark.usefixtures("few_methods")
def test_how_much_of_the_evidence_counts_is_said(capsys):
    Path("judged.tsv").write_text(Path("judged.tsv").read_text() + "W1\tw2\t0.5\nw3\tW4\t0.5\n")
    evidence = {
        "Spearman: by 300 of the 303 pairs of judged.tsv; FILE has no row of that name for the others, but 2 would "
        "match in lower case": ["words.npz", "--pairs", "judged.tsv"],
        "recall@10: by 40 of the 40 queries of q.npy": ["docs.npy", "--queries", "q.npy", "--relevant", "r.tsv"],
        "k-NN accuracy: by the labels of 120 rows": ["docs.npy", "--labels", "classes.txt"],
    }
    for note, words in evidence.items():
        assert main(["repair", *words]) == 0
        assert note in printed(capsys)
        assert main(["repair", *words, "--json"]) == 0
        assert note in json.loads(capsys.readouterr().out)["notes"]
