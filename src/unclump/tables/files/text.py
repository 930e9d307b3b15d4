"""word2vec text and GloVe: a name and its numbers on every line, with or without a first line `n d`.

Names may hold spaces: a line is split from the right. Where no first line says how many numbers there are, it is as
many as most of the first lines end with.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from unclump._text import FileError, shown
from unclump.tables.files._numbers import fill, is_number, written
from unclump.tables.files._refusals import check_no_tensor, check_shape
from unclump.tables.files._table import Table, source_of
from unclump.tables.files.word2vec import promised

FORMAT = "text"
LONGEST_LINE = 2**24  # bytes: a million numbers
_LOOKED_AT = 1000  # lines that tell the dimension


def read(path: Path, tensor: str | None) -> Table:
    """Twice through the file: to count the rows, and to read them."""
    check_no_tensor(tensor)
    first = next(lines(path), (1, b""))[1].removeprefix(b"\xef\xbb\xbf")
    size = promised(first)
    start = 0 if size is None else 1
    d = _dimension(path) if size is None else size[1]
    if size is not None and size[0] * 2 * d > path.stat().st_size:  # a number takes a digit and a space
        raise FileError(f"promises {size[0]} rows of {d} numbers, which its {path.stat().st_size} bytes cannot hold")
    n = sum(1 for _ in islice(lines(path), start, None))
    if size is not None and n != size[0]:
        raise FileError(f"promises {size[0]} rows, holds {n}: it is cut short, or its first line is wrong")
    check_shape(n, d)
    names: list[str] = []

    def rows() -> Iterator[tuple[int, bytes]]:
        names.clear()
        for number, line in islice(lines(path), start, None):
            name, numbers = _split(line, d, number)
            names.append(name.decode("utf-8", "surrogateescape"))
            yield number, numbers

    points = fill(rows, n, d, " ")
    return Table(points, names, source_of(path, FORMAT, points, layout=size is not None))


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines with their numbers from 1, without the white space at their ends; empty ones may only be the last."""
    with open(path, "rb") as file:
        empty = 0
        for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), start=1):
            if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
                raise FileError(f"line {number} is longer than {LONGEST_LINE} bytes: this is no text of numbers")
            stripped = line.rstrip(b" \t\r\n")
            if not stripped:
                empty = empty or number
            elif empty:
                raise FileError(f"line {empty} is empty")
            else:
                yield number, stripped


def _dimension(path: Path) -> int:
    """How many numbers most of the first lines end with."""
    counts: Counter[int] = Counter()
    nameless = True
    for _, line in islice(lines(path), _LOOKED_AT):
        name, *fields = line.split(b" ")
        numbers = next((i for i, field in enumerate(reversed(fields)) if not is_number(field)), len(fields))
        counts[numbers] += 1
        nameless = nameless and is_number(name) and not name.isdigit()
    if not counts:
        raise FileError("is empty")
    d = min(counts, key=lambda numbers: (-counts[numbers], numbers))
    if d < 2:
        raise FileError("line 1: expected a name and at least two numbers, separated by single spaces")
    if nameless:
        raise FileError("holds numbers without names; read it with numpy.loadtxt and save it as .npy")
    return d


def _split(line: bytes, d: int, number: int) -> tuple[bytes, bytes]:
    """The name and the text of the d numbers after it."""
    spaces = line.count(b" ")
    if spaces < d:
        raise FileError(f"line {number}: expected a name and {d} numbers, got {spaces + 1} fields: '{_shown(line)}'")
    name = line.partition(b" ")[0] if spaces == d else line.rsplit(b" ", d)[0]
    return name, line[len(name) + 1 :]


def _shown(line: bytes) -> str:
    return shown(line.decode("utf-8", "surrogateescape"))


def check(table: Table) -> None:
    """Refuse what the format cannot hold."""
    for row, name in enumerate(table.names or ()):
        if "\n" in name:
            raise FileError(f"a name is one line in this format, and row {row} is called '{shown(name)}'; rename it")


def write(file: BinaryIO, table: Table) -> None:
    """With a first line, unless the table was read from a file without."""
    assert table.names is not None
    source = table.kept(FORMAT)
    if source is None or source.layout:
        file.write(b"%d %d\n" % tuple(table.points.shape))
    for name, numbers in zip(table.names, written(table.points), strict=True):
        file.write(f"{name} {' '.join(numbers)}\n".encode("utf-8", "surrogateescape"))
