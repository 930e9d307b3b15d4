"""NumPy's `.npy`: memory-mapped, never unpickled."""

import math
import struct
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
import torch

from unclump._text import FileError
from unclump.tables.files._table import Table, make_source
from unclump.tables.files._validation import Entry, check_entry, check_no_tensor, check_shape, wrap_errors
from unclump.tables.files._writing import Reader, Writer, slices, write_numbers, write_rows

FORMAT = "npy"
_MAX_HEADER = 10_000  # bytes; NumPy's own limit


@dataclass(frozen=True)
class Header:
    """The shape, order and dtype of an array, and where its data starts."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype
    start: int

    @property
    def entry(self) -> Entry:
        return Entry(self.shape, self.dtype.name if self.dtype.kind == "f" else str(self.dtype))

    @property
    def size(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def check_size(self, size: int) -> None:
        """Raise unless `size`, the number of bytes after the header, is what the header declares."""
        if size < self.size:
            raise FileError(f"declares {self.size} bytes for {self.shape} {self.dtype}, holds {size}: it is truncated")
        if size > self.size:
            raise FileError(f"declares {self.size} bytes for {self.shape} {self.dtype}, holds {size - self.size} more")


def read_header(file: Reader) -> Header:
    """Parse the header at the start of an array."""
    prefix = file.read(12)
    if prefix[:6] != b"\x93NUMPY":
        raise FileError("is not a .npy array: its first bytes are not those of one")
    version = tuple(prefix[6:8])
    if version not in {(1, 0), (2, 0)} or len(prefix) < 12:
        raise FileError(f"has no header, or one of an unknown version: {version}")
    length = struct.unpack("<H", prefix[8:10])[0] if version == (1, 0) else struct.unpack("<I", prefix[8:12])[0]
    if length > _MAX_HEADER:
        raise FileError(f"has a header of {length} bytes, more than any table needs")
    file.seek(8)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    with wrap_errors("has a broken header"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shape, fortran_order, dtype = read(file, max_header_size=_MAX_HEADER)
    if any(isinstance(size, bool) or size < 0 for size in shape):
        raise FileError(f"has a broken header: shape {shape}")
    return Header(shape, fortran_order, dtype, file.tell())


def map_array(path: Path, header: Header, start: int) -> np.ndarray:
    """Memory-map the array in the file, copy-on-write: changes never reach the file."""
    order: Literal["C", "F"] = "F" if header.fortran_order else "C"
    return np.memmap(path, header.dtype, "c", offset=start, shape=header.shape, order=order)


def to_tensor(array: np.ndarray) -> torch.Tensor:
    """Convert an array to a tensor that shares its memory if the byte order is native."""
    native = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    return torch.from_numpy(native)


def read(path: Path, tensor: str | None) -> Table:
    """Memory-map the table, after comparing its header with the size of the file."""
    check_no_tensor(tensor)
    with open(path, "rb") as file:
        header = read_header(file)
    check_entry(header.entry)
    header.check_size(path.stat().st_size - header.start)
    check_shape(*header.shape)
    points = to_tensor(map_array(path, header, header.start))
    return Table(points, source=make_source(path, FORMAT, points, layout=header.fortran_order))


def write(file: BinaryIO, table: Table) -> None:
    """Write the table in the memory order it was read in."""
    source = table.source_in_format(FORMAT)
    write_array(file, table, fortran_order=source is not None and bool(source.layout))


def write_array(file: Writer, table: Table, *, fortran_order: bool = False) -> None:
    """Write a table as `.npy`; column by column it is converted whole."""
    header = {
        "descr": np.lib.format.dtype_to_descr(np.dtype(str(table.points.dtype).removeprefix("torch."))),
        "fortran_order": fortran_order,
        "shape": tuple(table.points.shape),
    }
    np.lib.format.write_array_header_1_0(file, header)
    if fortran_order:
        columns = table.rows_to_write().mT
        for part in slices(columns):
            write_numbers(file, columns[part])
    else:
        write_rows(file, table)
