"""safetensors: one tensor mapped, the others never read; copied by slices when the file is written anew."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch

from unclump._text import FileError
from unclump.tables.files._refusals import Entry, check_shape, choose, missing, parsing
from unclump.tables.files._table import Table, check_row_aligned, source_of
from unclump.tables.files._writing import copy_bytes, write_rows

FORMAT = "safetensors"
_CODES = {torch.float16: "F16", torch.bfloat16: "BF16", torch.float32: "F32", torch.float64: "F64"}
_DTYPES = {code: str(dtype).removeprefix("torch.") for dtype, code in _CODES.items()}


def entries(path: Path) -> dict[str, Entry]:
    """The tensors of a file by name, from its header alone, which the library holds against the file's size."""
    with parsing("is not a whole safetensors file"), _open(path) as file:
        slices = {key: file.get_slice(key) for key in file.keys()}  # noqa: SIM118 - no mapping
        return {
            key: Entry(tuple(part.get_shape()), _DTYPES.get(part.get_dtype(), part.get_dtype()))
            for key, part in slices.items()
        }


def _open(path: Path) -> Any:
    try:
        from safetensors import safe_open
    except ImportError:
        raise missing("safetensors") from None
    return safe_open(path, framework="pt")


def read(path: Path, tensor: str | None) -> Table:
    """The table alone: a model of many gigabytes around it is not touched."""
    held = entries(path)
    key = choose(held, tensor)
    check_shape(*held[key].shape)
    with parsing("is not a whole safetensors file"), _open(path) as file:
        points: torch.Tensor = file.get_tensor(key)
    lengths = {k: entry.shape[0] for k, entry in held.items() if entry.shape and k != key}
    return Table(points, source=source_of(path, FORMAT, points, tensor=key, layout=lengths))


def check(table: Table) -> None:
    """Refuse rows that the rest of the file would not know of."""
    source = table.kept(FORMAT)
    if source is not None:
        check_row_aligned(source.remembered(dict), source, len(table.points))


def write(file: BinaryIO, table: Table) -> None:
    """The file that was read, with the table replaced and all else kept; or the tensor alone."""
    source = table.kept(FORMAT)
    if source is None:
        _write_header(file, {"points": _described(table.points, 0)})
        write_rows(file, table.points)
        return
    source.check_unchanged()
    assert source.tensor is not None
    write_like(file, source.path, source.tensor, table.points)


def write_like(file: BinaryIO, origin: Path, key: str, points: torch.Tensor) -> None:
    """A copy of `origin`, with the tensor `key` replaced."""
    with open(origin, "rb") as old:
        length = int.from_bytes(old.read(8), "little")
        header = json.loads(old.read(length))
        body = 8 + length
        spans = {name: part["data_offsets"] for name, part in header.items() if name != "__metadata__"}
        if key not in spans:
            raise FileError(f"{origin} holds no '{key}' any more; read it again")
        order = sorted(spans, key=lambda name: tuple(spans[name]))
        end = 0
        for name in order:
            begin, size = end, spans[name][1] - spans[name][0]
            if name == key:
                header[name] = _described(points, begin)
                end = header[name]["data_offsets"][1]
            else:
                end = begin + size
                header[name]["data_offsets"] = [begin, end]
        _write_header(file, header)
        for name in order:
            if name == key:
                write_rows(file, points)
            else:
                old.seek(body + spans[name][0])
                copy_bytes(old, file, spans[name][1] - spans[name][0])


def _described(points: torch.Tensor, begin: int) -> dict[str, Any]:
    size = points.numel() * points.element_size()
    return {"dtype": _CODES[points.dtype], "shape": list(points.shape), "data_offsets": [begin, begin + size]}


def _write_header(file: BinaryIO, header: Mapping[str, Any]) -> None:
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # the numbers begin where any of them is aligned
    file.write(len(text).to_bytes(8, "little") + text)
