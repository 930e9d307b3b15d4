"""NumPy's `.npz`: a zip of arrays, of which one is the table and one may hold its names."""

import lzma
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch

from unclump._text import FileError, shown
from unclump.tables.files._refusals import check_shape, check_unpacked, choose, choose_names, parsing
from unclump.tables.files._table import Table, check_row_aligned, source_of
from unclump.tables.files._writing import BLOCK, copy_bytes
from unclump.tables.files.arrays import Header, mapped, read_header, tensor_of, write_array

FORMAT = "npz"
# What zipfile and zlib raise over broken archives.
_BROKEN = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, ValueError, RuntimeError, EOFError, struct.error)


@dataclass(frozen=True)
class Layout:
    """Which array holds the names, and in which kind of string; how long the others are."""

    names_key: str | None
    names_kind: str
    columns_first: bool
    lengths: Mapping[str, int]


def read(path: Path, tensor: str | None) -> Table:
    """The table is mapped where it is stored plainly and aligned, otherwise unpacked."""
    with parsing("is not a whole .npz archive", _BROKEN), zipfile.ZipFile(path) as archive:
        infos = _members(archive)
        headers = {key: _header(archive, info) for key, info in infos.items()}
        key = choose({key: header.entry for key, header in headers.items()}, tensor)
        check_shape(*headers[key].shape)
        rows = headers[key].shape[0]
        points = tensor_of(_array(path, archive, infos[key], headers[key]))
        strings = [k for k, header in headers.items() if header.shape == (rows,) and header.dtype.kind in "US"]
        names_key = choose_names(strings)
        names = None if names_key is None else _strings(_array(path, archive, infos[names_key], headers[names_key]))
    kind = "U" if names_key is None else headers[names_key].dtype.kind
    lengths = {k: header.shape[0] for k, header in headers.items() if header.shape and k not in {key, names_key}}
    layout = Layout(names_key, kind, headers[key].columns_first, lengths)
    return Table(points, names, source_of(path, FORMAT, points, tensor=key, layout=layout))


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    infos = [info for info in archive.infolist() if info.filename.endswith(".npy")]
    keys = [info.filename.removesuffix(".npy") for info in infos]
    if len(set(keys)) < len(keys):
        raise FileError("holds two arrays of the same name")
    return dict(zip(keys, infos, strict=True))


def _header(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Header:
    with archive.open(info) as member:
        header = read_header(member)
    if header.dtype.hasobject:  # a pickle: listed, kept, never opened
        return Header((), False, header.dtype, header.start)
    header.check_size(info.file_size - header.start)
    return header


def _array(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, header: Header) -> np.ndarray:
    """An array, after its size was held against what the archive really holds."""
    held = path.stat().st_size
    if info.compress_size > held:
        raise FileError(f"promises {info.compress_size} bytes of '{info.filename}', holds {held}: it is cut short")
    check_unpacked(info.file_size, info.compress_size)
    if info.compress_type == zipfile.ZIP_STORED:
        start = _start(path, info) + header.start
        if start + header.size > held:
            raise FileError(f"ends inside '{info.filename}': it is cut short")
        if header.size and start % header.dtype.alignment == 0:
            return mapped(path, header, start)
    array = np.empty(header.size, np.uint8)  # pages are taken as they fill, so a lie costs nothing
    with archive.open(info) as member:
        member.read(header.start)
        filled = 0
        while piece := member.read(BLOCK):  # to the end, where the checksum is compared
            array[filled : filled + len(piece)] = np.frombuffer(piece, np.uint8)
            filled += len(piece)
    if filled != header.size:
        raise FileError(f"ends inside '{info.filename}': it is cut short")
    numbers: np.ndarray = array.view(header.dtype)
    return numbers.reshape(header.shape[::-1]).T if header.columns_first else numbers.reshape(header.shape)


def _start(path: Path, info: zipfile.ZipInfo) -> int:
    """Where the bytes of a member begin: after its local header, whose lengths may differ from the directory's."""
    with open(path, "rb") as file:
        file.seek(info.header_offset)
        local = file.read(30)
    name, extra = struct.unpack("<HH", local[26:30])
    return info.header_offset + 30 + int(name) + int(extra)


def _strings(array: np.ndarray) -> list[str]:
    if array.dtype.kind == "S":
        return [name.decode("utf-8", "surrogateescape") for name in array.tolist()]
    names: list[str] = array.tolist()
    return names


def check(table: Table) -> None:
    """Refuse what the format cannot hold."""
    if table.names and any(name.endswith("\0") for name in table.names):
        raise FileError("NumPy's strings cannot end in a NUL character; rename that row, or choose another format")
    source = table.kept(FORMAT)
    if source is not None:
        check_row_aligned(source.remembered(Layout).lengths, source, len(table.points))


def write(file: BinaryIO, table: Table) -> None:
    """The archive that was read, with the table and its names replaced and all else kept; or a new one."""
    source = table.kept(FORMAT)
    with zipfile.ZipFile(file, "w") as out:
        if source is None:
            _write_points(out, zipfile.ZipInfo("points.npy"), table.points)
            if table.names is not None:
                _write_names(out, zipfile.ZipInfo("names.npy"), table.names, "U")
            return
        source.check_unchanged()
        layout = source.remembered(Layout)
        with parsing(f"{shown(source.path)} cannot be copied", _BROKEN), zipfile.ZipFile(source.path) as old:
            for info in old.infolist():
                key = info.filename.removesuffix(".npy")
                if key == source.tensor:
                    _write_points(out, _like(info), table.points, columns_first=layout.columns_first)
                elif key == layout.names_key:
                    if table.names is not None:
                        _write_names(out, _like(info), table.names, layout.names_kind)
                else:
                    with old.open(info) as member, out.open(_like(info), "w", force_zip64=True) as copy:
                        copy_bytes(member, copy, info.file_size)
        names = table.names_for(source, had_names=False)
        if layout.names_key is None and names is not None:
            _write_names(out, zipfile.ZipInfo("names.npy"), names, "U")


def _like(info: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """A member of the same name, date and compression."""
    like = zipfile.ZipInfo(info.filename, info.date_time)
    like.compress_type, like.external_attr = info.compress_type, info.external_attr
    return like


def _write_points(
    out: zipfile.ZipFile, info: zipfile.ZipInfo, points: torch.Tensor, *, columns_first: bool = False
) -> None:
    with out.open(info, "w", force_zip64=True) as member:
        write_array(member, points, columns_first=columns_first)


def _write_names(out: zipfile.ZipFile, info: zipfile.ZipInfo, names: Sequence[str], kind: str) -> None:
    strings = [name.encode("utf-8", "surrogateescape") for name in names] if kind == "S" else list(names)
    with out.open(info, "w", force_zip64=True) as member:
        np.lib.format.write_array(member, np.array(strings, dtype=kind), allow_pickle=False)
