"""The sections of charts and tests, about one table, or about two side by side."""

from collections.abc import Sequence

import numpy as np

from unclump.figures.data import shares_of
from unclump.report import charts, components
from unclump.report.components import table_titles
from unclump.report.table_view import TableView
from unclump.report.text import escape, format_count, format_degrees, format_p_value

_TESTS = {
    "rayleigh": ("Rayleigh", "a direction that the rows share"),
    "bingham": ("Bingham", "an axis or a plane that the rows share"),
}


def chart_sections(tables: Sequence[TableView]) -> list[str]:
    """The histograms and the spectrum."""
    d, titles = tables[0].health.d, table_titles(len(tables))
    keys = [("one", "this table")] if len(tables) == 1 else [("one", "before"), ("two", "after")]
    colours = components.render_legend(*keys, ("uniform", "uniform points"))
    pairs = "All pairs" if tables[0].has_all_pairs else f"{format_count(len(tables[0].pair_angles))} random pairs"
    pair_medians = [format_degrees(float(np.median(t.pair_angles))) for t in tables]
    pair_captions = [f"Median {median}; uniform points 90.00°." for median in pair_medians]
    medians = [(t.health.median_nearest_angle, t.health.uniform.median_nearest_angle) for t in tables]
    nearest_captions = [f"Median {format_degrees(m)}; uniform points {format_degrees(u)}." for m, u in medians]
    nearest = [(len(t.rows), t.health.nearest_angles.numpy()) for t in tables]
    shares = [shares_of(t.health.spectrum, d) for t in tables]
    spectrum_captions = [
        f"The first axis has {share[0]:.1%} of the squared length; an even share is {1 / d:.1%}." for share in shares
    ]
    return [
        components.render_section(
            "Angles between pairs",
            colours,
            components.render_figures(charts.pair_charts([t.pair_angles for t in tables], d), titles, pair_captions),
            note=f"{pairs}. If the histogram lies left of the curve, the rows share a direction.",
        ),
        components.render_section(
            "Angles to the nearest",
            colours,
            components.render_figures(charts.nearest_charts(nearest, d), titles, nearest_captions),
            note=f"{_sampled(tables)} A peak at zero means near duplicates. "
            "A table in which similar rows are close lies left of the curve.",
        ),
        components.render_section(
            "Spectrum",
            colours,
            components.render_figures(
                charts.spectrum_charts([(len(t.rows), share) for t, share in zip(tables, shares, strict=True)]),
                titles,
                spectrum_captions,
            ),
            note="The share of each principal axis, as a multiple of an even share.",
        ),
    ]


def _sampled(tables: Sequence[TableView]) -> str:
    """Of which rows the nearest were searched for."""
    counts = [len(t.health.nearest_angles) for t in tables]
    if all(count == len(t.rows) for count, t in zip(counts, tables, strict=True)):
        return "All rows."
    return f"A sample of {' and '.join(map(format_count, counts))} rows."


def tests_section(tables: Sequence[TableView]) -> str:
    """The tests of uniformity."""
    heads = ["Test", "Detects"]
    heads += ["Statistic", "p-value"] if len(tables) == 1 else ["p before", "p after"]
    rows = []
    for name in tables[0].health.tests:
        title, detects = _TESTS.get(name, (name.capitalize(), ""))
        tests = [view.health.tests[name] for view in tables]
        numbers = [format_p_value(test.pvalue) for test in tests]
        if len(tests) == 1:
            statistic = tests[0].statistic
            numbers = [f"{statistic:,.0f}" if statistic >= 1000 else f"{statistic:.4g}", *numbers]
        rows.append([escape(title), escape(detects), *map(escape, numbers)])
    return components.render_section(
        "Tests of uniformity",
        components.render_table(heads, rows, numbers=[2, 3]),
        note="p: how likely uniform points deviate this much. With many rows, even tiny deviations are significant.",
    )
