"""Results as data frames and in notebooks: the numbers are those of the result, and names stay text."""

import math
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

import unclump as uc
from unclump import _notebook
from unclump.tables.commands import Paths
from unclump.tables.comparison_methods import Fits
from unclump.tables.comparison_run import compare

pandas = pytest.importorskip("pandas")
NASTY = '<script>alert("1")</script>'


@pytest.fixture(scope="module")
def points():
    x = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))
    x[7] = x[3]
    x[10] = 0
    x[20] = x[21] + 1e-4
    return x


@pytest.fixture(scope="module")
def names():
    return [f"{NASTY}{row}" for row in range(60)]


@pytest.fixture(scope="module")
def results(points, names):
    directed = points[points.any(dim=1)]
    return {
        "health": uc.health(points, names=names),
        "sampled": uc.health(points, sample=30),
        "table": uc.Table(points, names=names),
        "summary": uc.summary(directed),
        "dispersed": uc.disperse(directed[22:], "koleo", steps=30, measure_every=1),
        "code": uc.spherical_code(24, 3),
        "lines": uc.spherical_code(6, 3, antipodal=True),
        "comparison": compare(Fits(directed, seed=0), paths=Paths(Path(NASTY.replace("/", "")), Path("out.npy"))),
    }


@pytest.fixture(params=["health", "sampled", "table", "summary", "dispersed", "code", "lines", "comparison"])
def result(request, results):
    return results[request.param]


# --- notebooks -----------------------------------------------------------------------------------------------------


def test_html_is_small_well_formed_and_without_scripts(result):
    page = result._repr_html_()
    assert len(page) < 6000
    tags = {element.tag for element in ElementTree.fromstring(page).iter()}
    assert tags <= {"div", "b", "table", "tr", "td", "th", "svg", "path", "text"}
    assert "nan" not in page


@pytest.mark.parametrize("name", ["health", "table"])
def test_names_are_text(results, name):
    page = results[name]._repr_html_()
    assert NASTY not in page
    assert NASTY in "".join(ElementTree.fromstring(page).itertext())


def test_repr_is_one_short_line(result):
    assert len(repr(result)) < 400
    assert "\n" not in repr(result)


@pytest.mark.parametrize("name", ["health", "sampled", "table", "dispersed", "code", "lines"])
def test_there_is_a_figure_with_a_label(results, name):
    figure = ElementTree.fromstring(results[name]._repr_html_()).find(".//svg")
    assert figure.get("role") == "img"
    assert len(figure.get("aria-label")) > 10


def test_bars_of_a_histogram_are_as_high_as_their_counts():
    page = _notebook.histogram(np.array([0.5] * 3 + [7.5]), (0.0, 8.0), "values")
    tops = [float(top) for top in re.findall(r"V([\d.]+)H", page)]
    assert len(tops) == 8
    assert tops[1:-1] == [90.0] * 6
    assert (90 - tops[0]) / (90 - tops[-1]) == pytest.approx(3, abs=0.02)


def test_one_bar_that_would_flatten_the_others_is_cut():
    values = np.concatenate([np.zeros(1000), np.linspace(0.5, 7.9, 100)])
    tops = [float(top) for top in re.findall(r"V([\d.]+)H", _notebook.histogram(values, (0.0, 8.0), "values"))]
    assert tops[0] == 8.0
    assert min(tops[1:]) == 8.0


def test_the_histogram_of_a_code_has_the_smallest_angle_as_its_first_bar(results):
    page = results["code"]._repr_html_()
    bars = re.search(r'd="M0 90(.*?)V90Z"', page)[1]
    edges = re.findall(r"V([\d.]+)H([\d.]+)", bars)
    first = next(float(right) for top, right in edges if float(top) < 90)
    assert 0 <= first / 260 * 180 - 43.69 <= 180 / len(edges)


def test_long_tables_leave_out_their_middle(results):
    page = results["dispersed"]._repr_html_()
    assert page.count("<tr") == 1 + 8 + 1
    assert "…" in page


def test_a_table_without_directions_has_no_figure():
    page = uc.Table(torch.zeros(3, 2))._repr_html_()
    assert "<svg" not in page
    assert "3 rows x 2 dimensions" in page


