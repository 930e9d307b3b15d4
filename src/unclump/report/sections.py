"""The sections of the page about one table, or about two side by side."""

from collections.abc import Sequence

import numpy as np

from unclump.figures.data import shares_of
from unclump.report import charts, components
from unclump.report.components import Row
from unclump.report.listings import row_count
from unclump.report.table_view import TableView
from unclump.report.text import escape, format_count, format_degrees, format_p_value
from unclump.tables.verdict import HEALTHY

_STATES = dict.fromkeys(HEALTHY, "good") | dict.fromkeys(("duplicates", "near-duplicates", "norms"), "warn")
_TESTS = {
    "rayleigh": ("Rayleigh", "a direction that the rows share"),
    "bingham": ("Bingham", "an axis or a plane that the rows share"),
}


def verdict_section(tables: Sequence[TableView]) -> str:
    """The verdict as a headline; for two tables, the change from the first to the second."""
    kinds = [view.health.verdict.kind for view in tables]
    state = _STATES.get(kinds[-1], "bad")
    findings = " · ".join(tables[-1].health.verdict.findings)
    first, *rest = tables[-1].health.verdict.text.split("; ")
    first, detail = first.removesuffix(")").partition(" (")[::2]  # keeps the headline short
    if len(tables) == 1:
        return components.render_verdict(
            state, _capitalise(findings), f"{_capitalise(first)}.", _sentences([detail, *rest])
        )
    before, after = (_noun_phrase(kind) for kind in kinds)
    change = f"Still {after}" if before == after else f"{before} before, {after} after"
    return components.render_verdict(
        state, f"After: {findings}", f"{_capitalise(change)}.", _sentences([first, detail, *rest])
    )


def tile_section(tables: Sequence[TableView]) -> str:
    """The four most important numbers."""
    healths, law = [view.health for view in tables], tables[-1].health.uniform

    def cell(label: str, values: Sequence[str], reference: str) -> tuple[str, str, str]:
        return label, " → ".join(dict.fromkeys(values)), reference

    return components.render_tiles(
        [
            cell(
                "Nearest angle, median",
                [format_degrees(h.median_nearest_angle) for h in healths],
                f"uniform: {format_degrees(law.median_nearest_angle)}",
            ),
            cell(
                "Spherical variance",
                [f"{h.spherical_variance:.3f}" for h in healths],
                f"uniform: {law.spherical_variance:.3f}",
            ),
            cell("Effective rank", [f"{h.effective_rank:.1f}" for h in healths], f"uniform: {law.effective_rank:.1f}"),
            cell(
                "Rows in clumps",
                [format_count(row_count(h.clumps)) for h in healths],
                f"within {format_degrees(healths[-1].near)} of another row",
            ),
        ]
    )


