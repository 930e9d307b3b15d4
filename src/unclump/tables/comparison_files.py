"""Reading and writing of a comparison as JSON, whose layout `unclump.tables.comparison` describes."""

import json
import os
from pathlib import Path
from typing import Any

from unclump._atomic_write import replace_file
from unclump._text import FileError
from unclump.tables.comparison import FORMAT, Comparison
from unclump.tables.files._validation import check_file_target, check_regular, prefix_errors, wrap_errors
from unclump.tables.typed_json import decode

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
    comparison: Comparison = decode(Comparison, content)
    if comparison.recommendation.method not in {method.name for method in comparison.methods}:
        raise ValueError("it recommends a method that it does not list")
    keys = {column.key for column in comparison.columns}
    for method in comparison.methods:
        if method.values.keys() != keys or not method.intervals.keys() | method.changes.keys() <= keys:
            raise ValueError("a method has other values than there are columns")
    return comparison