def test_notebooks_need_neither_pandas_nor_matplotlib():
    program = (
        "import sys, torch, unclump as uc\n"
        "assert len(uc.health(torch.randn(30, 4))._repr_html_()) > 1000\n"
        "assert not {'pandas', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# --- pandas --------------------------------------------------------------------------------------------------------


def test_measures_of_health_are_those_of_its_attributes(results):
    health, frame = results["health"], results["health"].to_pandas()
    assert frame.index.name == "measure"
    for name in set(frame.index) & set(vars(health)) - {"dead_dimensions"}:
        assert frame.table[name] == getattr(health, name), name
    assert frame.table["median_nearest_angle_degrees"] == math.degrees(health.median_nearest_angle)
    assert frame.uniform["median_nearest_angle_degrees"] == math.degrees(health.uniform.median_nearest_angle)
    assert frame.table["largest_hub"] == health.largest_hub
    assert frame.table["rayleigh_pvalue"] == health.tests["rayleigh"].pvalue
    assert frame.table["duplicate_rows"] == 2
    assert frame.table["near_duplicate_rows"] == 4
    assert frame.table["rows_without_direction"] == 1
    assert frame.low.isna().all()


def test_intervals_of_sampled_measures_are_in_the_frame(results):
    frame = results["sampled"].to_pandas()
    low, high = results["sampled"].intervals["cone_angle"]
    assert (frame.low["cone_angle_degrees"], frame.high["cone_angle_degrees"]) == (
        math.degrees(low),
        math.degrees(high),
    )


def test_rows_of_health_are_at_their_numbers(points, results, names):
    health, frame = results["health"], results["health"].rows_to_pandas()
    assert list(frame.name) == names
    assert frame.fault[10] == "zero"
    assert (frame.fault != "").sum() == 1
    assert frame.nearest_angle_degrees.isna().sum() == 1
    assert np.isnan(frame.nearest_angle_degrees[10])
    directed = uc.nearest_angles(points[points.any(dim=1)])
    np.testing.assert_allclose(frame.nearest_angle_degrees.dropna(), np.degrees(directed.numpy()), atol=1e-6)
    assert list(frame.index[frame.duplicates == 0]) == [3, 7]
    assert frame.near_duplicates[20] == frame.near_duplicates[21] >= 0
    assert frame.near_duplicates[0] == -1
    assert frame.neighbour_of.sum() == 59 * health.k


def test_rows_that_were_not_sampled_are_nan(results):
    health, frame = results["sampled"], results["sampled"].rows_to_pandas()
    assert list(frame.index[frame.nearest_angle_degrees.notna()]) == sorted(health.sampled.tolist())
    assert "name" not in frame


def test_a_table_comes_back_from_its_frame(results):
    table = results["table"]
    again = uc.as_table(table.to_pandas())
    assert again.names == table.names
    assert torch.equal(again.points, table.points)


def test_a_table_in_bfloat16_has_a_frame_of_its_values():
    frame = uc.Table(torch.eye(2, dtype=torch.bfloat16)).to_pandas()
    assert frame.to_numpy().tolist() == [[1, 0], [0, 1]]
    assert list(frame.index) == [0, 1]


def test_history_is_indexed_by_the_step(results):
    history = results["dispersed"].history
    frame = history.to_pandas()
    assert list(frame.index) == list(range(31))
    assert frame.index.name == "step"
    np.testing.assert_array_equal(frame.min_angle_degrees, np.degrees(history.min_angle))


def test_summaries_and_codes_stack(results):
    summary, code = results["summary"], results["code"]
    both = pandas.concat([summary.to_pandas()] * 2)
    assert both.shape == (2, 11)
    assert both.covering_radius_degrees.iloc[0] == math.degrees(summary.covering_radius)
    codes = pandas.concat([code.to_pandas(), results["lines"].to_pandas()])
    assert list(codes.n) == [24, 6]
    assert list(codes.antipodal) == [False, True]
    assert codes.angle_degrees.iloc[0] == math.degrees(code.min_angle)


def test_methods_of_a_comparison_are_rows(results):
    comparison = results["comparison"]
    frame = comparison.to_pandas()
    assert list(frame.index) == [method.name for method in comparison.methods]
    assert frame.hubness.iloc[2] == comparison.methods[2].values["hubness"]
    assert tuple(frame[["hubness_low", "hubness_high"]].iloc[2]) == comparison.methods[2].intervals["hubness"]
    assert list(frame.index[frame.recommended]) == [comparison.recommendation.method]


def test_without_pandas_the_message_says_what_to_install(results, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        results["summary"].to_pandas()
