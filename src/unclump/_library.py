"""The compiled library: found, chosen by what the processor can do, loaded once.

CMake makes one library of the C++ files for every instruction set: in `ops/native` where the package is installed, in
`build/native` where it is used from the source tree. The environment variable UNCLUMP_NATIVE chooses: 0 for none, or
the name of an instruction set; otherwise the best that there is. Nothing here imports torch, but a function must only
be called after it: both share the threads of torch's OpenMP.
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
_TRITON = (3, 6)  # the least version that the kernels are tested with
INSTRUCTION_SETS = ("plain", "avx2", "avx512")
"""From the least to the best, by the number that the processor's library has for them."""

_HERE = Path(__file__).parent
_IN_TREE = _HERE.parent.name == "src"
_FOLDER = _HERE.parents[1] / "build" / "native" if _IN_TREE else _HERE / "ops" / "native"
_SUFFIX = ".dylib" if sys.platform == "darwin" else ".so"
_TYPES = {"p": ctypes.c_void_p, "i": ctypes.c_int64, "d": ctypes.c_double, "s": ctypes.c_int}


def _file(name: str) -> Path:
    return _FOLDER / f"libunclump_{name}{_SUFFIX}"


@lru_cache(maxsize=1)
def available() -> tuple[str, ...]:
    """The instruction sets that this processor has and that there is a library for, the best last."""
    if not _file("cpu").exists():
        return ()
    known = INSTRUCTION_SETS[: ctypes.CDLL(str(_file("cpu"))).unclump_instruction_set() + 1]
    return tuple(name for name in known if _file(name).exists())


@lru_cache(maxsize=1)
def is_stale() -> bool:
    """Whether C++ files of the source tree have changed since they were compiled: Python may expect other functions."""
    if not _IN_TREE or not available():
        return False
    sources = (file for folder in ("ops/native", "codes/search/native") for file in (_HERE / folder).glob("*.[ch]pp"))
    return max(file.stat().st_mtime for file in sources) > min(_file(name).stat().st_mtime for name in available())


@lru_cache(maxsize=1)
def choose() -> tuple[str | None, str]:
    """The instruction set whose library is used, None without one; and why."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted == "0":
        return None, f"switched off by {VARIABLE}=0"
    if wanted not in ("", "1", *INSTRUCTION_SETS):
        raise ValueError(f"expected {VARIABLE} to be 0, 1 or one of {', '.join(INSTRUCTION_SETS)}, got {wanted!r}")
    if not available():
        return None, "not compiled: there was no C++ compiler at the installation, or it failed"
    if is_stale():
        return None, "the library is older than its C++ files: `make native` compiles it again"
    if wanted not in INSTRUCTION_SETS:
        return available()[-1], "the best of this processor"
    if wanted not in available():
        raise ValueError(f"expected {VARIABLE} to be one of {', '.join(available())} on this machine, got {wanted!r}")
    return wanted, f"chosen by {VARIABLE}"


def describe() -> str:
    """Which implementation is in use, and why, as a line for people."""
    name, why = choose()
    return f"reference in torch ({why})" if name is None else f"compiled for {name} ({why})"


@lru_cache(maxsize=1)
def choose_triton() -> tuple[bool, str]:
    """Whether tensors on a GPU go through the kernels in Triton; and why."""
    wanted = os.environ.get(TRITON_VARIABLE, "")
    if wanted not in ("", "0", "1"):
        raise ValueError(f"expected {TRITON_VARIABLE} to be 0 or 1, got {wanted!r}")
    if wanted == "0":
        return False, f"switched off by {TRITON_VARIABLE}=0"
    if find_spec("triton") is None:
        return False, "triton is not installed"
    installed = _triton_version()
    if installed < _TRITON:
        return False, f"triton {_dotted(installed)} is older than {_dotted(_TRITON)}, which the kernels need"
    return True, f"triton {_dotted(installed)} is installed"


def _triton_version() -> tuple[int, ...]:
    """The first numbers of its version; torch's own builds of it have other names."""
    for name in ("triton", "pytorch-triton", "pytorch-triton-rocm", "triton-rocm", "triton-windows"):
        with suppress(PackageNotFoundError):
            return tuple(int(part) for part in version(name).split(".")[:2])
    return (0,)


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))


def describe_gpu() -> str:
    """What a GPU would compute with, as `describe` says it of the CPU."""
    is_chosen, why = choose_triton()
    return f"{'Triton kernels' if is_chosen else 'reference in torch'} ({why})"


@lru_cache(maxsize=1)
def _load() -> ctypes.CDLL:
    name, why = choose()
    if name is None:
        raise RuntimeError(f"expected a compiled library, got none: {why}")
    return ctypes.CDLL(str(_file(name)))


def is_loadable() -> bool:
    """Whether there is a library, and what it needs; called once torch is there."""
    if choose()[0] is None:
        if is_stale() and os.environ.get(VARIABLE) != "0":
            warnings.warn(f"expected compiled loops, got none: {choose()[1]}; plain torch is slower", stacklevel=2)
        return False
    try:
        _load()
    except OSError as error:
        warnings.warn(f"expected to load the compiled library, got: {error}; plain torch takes its place", stacklevel=2)
        return False
    return True


def function(name: str, arguments: str, result: str = "") -> Callable[..., Any]:
    """A function of the library, by name; the interpreter's lock is released while it runs.

    Args:
        name: Without the prefix `unclump_`.
        arguments: A letter each: p for an address, as `Tensor.data_ptr()` gives it, or None; i for a 64-bit integer; d
            for a double.
        result: The same of what it returns, s for a status; empty for nothing.
    """
    loaded = getattr(_load(), f"unclump_{name}")
    loaded.argtypes = [_TYPES[letter] for letter in arguments]
    loaded.restype = _TYPES[result] if result else None
    return loaded  # type: ignore[no-any-return]
