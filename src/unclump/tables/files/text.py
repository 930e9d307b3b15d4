"""word2vec text and GloVe: a name and its numbers on every line, with or without a header line `n d`.

Names may contain spaces: lines are split from the right. Without a header, the dimension is the most common number of
trailing numbers among the first lines.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from unclump._text import FileError, counted, sanitise
from unclump.tables.files._numbers import Rows, format_rows, is_number, parse_rows
from unclump.tables.files._table import Table, make_source
from unclump.tables.files._validation import check_no_tensor, check_shape
from unclump.tables.files.word2vec import parse_header

FORMAT = "text"
MAX_LINE = 2**24  # bytes: a million numbers
_SAMPLED_LINES = 1000  # from which the dimension is guessed


def read(path: Path, tensor: str | None) -> Table:
    """Read the file twice: once to count the rows, once to parse them."""
    check_no_tensor(tensor)
    first = next(lines(path), (1, b""))[1].removeprefix(b"\xef\xbb\xbf")
    header = parse_header(first)
    start = 0 if header is None else 1
    d = _guess_dimension(path) if header is None else header[1]
    if header is not None and header[0] * 2 * d > path.stat().st_size:  # a number takes a digit and a space
        raise FileError(f"declares {header[0]} rows of {d} numbers, which its {path.stat().st_size} bytes cannot hold")
    n = sum(1 for _ in islice(lines(path), start, None))
    if header is not None and n != header[0]:
        raise FileError(f"declares {header[0]} rows, holds {n}: it is truncated, or its first line is wrong")
    check_shape(n, d)

    def rows() -> Rows:
        for number, line in islice(lines(path), start, None):
            yield number, *_split(line, d, number)

    points, names = parse_rows(rows, n, d, " ")
    return Table(points, names, make_source(path, FORMAT, points, layout=header is not None))


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (line number from 1, line without trailing white space); empty lines are allowed only at the end."""
    with open(path, "rb") as file:
        empty = 0
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE), b""), start=1):
            if len(line) == MAX_LINE and not line.endswith(b"\n"):
                raise FileError(f"line {number} is longer than {MAX_LINE} bytes: this is not a table of numbers")
            stripped = line.rstrip(b" \t\r\n")
            if not stripped:
                empty = empty or number
            elif empty:
                raise FileError(f"line {empty} is empty")
            else:
                yield number, stripped


def _guess_dimension(path: Path) -> int:
    """Return the most common number of trailing numbers among the first lines."""
    counts: Counter[int] = Counter()
    is_nameless = True
    for _, line in islice(lines(path), _SAMPLED_LINES):
        name, *fields = line.split(b" ")
        numbers = next((i for i, field in enumerate(reversed(fields)) if not is_number(field)), len(fields))
        counts[numbers] += 1
        is_nameless = is_nameless and is_number(name) and not name.isdigit()
    if not counts:
        raise FileError("is empty")
    d = min(counts, key=lambda numbers: (-counts[numbers], numbers))
    if d < 2:
        raise FileError("line 1: expected a name and at least two numbers, separated by single spaces")
    if is_nameless:
        raise FileError("holds numbers without names; read it with numpy.loadtxt and save it as .npy")
    return d


def _split(line: bytes, d: int, number: int) -> tuple[str, bytes]:
    """Split a line into the name and the text of the d numbers after it."""
    spaces = line.count(b" ")
    if spaces < d:
        text = sanitise(line.decode("utf-8", "surrogateescape"))
        raise FileError(f"line {number}: expected a name and {d} numbers, got {counted(spaces + 1, 'field')}: '{text}'")
    name = line.partition(b" ")[0] if spaces == d else line.rsplit(b" ", d)[0]
    return name.decode("utf-8", "surrogateescape"), line[len(name) + 1 :]


def check(table: Table) -> None:
    """Raise if the format cannot hold the table."""
    for row, name in enumerate(table.names or ()):
        if "\n" in name:
            raise FileError(
                f"names cannot hold line breaks in this format, but row {row} is '{sanitise(name)}'; rename it"
            )


def write(file: BinaryIO, table: Table) -> None:
    """Write with a header line, unless the table was read from a file without one."""
    assert table.names is not None
    source = table.source_in_format(FORMAT)
    if source is None or source.layout:
        file.write(b"%d %d\n" % tuple(table.points.shape))
    for name, numbers in zip(table.names, format_rows(table), strict=True):
        file.write(f"{name} {' '.join(numbers)}\n".encode("utf-8", "surrogateescape"))