def key_section(tables: Sequence[TableView]) -> str:
    """The key figures next to those of uniform points."""
    healths, law = [view.health for view in tables], tables[-1].health.uniform
    smallest = "exact law" if law.smallest_is_exact else "limit law"

    def row(label: str, values: Sequence[str], uniform: str, meaning: str, far_off: Sequence[bool] = ()) -> Row:
        return Row(label, tuple(values), uniform, meaning, tuple(far_off))

    rows = [
        row(
            "Smallest angle",
            [format_degrees(h.min_angle) for h in healths],
            format_degrees(law.median_smallest_angle),
            f"The closest pair of all. Uniform: the median, {smallest}.",
            [h.min_angle < h.near for h in healths],
        ),
        row(
            "Median nearest angle",
            [format_degrees(h.median_nearest_angle) for h in healths],
            format_degrees(law.median_nearest_angle),
            "The distance of a typical row to its nearest neighbour. Uniform: exact.",
            [h.median_nearest_angle < 0.9 * h.uniform.median_nearest_angle for h in healths],
        ),
        row(
            "Mean nearest angle",
            [format_degrees(h.mean_nearest_angle) for h in healths],
            format_degrees(law.mean_nearest_angle),
            "The same on average. Uniform: exact.",
            [h.mean_nearest_angle < 0.9 * h.uniform.mean_nearest_angle for h in healths],
        ),
        row(
            "Spherical variance",
            [f"{h.spherical_variance:.4f}" for h in healths],
            f"{law.spherical_variance:.4f}",
            "0 if all rows coincide, 1 if their mean is zero.",
            [h.spherical_variance < h.uniform.spherical_variance - 0.1 for h in healths],
        ),
        row(
            "Mean angle to the mean",
            [format_degrees(h.cone_angle) for h in healths],
            format_degrees(law.mean_angle_to_mean),
            "The half-width of the cone that the rows lie in. Uniform: limit law.",
            [h.spherical_variance < h.uniform.spherical_variance - 0.1 for h in healths],
        ),
        row(
            "Effective rank",
            [f"{h.effective_rank:.1f}" for h in healths],
            f"{law.effective_rank:.1f}",
            f"How many of the {healths[0].d} dimensions are used. Uniform: limit law.",
            [h.effective_rank < 0.5 * h.uniform.effective_rank for h in healths],
        ),
        row(
            "… about the mean",
            [f"{h.centred_rank:.1f}" for h in healths],
            "",
            "The same, without the direction that the rows share.",
        ),
        row(
            "Hubness",
            ["" if h.hubness is None else f"{h.hubness:.2f}" for h in healths],
            "",
            f"Skewness of how often a row is among the {healths[0].k} nearest of others; 0 is symmetric.",
        ),
        row(
            "Orphans",
            ["" if h.orphans is None else f"{h.orphans:.1%}" for h in healths],
            "",
            "Rows that are not among the nearest of any other.",
        ),
        _count_row("Equal rows", [row_count(h.duplicates) for h in healths], "Rows with exactly the same values."),
        _count_row("Rows in clumps", [row_count(h.clumps) for h in healths], "Equal or nearly equal directions."),
        _count_row(
            "Without a direction", [len(h.bad_rows) for h in healths], "NaN, infinite or zero: excluded from the rest."
        ),
    ]
    uniform = f"{format_count(law.n)} uniform points"
    return components.render_section("Key figures", components.render_key_figures(rows, _titles(tables), uniform))


def chart_sections(tables: Sequence[TableView]) -> list[str]:
    """The histograms and the spectrum."""
    d, titles = tables[0].health.d, _titles(tables)
    keys = [("one", "this table")] if len(tables) == 1 else [("one", "before"), ("two", "after")]
    colours = components.render_legend(*keys, ("uniform", "uniform points"))
    pairs = "All pairs" if tables[0].has_all_pairs else f"{format_count(len(tables[0].pair_angles))} random pairs"
    pair_medians = [format_degrees(float(np.median(t.pair_angles))) for t in tables]
    pair_captions = [f"Median {median}; uniform points 90.00°." for median in pair_medians]
    medians = [(t.health.median_nearest_angle, t.health.uniform.median_nearest_angle) for t in tables]
    nearest_captions = [f"Median {format_degrees(m)}; uniform points {format_degrees(u)}." for m, u in medians]
    shares = [shares_of(t.health.spectrum, d) for t in tables]
    spectrum_captions = [
        f"The first axis has {share[0]:.1%} of the squared length; an even share is {1 / d:.1%}." for share in shares
    ]
    return [
        components.render_section(
            "Angles between pairs",
            colours,
            components.render_figures(charts.pair_charts([t.pair_angles for t in tables], d), titles, pair_captions),
            note=f"{pairs}. A histogram left of the curve is a cone: rows share a direction.",
        ),
        components.render_section(
            "Angles to the nearest",
            colours,
            components.render_figures(
                charts.nearest_charts([(len(t.rows), t.health.nearest_angles.numpy()) for t in tables], d),
                titles,
                nearest_captions,
            ),
            note="All rows. A peak at zero means clumps; a histogram left of the curve means unused space.",
        ),
        components.render_section(
            "Spectrum",
            colours,
            components.render_figures(
                charts.spectrum_charts([(len(t.rows), share) for t, share in zip(tables, shares, strict=True)]),
                titles,
                spectrum_captions,
            ),
            note="The share of each principal axis, as a multiple of an even share. Flat is good.",
        ),
    ]


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
        note="p: how likely uniform points deviate as far. With many rows, harmless deviations are significant too.",
    )


def _titles(tables: Sequence[TableView]) -> list[str]:
    return components.table_titles(len(tables))


def _count_row(label: str, values: Sequence[int], meaning: str) -> Row:
    return Row(label, tuple(map(format_count, values)), "0", meaning, tuple(value > 0 for value in values))


def _noun_phrase(kind: str) -> str:
    return {"cone": "a cone", "uniform": "as good as uniform"}.get(kind, kind)


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]


def _sentences(parts: Sequence[str]) -> str:
    return " ".join(f"{_capitalise(part)}." for part in parts if part)
