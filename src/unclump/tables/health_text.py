"""The text of a health check, safe to print."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from unclump._text import counted, sanitise
from unclump.tables.groups import Group, not_all_equal

if TYPE_CHECKING:
    from unclump.tables.findings import Health

_MAX_GROUPS = 10  # listed
_MAX_ROWS = 8  # listed of each group, and of rows without a direction


def measures(health: "Health") -> list[tuple[str, str, str]]:
    """The name of each measure, its value, and that of uniform points with a remark; the first row is a heading."""
    law, usage = health.uniform, "frequency" if health.has_frequencies else "row order"
    return [
        ("", "this table", "uniform points"),
        ("smallest angle", _degrees(health.min_angle), f"{_degrees(law.median_smallest_angle)}  {law_name(health)}"),
        ("median nearest angle", _degrees(health.median_nearest_angle), f"{_degrees(law.median_nearest_angle)}  exact"),
        ("mean nearest angle", _degrees(health.mean_nearest_angle), f"{_degrees(law.mean_nearest_angle)}  exact"),
        ("spherical variance", f"{health.spherical_variance:.4f}", f"{law.spherical_variance:.4f}  limit law"),
        ("length of the mean", f"{health.resultant_length:.4f}", f"{law.resultant_length:.4f}  limit law"),
        ("mean angle to the mean", _degrees(health.cone_angle), f"{_degrees(law.mean_angle_to_mean)}  limit law"),
        ("effective rank of the directions", f"{health.effective_rank:.1f}", f"{law.effective_rank:.1f}  limit law"),
        ("centred effective rank", f"{health.centred_rank:.1f}", f"{law.centred_rank:.1f}  limit law"),
        ("effective rank with norms (RankMe)", f"{health.rankme:.1f}", f"{health.isotropic.rankme:.1f}  limit law"),
        ("IsoScore", f"{health.isoscore:.4f}", f"{health.isotropic.isoscore:.4f}"),
        ("exponent of the spectrum (alpha-ReQ)", _exponent(health.alpha_req), _exponent(health.isotropic.alpha_req())),
        ("mean cosine", f"{health.mean_cosine:.4f}", f"{health.isotropic.mean_cosine:.4f}  exact"),
        ("uniformity (Wang and Isola)", f"{health.uniformity:.3f}", f"{health.isotropic.uniformity():.3f}"),
        *([(f"hubness (skewness, k = {health.k})", f"{health.hubness:.2f}", "")] if health.hubness is not None else []),
        ("largest hub, share of rows", f"{health.largest_hub:.2%}", ""),
        *([("rows in no neighbour list", f"{health.orphans:.1%}", "")] if health.orphans is not None else []),
        ("constant dimensions", str(len(health.dead_dimensions)), ""),
        ("deviation of the norms / their mean", f"{health.norm_variation:.3f}", ""),
        (f"rank correlation of norm and {usage}", f"{health.norm_correlation:.2f}", ""),
        *(
            (f"p-value, {name}", f"{test.pvalue:.2g}" if test.pvalue else "< 1e-300", "")
            for name, test in health.tests.items()
        ),
    ]


def as_text(health: "Health") -> str:
    """Format the measures next to those of uniform points, the rows to look at, and the verdict."""
    rows = measures(health)
    width, near = max(len(name) for name, _, _ in rows), _degrees(health.near)
    nearly_equal = not_all_equal(health.clumps, health.duplicates)  # those of equal rows alone are listed above
    beside = "other " if health.duplicates else ""
    table = []
    for name, value, other in rows:
        number, gap, remark = other.partition("  ")
        table.append(f"{name:<{width}}  {value:>12}  {number:>14}{gap}{remark}".rstrip())
    return "\n".join(
        [
            f"{health.n} rows x {health.d} dimensions, {health.dtype}",
            *table,
            *_format_sample(health),
            *_format_bad_rows(health),
            *_format_groups("exact duplicates", health.duplicates, health.names),
            *_format_groups(f"{beside}near duplicates, closer than {near}", nearly_equal, health.names),
            *_format_structure(health),
            f"verdict: {health.verdict}",
        ]
    )


def law_name(health: "Health") -> str:
    """Say whether the law of uniform points' smallest angle is exact."""
    return "exact" if health.uniform.smallest_is_exact else "limit law"


def _degrees(radians: float) -> str:
    """Format an angle in degrees, with four decimals, or three significant digits if it is tiny."""
    value = math.degrees(radians)
    return f"{value:.4f}°" if value >= 0.01 or value == 0 else f"{value:.3g}°"


def _exponent(value: float | None) -> str:
    return "infinite" if value is None or math.isinf(value) else f"{value:.3f}"


def _label_row(row: int, names: Sequence[str] | None) -> str:
    """Return the number of a row, with its sanitised name if it has one."""
    return str(row) if names is None else f"{row} '{sanitise(names[row])}'"


def _format_bad_rows(health: "Health") -> list[str]:
    if not health.bad_rows:
        return ["rows without a direction: none"]
    labels = [f"{_label_row(bad.row, health.names)} ({bad.fault})" for bad in health.bad_rows[:_MAX_ROWS]]
    listed = _join(labels, len(health.bad_rows))
    return [f"rows without a direction: {len(health.bad_rows)}, left out of the above: {listed}"]


def _format_groups(title: str, groups: Sequence[Group], names: Sequence[str] | None) -> list[str]:
    rows = sum(len(group.rows) for group in groups)
    extent = f"{rows} rows in {counted(len(groups), 'group')}" if groups else "none"
    lines = [f"{title}: {extent}", *(f"  {line}" for line in listed_groups(groups[:_MAX_GROUPS], names))]
    return lines + (["  ..."] if len(groups) > _MAX_GROUPS else [])


def listed_groups(groups: Sequence[Group], names: Sequence[str] | None) -> list[str]:
    """A line for each group: its smallest angle and its first rows."""
    lines = []
    for group in groups:
        labels = [_label_row(row, names) for row in group.rows[:_MAX_ROWS]]
        lines.append(f"{_degrees(group.angle):>10}  {_join(labels, len(group.rows))}")
    return lines


def _join(labels: list[str], total: int) -> str:
    more = total - len(labels)
    return ", ".join(labels) + (f" and {more} more" if more else "")


def _format_sample(health: "Health") -> list[str]:
    """The intervals of measures of sampled rows."""
    if health.sampled is None:
        return []
    intervals = [
        f"{name.replace('_', ' ')} {' to '.join(map(_degrees if 'angle' in name else _number, interval))}"
        for name, interval in health.intervals.items()
    ]
    lines = [f"neighbours of {len(health.sampled)} sampled rows; 95 percent intervals: {', '.join(intervals)}"]
    return [*lines, "near duplicates by hashes of all rows, and among the neighbours of sampled rows"]


def _number(value: float) -> str:
    return f"{value:.3g}"


def _format_structure(health: "Health") -> list[str]:
    """The structure of a table with faults; the verdict on a healthy table contains it already."""
    if health.verdict.is_healthy or not health.verdict.structure:
        return []
    return [f"structure, which is no fault: {'; '.join(health.verdict.structure)}"]
