"""Validation of arguments. Every message says what was expected, what was passed, and what to do.

`check_points` checks only shape and dtype, which is free. `check_rows` and `has_direction` read the data: they are
for measures, files, the dispersion loop and an optimiser's first step. An objective must not call them, since they
synchronise the GPU.
"""

import math
import warnings
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.linalg import vector_norm

from unclump._text import did_you_mean

_MAX_LISTED = 5


class TooFewPointsWarning(UserWarning):
    """An objective received fewer than two points, such as a batch of one row, and returned zero."""


@cache
def warn_too_few_points() -> None:
    """Warn, once per process, that an objective received fewer than two points."""
    warnings.warn(
        "an objective received fewer than two points; its value and gradient are zero. A last batch of one row may be "
        "the cause: drop_last=True avoids it. This warning is shown once.",
        TooFewPointsWarning,
        stacklevel=2,
    )


def check_table(x: Tensor, *, at_least: int = 1) -> None:
    """Raise unless `x` is one table of points, of shape (n, d)."""
    check_points(x, at_least=at_least)
    if x.ndim != 2:
        raise ValueError(
            f"expected points of shape (n, d) with n >= {at_least} and d >= 2, got {tuple(x.shape)}: "
            "one row per point; loop over other dimensions, or flatten them into rows"
        )


def _how_to_convert(x: object) -> str:
    if isinstance(getattr(x, "points", None), Tensor):
        return "pass its .points"
    if isinstance(x, str | Path):
        return "read a file with unclump.load(...).points"
    is_frame = hasattr(x, "__arrow_c_stream__") or hasattr(x, "with_format") or hasattr(x, "to_frame")
    return "convert with unclump.as_table(...).points" if is_frame else "convert with torch.as_tensor(...)"


def check_floats(x: Tensor) -> None:
    """Raise unless `x` is a floating-point tensor."""
    if isinstance(x, nn.Module):
        advice = "pass its .weight" if isinstance(getattr(x, "weight", None), Tensor) else "pass one of its parameters"
        raise TypeError(f"expected points as a torch.Tensor, got the module {type(x).__name__}; {advice}")
    if not isinstance(x, Tensor):
        raise TypeError(f"expected points as a torch.Tensor, got {type(x).__name__}; {_how_to_convert(x)}")
    if not x.is_floating_point():
        advice = "pass real numbers" if x.is_complex() else "convert with .float(), or .astype('float32') in NumPy"
        raise TypeError(f"expected floating-point points, got {x.dtype}; {advice}")


def check_points(x: Tensor, *, at_least: int = 1) -> None:
    """Raise unless `x` is a floating-point tensor of shape (..., n, d), n >= `at_least`, d >= 2."""
    check_floats(x)
    if hasattr(x, "device_mesh"):
        raise TypeError(
            "expected a local tensor of points, got a DTensor; use gather=unclump.Shards() for all of its rows, "
            "or pass the rows of this rank, points.to_local()"
        )
    if x.layout is not torch.strided:
        raise TypeError(f"expected a dense tensor of points, got {x.layout}; convert with points.to_dense()")
    if x.ndim >= 2 and x.shape[-2] >= at_least and x.shape[-1] >= 2:
        return
    if x.ndim < 2:
        advice = "one row per point"
    elif x.shape[-1] < 2:
        advice = "in one dimension the sphere is two points; use at least two"
    elif x.shape[-2] == 0:
        advice = "there are no rows; pass some, or skip empty batches"
    else:
        advice = "a single point has no others to keep apart from; pass more rows"
    sizes = f"n >= {at_least} and d >= 2" if at_least > 0 else "d >= 2"
    raise ValueError(f"expected points of shape (..., n, d) with {sizes}, got {tuple(x.shape)}: {advice}")


def check_same_dimension(x: Tensor, y: Tensor, name: str) -> None:
    """Raise unless the last dimension of `y` is that of the points `x`."""
    d = x.shape[-1]
    if y.shape[-1] != d:
        advice = "pass its .mT, one row per point" if y.shape[-2] == d else f"their last dimension must be {d}"
        raise ValueError(f"expected {name} in the {d} dimensions of the points, got shape {tuple(y.shape)}; {advice}")


