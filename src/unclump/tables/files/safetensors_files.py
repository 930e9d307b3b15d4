"""safetensors: one tensor is memory-mapped; the others are never loaded, only copied when the file is rewritten."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch

from unclump._text import FileError
from unclump.tables.files._table import Table, check_row_counts, make_source
from unclump.tables.files._validation import Entry, check_shape, choose_table, missing_package, wrap_errors
from unclump.tables.files._writing import copy_bytes, write_rows

FORMAT = "safetensors"
_CODES = {torch.float16: "F16", torch.bfloat16: "BF16", torch.float32: "F32", torch.float64: "F64"}
_DTYPES = {code: str(dtype).removeprefix("torch.") for dtype, code in _CODES.items()}


def entries(path: Path) -> dict[str, Entry]:
    """List the tensors of a file from its header, which safetensors checks against the size of the file."""
    with wrap_errors("is not a valid safetensors file"), open_tensors(path) as file:
        slices = {key: file.get_slice(key) for key in file.keys()}  # noqa: SIM118 - not a mapping
        return {
            key: Entry(tuple(part.get_shape()), _DTYPES.get(part.get_dtype(), part.get_dtype()))
            for key, part in slices.items()
        }


def open_tensors(path: Path) -> Any:
    """Open a file whose tensors are read one by one."""
    return package().safe_open(path, framework="pt")


def package() -> Any:
    """safetensors, with its functions for torch, or the error that names its extra."""
    try:
        import safetensors.torch
    except ImportError:
        raise missing_package("safetensors") from None
    return safetensors


def read(path: Path, tensor: str | None) -> Table:
    """Load only the table: the other gigabytes of a model are not read."""
    available = entries(path)
    key = choose_table(available, tensor)
    check_shape(*available[key].shape)
    with wrap_errors("is not a valid safetensors file"), open_tensors(path) as file:
        points: torch.Tensor = file.get_tensor(key)
    lengths = {k: entry.shape[0] for k, entry in available.items() if entry.shape and k != key}
    return Table(points, source=make_source(path, FORMAT, points, tensor=key, layout=lengths))


def check(table: Table) -> None:
    """Raise if rows were added that other tensors in the file would lack."""
    source = table.source_in_format(FORMAT)
    if source is not None:
        check_row_counts(source.layout_as(dict), source, len(table.points))


def write(file: BinaryIO, table: Table) -> None:
    """Write the table alone, or the file that was read with the table replaced."""
    source = table.source_in_format(FORMAT)
    if source is None:
        _write_header(file, {"points": _header_entry(table.points, 0)})
        write_rows(file, table)
        return
    source.check_unchanged()
    assert source.tensor is not None
    write_with_tensor_replaced(file, source.path, source.tensor, table)


def write_with_tensor_replaced(file: BinaryIO, original: Path, key: str, table: Table) -> None:
    """Copy the file `original`, with the tensor `key` replaced."""
    with open(original, "rb") as old:
        length = int.from_bytes(old.read(8), "little")
        header = json.loads(old.read(length))
        body = 8 + length
        spans = {name: part["data_offsets"] for name, part in header.items() if name != "__metadata__"}
        if key not in spans:
            raise FileError(f"{original} no longer holds '{key}'; read it again")
        order = sorted(spans, key=lambda name: tuple(spans[name]))
        end = 0
        for name in order:
            begin, size = end, spans[name][1] - spans[name][0]
            if name == key:
                header[name] = _header_entry(table.points, begin)
                end = header[name]["data_offsets"][1]
            else:
                end = begin + size
                header[name]["data_offsets"] = [begin, end]
        _write_header(file, header)
        for name in order:
            if name == key:
                write_rows(file, table)
            else:
                old.seek(body + spans[name][0])
                copy_bytes(old, file, spans[name][1] - spans[name][0])


def _header_entry(points: torch.Tensor, begin: int) -> dict[str, Any]:
    size = points.numel() * points.element_size()
    return {"dtype": _CODES[points.dtype], "shape": list(points.shape), "data_offsets": [begin, begin + size]}


def _write_header(file: BinaryIO, header: Mapping[str, Any]) -> None:
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # align the data to 8 bytes
    file.write(len(text).to_bytes(8, "little") + text)
