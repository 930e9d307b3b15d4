"""Writing a table in blocks of rows."""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from unclump._text import FileError
from unclump.tables.files._table import Table


@runtime_checkable
class Reader(Protocol):
    """A readable file, or member of an archive."""

    def read(self, size: int = ..., /) -> bytes: ...
    def seek(self, offset: int, /) -> int: ...
    def tell(self) -> int: ...


@runtime_checkable
class Writer(Protocol):
    """A writable file, or member of an archive."""

    def write(self, data: bytes | memoryview, /) -> object: ...


BLOCK = 2**22  # bytes written or copied at once


def write_rows(file: Writer, table: Table) -> None:
    """Write the raw numbers of a table, row by row, without copying all of it."""
    for block in blocks(table):
        write_numbers(file, block)


def write_numbers(file: Writer, points: Float[Tensor, "n d"]) -> None:
    """Write the raw numbers of some rows."""
    file.write(points.contiguous().view(torch.uint8).numpy().data)


def blocks(table: Table) -> Iterator[Float[Tensor, "n d"]]:
    """The rows of a table as they are to be written, in slices that are small enough to copy."""
    for rows in slices(table.points):
        yield table.rows_to_write(rows)


def slices(points: Float[Tensor, "n d"]) -> Iterator[slice]:
    """Slices of rows that are small enough to copy."""
    step = max(1, BLOCK // (points.shape[1] * points.element_size()))
    for start in range(0, len(points), step):
        yield slice(start, start + step)


def copy_bytes(source: Reader, file: Writer, count: int) -> None:
    """Copy `count` bytes from the current position of `source`."""
    while count > 0:
        chunk = source.read(min(BLOCK, count))
        if not chunk:
            raise FileError("the file it was read from ended early; read it again")
        file.write(chunk)
        count -= len(chunk)