def check_rows(x: Tensor) -> None:
    """Raise if any rows have no direction (NaN, infinite or all zero), listing their numbers."""
    zeros = ~has_direction(x)
    if zeros.any():
        raise ValueError(
            f"expected finite, nonzero rows, got nothing but zeros in {list_rows(zeros)}; "
            "a zero vector has no direction; drop these rows, or give padding a direction"
        )


def has_direction(x: Tensor, *, what: str = "rows") -> Tensor:
    """The mask of the rows that are not all zero, as padding is. Raise if rows are NaN or infinite, and list them."""
    largest: Tensor = vector_norm(x.detach(), torch.inf, dim=-1)
    for is_bad, fault, advice in (
        (largest.isnan(), "NaN", "find where it comes from, or drop these rows"),
        (largest.isinf(), "an infinite value", "find where it overflowed, or drop these rows"),
    ):
        if is_bad.any():
            raise ValueError(f"expected finite {what}, got {fault} in {list_rows(is_bad)}; {advice}")
    return largest > 0


def list_rows(mask: Tensor) -> str:
    """The number of rows in a mask and the first row numbers; for batched sets, the indices of set and row."""
    rows = mask.nonzero().squeeze(-1).tolist()
    listed = ", ".join(map(str, rows[:_MAX_LISTED])) + (", ..." if len(rows) > _MAX_LISTED else "")
    return f"{len(rows)} row{'s' if len(rows) > 1 else ''} ({listed})"


def directed_rows(x: Tensor, what: str = "the table", *, stacklevel: int = 3) -> Tensor | None:
    """The mask of the rows with a direction, or None if all have one; a warning lists the rows without."""
    directed = has_direction(x)
    if directed.all():
        return None
    warnings.warn(zeros_message(what, ~directed), stacklevel=stacklevel)
    return directed


def zeros_message(what: str, zeros: Tensor) -> str:
    """The text of a warning about rows of zeros."""
    return (
        f"{what} has nothing but zeros in {list_rows(zeros)}: a zero vector has no direction and is left unchanged, "
        "as padding should be; to move it, give it a direction first"
    )


def check_choice(name: str, value: str, choices: Iterable[str]) -> None:
    """Raise unless `value` is one of `choices`; suggest the closest."""
    choices = tuple(choices)
    if value not in choices:
        hint = did_you_mean(str(value), choices)
        raise ValueError(f"expected {name} to be one of {', '.join(map(repr, choices))}, got {value!r}{hint}")


def check_sharpness(t: float) -> None:
    """Raise unless t is positive and exp(-4t) does not underflow in float64."""
    check_positive("t", t)
    if t > 175:
        raise ValueError(f"expected t <= 175, got {t:g}: exp(-4t) is zero in double precision; use a smaller t")


def check_positive(name: str, value: float) -> None:
    """Raise unless `value` is a finite number above zero."""
    check_number(name, value)
    if not 0 < value < float("inf"):
        raise ValueError(f"expected {name} > 0 and finite, got {value!r}")


def check_number(name: str, value: float) -> None:
    """Raise unless `value` is a real number other than NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"expected {name} to be a number, got {type(value).__name__}; pass a float")
    if math.isnan(value):
        raise ValueError(f"expected {name} to be a number, got NaN")


def check_count(name: str, value: int, *, at_least: int = 1) -> None:
    """Raise unless `value` is an integer >= `at_least`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"expected {name} to be an int, got {type(value).__name__}; pass a whole number")
    if value < at_least:
        raise ValueError(f"expected {name} >= {at_least}, got {value}")


def check_kernel(kernel: object, kind: type) -> None:
    """Raise unless `kernel` is a kernel object, rather than its name."""
    if not isinstance(kernel, kind):
        raise TypeError(
            f"expected a kernel such as unclump.Gaussian(gamma=1.0) or unclump.Riesz(s=1.0), got {kernel!r}; "
            "only unclump.objective(...) accepts kernels by name"
        )


def check_generator(generator: torch.Generator | None) -> None:
    """Raise unless `generator` is a torch.Generator or None, rather than a bare seed."""
    if generator is not None and not isinstance(generator, torch.Generator):
        raise TypeError(
            f"expected generator to be a torch.Generator, got {type(generator).__name__}; "
            "make one with torch.Generator().manual_seed(0)"
        )
