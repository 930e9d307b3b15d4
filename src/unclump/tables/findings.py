"""What is found of a table's health, as values, as a dictionary, and as text that is safe to print."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from unclump._text import shown
from unclump.geometry.uniform_law import UniformLaw
from unclump.measures.uniformity_tests import UniformityTest
from unclump.tables.files import BadRow
from unclump.tables.verdict import Verdict, count

_GROUPS = 10  # that are listed
_ROWS = 8  # of a group, and rows without a direction


@dataclass(frozen=True)
class Group:
    """Rows that are equal, or nearly.

    Attributes:
        rows: Their numbers, from 0.
        angle: The smallest angle between two of them, in radians.
    """

    rows: tuple[int, ...]
    angle: float


@dataclass(frozen=True)
class Health:
    """What `health` found; angles in radians, rows by number from 0. Prints itself as a table, in degrees.

    Attributes:
        n: All rows, those without a direction among them.
        d: Dimensions.
        dtype: As the table was given: "float32".
        bad_rows: Rows without a direction; all that follows is of the others.
        duplicates: Groups of equal rows, the largest first.
        clumps: Groups of near duplicates, equal ones among them, the largest first.
        near: The angle at which two rows are near duplicates.
        min_angle: The smallest angle of all pairs.
        median_nearest_angle: Of the angles of every row to its nearest.
        mean_nearest_angle: Of the same.
        uniform: What as many uniform points would give: its `median_smallest_angle`, `median_nearest_angle`,
            `mean_nearest_angle`, `spherical_variance`, `resultant_length`, `effective_rank`.
        spherical_variance: One minus the length of the mean.
        resultant_length: The length of the mean: 1 for a needle, about 0 for a balanced table.
        cone_angle: The mean angle of the rows to the direction of their mean.
        effective_rank: How many dimensions are used; see `effective_rank`.
        centred_rank: The same about the mean: what the rows use beside the direction that they share.
        k: How many neighbours the next two look at.
        hubness: The skewness of how often a row is among the k nearest of others.
        orphans: The share of rows that are among the k nearest of none.
        tests: Tests of uniformity by name, with their p-values.
        verdict: In plain words, with the objective that helps.
        names: Of the rows, or None. They come from outside: show them with care.
        nearest_angles: Of every row that has a direction, for figures.
        occurrences: How often every such row is among the k nearest of others: the hubs are the largest.
        spectrum: The singular values of the unit rows over the root of their number, falling, for figures.
    """

    n: int
    d: int
    dtype: str
    bad_rows: tuple[BadRow, ...]
    duplicates: tuple[Group, ...]
    clumps: tuple[Group, ...]
    near: float
    min_angle: float
    median_nearest_angle: float
    mean_nearest_angle: float
    uniform: UniformLaw
    spherical_variance: float
    resultant_length: float
    cone_angle: float
    effective_rank: float
    centred_rank: float
    k: int
    hubness: float
    orphans: float
    tests: dict[str, UniformityTest]
    verdict: Verdict
    names: Sequence[str] | None = field(repr=False, compare=False)
    nearest_angles: Tensor = field(repr=False, compare=False)
    occurrences: Tensor = field(repr=False, compare=False)
    spectrum: Tensor = field(repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Numbers, strings and lists only, for JSON; angles in degrees. Names are as they came."""
        return _as_dict(self)

    def __str__(self) -> str:
        return _as_text(self)


def _as_dict(found: Health) -> dict[str, Any]:
    """Numbers, strings and lists only; angles in degrees."""
    law = found.uniform
    return {
        "n": found.n,
        "d": found.d,
        "dtype": found.dtype,
        "bad_rows": [{"row": bad.row, "name": bad.name, "fault": bad.fault} for bad in found.bad_rows],
        "duplicates": [_group(group, found.names) for group in found.duplicates],
        "near_degrees": math.degrees(found.near),
        "near_duplicates": [_group(group, found.names) for group in found.clumps],
        "min_angle_degrees": math.degrees(found.min_angle),
        "median_nearest_angle_degrees": math.degrees(found.median_nearest_angle),
        "mean_nearest_angle_degrees": math.degrees(found.mean_nearest_angle),
        "spherical_variance": found.spherical_variance,
        "resultant_length": found.resultant_length,
        "cone_angle_degrees": math.degrees(found.cone_angle),
        "effective_rank": found.effective_rank,
        "centred_rank": found.centred_rank,
        "hubness": {"k": found.k, "skewness": found.hubness, "orphans": found.orphans},
        "uniform": {
            "min_angle_degrees": math.degrees(law.median_smallest_angle),
            "min_angle_law": _smallest_law(found),
            "median_nearest_angle_degrees": math.degrees(law.median_nearest_angle),
            "mean_nearest_angle_degrees": math.degrees(law.mean_nearest_angle),
            "spherical_variance": law.spherical_variance,
            "resultant_length": law.resultant_length,
            "effective_rank": law.effective_rank,
        },
        "tests": {name: {"statistic": test.statistic, "pvalue": test.pvalue} for name, test in found.tests.items()},
        "verdict": {
            "kind": found.verdict.kind,
            "findings": list(found.verdict.findings),
            "text": found.verdict.text,
            "objective": found.verdict.objective,
        },
    }


