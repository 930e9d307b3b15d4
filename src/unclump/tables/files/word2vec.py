"""word2vec's binary format: a line `n d`, then for each row its name, a space, and d numbers in 32 bits."""

import mmap
import re
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch

from unclump._text import FileError, shown
from unclump.tables.files._numbers import is_number
from unclump.tables.files._refusals import check_no_tensor, check_shape
from unclump.tables.files._table import Table, source_of
from unclump.tables.files._writing import blocks

FORMAT = "word2vec"
HEADER = re.compile(rb"(\d{1,18}) (\d{1,18})[ \t\r]*\n")


def promised(line: bytes) -> tuple[int, int] | None:
    """The rows and dimensions that a first line promises, if it is such a line."""
    found = HEADER.fullmatch(line if line.endswith(b"\n") else line + b"\n")
    return (int(found[1]), int(found[2])) if found else None


def looks_binary(head: bytes) -> bool:
    """Whether the beginning of a file goes on in binary after such a first line: no numbers follow the name."""
    line, _, rest = head.partition(b"\n")
    return promised(line) is not None and sum(map(is_number, re.split(rb"[ \r\n]", rest)[1:17])) < 2


def read(path: Path, tensor: str | None) -> Table:
    """The names lie between the rows, so the table is copied, not mapped."""
    check_no_tensor(tensor)
    with open(path, "rb") as file:
        line = file.readline(64)
        size = promised(line)
        if size is None:
            raise FileError("does not begin with a line of two numbers, rows and dimensions")
        n, d = size
        held = path.stat().st_size - len(line)
        if n * (4 * d + 1) > held:
            raise FileError(f"promises {n} rows of {d} numbers, at least {n * (4 * d + 1)} bytes, but holds {held}")
        check_shape(n, d)
        points, names, with_newline = np.empty((n, d), np.float32), [], False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            at = len(line)
            for row in range(n):
                space = data.find(b" ", at)
                if space < 0 or space + 1 + 4 * d > len(data):
                    raise FileError(f"ends inside row {row} of the {n} it promises: it is cut short")
                names.append(data[at:space].decode("utf-8", "surrogateescape"))
                at = space + 1 + 4 * d
                points[row] = np.frombuffer(data[space + 1 : at], "<f4")
                if data[at : at + 1] == b"\n":  # word2vec ends its rows with one, gensim does not
                    with_newline = True
                    at += 1
            if data[at:].strip():
                raise FileError(f"promises {n} rows of {d} numbers, and goes on after them")
    table = torch.from_numpy(points)
    return Table(table, names, source_of(path, FORMAT, table, layout=with_newline))


def check(table: Table) -> None:
    """Refuse what the format cannot hold."""
    for row, name in enumerate(table.names or ()):
        if " " in name or name.startswith("\n"):
            raise FileError(
                f"word2vec's binary format ends a name at its first space, and row {row} is called '{shown(name)}'; "
                "write word2vec text (.txt) instead"
            )


def write(file: BinaryIO, table: Table) -> None:
    """Rows end as they did where the table was read."""
    assert table.names is not None
    source = table.kept(FORMAT)
    end = b"\n" if source is not None and source.layout else b""
    file.write(b"%d %d\n" % tuple(table.points.shape))
    row = 0
    for block in blocks(table.points):
        for numbers in block.numpy():
            name = table.names[row].encode("utf-8", "surrogateescape")
            file.write(name + b" " + numbers.astype("<f4").tobytes() + end)
            row += 1
