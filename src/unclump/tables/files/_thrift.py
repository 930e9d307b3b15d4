"""The sizes of a Parquet file's columns, from its footer.

pyarrow's own accessors end the process on a damaged footer; this decoder of Thrift's compact protocol raises.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unclump._text import FileError

_MAX_DEPTH = 30
_MAGIC = b"PAR1"
_WIDTHS = {4: 4, 5: 8}  # bytes of a float and of a double, by Parquet's number of the type


def column_sizes(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the path of every column chunk, and the number of bytes that it decompresses to, as the footer declares."""
    metadata = _Decoder(_footer(path)).struct()
    for group in metadata.get(4, ()):  # numbers are those of Parquet's format
        for chunk in group.get(1, ()):
            column = chunk.get(3, {})
            name = b".".join(column.get(3, (b"",))).decode("utf-8", "replace")
            yield name, max(column.get(6, 0), column.get(5, 0) * _WIDTHS.get(column.get(1), 2))


def _footer(path: Path) -> bytes:
    size = path.stat().st_size
    with open(path, "rb") as file:
        file.seek(max(0, size - 8))
        tail = file.read(8)
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != _MAGIC or length > size - 12:
            raise FileError("is not a valid Parquet file: it does not end as one does; perhaps it is truncated")
        file.seek(size - 8 - length)
        return file.read(length)


class _Decoder:
    """Structures as {number of the field: value}, lists as lists, strings as bytes."""

    def __init__(self, data: bytes) -> None:
        self.data, self.position, self.depth = data, 0, 0

    def struct(self) -> dict[int, Any]:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise FileError("is not a valid Parquet file: its footer nests too deeply")
        fields: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) != 0:
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            fields[number] = self._value(head & 15)
        self.depth -= 1
        return fields

    def _value(self, kind: int) -> Any:
        readers = {
            1: lambda: True,  # a flag is a type of its own
            2: lambda: False,
            3: self._byte,
            4: self._zigzag,
            5: self._zigzag,
            6: self._zigzag,
            7: lambda: self._take(8),  # a double
            8: lambda: self._take(self._varint()),
            9: self._list,
            10: self._list,
            12: self.struct,
        }
        if kind not in readers:
            raise FileError(f"is not a valid Parquet file: its footer has a field of type {kind}")
        return readers[kind]()

    def _list(self) -> list[Any]:
        head = self._byte()
        count, kind = head >> 4, head & 15
        count = self._varint() if count == 15 else count
        if count > len(self.data) - self.position:  # an element takes a byte at least
            raise FileError("is not a valid Parquet file: its footer is damaged")
        return [self._byte() if kind in {1, 2} else self._value(kind) for _ in range(count)]

    def _zigzag(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise FileError("is not a valid Parquet file: an integer in its footer does not end")

    def _byte(self) -> int:
        return self._take(1)[0]

    def _take(self, count: int) -> bytes:
        part = self.data[self.position : self.position + count]
        if len(part) < count:
            raise FileError("is not a valid Parquet file: its footer is truncated")
        self.position += count
        return part