def _as_text(found: Health) -> str:
    """A table of the measures beside those of uniform points, the rows to look at, and the verdict."""
    law = found.uniform
    rows = [
        ("", "this table", "uniform points"),
        ("smallest angle", _degrees(found.min_angle), f"{_degrees(law.median_smallest_angle)}  {_smallest_law(found)}"),
        ("median nearest angle", _degrees(found.median_nearest_angle), f"{_degrees(law.median_nearest_angle)}  exact"),
        ("mean nearest angle", _degrees(found.mean_nearest_angle), f"{_degrees(law.mean_nearest_angle)}  exact"),
        ("spherical variance", f"{found.spherical_variance:.4f}", f"{law.spherical_variance:.4f}  limit law"),
        ("length of the mean", f"{found.resultant_length:.4f}", f"{law.resultant_length:.4f}  limit law"),
        ("mean angle to the mean", _degrees(found.cone_angle), ""),
        ("effective rank", f"{found.effective_rank:.1f}", f"{law.effective_rank:.1f}  limit law"),
        ("... about the mean", f"{found.centred_rank:.1f}", ""),
        (f"hubness (skewness, k = {found.k})", f"{found.hubness:.2f}", ""),
        ("neighbours of none", f"{found.orphans:.1%}", ""),
        *(
            (f"p-value, {name}", f"{test.pvalue:.2g}" if test.pvalue else "< 1e-300", "")
            for name, test in found.tests.items()
        ),
    ]
    width = max(len(name) for name, _, _ in rows)
    table = [f"{name:<{width}}  {value:>12}  {other:>14}".rstrip() for name, value, other in _aligned(rows)]
    return "\n".join(
        [
            f"{found.n} rows x {found.d} dimensions, {found.dtype}",
            *table,
            *_bad_rows(found),
            *_groups("exact duplicates", found.duplicates, found.names, ""),
            *_groups("near duplicates", found.clumps, found.names, f", closer than {_degrees(found.near)}"),
            f"verdict: {found.verdict}",
        ]
    )


def _smallest_law(found: Health) -> str:
    """How the smallest angle of uniform points is known."""
    return "exact" if found.uniform.smallest_is_exact else "limit law"


def _degrees(radians: float) -> str:
    """An angle as a person reads it; one that is too small for four places with its digits."""
    value = math.degrees(radians)
    return f"{value:.4f}°" if value >= 0.01 or value == 0 else f"{value:.3g}°"


def _named(row: int, names: Sequence[str] | None) -> str:
    """A row by its number, and by its name where it has one, safe to print."""
    return str(row) if names is None else f"{row} '{shown(names[row])}'"


def _group(group: Group, names: Sequence[str] | None) -> dict[str, Any]:
    return {
        "rows": list(group.rows),
        "names": None if names is None else [names[row] for row in group.rows],
        "angle_degrees": math.degrees(group.angle),
    }


def _aligned(rows: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """The numbers of the last column under each other, and what is said of them after."""
    parts = [other.partition("  ") for _, _, other in rows]
    return [
        (name, value, f"{number:>14}{gap}{said}" if number else "")
        for (name, value, _), (number, gap, said) in zip(rows, parts, strict=True)
    ]


def _bad_rows(found: Health) -> list[str]:
    if not found.bad_rows:
        return ["rows without a direction: none"]
    listed = [f"{_named(bad.row, found.names)} ({bad.fault})" for bad in found.bad_rows[:_ROWS]]
    return [
        f"rows without a direction: {len(found.bad_rows)}, left out of the above: {_listed(listed, found.bad_rows)}"
    ]


def _groups(what: str, groups: Sequence[Group], names: Sequence[str] | None, how: str) -> list[str]:
    rows = sum(len(group.rows) for group in groups)
    extent = f"{rows} rows in {count(len(groups), 'group')}" if groups else "none"
    lines = [f"{what}{how}: {extent}"]
    for group in groups[:_GROUPS]:
        listed = [_named(row, names) for row in group.rows[:_ROWS]]
        lines.append(f"  {_degrees(group.angle):>10}  {_listed(listed, group.rows)}")
    return lines + (["  ..."] if len(groups) > _GROUPS else [])


def _listed(listed: list[str], everything: Sequence[object]) -> str:
    more = len(everything) - len(listed)
    return ", ".join(listed) + (f" and {more} more" if more else "")
