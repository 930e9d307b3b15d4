"""Reading and writing of a comparison as JSON, whose layout `unclump.tables.comparison` describes."""

import json
import math
import os
from pathlib import Path
from typing import Any

from unclump._atomic_write import replace_file
from unclump._text import FileError
from unclump.tables.comparison import FORMAT, Column, Compared, Comparison, OwnFigure, Recommendation
from unclump.tables.files._validation import check_file_target, check_regular, prefix_errors, wrap_errors

_MAX_BYTES = 2**20
_OTHER = "is not a comparison that unclump repair wrote"


def save_comparison(path: str | os.PathLike[str], comparison: Comparison) -> None:
    """Write the comparison, atomically; nothing but another comparison is overwritten."""
    path = Path(path)
    check_comparison_target(path)
    with prefix_errors(path), replace_file(path) as file:
        file.write((json.dumps(comparison.to_dict(), indent=1, allow_nan=False) + "\n").encode())


def check_comparison_target(path: Path) -> None:
    """Raise if no comparison can be written there."""
    with prefix_errors(path):
        check_file_target(path)
    if path.exists():
        load_comparison(path)


def load_comparison(path: str | os.PathLike[str]) -> Comparison:
    """Read a comparison; raise a FileError for anything else. Its text is untrusted: sanitise it before printing."""
    path = Path(path)
    with prefix_errors(path):
        check_regular(path)
        if path.stat().st_size > _MAX_BYTES:
            raise FileError(f"{_OTHER}: it is larger than {_MAX_BYTES} bytes")
        with wrap_errors(_OTHER, (ValueError, TypeError, KeyError, AttributeError, RecursionError)):
            content = json.loads(path.read_bytes())
            if not isinstance(content, dict) or content.get("format") != FORMAT:
                raise FileError(f"{_OTHER}: its format is not '{FORMAT}'")
            return _from_dict(content)


def _from_dict(content: dict[str, Any]) -> Comparison:
    """The comparison of a parsed file; whatever is missing or of another kind raises."""
    columns = tuple(Column(**_strings(one, "key", "title", "better")) for one in content["columns"])
    methods = tuple(_method(one, {column.key for column in columns}) for one in content["methods"])
    recommendation = Recommendation(**_strings(content["recommendation"], "method", "command", "reason"))
    if recommendation.method not in {method.name for method in methods}:
        raise ValueError("it recommends a method that it does not list")
    figure = content["figure"]
    return Comparison(
        **_strings(content, "file"),
        **_counts(content, "rows", "dimensions", "compared_rows"),
        figure=figure
        if figure is None
        else OwnFigure(**_strings(figure, "name", "source"), **_counts(figure, "items", "left_out")),
        columns=columns,
        methods=methods,
        recommendation=recommendation,
        notes=tuple(_string(note) for note in content["notes"]),
    )


def _method(one: dict[str, Any], keys: set[str]) -> Compared:
    values = {key: _number(value) for key, value in one["values"].items()}
    intervals = {key: _numbers(value, 2) for key, value in one["intervals"].items()}
    changes = {key: _numbers(value, 3) for key, value in one["changes"].items()}
    if values.keys() != keys or not intervals.keys() | changes.keys() <= keys:
        raise ValueError("a method has other values than there are columns")
    strings = _strings(one, "name", "kind", "command", "verdict")
    return Compared(**strings, values=values, intervals=intervals, changes=changes)


def _strings(one: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: _string(one[key]) for key in keys}


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a string, got {type(value).__name__}")
    return value


def _counts(one: dict[str, Any], *keys: str) -> dict[str, Any]:
    if not all(type(one[key]) is int and one[key] >= 0 for key in keys):
        raise TypeError(f"expected whole numbers as {', '.join(keys)}")
    return {key: one[key] for key in keys}


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError("expected a finite number")
    return float(value)


def _numbers(values: Any, count: int) -> Any:
    if not isinstance(values, list) or len(values) != count:
        raise TypeError(f"expected {count} numbers")
    return tuple(map(_number, values))
