"""NumPy's `.npy`: mapped, never unpickled."""

import math
import struct
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
import torch

from unclump._text import FileError
from unclump.tables.files._refusals import Entry, check_no_tensor, check_shape, choose, parsing
from unclump.tables.files._table import Table, source_of
from unclump.tables.files._writing import Reader, Writer, write_rows

FORMAT = "npy"
_LONGEST_HEADER = 10_000  # NumPy's own limit for what it evaluates


@dataclass(frozen=True)
class Header:
    """What an array says about itself, and where its numbers begin."""

    shape: tuple[int, ...]
    columns_first: bool
    dtype: np.dtype
    start: int

    @property
    def entry(self) -> Entry:
        return Entry(self.shape, self.dtype.name if self.dtype.kind == "f" else str(self.dtype))

    @property
    def size(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def check_size(self, held: int) -> None:
        """Refuse an array that is not as large as its header says; `held` bytes follow the header."""
        if held < self.size:
            raise FileError(f"promises {self.size} bytes for {self.shape} {self.dtype}, holds {held}: it is cut short")
        if held > self.size:
            raise FileError(f"promises {self.size} bytes for {self.shape} {self.dtype}, holds {held - self.size} more")


def read_header(file: Reader) -> Header:
    """The header of an array, from its first byte."""
    first = file.read(12)
    if first[:6] != b"\x93NUMPY":
        raise FileError("is not a .npy array: its first bytes are others")
    version = tuple(first[6:8])
    if version not in {(1, 0), (2, 0)} or len(first) < 12:
        raise FileError(f"has a header of an unknown version or none: {version}")
    length = struct.unpack("<H", first[8:10])[0] if version == (1, 0) else struct.unpack("<I", first[8:12])[0]
    if length > _LONGEST_HEADER:
        raise FileError(f"has a header of {length} bytes, more than any table needs")
    file.seek(8)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    with parsing("has a broken header"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shape, columns_first, dtype = read(file, max_header_size=_LONGEST_HEADER)
    if any(isinstance(size, bool) or size < 0 for size in shape):
        raise FileError(f"has a broken header: shape {shape}")
    return Header(shape, columns_first, dtype, file.tell())


def mapped(path: Path, header: Header, start: int) -> np.ndarray:
    """The array in the file, copy-on-write: what is done to it never reaches the file."""
    order: Literal["C", "F"] = "F" if header.columns_first else "C"
    return np.memmap(path, header.dtype, "c", offset=start, shape=header.shape, order=order)


def tensor_of(array: np.ndarray) -> torch.Tensor:
    """An array of any byte order as a tensor that shares its memory, where it can."""
    native = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    return torch.from_numpy(native)


def read(path: Path, tensor: str | None) -> Table:
    """Map the table; the header is held against the file's size first."""
    check_no_tensor(tensor)
    with open(path, "rb") as file:
        header = read_header(file)
    choose({"array": header.entry}, "array")
    header.check_size(path.stat().st_size - header.start)
    check_shape(*header.shape)
    array = mapped(path, header, header.start)
    points = tensor_of(array)
    return Table(points, source=source_of(path, FORMAT, points, layout=header.columns_first))


def write(file: BinaryIO, table: Table) -> None:
    """The table, in the order of rows or columns it was read in."""
    source = table.kept(FORMAT)
    write_array(file, table.points, columns_first=source is not None and bool(source.layout))


def write_array(file: Writer, points: torch.Tensor, *, columns_first: bool = False) -> None:
    """A table as `.npy`."""
    described = {
        "descr": np.lib.format.dtype_to_descr(np.dtype(str(points.dtype).removeprefix("torch."))),
        "fortran_order": columns_first,
        "shape": tuple(points.shape),
    }
    np.lib.format.write_array_header_1_0(file, described)
    write_rows(file, points.mT if columns_first else points)
