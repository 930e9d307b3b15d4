"""A health check as data frames of pandas, and as a table with a figure in a notebook."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unclump._frames import data_frame
from unclump._notebook import card, full_grid, histogram, note
from unclump.geometry.uniform_law import UniformLaw
from unclump.tables.groups import Group, not_all_equal
from unclump.tables.health_json import as_dict
from unclump.tables.health_text import listed_groups, measures
from unclump.tables.rows import without

if TYPE_CHECKING:
    import pandas

    from unclump.tables.findings import Health

_MAX_GROUPS = 3  # listed


def as_frame(health: "Health") -> "pandas.DataFrame":
    """One row per measure, angles in degrees: its value, that of uniform points, and its interval if sampled."""
    content = as_dict(health)
    hubness, norms = content["hubness"], content["norms"]
    values = {key: value for key, value in content.items() if isinstance(value, float) and key != "near_degrees"} | {
        "alpha_req": content["alpha_req"],
        "hubness": hubness["skewness"],
        "largest_hub": hubness["largest"],
        "orphans": hubness["orphans"],
        "norm_correlation": norms["correlation"],
        "norm_variation": norms["variation"],
        **{f"{name}_pvalue": test["pvalue"] for name, test in content["tests"].items()},
        "dead_dimensions": len(health.dead_dimensions),
        "rows_without_direction": len(health.bad_rows),
        "duplicate_rows": sum(len(group.rows) for group in health.duplicates),
        "near_duplicate_rows": sum(len(group.rows) for group in health.clumps),
    }
    intervals = [content["intervals"].get(key, (None, None)) for key in values]
    columns = {
        "table": values.values(),
        "uniform": [content["uniform"].get(key) for key in values],
        "low": [low for low, _ in intervals],
        "high": [high for _, high in intervals],
    }
    floats = {name: np.array(list(column), dtype=np.float64) for name, column in columns.items()}
    return data_frame(floats, index=list(values), name="measure")


def rows_as_frame(health: "Health") -> "pandas.DataFrame":
    """One row for each row of the table; NaN where a row has no direction, or is not in the sample."""
    directed = without(health.n, [bad.row for bad in health.bad_rows]).numpy()
    measured = np.flatnonzero(directed) if health.sampled is None else health.sampled.numpy()
    columns: dict[str, Any] = {} if health.names is None else {"name": list(health.names)}
    columns |= {
        "nearest_angle_degrees": _place(health.n, measured, np.degrees(health.nearest_angles.numpy())),
        "neighbour_of": _place(health.n, directed, health.occurrences.numpy()),
        "duplicates": _group_numbers(health.n, health.duplicates),
        "near_duplicates": _group_numbers(health.n, health.clumps),
    }
    faults = {bad.row: bad.fault for bad in health.bad_rows}
    columns["fault"] = [faults.get(row, "") for row in range(health.n)]
    return data_frame(columns, name="row")


def as_html(health: "Health") -> str:
    """The measures next to those of uniform points, a histogram of nearest angles, the largest groups, the verdict."""
    heading, *rows = measures(health)
    parts = [note(f"verdict: {health.verdict}")]
    parts.append(full_grid(heading, [(name, value, other.partition("  ")[0]) for name, value, other in rows]))
    others = not_all_equal(health.clumps, health.duplicates)
    for title, groups in (("equal", health.duplicates), ("nearly equal", others)):
        lines = listed_groups(groups[:_MAX_GROUPS], health.names)
        parts += [note(f"{title}: {line}") for line in lines]
    parts += [note(command) for command in health.verdict.commands]
    title = f"{health.n} rows x {health.d} dimensions, {health.dtype}"
    return card(title, *parts, figure=_histogram(health))


def _histogram(health: "Health") -> str:
    law: UniformLaw = health.uniform
    angles = health.nearest_angles.numpy()
    high = min(math.pi, 1.05 * max(angles.max(), law.mean_nearest_angle + 4 * law.std_nearest_angle))
    density = np.radians(law.nearest_density(np.linspace(0, high, 60)))  # of an angle in degrees
    label = "nearest angle (dashed: uniform)"
    return histogram(np.degrees(angles), (0.0, math.degrees(high)), label, unit="°", density=density)


def _place(n: int, rows: Any, values: Any) -> Any:
    column = np.full(n, np.nan)
    column[rows] = values
    return column


def _group_numbers(n: int, groups: Sequence[Group]) -> Any:
    """The number of the group of every row, from 0 as they are listed; -1 for a row in none."""
    numbers = np.full(n, -1)
    for number, group in enumerate(groups):
        numbers[list(group.rows)] = number
    return numbers
