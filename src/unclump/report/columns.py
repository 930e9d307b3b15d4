"""What the map can be coloured by: labels of the owner, norms, nearest angles, how often a row is a neighbour."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from unclump.report.encoding import encode
from unclump.report.text import make_printable

_MAX_CATEGORIES = 12  # more colours are not told apart; the rest share one
_MAX_CODES = 20  # so few whole numbers are names of classes rather than quantities


def numeric_column(title: str, values: Float[np.ndarray, " m"], *, unit: str = "") -> dict[str, Any]:
    """A column of numbers; NaN is a row without a value."""
    return {"title": make_printable(title), "kind": "number", "unit": unit, "values": encode(values, "f32")}


def category_column(title: str, values: Sequence[str]) -> dict[str, Any]:
    """A column of classes: the most frequent by name, all others together."""
    counts = Counter(values)
    named = [value for value, _ in counts.most_common(_MAX_CATEGORIES if len(counts) > _MAX_CATEGORIES + 1 else None)]
    code_of = {value: code for code, value in enumerate(named)}
    codes = np.array([code_of.get(value, len(named)) for value in values])
    classes = [make_printable(value) or "(empty)" for value in named]
    if len(named) < len(counts):
        classes.append(f"{len(counts) - len(named):,} others")
    return {"title": make_printable(title), "kind": "category", "classes": classes, "values": encode(codes, "u8")}


def label_column(title: str, values: Sequence[str]) -> dict[str, Any]:
    """A column of numbers if every value is one, or is missing, and they are not a few whole numbers; else of classes.

    Example:
        >>> label_column("grade", ["1", "2", "1"])["kind"], label_column("score", ["1.5", "", "nan"])["kind"]
        ('category', 'number')
    """
    numbers = [_parse(value) for value in values]
    known = {number for number in numbers if number is not None and math.isfinite(number)}
    is_code = len(known) <= _MAX_CODES and all(number == int(number) for number in known)
    if None in numbers or is_code:
        return category_column(title, values)
    return numeric_column(title, np.array([n if n is not None and math.isfinite(n) else math.nan for n in numbers]))


def _parse(text: str) -> float | None:
    """The number that a text says; NaN if it is empty, None if it is no number."""
    if not text.strip():
        return math.nan
    try:
        return float(text)
    except ValueError:
        return None
