"""What the page says of one table, or of two side by side."""

from collections.abc import Sequence

import numpy as np
import torch

from unclump.report import charts
from unclump.report.listings import row_count
from unclump.report.looked import Looked
from unclump.report.parts import Row, figures, key_figures, legend, section, table, tiles, verdict
from unclump.report.pictures import Picture
from unclump.report.text import count, degrees, escaped, probability
from unclump.tables.health import Health

_STATES = {"uniform": "good", "better than uniform": "good", "duplicates": "warn", "clumps": "warn"}
_TESTS = {
    "rayleigh": ("Rayleigh", "a direction that the rows share"),
    "bingham": ("Bingham", "an axis or a plane that the rows share"),
}


def titles(tables: Sequence[Looked]) -> list[str]:
    """What to call each table in a heading."""
    return ["This table"] if len(tables) == 1 else ["Before", "After"]


def verdict_section(tables: Sequence[Looked]) -> str:
    """The verdict in one large line; of two tables, what has become of the first."""
    kinds = [looked.health.verdict.kind for looked in tables]
    state = _STATES.get(kinds[-1], "bad")
    called = " · ".join(tables[-1].health.verdict.findings)
    first, *rest = tables[-1].health.verdict.text.split("; ")
    first, detail = first.removesuffix(")").partition(" (")[::2]  # a large line is short
    if len(tables) == 1:
        return verdict(state, _sentence(called), f"{_sentence(first)}.", _sentences([detail, *rest]))
    line = f"Still {_noun(kinds[1])}" if kinds[0] == kinds[1] else f"{_noun(kinds[0])} before, {_noun(kinds[1])} after"
    return verdict(state, f"After: {called}", f"{_sentence(line)}.", _sentences([first, detail, *rest]))


def tile_section(tables: Sequence[Looked]) -> str:
    """Four numbers to remember."""
    found, law = [looked.health for looked in tables], tables[-1].health.uniform

    def cell(label: str, values: Sequence[str], against: str) -> tuple[str, str, str]:
        return label, " → ".join(dict.fromkeys(values)), against

    return tiles(
        [
            cell(
                "Nearest angle, median",
                [degrees(h.median_nearest_angle) for h in found],
                f"uniform: {degrees(law.median_nearest_angle)}",
            ),
            cell(
                "Spherical variance",
                [f"{h.spherical_variance:.3f}" for h in found],
                f"uniform: {law.spherical_variance:.3f}",
            ),
            cell("Effective rank", [f"{h.effective_rank:.1f}" for h in found], f"uniform: {law.effective_rank:.1f}"),
            cell(
                "Rows in clumps",
                [count(row_count(h.clumps)) for h in found],
                f"nearer than {degrees(found[-1].near)} to another",
            ),
        ]
    )


def key_section(tables: Sequence[Looked]) -> str:
    """The key figures beside those of uniform points."""
    found, law = [looked.health for looked in tables], tables[-1].health.uniform
    smallest = "exact law" if law.smallest_is_exact else "limit law"

    def row(label: str, values: Sequence[str], uniform: str, meaning: str, far_off: Sequence[bool] = ()) -> Row:
        return Row(label, tuple(values), uniform, meaning, tuple(far_off))

    rows = [
        row(
            "Smallest angle",
            [degrees(h.min_angle) for h in found],
            degrees(law.median_smallest_angle),
            f"The closest pair of all. Uniform: the median, {smallest}.",
            [h.min_angle < h.near for h in found],
        ),
        row(
            "Median nearest angle",
            [degrees(h.median_nearest_angle) for h in found],
            degrees(law.median_nearest_angle),
            "How far a typical row is from its nearest. Uniform: exact.",
            [h.median_nearest_angle < 0.9 * h.uniform.median_nearest_angle for h in found],
        ),
        row(
            "Mean nearest angle",
            [degrees(h.mean_nearest_angle) for h in found],
            degrees(law.mean_nearest_angle),
            "The same on average. Uniform: exact.",
            [h.mean_nearest_angle < 0.9 * h.uniform.mean_nearest_angle for h in found],
        ),
        row(
            "Spherical variance",
            [f"{h.spherical_variance:.4f}" for h in found],
            f"{law.spherical_variance:.4f}",
            "0 where all rows coincide, 1 where they balance.",
            [h.spherical_variance < h.uniform.spherical_variance - 0.1 for h in found],
        ),
        row(
            "Mean angle to the mean",
            [degrees(h.cone_angle) for h in found],
            "90.00°",
            "The half-width of the cone that the rows lie in.",
            [h.spherical_variance < h.uniform.spherical_variance - 0.1 for h in found],
        ),
        row(
            "Effective rank",
            [f"{h.effective_rank:.1f}" for h in found],
            f"{law.effective_rank:.1f}",
            f"How many of the {found[0].d} dimensions are used. Uniform: limit law.",
            [h.effective_rank < 0.5 * h.uniform.effective_rank for h in found],
        ),
        row(
            "… about the mean",
            [f"{h.centred_rank:.1f}" for h in found],
            "",
            "The same beside the direction they share.",
        ),
        row(
            "Hubness",
            [f"{h.hubness:.2f}" for h in found],
            "",
            f"The skewness of how often a row is among the {found[0].k} nearest of others; 0 is even.",
        ),
        row("Neighbours of none", [f"{h.orphans:.1%}" for h in found], "", "Rows that no other row finds near."),
        _counted("Equal rows", [row_count(h.duplicates) for h in found], "The same numbers more than once."),
        _counted("Rows in clumps", [row_count(h.clumps) for h in found], "Equal or nearly so."),
        _counted(
            "Without a direction", [len(h.bad_rows) for h in found], "NaN, infinite or zero: left out of all else."
        ),
    ]
    uniform = f"{count(law.n)} uniform points"
    return section("Key figures", key_figures(rows, titles(tables), uniform))


