"""word2vec's binary format: a header line `n d`, then for each row its name, a space, and d float32 numbers."""

import mmap
import re
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch

from unclump._text import FileError, sanitise
from unclump.tables.files._numbers import is_number
from unclump.tables.files._table import Table, make_source
from unclump.tables.files._validation import check_no_tensor, check_shape
from unclump.tables.files._writing import blocks

FORMAT = "word2vec"
_HEADER = re.compile(rb"(\d{1,18}) (\d{1,18})[ \t\r]*\n")


def parse_header(line: bytes) -> tuple[int, int] | None:
    """Return the rows and dimensions that a header line declares, or None if it is not a header."""
    match = _HEADER.fullmatch(line if line.endswith(b"\n") else line + b"\n")
    return (int(match[1]), int(match[2])) if match else None


def looks_binary(head: bytes) -> bool:
    """Whether a file that begins with `head` is binary after its header line: no numbers follow the name."""
    line, _, rest = head.partition(b"\n")
    return parse_header(line) is not None and sum(map(is_number, re.split(rb"[ \r\n]", rest)[1:17])) < 2


def read(path: Path, tensor: str | None) -> Table:
    """Copy the table, which cannot be memory-mapped because the names lie between the rows."""
    check_no_tensor(tensor)
    with open(path, "rb") as file:
        line = file.readline(64)
        size = parse_header(line)
        if size is None:
            raise FileError("does not begin with a header line of two numbers, rows and dimensions")
        n, d = size
        actual = path.stat().st_size - len(line)
        if n * (4 * d + 1) > actual:
            raise FileError(f"declares {n} rows of {d} numbers, at least {n * (4 * d + 1)} bytes, but holds {actual}")
        check_shape(n, d)
        points, names, has_newlines = np.empty((n, d), np.float32), [], False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            position = len(line)
            for row in range(n):
                space = data.find(b" ", position)
                if space < 0 or space + 1 + 4 * d > len(data):
                    raise FileError(f"ends inside row {row} of the {n} it declares: it is truncated")
                names.append(data[position:space].decode("utf-8", "surrogateescape"))
                position = space + 1 + 4 * d
                points[row] = np.frombuffer(data[space + 1 : position], "<f4")
                if data[position : position + 1] == b"\n":  # word2vec ends its rows with one, gensim does not
                    has_newlines = True
                    position += 1
            if data[position:].strip():
                raise FileError(f"declares {n} rows of {d} numbers, but continues after them")
    table = torch.from_numpy(points)
    return Table(table, names, make_source(path, FORMAT, table, layout=has_newlines))


def check(table: Table) -> None:
    """Raise if the format cannot hold the table."""
    for row, name in enumerate(table.names or ()):
        if " " in name or name.startswith("\n"):
            raise FileError(
                f"names in word2vec's binary format cannot contain spaces, but row {row} is '{sanitise(name)}'; "
                "write word2vec text (.txt) instead"
            )


def write(file: BinaryIO, table: Table) -> None:
    """Write rows with or without final newlines, as they were read."""
    assert table.names is not None
    source = table.source_in_format(FORMAT)
    end = b"\n" if source is not None and source.layout else b""
    file.write(b"%d %d\n" % tuple(table.points.shape))
    row = 0
    for block in blocks(table):
        for numbers in block.numpy():
            name = table.names[row].encode("utf-8", "surrogateescape")
            file.write(name + b" " + numbers.astype("<f4").tobytes() + end)
            row += 1
