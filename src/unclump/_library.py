"""The compiled library: located, selected by the processor's instruction set, and loaded once.

CMake builds the C++ files into one library per instruction set: in `ops/native` of an installed package, in
`build/native` of the source tree. The environment variable UNCLUMP_NATIVE selects one: 0 for none, or the name of an
instruction set; by default the best one available. Nothing here imports torch, but torch must be imported before a
function of the library is called, since both share torch's OpenMP threads.
"""

import ctypes
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

VARIABLE = "UNCLUMP_NATIVE"
TRITON_VARIABLE = "UNCLUMP_TRITON"
_MIN_TRITON = (3, 6)  # the oldest version that the kernels are tested with
INSTRUCTION_SETS = ("plain", "avx2", "avx512")
"""From the slowest to the fastest, indexed by what `unclump_instruction_set` of the library `cpu` returns."""

_HERE = Path(__file__).parent
_IN_TREE = _HERE.parent.name == "src"
_FOLDER = _HERE.parents[1] / "build" / "native" if _IN_TREE else _HERE / "ops" / "native"
_SUFFIX = ".dylib" if sys.platform == "darwin" else ".so"
_STALE = "the library is older than its C++ files: run `make native` to recompile it"
_TYPES = {"p": ctypes.c_void_p, "i": ctypes.c_int64, "d": ctypes.c_double, "s": ctypes.c_int}


def _file(name: str) -> Path:
    return _FOLDER / f"libunclump_{name}{_SUFFIX}"


@lru_cache(maxsize=1)
def available() -> tuple[str, ...]:
    """The instruction sets that this processor supports and that have a library, the best last."""
    if not _file("cpu").exists():
        return ()
    known = INSTRUCTION_SETS[: ctypes.CDLL(str(_file("cpu"))).unclump_instruction_set() + 1]
    return tuple(name for name in known if _file(name).exists())


def is_stale(name: str) -> bool:
    """Whether C++ files of the source tree are newer than the library, which may then lack functions."""
    if not _IN_TREE:
        return False
    sources = (file for folder in ("ops/native", "codes/search/native") for file in (_HERE / folder).glob("*.[ch]pp"))
    return max(file.stat().st_mtime for file in sources) > _file(name).stat().st_mtime


@lru_cache(maxsize=1)
def choose() -> tuple[str | None, str]:
    """The instruction set whose library is used, or None; and the reason."""
    setting = os.environ.get(VARIABLE, "")
    if setting == "0":
        return None, f"switched off by {VARIABLE}=0"
    if setting not in ("", "1", *INSTRUCTION_SETS):
        raise ValueError(f"expected {VARIABLE} to be 0, 1 or one of {', '.join(INSTRUCTION_SETS)}, got {setting!r}")
    if not available():
        return None, "not compiled: there was no C++ compiler at install time, or it failed"
    is_chosen = setting in INSTRUCTION_SETS
    if is_chosen and setting not in available():
        raise ValueError(f"expected {VARIABLE} to be one of {', '.join(available())} on this machine, got {setting!r}")
    name = setting if is_chosen else available()[-1]
    if is_stale(name):
        return None, _STALE
    return name, f"chosen by {VARIABLE}" if is_chosen else "the best for this processor"


def describe() -> str:
    """Which implementation the CPU uses, and why, as a line of text."""
    name, why = choose()
    return f"plain torch ({why})" if name is None else f"compiled for {name} ({why})"


@lru_cache(maxsize=1)
def choose_triton() -> tuple[bool, str]:
    """Whether tensors on a GPU use the Triton kernels; and the reason."""
    setting = os.environ.get(TRITON_VARIABLE, "")
    if setting not in ("", "0", "1"):
        raise ValueError(f"expected {TRITON_VARIABLE} to be 0 or 1, got {setting!r}")
    if setting == "0":
        return False, f"switched off by {TRITON_VARIABLE}=0"
    if find_spec("triton") is None:
        return False, "triton is not installed"
    installed = _triton_version()
    if installed < _MIN_TRITON:
        needed = _format_version(_MIN_TRITON)
        return False, f"triton {_format_version(installed)} is older than {needed}, which the kernels need"
    return True, f"triton {_format_version(installed)} is installed"


def _triton_version() -> tuple[int, ...]:
    """Major and minor version; torch's own builds of Triton have other package names."""
    for name in ("triton", "pytorch-triton", "pytorch-triton-rocm", "triton-rocm", "triton-windows"):
        with suppress(PackageNotFoundError):
            return tuple(int(part) for part in version(name).split(".")[:2])
    return (0,)


def _format_version(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))


def describe_gpu() -> str:
    """Which implementation a GPU uses, and why, as a line of text."""
    is_chosen, why = choose_triton()
    return f"{'Triton kernels' if is_chosen else 'plain torch'} ({why})"


@lru_cache(maxsize=1)
def _load() -> ctypes.CDLL:
    name, why = choose()
    if name is None:
        raise RuntimeError(f"expected a compiled library, got none: {why}")
    return ctypes.CDLL(str(_file(name)))


def is_loadable() -> bool:
    """Whether there is a library and it loads; call it only after torch is imported."""
    if choose()[0] is None:
        if choose()[1] == _STALE:
            warnings.warn(
                f"expected compiled loops, got none: {choose()[1]}; using plain torch, which is slower", stacklevel=2
            )
        return False
    try:
        _load()
    except OSError as error:
        warnings.warn(f"expected to load the compiled library, got: {error}; using plain torch instead", stacklevel=2)
        return False
    return True


def function(name: str, arguments: str, result: str = "") -> Callable[..., Any]:
    """A function of the library, by name; it runs without the GIL.

    Args:
        name: Without the prefix `unclump_`.
        arguments: One letter per argument: p for an address such as `Tensor.data_ptr()`, or None; i for a 64-bit
            integer; d for a double.
        result: The letter of the return type, s for a status; empty if it returns nothing.
    """
    loaded = getattr(_load(), f"unclump_{name}")
    loaded.argtypes = [_TYPES[letter] for letter in arguments]
    loaded.restype = _TYPES[result] if result else None
    return loaded  # type: ignore[no-any-return]
