"""Values of Python types from parsed JSON that is not trusted: the types say what a file must hold."""

import functools
import math
from collections.abc import Iterable, Mapping
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

_hints = functools.cache(get_type_hints)


def decode(kind: Any, value: Any) -> Any:
    """Convert parsed JSON to a type; raise TypeError, ValueError or KeyError if it is anything else.

    Types are those of the fields of dataclasses: text, flags, numbers, which must be finite, whole numbers, which must
    not be negative, or None; tuples, named tuples, mappings and dataclasses of them.

    Example:
        >>> decode(tuple[float, ...], [1, 2.5]), decode(dict[str, int | None], {"rows": None})
        ((1.0, 2.5), {'rows': None})
        >>> decode(int, -1)
        Traceback (most recent call last):
        ValueError: expected a whole number, got -1
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is UnionType:  # always of a type and None, in this order
        return None if value is None else decode(arguments[0], value)
    if hasattr(kind, "__dataclass_fields__"):
        return kind(**{name: decode(part, value[name]) for name, part in _hints(kind).items()})
    if hasattr(kind, "_fields"):
        return kind(*_decode_each(_hints(kind).values(), value))
    if origin is tuple:
        return tuple(_decode_each(arguments[:1] * len(value) if arguments[-1] is Ellipsis else arguments, value))
    if origin in (dict, Mapping):
        return {key: decode(arguments[1], one) for key, one in _instance(dict, value).items()}
    return _decode_number(kind, value) if kind in (int, float) else _instance(kind, value)


def _decode_each(kinds: Iterable[Any], values: Any) -> list[Any]:
    return [decode(kind, value) for kind, value in zip(kinds, _instance(list, values), strict=True)]


def _decode_number(kind: type, value: Any) -> Any:
    try:
        number = float(value) if kind is float and type(value) is int else _instance(kind, value)
    except OverflowError:
        raise ValueError("expected a finite number, got an integer beyond all of them") from None
    if kind is float and not math.isfinite(number):
        raise ValueError(f"expected a finite number, got {number}")
    if kind is int and number < 0:
        raise ValueError(f"expected a whole number, got {number}")
    return number


def _instance(kind: type, value: Any) -> Any:
    """The value; raise unless it is of exactly this type, as a flag is no number."""
    if type(value) is not kind:
        raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")
    return value
