"""The comparison of repairs of one table: its values, and its text.

As JSON (`unclump repair FILE --save comparison.json`) it is small and plain:

* `format`: `"unclump comparison 1"`;
* `file`, `rows`, `dimensions`, `compared_rows`: the table, and how many of its rows were compared;
* `figure`: the owner's own figure (`name`, `source`, `items`, `left_out`), or null;
* `columns`: for each column its `key` among a method's values, its `title`, and which is `better`, "more" or "less";
* `methods`: for each its `name`, `kind` ("none", "map" or "move"), `command`, `values` by column, `intervals` and
  `changes` by column where they are known (a change is `[value, low, high]`, paired with the table as it is), and its
  `verdict`; the first is the table as it is;
* `recommendation`: the `method` by name, its `command`, the `reason`;
* `notes`: what a reader should know, one sentence each.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from unclump._frames import data_frame
from unclump._notebook import card, full_grid, note
from unclump._text import escape_unprintable, sanitise

if TYPE_CHECKING:
    import pandas

FORMAT = "unclump comparison 1"
AS_IT_IS = "as it is"


@dataclass(frozen=True)
class Column:
    """A measure of all methods."""

    key: str
    title: str
    better: str  # "more" or "less"


@dataclass(frozen=True)
class OwnFigure:
    """What the owner measures the table by.

    Attributes:
        name: Such as "recall@10".
        source: The name of the file it comes from.
        items: How many pairs, queries or rows it is an average over.
        left_out: How many were left out, as they are not in the table.
    """

    name: str
    source: str
    items: int
    left_out: int


@dataclass(frozen=True)
class Compared:
    """A method and what it does to the table; see the JSON above."""

    name: str
    kind: str
    command: str
    values: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    changes: Mapping[str, tuple[float, float, float]]
    verdict: str


@dataclass(frozen=True)
class Recommendation:
    """The method that is recommended, which may be to leave the table as it is."""

    method: str
    command: str
    reason: str


@dataclass(frozen=True, repr=False)
class Comparison:
    """Repairs of one table, compared. Prints as a table, also in a notebook."""

    file: str
    rows: int
    dimensions: int
    compared_rows: int
    figure: OwnFigure | None
    columns: tuple[Column, ...]
    methods: tuple[Compared, ...]
    recommendation: Recommendation
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Convert to numbers, strings and lists, for JSON."""
        return {"format": FORMAT, **asdict(self)}

    def to_pandas(self) -> "pandas.DataFrame":
        """Convert to a data frame, one row per method: its values by column, ends of intervals, and its verdict."""
        keys = [column.key for column in self.columns]
        columns: dict[str, list[Any]] = {key: [method.values[key] for method in self.methods] for key in keys}
        for key in [key for key in keys if key in self.methods[0].intervals]:
            columns[f"{key}_low"] = [method.intervals[key][0] for method in self.methods]
            columns[f"{key}_high"] = [method.intervals[key][1] for method in self.methods]
        columns |= {"kind": [method.kind for method in self.methods]}
        columns |= {"verdict": [method.verdict for method in self.methods]}
        columns |= {"recommended": [method.name == self.recommendation.method for method in self.methods]}
        return data_frame(columns, index=[method.name for method in self.methods], name="method")

    def __repr__(self) -> str:
        advice = sanitise(self.recommendation.method)
        return f"Comparison({self.rows} x {self.dimensions}; {len(self.methods)} methods; recommended: {advice})"

    def __str__(self) -> str:
        return _as_text(self)

    def _repr_html_(self) -> str:
        heading, *rows = _table(self)
        advice = self.recommendation
        notes = [f"recommended: {advice.method}; {advice.reason}", advice.command, *self.notes]
        parts = [full_grid(heading, rows), *(note(text) for text in notes if text)]
        return card(f"{self.file}: {self.rows} rows x {self.dimensions} dimensions", *parts)


def _table(comparison: Comparison) -> list[list[str]]:
    """The heading, and a row for each method."""
    heading = ["", *(column.title for column in comparison.columns), ""]
    return [heading, *(_cells(method, comparison.columns) for method in comparison.methods)]


def _as_text(comparison: Comparison) -> str:
    """A line for each method, then the recommendation; safe to print."""
    table = _table(comparison)
    widths = [max(len(row[place]) for row in table) for place in range(len(table[0]))]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:-1], widths[1:-1], strict=True))])
        + f"  {row[-1]}"
        for row in table
    ]
    advice = comparison.recommendation
    lines += ["", f"recommended: {sanitise(advice.method)}; {advice.reason}"]
    if advice.command:
        lines.append(f"  {escape_unprintable(advice.command)}")
    return "\n".join([*(line.rstrip() for line in lines), *comparison.notes])


def _cells(method: Compared, columns: tuple[Column, ...]) -> list[str]:
    cells = [sanitise(method.name)]
    for column in columns:
        value = method.values[column.key]
        digits = 1 if column.key in ("rank", "seconds") else 3 if column.key in ("figure", "overlap") else 2
        text = f"{value:.{digits}f}"
        if column.key == "figure" and "figure" in method.changes:
            change, low, high = method.changes["figure"]
            text += f" ({change:+.3f}, {low:+.3f} to {high:+.3f})"
        elif column.key == "figure":
            low, high = method.intervals["figure"]
            text += f" ({low:.3f} to {high:.3f})"
        cells.append(text)
    return [*cells, method.verdict]
