"""Every argument error, in the user's words: what was expected, what came, what to do.

`check_points` looks at shape and dtype only, which is free. `check_rows` reads the data: it is for measures, files and
the loop, never for an objective, where it would make a GPU wait.
"""

import math
from collections.abc import Iterable
from difflib import get_close_matches

import torch
from torch import Tensor, nn

_MOST_LISTED = 5


def check_table(x: Tensor, *, at_least: int = 1) -> None:
    """Refuse what is not one table of points, of shape (n, d)."""
    check_points(x, at_least=at_least)
    if x.ndim != 2:
        raise ValueError(
            f"expected points of shape (n, d) with n >= {at_least} and d >= 2, got {tuple(x.shape)}: "
            "one row a point; loop over other dimensions, or flatten them into rows"
        )


def check_points(x: Tensor, *, at_least: int = 1) -> None:
    """Refuse what is not a floating-point tensor of shape (..., n, d), n >= `at_least`, d >= 2."""
    if isinstance(x, nn.Module):
        advice = "pass its .weight" if isinstance(getattr(x, "weight", None), Tensor) else "pass one of its parameters"
        raise TypeError(f"expected points as a torch.Tensor, got the module {type(x).__name__}; {advice}")
    if not isinstance(x, Tensor):
        raise TypeError(f"expected points as a torch.Tensor, got {type(x).__name__}; convert with torch.as_tensor(...)")
    if hasattr(x, "device_mesh"):
        raise TypeError(
            "expected points on this process, got a DTensor; choose gather=unclump.Shards() for all of its rows, "
            "or pass those of this rank, points.to_local()"
        )
    if not x.is_floating_point():
        raise TypeError(f"expected floating-point points, got {x.dtype}; convert with points.float()")
    if x.ndim >= 2 and x.shape[-2] >= at_least and x.shape[-1] >= 2:
        return
    if x.ndim < 2:
        advice = "one row a point"
    elif x.shape[-1] < 2:
        advice = "in one dimension the sphere is two points; use at least two"
    else:
        advice = "one point has no other to keep apart from; pass more rows"
    raise ValueError(
        f"expected points of shape (..., n, d) with n >= {at_least} and d >= 2, got {tuple(x.shape)}: {advice}"
    )


def check_same_dimension(x: Tensor, y: Tensor, name: str) -> None:
    """Refuse `y` unless it lives in the dimension of the points `x`."""
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(
            f"expected {name} in the {x.shape[-1]} dimensions of the points, "
            f"got shape {tuple(y.shape)}; draw them for d = {x.shape[-1]}"
        )


def check_rows(x: Tensor) -> None:
    """Refuse rows that have no direction, by number: NaN, infinite, or all zero."""
    sizes = x.detach().abs().amax(dim=-1)
    for bad, what, advice in (
        (sizes.isnan(), "NaN", "find where it was made, or drop these rows"),
        (sizes.isinf(), "an infinite value", "find where it overflowed, or drop these rows"),
        (
            sizes == 0,
            "nothing but zeros",
            "a zero vector has no direction; drop these rows, or give padding a direction",
        ),
    ):
        rows = bad.nonzero().flatten().tolist()
        if rows:
            listed = ", ".join(map(str, rows[:_MOST_LISTED])) + (", ..." if len(rows) > _MOST_LISTED else "")
            plural = "s" if len(rows) > 1 else ""
            raise ValueError(
                f"expected finite, nonzero rows, got {what} in {len(rows)} row{plural} ({listed}); {advice}"
            )


def check_choice(name: str, value: str, choices: Iterable[str]) -> None:
    """Refuse a name that is not among `choices`."""
    choices = tuple(choices)
    if value not in choices:
        meant = get_close_matches(str(value).lower(), choices, n=1)
        hint = f"; did you mean {meant[0]!r}?" if meant else ""
        raise ValueError(f"expected {name} to be one of {', '.join(map(repr, choices))}, got {value!r}{hint}")


def check_positive(name: str, value: float) -> None:
    """Refuse a number that is not finite and above zero."""
    check_number(name, value)
    if not 0 < value < float("inf"):
        raise ValueError(f"expected {name} > 0 and finite, got {value!r}")


def check_number(name: str, value: float) -> None:
    """Refuse what is not a plain real number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"expected {name} to be a number, got {type(value).__name__}; pass a float")
    if math.isnan(value):
        raise ValueError(f"expected {name} to be a number, got NaN")


def check_count(name: str, value: int, *, at_least: int = 1) -> None:
    """Refuse what is not a whole number of at least `at_least`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"expected {name} to be an int, got {type(value).__name__}; pass a whole number")
    if value < at_least:
        raise ValueError(f"expected {name} >= {at_least}, got {value}")


def check_kernel(kernel: object, kind: type) -> None:
    """Refuse what is not a kernel, such as its name."""
    if not isinstance(kernel, kind):
        raise TypeError(
            f"expected a kernel such as unclump.Gaussian(gamma=1.0) or unclump.Riesz(s=1.0), got {kernel!r}; "
            "names of kernels are understood by unclump.objective(...) only"
        )


def check_generator(generator: torch.Generator | None) -> None:
    """Refuse what is not a torch.Generator, such as a bare seed."""
    if generator is not None and not isinstance(generator, torch.Generator):
        raise TypeError(
            f"expected generator to be a torch.Generator, got {type(generator).__name__}; "
            "make one with torch.Generator().manual_seed(0)"
        )
