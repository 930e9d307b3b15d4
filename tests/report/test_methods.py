"""The comparison of repairs on the page: figures, intervals and the recommendation, as text and never as HTML."""

import html
import re
from dataclasses import replace

import pytest

import unclump as uc
from tests.comparisons import EXAMPLE
from tests.report.conftest import HOSTILE
from tests.small_tables import clump
from unclump.cli import main
from unclump.report import report
from unclump.report.methods_section import methods_section
from unclump.tables.comparison import Column, Recommendation
from unclump.tables.comparison_files import save_comparison


@pytest.fixture
def comparison():
    return EXAMPLE


def cells(section):
    rows = re.findall(r"<tr>(.*?)</tr>", section.split("<tbody>")[1])
    texts = [re.findall(r"<t[hd].*?</t[hd]>", row) for row in rows]
    return [[" ".join(re.sub(r"<[^>]+>", " ", cell).split()) for cell in row] for row in texts]


def test_every_method_has_its_figures_with_intervals_and_one_is_recommended(comparison):
    section = methods_section(comparison)
    assert cells(section)[0] == ["as it is", "0.550 0.500 to 0.600", "0.750", "87.2", ""]
    assert cells(section)[1] == ["whiten 1 recommended", "0.654 0.604 to 0.704", "0.750", "87.2", "better"]
    assert section.count("good-mark") == 1
    assert "<code>unclump fit whiten</code>" in section
    assert "Judged by Spearman over 300 items of judged.tsv" in section
    assert "20 of 30 rows" in section
    assert "A note." in section


def test_a_long_command_is_shown_whole(comparison):
    command = f"unclump fit {'<long>' * 40}.npz && unclump apply 'two  blanks.npz'"
    advice = replace(comparison.recommendation, command=command)
    section = methods_section(replace(comparison, recommendation=advice))
    assert f"<code>{html.escape(command)}</code>" in section


def test_changes_are_drawn_on_their_side_of_none_and_called_better_only_beyond_their_interval(comparison):
    section = methods_section(comparison)
    zero = float(re.search(r'class="axis" d="M([\d.]+) ', section).group(1))
    lines = re.findall(r'class="interval (\w+)" d="M([\d.]+) \d+H([\d.]+)"', section)
    assert [style for style, _, _ in lines] == ["better", "worse", "unsure"]
    assert float(lines[0][1]) > zero
    assert float(lines[1][2]) < zero
    assert float(lines[2][1]) < zero < float(lines[2][2])


def test_less_is_better_where_the_column_says_so(comparison):
    columns = (Column("figure", "hubness", "less"), *comparison.columns[1:])
    section = methods_section(replace(comparison, columns=columns))
    assert re.findall(r'class="interval (\w+)"', section) == ["worse", "better", "unsure"]


def test_without_a_figure_of_the_owner_it_says_what_counts(comparison):
    methods = tuple(replace(m, changes={}) for m in comparison.methods)
    section = methods_section(replace(comparison, figure=None, methods=methods))
    assert "neighbours kept and hubs removed" in section
    assert "interval" not in section


@pytest.mark.parametrize("name", HOSTILE[:5])
def test_texts_of_the_file_add_no_element(comparison, name):
    methods = (replace(comparison.methods[0], name=name, verdict=name), *comparison.methods[1:])
    columns = (Column("figure", name, "more"), *comparison.columns[1:])
    advice = Recommendation(name, name, name)
    hostile = replace(comparison, file=name, methods=methods, columns=columns, recommendation=advice, notes=(name,))
    plain = replace(comparison, recommendation=replace(comparison.recommendation, method="as it is"))
    tags = [re.findall(r"<(\w+)", methods_section(c)) for c in (hostile, plain)]
    assert tags[0] == tags[1]


def test_the_page_shows_the_comparison_of_its_table_and_refuses_another(comparison, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    uc.save("words.npz", uc.Table(clump(30, 4), names=[f"word-{k}" for k in range(30)]))
    save_comparison("methods.json", comparison)
    assert main(["report", "words.npz", "--comparison", "methods.json", "-o", "page.html"]) == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Which repair helps" in page
    assert "unclump report words.npz -o page.html --comparison methods.json" in page
    assert "Which repair helps" not in report(uc.Table(clump(30, 4)))
    save_comparison("methods.json", replace(comparison, rows=31))
    assert main(["report", "words.npz", "--comparison", "methods.json"]) == 2
    assert "expected the comparison of this table of 30 x 4, got that of 31 x 4" in capsys.readouterr().err
