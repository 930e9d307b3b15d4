"""The charts as numbers: bars are shares on an axis with ticks, and a bar that the axis cuts says how high it is."""

import re

import numpy as np
import pytest

from unclump.report.charts import move_chart, nearest_charts
from unclump.report.svg import HEIGHT


def heights(chart):
    """The heights of the bars, in pixels above the axis."""
    path = re.search(r'class="bars \w+" d="([^"]*)"', chart).group(1)
    base = float(re.search(r"M\S+ (\S+?)V", path).group(1))
    return [base - float(top) for top in re.findall(r"V([\d.]+)H", path)]


def ticks(chart, suffix):
    return [float(t) for t in re.findall(rf">([\d.]+){suffix}</text>", chart)]


def y_of_tick(chart, text):
    return float(re.search(rf'y="([\d.]+)" text-anchor="end">{text}</text>', chart).group(1)) - 4


def test_bars_of_moves_stand_on_an_axis_of_shares():
    moves = np.radians(np.repeat([1.0, 3.0, 5.0, 7.0], [10, 20, 30, 40]))
    chart = move_chart(moves)
    assert 'class="cut"' not in chart
    seen = sorted(h for h in heights(chart) if h > 0)
    np.testing.assert_allclose(np.array(seen) / seen[-1], [0.25, 0.5, 0.75, 1.0], atol=0.01)
    largest = max(ticks(chart, "%"))
    base = HEIGHT - 40
    unit = (base - y_of_tick(chart, f"{largest:g}%")) / largest  # pixels per percent
    assert seen[-1] / unit == pytest.approx(40, rel=0.02)
    assert max(ticks(chart, "°")) <= 7.1


def test_a_bar_that_is_cut_says_its_true_height_and_no_other_is():
    generator = np.random.default_rng(0)
    moves = np.radians(np.concatenate([np.zeros(9_000), generator.uniform(0, 10, 1_000)]))
    chart = move_chart(moves)
    assert chart.count('class="cut"') == 1
    assert "90%" in re.findall(r">(\d+%)</text>", chart)[-1]
    assert max(ticks(chart, "%")[:-1]) < 10  # the last is the mark


def test_the_axis_reaches_the_largest_move():
    chart = move_chart(np.radians(np.concatenate([np.full(5_000, 1.0), [60.0]])))
    assert max(ticks(chart, "°")) == 60


def test_the_curve_of_a_sample_is_that_of_the_whole_table():
    angles = np.radians(np.random.default_rng(1).uniform(20, 60, 500))
    sample, whole = (nearest_charts([(n, angles)], 8)[0] for n in (500, 50_000))
    peak = [re.search(r'class="uniform" d="([^"]*)"', chart).group(1) for chart in (sample, whole)]
    assert peak[0] != peak[1]
