"""The key figures of a table, for the tiles and for the list of all.

What is marked as a fault is what the verdict names as one, and nothing else: headline, tiles and list cannot disagree.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from unclump.report.components import Row, render_key_figures, render_section, render_tiles, table_titles
from unclump.report.text import format_count, format_degrees
from unclump.tables.groups import Group
from unclump.tables.health import Health


@dataclass(frozen=True)
class KeyFigure:
    """A measure as it is shown.

    Attributes:
        label: Its name.
        show: Its value, as text.
        meaning: A short explanation.
        uniform: Its value for uniform points, as text, or "".
        faults: The faults of a verdict that it is evidence of.
    """

    label: str
    show: Callable[[Health], str]
    meaning: str
    uniform: Callable[[Health], str] = lambda health: ""
    faults: tuple[str, ...] = ()

    def is_fault(self, health: Health) -> bool:
        """Whether the verdict names one of its faults."""
        return not set(self.faults).isdisjoint(health.verdict.findings)


def row_count(groups: Sequence[Group]) -> int:
    """The total number of rows in all groups."""
    return sum(len(group.rows) for group in groups)


def _show_angle(attribute: str) -> Callable[[Health], str]:
    """An angle, with its interval where rows were sampled."""

    def show(health: Health) -> str:
        text = format_degrees(getattr(health, attribute))
        if attribute not in health.intervals:
            return text
        low, high = (format_degrees(end) for end in health.intervals[attribute])
        return f"{text} ({low} to {high})"

    return show


NEAR_DUPLICATES = KeyFigure(
    "Near duplicates",
    lambda h: format_count(row_count(h.clumps)),
    "Rows with another in the same or nearly the same direction.",
    lambda h: "0",
    faults=("duplicates", "near-duplicates"),
)
NEAREST_ANGLE = KeyFigure(
    "Median nearest angle",
    _show_angle("median_nearest_angle"),
    "The distance of a typical row to its nearest neighbour. Uniform: exact.",
    lambda h: format_degrees(h.uniform.median_nearest_angle),
)
MEAN_COSINE = KeyFigure(
    "Mean cosine",
    lambda h: f"{h.mean_cosine:.3f}",
    "Over all pairs; 1 if all rows point the same way.",
    lambda h: f"{h.isotropic.mean_cosine:.3f}",
    faults=("cone",),
)
EFFECTIVE_RANK = KeyFigure(
    "Centred effective rank",
    lambda h: f"{h.centred_rank:.1f}",
    "How many dimensions are used, apart from the direction that all rows share. Uniform: limit law.",
    lambda h: f"{h.uniform.centred_rank:.1f}",
    faults=("rank",),
)
KEY_FIGURES = (
    KeyFigure(
        "Equal rows",
        lambda h: format_count(row_count(h.duplicates)),
        "Rows with exactly the same values.",
        lambda h: "0",
        faults=("duplicates",),
    ),
    NEAR_DUPLICATES,
    KeyFigure(
        "Without a direction",
        lambda h: format_count(len(h.bad_rows)),
        "NaN, infinite or zero: excluded from the rest.",
        lambda h: "0",
        faults=("directions",),
    ),
    KeyFigure(
        "Smallest angle",
        _show_angle("min_angle"),
        "The closest pair of all. Uniform: the median.",
        lambda h: format_degrees(h.uniform.median_smallest_angle),
        faults=("duplicates", "near-duplicates"),
    ),
    NEAREST_ANGLE,
    KeyFigure(
        "Mean nearest angle",
        _show_angle("mean_nearest_angle"),
        "The same on average. Uniform: exact.",
        lambda h: format_degrees(h.uniform.mean_nearest_angle),
    ),
    MEAN_COSINE,
    KeyFigure(
        "Spherical variance",
        lambda h: f"{h.spherical_variance:.4f}",
        "0 if all rows coincide, 1 if their mean is zero. Uniform: limit law.",
        lambda h: f"{h.uniform.spherical_variance:.4f}",
        faults=("cone",),
    ),
    KeyFigure(
        "Mean angle to the mean",
        _show_angle("cone_angle"),
        "The half-width of the cone that the rows lie in. Uniform: limit law.",
        lambda h: format_degrees(h.uniform.mean_angle_to_mean),
        faults=("cone",),
    ),
    EFFECTIVE_RANK,
    KeyFigure(
        "Effective rank of the directions",
        lambda h: f"{h.effective_rank:.1f}",
        "The same, with the direction that all rows share.",
        lambda h: f"{h.uniform.effective_rank:.1f}",
    ),
    KeyFigure(
        "Constant dimensions",
        lambda h: format_count(len(h.dead_dimensions)),
        "Dimensions in which all rows have the same value, or nearly.",
        lambda h: "0",
        faults=("dimensions",),
    ),
    KeyFigure(
        "Largest hub",
        lambda h: f"{h.largest_hub:.2%}",
        "The share of the rows that have the same row among their nearest.",
        faults=("hubs",),
    ),
    KeyFigure(
        "Hubness",
        lambda h: "" if h.hubness is None else f"{h.hubness:.2f}",
        "Skewness of how often a row is among the nearest of others; 0 is symmetric.",
    ),
    KeyFigure(
        "Orphans",
        lambda h: "" if h.orphans is None else f"{h.orphans:.1%}",
        "Rows that are not among the nearest of any other.",
    ),
    KeyFigure(
        "Norm correlation",
        lambda h: f"{h.norm_correlation:.2f}",
        "Rank correlation of the norms with the frequency or, if none was given, with descending row numbers.",
        faults=("norms",),
    ),
)
_TILES = (NEAR_DUPLICATES, EFFECTIVE_RANK, MEAN_COSINE, NEAREST_ANGLE)


def tile_section(healths: Sequence[Health]) -> str:
    """The four most important numbers."""
    last = healths[-1]
    return render_tiles(
        [
            (
                figure.label,
                " → ".join(dict.fromkeys(figure.show(health).partition(" (")[0] for health in healths)),
                f"uniform points: {figure.uniform(last)}",
                figure.is_fault(last),
            )
            for figure in _TILES
        ]
    )


def key_section(healths: Sequence[Health]) -> str:
    """All key figures beside those of uniform points."""
    rows = [
        Row(
            figure.label,
            tuple(figure.show(health) for health in healths),
            figure.uniform(healths[-1]),
            figure.meaning,
            tuple(figure.is_fault(health) for health in healths),
        )
        for figure in KEY_FIGURES
    ]
    uniform = f"{format_count(healths[-1].uniform.n)} uniform points"
    note = "Uniform points are a reference, not a goal: rows of similar meaning should be closer to each other."
    return render_section("Key figures", render_key_figures(rows, table_titles(len(healths)), uniform), note=note)
