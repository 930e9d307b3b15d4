"""The results of a health check: as values, as a dictionary, and as text that is safe to print."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from unclump._text import sanitise
from unclump.geometry.uniform_law import UniformLaw
from unclump.measures.isotropic_law import IsotropicLaw
from unclump.measures.uniformity_tests import UniformityTest
from unclump.tables.files import BadRow
from unclump.tables.verdict import Verdict, count

_MAX_GROUPS = 10  # listed in the text
_MAX_ROWS = 8  # listed of each group, and of rows without a direction


@dataclass(frozen=True)
class Group:
    """Rows that are equal or nearly equal.

    Attributes:
        rows: Their numbers, counted from 0.
        angle: The smallest angle between two of them, in radians.
    """

    rows: tuple[int, ...]
    angle: float


@dataclass(frozen=True)
class Health:
    """The result of `health`; angles in radians, rows by number from 0. Prints itself as a table, in degrees.

    Attributes:
        n: The number of rows, including those without a direction.
        d: The number of dimensions.
        dtype: The dtype of the table, such as "float32".
        bad_rows: Rows without a direction; everything below describes the other rows.
        duplicates: Groups of equal rows, largest first.
        clumps: Groups of near duplicates, including equal rows, largest first.
        near: The angle within which two rows are near duplicates.
        min_angle: The smallest angle of all pairs.
        median_nearest_angle: The median angle between a row and its nearest neighbour.
        mean_nearest_angle: The mean of these angles.
        uniform: What n uniform points would give: its `median_smallest_angle`, `median_nearest_angle`,
            `mean_nearest_angle`, `spherical_variance`, `resultant_length`, `effective_rank`.
        spherical_variance: One minus the length of the mean.
        resultant_length: The length of the mean: 1 if all rows are equal, about 0 for a balanced table.
        cone_angle: The mean angle between the rows and the direction of their mean.
        effective_rank: How many dimensions are used; see `effective_rank`.
        centred_rank: The effective rank after subtracting the mean, the direction that all rows share.
        rankme: The effective rank of the rows with their norms; see `rankme`.
        isoscore: How evenly the variance of the rows is spread over dimensions; see `isoscore`.
        mean_cosine: The mean cosine over all pairs.
        isotropic: What n rows of an isotropic Gaussian would give: its `rankme` and `isoscore`.
        k: The number of neighbours that count for hubness and orphans.
        hubness: The skewness of the number of times a row is among the k nearest of others.
        orphans: The fraction of rows that are not among the k nearest of any other row.
        tests: Tests of uniformity by name, with their p-values.
        verdict: The verdict in plain words, with the objective that helps.
        names: The names of the rows, or None. They are untrusted: sanitise them before printing.
        nearest_angles: The nearest angle of every row that has a direction, for figures.
        occurrences: How often each of these rows is among the k nearest of others; hubs have the largest counts.
        spectrum: The singular values of the unit rows divided by the root of n, descending, for figures.
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
    rankme: float
    isoscore: float
    mean_cosine: float
    isotropic: IsotropicLaw
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
        """Convert to numbers, strings and lists, for JSON; angles in degrees. Names are not sanitised."""
        return _as_dict(self)

    def __str__(self) -> str:
        return _as_text(self)


def _as_dict(health: Health) -> dict[str, Any]:
    law = health.uniform
    return {
        "n": health.n,
        "d": health.d,
        "dtype": health.dtype,
        "bad_rows": [{"row": bad.row, "name": bad.name, "fault": bad.fault} for bad in health.bad_rows],
        "duplicates": [_group_as_dict(group, health.names) for group in health.duplicates],
        "near_degrees": math.degrees(health.near),
        "near_duplicates": [_group_as_dict(group, health.names) for group in health.clumps],
        "min_angle_degrees": math.degrees(health.min_angle),
        "median_nearest_angle_degrees": math.degrees(health.median_nearest_angle),
        "mean_nearest_angle_degrees": math.degrees(health.mean_nearest_angle),
        "spherical_variance": health.spherical_variance,
        "resultant_length": health.resultant_length,
        "cone_angle_degrees": math.degrees(health.cone_angle),
        "effective_rank": health.effective_rank,
        "centred_rank": health.centred_rank,
        "rankme": health.rankme,
        "isoscore": health.isoscore,
        "mean_cosine": health.mean_cosine,
        "hubness": {"k": health.k, "skewness": health.hubness, "orphans": health.orphans},
        "uniform": {
            "min_angle_degrees": math.degrees(law.median_smallest_angle),
            "min_angle_law": _law_name(health),
            "median_nearest_angle_degrees": math.degrees(law.median_nearest_angle),
            "mean_nearest_angle_degrees": math.degrees(law.mean_nearest_angle),
            "spherical_variance": law.spherical_variance,
            "resultant_length": law.resultant_length,
            "effective_rank": law.effective_rank,
            "rankme": health.isotropic.rankme,
            "isoscore": health.isotropic.isoscore,
            "mean_cosine": health.isotropic.mean_cosine,
        },
        "tests": {name: {"statistic": test.statistic, "pvalue": test.pvalue} for name, test in health.tests.items()},
        "verdict": {
            "kind": health.verdict.kind,
            "findings": list(health.verdict.findings),
            "text": health.verdict.text,
            "objective": health.verdict.objective,
        },
    }


