"""Arrays of numbers as short text for the page's script: little-endian bytes in base64, with their type."""

import base64
import math
from typing import Any

import numpy as np
from jaxtyping import Float, Integer, Num

_TYPES = {"u8": "<u1", "u16": "<u2", "u32": "<u4", "f32": "<f4"}
_MAX_U16 = 2**16 - 1


def encode(values: Num[np.ndarray, "..."], kind: str) -> dict[str, str]:
    """An array for `decodeArray` of the script; `kind` is a key of `_TYPES`.

    Example:
        >>> encode(np.array([1, 2, 258]), "u16")
        {'type': 'u16', 'bytes': 'AQACAAIB'}
    """
    return {"type": kind, "bytes": base64.b64encode(values.astype(_TYPES[kind]).tobytes()).decode("ascii")}


def encode_counts(values: Integer[np.ndarray, "..."]) -> dict[str, str]:
    """Whole numbers from zero on, in two bytes each where they fit, in four otherwise."""
    return encode(values, "u16" if values.size == 0 or values.max() <= _MAX_U16 else "u32")


def encode_angles(radians: Float[np.ndarray, "..."]) -> dict[str, str]:
    r"""Angles as :math:`65535 \sqrt{\alpha / \pi}` in two bytes each.

    The root resolves near duplicates to 1e-7 degrees, and right angles still to 0.004.
    """
    return encode(np.round(_MAX_U16 * np.sqrt(radians / math.pi)), "u16")


def encode_points(points: Float[np.ndarray, "m c"]) -> dict[str, Any]:
    """Coordinates on a grid of 65,535 steps along the widest axis, the same step for all; NaN is a row left out."""
    present = points[~np.isnan(points[:, 0])]
    low = present.min(axis=0)
    step = max(float((present.max(axis=0) - low).max()), 1e-12) / (_MAX_U16 - 1)
    steps = np.nan_to_num(np.round((points - low) / step), nan=_MAX_U16)
    return {"low": [float(value) for value in low], "step": step, "axes": [encode(axis, "u16") for axis in steps.T]}
