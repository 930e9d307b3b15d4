"""How the loops are compiled."""

import inspect
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numba

Loop = Callable[..., Any]

# Sums may be taken in any order, by vector instructions; NaN and infinity keep their meaning.
_ANY_ORDER = {"reassoc", "contract", "nsz"}


def compiled(loop: Loop) -> Loop:
    """Compile a loop at its first call, once for every set of types; later processes find it on the disk."""
    return _compile(loop, fastmath=False)


def compiled_in_any_order(loop: Loop) -> Loop:
    """Compile a loop whose sums may be taken in any order: not for differences of near points.

    A loop must not both add up and write to an array that it does not read. Before such a loop the compiler compares
    addresses, and where one array starts less than a few vectors before the other, though they do not overlap, it takes
    scalar instructions: another order of the sum, and another last bit, by where the memory happened to be.
    """
    return _compile(loop, fastmath=_ANY_ORDER)


def _compile(loop: Loop, **options: Any) -> Loop:
    bare = inspect.unwrap(loop)  # the tests' shape checker wraps every function of the package
    try:
        made = _njit(bare, cache=True, **options)
        _keep_until_any_file_changes(made)
        return made
    except RuntimeError:  # no directory to keep it in: neither this one nor the user's can be written
        return _njit(bare, **options)


def _njit(loop: Loop, **options: Any) -> Loop:
    # A quotient by zero is infinite or NaN, as torch has it; to look for it would cost vector instructions.
    made: Loop = numba.njit(nogil=True, error_model="numpy", **options)(loop)
    return made


def _keep_until_any_file_changes(made: Any) -> None:
    """What is kept on the disk has the loops inside that it calls: numba by itself would look at one file only."""
    with suppress(AttributeError):  # its own affair, which another version may settle in another way
        cache = made._cache._cache_file
        cache._source_stamp = cache._source_stamp, _all_files()


@lru_cache(maxsize=1)
def _all_files() -> str:
    """What tells the package's files from any others."""
    files = sorted(Path(__file__).parents[2].rglob("*.py"))
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
