"""gzip: decompressed into a temporary file, which is then read by its own format; read, not written."""

import gzip
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from unclump._atomic_write import temporary_folder
from unclump._text import FileError, describe_error
from unclump.tables.files._table import Table, make_source
from unclump.tables.files._validation import check_ratio
from unclump.tables.files._writing import BLOCK

FORMAT = "gzip"
MAGIC = b"\x1f\x8b"


def read(path: Path, tensor: str | None, read_inner: Callable[[Path, str | None], Table]) -> Table:
    """Decompress `words.csv.gz` on disk, unless it is a decompression bomb, and read it as `words.csv`."""
    with temporary_folder() as folder:
        inner = folder / (path.stem if path.suffix.lower() == ".gz" else path.name)
        _decompress(path, inner)
        with open(inner, "rb") as file:
            if file.read(2) == MAGIC:
                raise FileError("is compressed twice with gzip; decompress it first")
        table = read_inner(inner, tensor)
    assert table.source is not None
    return replace(table, source=make_source(path, FORMAT, table.points, tensor=table.source.tensor))


def _decompress(path: Path, inner: Path) -> None:
    compressed_size, size = path.stat().st_size, 0
    try:
        with gzip.open(path) as source, open(inner, "wb") as file:
            while chunk := source.read(BLOCK):
                size += len(chunk)
                check_ratio(size, compressed_size)
                file.write(chunk)
    except (zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise FileError(f"is not a valid gzip file: {describe_error(error)}") from error
