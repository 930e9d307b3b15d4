"""Arrow: files (`.arrow`, Feather) and streams, as Hugging Face datasets store them; read, not written.

A file is a stream between magic bytes and a table of contents, so both are read as streams. Before Arrow reads one,
the sizes that its messages declare are compared with the size of the file.
"""

import json
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from unclump._text import FileError, sanitise
from unclump.tables.files._columns import choose_columns, choose_names_column, columns_left_out, pyarrow, read_columns
from unclump.tables.files._table import Table, make_source
from unclump.tables.files._validation import check_ratio, note_on_columns, wrap_errors

FORMAT = "arrow"
DATASET = "dataset"  # the name of the format of a folder
FILE_MAGIC, STREAM_MAGIC = b"ARROW1\0\0", b"\xff\xff\xff\xff"
_MAX_METADATA = 2**26  # bytes of a message without its body
_DICTIONARY, _BATCH = 2, 3  # types of messages


def read(path: Path, tensor: str | None) -> Table:
    """Read the table of a file."""
    return _read_files(path, [path], tensor, FORMAT)


def is_dataset(folder: Path) -> bool:
    """Whether a folder was written by `Dataset.save_to_disk` or `DatasetDict.save_to_disk`."""
    return (folder / "state.json").is_file() or (folder / "dataset_dict.json").is_file()


def read_dataset(folder: Path, tensor: str | None) -> Table:
    """Read the table of a dataset that was saved to disk, from all of its files."""
    if not (folder / "state.json").is_file():
        splits = [entry.name for entry in sorted(folder.iterdir()) if (entry / "state.json").is_file()]
        listed = ", ".join(f"'{sanitise(name)}'" for name in splits[:8])
        raise FileError(f"holds the splits of a dataset; name the folder of one: {listed}")
    with wrap_errors("state.json cannot be parsed"), open(folder / "state.json", "rb") as file:
        names = [entry["filename"] for entry in json.loads(file.read(_MAX_METADATA))["_data_files"]]
        if not names or not all(isinstance(name, str) and Path(name).name == name for name in names):
            raise FileError("state.json lists no files, or files outside of the folder")
    return _read_files(folder, [folder / name for name in names], tensor, DATASET)


def _read_files(path: Path, files: Sequence[Path], tensor: str | None, format_name: str) -> Table:
    pa = pyarrow()
    with wrap_errors("is not a valid Arrow file", (ValueError, KeyError, struct.error, pa.ArrowException)):
        rows = sum(_check_messages(file) for file in files)
        with pa.OSFile(str(files[0])) as source:
            schema = _open(pa, source).schema
        columns, names_column = choose_columns(schema, rows, tensor), choose_names_column(schema)
        batches = _batches(pa, files, [*columns, *([] if names_column is None else [names_column])])
        size = sum(file.stat().st_size for file in files)
        points, names = read_columns(batches, rows, columns, names_column, size)
    notes = note_on_columns(columns_left_out(schema, columns))
    return Table(points, names, make_source(path, format_name, points, tensor=tensor, files=files, notes=notes))


def _batches(pa: Any, files: Sequence[Path], columns: Sequence[str]) -> Iterator[Any]:
    for file in files:
        with pa.OSFile(str(file)) as source:
            for batch in _open(pa, source):
                if missing := set(columns) - set(batch.schema.names):
                    raise FileError(f"{sanitise(file.name)} has no column '{sanitise(missing.pop())}', as others have")
                yield batch.select(columns)


def _open(pa: Any, source: Any) -> Any:
    if source.read(len(FILE_MAGIC)) != FILE_MAGIC:
        source.seek(0)
    return pa.ipc.open_stream(source)


def _check_messages(path: Path) -> int:
    """Count the rows of a stream; raise if a message declares more than the file holds or could decompress to."""
    size, rows, total = path.stat().st_size, 0, 0
    with open(path, "rb") as file:
        if file.read(len(FILE_MAGIC)) != FILE_MAGIC:
            file.seek(0)
        while prefix := file.read(8):
            marker, length = prefix[:4], int.from_bytes(prefix[4:], "little")
            if marker != STREAM_MAGIC:
                raise FileError("is not a valid Arrow file: a message does not begin where one must")
            if length == 0:
                break
            if length > min(size, _MAX_METADATA):
                raise FileError(f"is not a valid Arrow file: a message of {length} bytes in a file of {size}")
            message = _Flat(file.read(length))
            start, kind, body = file.tell(), message.number(1, "B"), message.number(3, "q")
            if body < 0 or start + body > size:
                raise FileError(f"declares {body} bytes of a message, holds {size - start}: it is truncated")
            if kind in {_DICTIONARY, _BATCH}:
                batch = message.table(2) if kind == _BATCH else message.table(2).table(1)
                rows += batch.number(0, "q") if kind == _BATCH else 0
                if batch.has(3):
                    total += _decompressed_size(file, start, body, batch)
                    check_ratio(total, size)
            file.seek(start + body)
    return rows


def _decompressed_size(file: BinaryIO, start: int, body: int, batch: "_Flat") -> int:
    """The sum of the sizes that compressed buffers declare in their first eight bytes; -1 means uncompressed."""
    total = 0
    for offset, length in batch.pairs(2):
        if length >= 8:
            if not 0 <= offset <= body - length:
                raise FileError("is not a valid Arrow file: a buffer outside of its message")
            file.seek(start + offset)
            total += max(length, int.from_bytes(file.read(8), "little", signed=True))
    return total


class _Flat:
    """A table in a flat buffer, with a vector of the offsets of its fields."""

    def __init__(self, data: bytes, position: int | None = None) -> None:
        self.data = data
        self.position: int = struct.unpack_from("<I", data)[0] if position is None else position
        self.offsets: int = self.position - struct.unpack_from("<i", data, self.position)[0]

    def has(self, field: int) -> bool:
        return self._place(field) is not None

    def number(self, field: int, code: str) -> int:
        place = self._place(field)
        return 0 if place is None else int(struct.unpack_from(f"<{code}", self.data, place)[0])

    def table(self, field: int) -> "_Flat":
        return _Flat(self.data, self._target(field))

    def pairs(self, field: int) -> Iterator[tuple[int, int]]:
        """A vector of pairs of 64-bit integers."""
        start = self._target(field)
        (count,) = struct.unpack_from("<I", self.data, start)
        return struct.iter_unpack("<qq", self.data[start + 4 : start + 4 + 16 * count])

    def _target(self, field: int) -> int:
        place = self._place(field)
        if place is None:
            raise FileError("is not a valid Arrow file: a message without its header")
        return place + int(struct.unpack_from("<I", self.data, place)[0])

    def _place(self, field: int) -> int | None:
        (size,) = struct.unpack_from("<H", self.data, self.offsets)
        if 4 + 2 * field >= size:
            return None
        (offset,) = struct.unpack_from("<H", self.data, self.offsets + 4 + 2 * field)
        return self.position + offset if offset else None