def chart_sections(tables: Sequence[Looked]) -> list[str]:
    """Histograms and spectrum."""
    d, names = tables[0].health.d, titles(tables)
    keys = [("one", "this table")] if len(tables) == 1 else [("one", "before"), ("two", "after")]
    colours = legend(*keys, ("uniform", "uniform points"))
    drawn = tables[0].pairs
    of = "all pairs" if tables[0].all_pairs else f"{count(len(drawn))} random pairs"
    pair_captions = [f"Median {degrees(float(np.median(t.pairs)))}; uniform points 90.00°." for t in tables]
    medians = [(t.health.median_nearest_angle, t.health.uniform.median_nearest_angle) for t in tables]
    nearest_captions = [f"Median {degrees(own)}; uniform points {degrees(even)}." for own, even in medians]
    shares = [_shares(t.health) for t in tables]
    spectrum_captions = [
        f"The first axis holds {share[0]:.1%} of the squared length, an even share is {1 / d:.1%}." for share in shares
    ]
    return [
        section(
            "Angles between pairs",
            colours,
            figures(charts.pair_charts([t.pairs for t in tables], d), names, pair_captions),
            note=f"Of {of}. Left of the curve, rows point the same way: a cone.",
        ),
        section(
            "Angles to the nearest",
            colours,
            figures(
                charts.nearest_charts([t.health.nearest_angles.numpy() for t in tables], d), names, nearest_captions
            ),
            note="Of every row. A pile at zero is a clump; left of the curve, space is left empty.",
        ),
        section(
            "Spectrum",
            colours,
            figures(
                charts.spectrum_charts([(len(t.numbers), share) for t, share in zip(tables, shares, strict=True)]),
                names,
                spectrum_captions,
            ),
            note="The share of each principal axis, as a multiple of an even one. Level is good.",
        ),
    ]


def tests_section(tables: Sequence[Looked]) -> str:
    """Tests of uniformity."""
    heads = ["Test", "Looks for"]
    heads += ["Statistic", "p-value"] if len(tables) == 1 else ["p before", "p after"]
    rows = []
    for name in tables[0].health.tests:
        called, sees = _TESTS.get(name, (name.capitalize(), ""))
        tests = [looked.health.tests[name] for looked in tables]
        numbers = [probability(test.pvalue) for test in tests]
        if len(tests) == 1:
            statistic = tests[0].statistic
            numbers = [f"{statistic:,.0f}" if statistic >= 1000 else f"{statistic:.4g}", *numbers]
        rows.append([escaped(called), escaped(sees), *map(escaped, numbers)])
    return section(
        "Tests of uniformity",
        table(heads, rows, numbers=[2, 3]),
        note="How often uniform points would depart as far. With many rows, a test sees what does no harm as well.",
    )


def picture_section(tables: Sequence[Looked], drawn: Sequence[Picture]) -> str:
    """The globe or the map."""
    globe, clumps = tables[0].health.d == 3, bool(tables[0].health.clumps)
    standing_out = "rows of clumps" if clumps else "closest pairs"
    rows = [("one", "rows")] if len(tables) == 1 else [("one", "rows before"), ("two", "rows after")]
    holders = [f'<div data-picture="{place}">{picture.drawing}</div>' for place, picture in enumerate(drawn)]
    captions = []
    for looked, picture in zip(tables, drawn, strict=True):
        shown, n = len(picture.data["names"]), len(looked.numbers)
        captions.append(f"{count(n)} rows." if shown == n else f"{count(shown)} of {count(n)} rows, at random.")
    how = (
        "Drag the globe or use the arrow keys to turn it."
        if globe
        else "The plane along which the directions vary most."
    )
    return section(
        "The rows on the globe" if globe else "A map of the rows",
        legend(*rows, ("clump", standing_out)),
        figures(
            holders, [f"{title}: {looked.file}" for title, looked in zip(titles(tables), tables, strict=True)], captions
        ),
        note=f"{how} Point at a dot for its name.",
    )


def _shares(found: Health) -> np.ndarray:
    squares = torch.zeros(found.d, dtype=torch.float64)
    squares[: len(found.spectrum)] = found.spectrum.double().square()
    shares: np.ndarray = (squares / squares.sum()).numpy()
    return shares


def _counted(label: str, values: Sequence[int], meaning: str) -> Row:
    return Row(label, tuple(map(count, values)), "0", meaning, tuple(value > 0 for value in values))


def _noun(kind: str) -> str:
    return {"cone": "a cone", "uniform": "as good as uniform"}.get(kind, kind)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _sentences(parts: Sequence[str]) -> str:
    return " ".join(f"{_sentence(part)}." for part in parts if part)
