"""Lines of text files: names, labels and numbers of rows, and lists of rows."""

from pathlib import Path

from unclump._text import FileError
from unclump.tables.files._validation import check_regular, prefix_errors


def read_lines(path: Path) -> list[str]:
    """Read the lines of a text file, without empty lines at its end; bytes that are not UTF-8 are kept."""
    lines = _lines(path)
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        with prefix_errors(path):
            raise FileError("is empty; list one entry per line")
    return lines


def read_row_lines(path: Path, rows: int, what: str) -> list[str]:
    """Read a line for each row, such as its name, which may be empty; more empty lines at the end do not count.

    Args:
        path: The file.
        rows: How many rows there are.
        what: What the lines are, for messages: "names", "labels".
    """
    lines = _lines(path)
    while len(lines) > rows and not lines[-1]:
        lines.pop()
    if len(lines) != rows:
        with prefix_errors(path):
            raise FileError(f"expected {rows} {what}, one per line and row, got {len(lines)}")
    return lines


def _lines(path: Path) -> list[str]:
    with prefix_errors(path):
        check_regular(path)
        content = path.read_bytes().removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n")
    return [line.removesuffix(b"\r").decode("utf-8", "surrogateescape") for line in content.split(b"\n")]