def _as_text(health: Health) -> str:
    """Format the measures beside those of uniform points, the rows to look at, and the verdict."""
    law = health.uniform
    rows = [
        ("", "this table", "uniform points"),
        ("smallest angle", _degrees(health.min_angle), f"{_degrees(law.median_smallest_angle)}  {_law_name(health)}"),
        ("median nearest angle", _degrees(health.median_nearest_angle), f"{_degrees(law.median_nearest_angle)}  exact"),
        ("mean nearest angle", _degrees(health.mean_nearest_angle), f"{_degrees(law.mean_nearest_angle)}  exact"),
        ("spherical variance", f"{health.spherical_variance:.4f}", f"{law.spherical_variance:.4f}  limit law"),
        ("length of the mean", f"{health.resultant_length:.4f}", f"{law.resultant_length:.4f}  limit law"),
        ("mean angle to the mean", _degrees(health.cone_angle), ""),
        ("effective rank", f"{health.effective_rank:.1f}", f"{law.effective_rank:.1f}  limit law"),
        ("... about the mean", f"{health.centred_rank:.1f}", ""),
        ("... with norms (RankMe)", f"{health.rankme:.1f}", f"{health.isotropic.rankme:.1f}  limit law"),
        ("IsoScore", f"{health.isoscore:.4f}", f"{health.isotropic.isoscore:.4f}"),
        ("mean cosine", f"{health.mean_cosine:.4f}", f"{health.isotropic.mean_cosine:.4f}  exact"),
        (f"hubness (skewness, k = {health.k})", f"{health.hubness:.2f}", ""),
        ("neighbours of none", f"{health.orphans:.1%}", ""),
        *(
            (f"p-value, {name}", f"{test.pvalue:.2g}" if test.pvalue else "< 1e-300", "")
            for name, test in health.tests.items()
        ),
    ]
    width, near = max(len(name) for name, _, _ in rows), _degrees(health.near)
    table = [f"{name:<{width}}  {value:>12}  {other:>14}".rstrip() for name, value, other in _align_last_column(rows)]
    return "\n".join(
        [
            f"{health.n} rows x {health.d} dimensions, {health.dtype}",
            *table,
            *_format_bad_rows(health),
            *_format_groups("exact duplicates", health.duplicates, health.names),
            *_format_groups(f"near duplicates, closer than {near}", health.clumps, health.names),
            f"verdict: {health.verdict}",
        ]
    )


def _law_name(health: Health) -> str:
    """Say whether the law of uniform points' smallest angle is exact."""
    return "exact" if health.uniform.smallest_is_exact else "limit law"


def _degrees(radians: float) -> str:
    """Format an angle in degrees, with four decimals, or three significant digits if it is tiny."""
    value = math.degrees(radians)
    return f"{value:.4f}°" if value >= 0.01 or value == 0 else f"{value:.3g}°"


def _label_row(row: int, names: Sequence[str] | None) -> str:
    """Return the number of a row, with its sanitised name if it has one."""
    return str(row) if names is None else f"{row} '{sanitise(names[row])}'"


def _group_as_dict(group: Group, names: Sequence[str] | None) -> dict[str, Any]:
    return {
        "rows": list(group.rows),
        "names": None if names is None else [names[row] for row in group.rows],
        "angle_degrees": math.degrees(group.angle),
    }


def _align_last_column(rows: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Align the numbers of the last column, which may be followed by a remark."""
    parts = [other.partition("  ") for _, _, other in rows]
    return [
        (name, value, f"{number:>14}{gap}{remark}" if number else "")
        for (name, value, _), (number, gap, remark) in zip(rows, parts, strict=True)
    ]


def _format_bad_rows(health: Health) -> list[str]:
    if not health.bad_rows:
        return ["rows without a direction: none"]
    labels = [f"{_label_row(bad.row, health.names)} ({bad.fault})" for bad in health.bad_rows[:_MAX_ROWS]]
    listed = _join(labels, len(health.bad_rows))
    return [f"rows without a direction: {len(health.bad_rows)}, left out of the above: {listed}"]


def _format_groups(title: str, groups: Sequence[Group], names: Sequence[str] | None) -> list[str]:
    rows = sum(len(group.rows) for group in groups)
    extent = f"{rows} rows in {count(len(groups), 'group')}" if groups else "none"
    lines = [f"{title}: {extent}"]
    for group in groups[:_MAX_GROUPS]:
        labels = [_label_row(row, names) for row in group.rows[:_MAX_ROWS]]
        lines.append(f"  {_degrees(group.angle):>10}  {_join(labels, len(group.rows))}")
    return lines + (["  ..."] if len(groups) > _MAX_GROUPS else [])


def _join(labels: list[str], total: int) -> str:
    more = total - len(labels)
    return ", ".join(labels) + (f" and {more} more" if more else "")
