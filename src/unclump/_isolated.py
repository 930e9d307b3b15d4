"""Readers of HDF5 and FAISS files that run in a separate process, since their libraries can crash on a damaged file.

`unclump.tables.files` starts `main` with a command, the file, and arguments; the answer is one line of JSON. Memory and
processor time are limited in proportion to the size of the file. Nothing here imports torch, so that the process starts
quickly.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

_BLOCK = 2**24  # bytes read at once
_MAX_OBJECTS = 10_000  # in an HDF5 file
_MAX_NAMES = 2**28  # characters
_TRUSTED_SIZE = 2**28  # bytes of data that a file of any size may declare
_MAX_RATIO = 1000  # bytes of vectors per byte of a FAISS index
_START_SECONDS = 10  # of the processor: imports take one or two, and libhdf5 can loop for ever on a damaged file


class ReadError(Exception):
    """The file is not read; the message says why."""


def main(arguments: list[str]) -> None:
    """Run a command and print its answer, or {"error": reason}."""
    command, path, *rest = arguments
    try:
        _limit_resources(os.path.getsize(path))
        answer = COMMANDS[command](path, *rest)
    except ReadError as error:
        answer = {"error": str(error)}
    except MemoryError:
        answer = {"error": "needs much more memory than its size: it is damaged"}
    except ImportError:
        answer = {"missing": True}
    except Exception as error:
        answer = {"error": f"cannot be read: {str(error).strip().splitlines()[-1] if str(error).strip() else error!r}"}
    print(json.dumps(answer))


def _limit_resources(size: int) -> None:
    """Limit memory and processor time, within existing limits; does nothing on systems without them."""
    try:
        import resource
    except ImportError:
        return
    for kind, limit in ((resource.RLIMIT_AS, 2**31 + 4 * size), (resource.RLIMIT_CPU, _START_SECONDS + size // 2**20)):
        hard = resource.getrlimit(kind)[1]
        allowed = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        with suppress(ValueError, OSError):  # macOS refuses some limits
            resource.setrlimit(kind, (allowed, allowed))


def list_hdf5(path: str) -> dict[str, Any]:
    """The datasets of a file: {name: [shape, dtype]}; links out of the file are not followed."""
    import h5py

    datasets: dict[str, Any] = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.shape is not None:
            is_text = h5py.check_string_dtype(item.dtype) is not None
            datasets[name] = [list(item.shape), "text" if is_text else item.dtype.name]
        if len(datasets) > _MAX_OBJECTS:
            raise ReadError(f"holds more than {_MAX_OBJECTS} datasets")

    with h5py.File(path, "r") as file:
        file.visititems(visit)
    return {"entries": datasets}


def read_hdf5(path: str, output: str, key: str, names_key: str) -> dict[str, Any]:
    """Write a dataset to `output` as .npy; the answer contains the dataset of names, if any."""
    import h5py

    with h5py.File(path, "r") as file:
        table = file[key]
        for name in filter(None, (key, names_key)):
            if file[name].is_virtual or file[name].external:
                raise ReadError(f"'{name}' has its data in another file, which is not opened; copy it into one file")
        n, d = table.shape
        if n * d * table.dtype.itemsize > max(_TRUSTED_SIZE, 100 * os.path.getsize(path)):
            raise ReadError(f"declares {n} x {d} numbers, much more than its size")
        dtype = table.dtype.newbyteorder("=")
        rows = max(1, _BLOCK // (d * dtype.itemsize))
        _write(output, (n, d), dtype, (table[start : start + rows].astype(dtype) for start in range(0, n, rows)))
        return {"names": _names(file[names_key], n) if names_key else None}


def _names(column: Any, n: int) -> list[str]:
    names: list[str] = []
    size = 0
    for start in range(0, n, 1024):
        words = [w if isinstance(w, bytes) else str(w).encode("utf-8", "replace") for w in column[start : start + 1024]]
        size += sum(map(len, words))
        if size > _MAX_NAMES:
            raise ReadError(f"has names of more than {_MAX_NAMES} bytes in all")
        names += [word.decode("utf-8", "surrogateescape") for word in words]
    return names


def read_faiss(path: str, output: str) -> dict[str, Any]:
    """Write the vectors that an index reconstructs to `output` as .npy."""
    import faiss

    index: Any = faiss.read_index(path)
    n, d = index.ntotal, index.d
    if n < 0 or d < 1 or n * d * 4 > max(_TRUSTED_SIZE, _MAX_RATIO * os.path.getsize(path)):
        raise ReadError(f"declares {n} vectors of {d} numbers, much more than its size")
    # An index with an id map wraps another one, whose vectors are in the order in which they were added.
    vectors = faiss.downcast_index(index.index) if hasattr(index, "id_map") else index
    try:
        if hasattr(vectors, "make_direct_map"):
            vectors.make_direct_map()
        if n:
            vectors.reconstruct(0)  # raises an error, where reconstruct_n would abort the process
    except RuntimeError:
        kind = type(vectors).__name__
        raise ReadError(
            f"is a FAISS {kind} that cannot reconstruct its vectors; use the vectors it was built from"
        ) from None
    rows = max(1, _BLOCK // (4 * d))
    blocks = (vectors.reconstruct_n(start, min(rows, n - start)) for start in range(0, n, rows))
    _write(output, (n, d), "float32", blocks)
    return {}


def _write(output: str, shape: tuple[int, int], dtype: Any, blocks: Iterator[Any]) -> None:
    import numpy as np

    with open(output, "xb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for block in blocks:
            file.write(np.ascontiguousarray(block).data)


COMMANDS: dict[str, Callable[..., dict[str, Any]]] = {
    "list_hdf5": list_hdf5,
    "read_hdf5": read_hdf5,
    "read_faiss": read_faiss,
}

if __name__ == "__main__":
    main(sys.argv[1:])
