"""NumPy's `.npz`: a zip of arrays, one of which is the table and another may hold its names."""

import lzma
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from unclump._text import FileError, sanitise
from unclump.tables.files._table import Table, check_row_counts, make_source
from unclump.tables.files._validation import check_ratio, check_shape, choose_names, choose_table, wrap_errors
from unclump.tables.files._writing import BLOCK, copy_bytes
from unclump.tables.files.arrays import Header, map_array, read_header, to_tensor, write_array

FORMAT = "npz"
_OBJECTS = "holds Python objects, which are not opened; to be read as names, store it as strings: .astype(str)"
# What zipfile and zlib raise for broken archives.
_BROKEN = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, ValueError, RuntimeError, EOFError, struct.error)


@dataclass(frozen=True)
class Layout:
    """Which array holds the names and its NumPy kind of string; the lengths of the other arrays."""

    names_key: str | None
    names_kind: str
    fortran_order: bool
    lengths: Mapping[str, int]


def read(path: Path, tensor: str | None) -> Table:
    """Memory-map the table if it is stored uncompressed and aligned, otherwise decompress it."""
    with wrap_errors("is not a valid .npz archive", _BROKEN), zipfile.ZipFile(path) as archive:
        infos = _members(archive)
        stored = {key: _read_header(archive, info) for key, info in infos.items()}
        # Objects are pickles: copied, never opened, so neither a table nor names.
        headers = {key: Header((), False, h.dtype, h.start) if h.dtype.hasobject else h for key, h in stored.items()}
        key = choose_table({key: header.entry for key, header in headers.items()}, tensor)
        check_shape(*headers[key].shape)
        rows = headers[key].shape[0]
        points = to_tensor(_read_array(path, archive, infos[key], headers[key]))
        strings = [k for k, header in headers.items() if header.shape == (rows,) and header.dtype.kind in "US"]
        names_key = choose_names(strings)
        names = None if names_key is None else _decode(_read_array(path, archive, infos[names_key], headers[names_key]))
    kind = "U" if names_key is None else headers[names_key].dtype.kind
    lengths = {k: header.shape[0] for k, header in stored.items() if header.shape and k not in {key, names_key}}
    layout = Layout(names_key, kind, headers[key].fortran_order, lengths)
    objects = [k for k, header in stored.items() if header.dtype.hasobject and header.shape == (rows,)]
    notes = [] if names is not None else [f"'{sanitise(k)}' {_OBJECTS}" for k in objects]
    return Table(points, names, make_source(path, FORMAT, points, tensor=key, layout=layout, notes=notes))


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    infos = [info for info in archive.infolist() if info.filename.endswith(".npy")]
    keys = [info.filename.removesuffix(".npy") for info in infos]
    if len(set(keys)) < len(keys):
        raise FileError("holds two arrays of the same name")
    return dict(zip(keys, infos, strict=True))


def _read_header(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Header:
    with archive.open(info) as member:
        header = read_header(member)
    if not header.dtype.hasobject:  # whose size says nothing of the length of a pickle
        header.check_size(info.file_size - header.start)
    return header


def _read_array(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, header: Header) -> np.ndarray:
    """Read an array, after comparing its declared size with the size of the archive."""
    file_size = path.stat().st_size
    if info.compress_size > file_size:
        raise FileError(f"declares {info.compress_size} bytes of '{info.filename}', holds {file_size}: it is truncated")
    check_ratio(info.file_size, info.compress_size)
    if info.compress_type == zipfile.ZIP_STORED:
        start = _data_offset(path, info) + header.start
        if start + header.size > file_size:
            raise FileError(f"ends inside '{info.filename}': it is truncated")
        if header.size and start % header.dtype.alignment == 0:
            return map_array(path, header, start)
    array = np.empty(header.size, np.uint8)  # pages are allocated as they fill, so a false size costs nothing
    with archive.open(info) as member:
        member.read(header.start)
        filled = 0
        while chunk := member.read(BLOCK):  # to the end, where zipfile verifies the checksum
            array[filled : filled + len(chunk)] = np.frombuffer(chunk, np.uint8)
            filled += len(chunk)
    if filled != header.size:
        raise FileError(f"ends inside '{info.filename}': it is truncated")
    numbers: np.ndarray = array.view(header.dtype)
    return numbers.reshape(header.shape[::-1]).T if header.fortran_order else numbers.reshape(header.shape)


def _data_offset(path: Path, info: zipfile.ZipInfo) -> int:
    """Return where a member's data begins: after its local header, whose lengths may differ from the directory's."""
    with open(path, "rb") as file:
        file.seek(info.header_offset)
        local = file.read(30)
    name, extra = struct.unpack("<HH", local[26:30])
    return info.header_offset + 30 + int(name) + int(extra)


def _decode(array: np.ndarray) -> list[str]:
    if array.dtype.kind == "S":
        return [name.decode("utf-8", "surrogateescape") for name in array.tolist()]
    names: list[str] = array.tolist()
    return names


def check(table: Table) -> None:
    """Raise if the format cannot hold the table."""
    if table.names and any(name.endswith("\0") for name in table.names):
        raise FileError("NumPy's strings cannot end in a NUL character; rename that row, or choose another format")
    source = table.source_in_format(FORMAT)
    if source is not None:
        check_row_counts(source.layout_as(Layout).lengths, source, len(table.points))


def write(file: BinaryIO, table: Table) -> None:
    """Write a new archive, or the one that was read with the table and its names replaced."""
    source = table.source_in_format(FORMAT)
    with zipfile.ZipFile(file, "w") as out:
        if source is None:
            _write_points(out, zipfile.ZipInfo("points.npy"), table)
            if table.names is not None:
                _write_names(out, zipfile.ZipInfo("names.npy"), table.names, "U")
            return
        source.check_unchanged()
        layout = source.layout_as(Layout)
        with wrap_errors(f"{sanitise(source.path)} cannot be copied", _BROKEN), zipfile.ZipFile(source.path) as old:
            for info in old.infolist():
                key = info.filename.removesuffix(".npy")
                if key == source.tensor:
                    _write_points(out, _copy_info(info), table, fortran_order=layout.fortran_order)
                elif key == layout.names_key:
                    if table.names is not None:
                        _write_names(out, _copy_info(info), table.names, layout.names_kind)
                else:
                    with old.open(info) as member, out.open(_copy_info(info), "w", force_zip64=True) as copy:
                        copy_bytes(member, copy, info.file_size)
        names = table.names_to_write(source, had_names=False)
        if layout.names_key is None and names is not None:
            _write_names(out, zipfile.ZipInfo("names.npy"), names, "U")


def _copy_info(info: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """Describe a new member with the same name, date and compression."""
    copy = zipfile.ZipInfo(info.filename, info.date_time)
    copy.compress_type, copy.external_attr = info.compress_type, info.external_attr
    return copy


def _write_points(out: zipfile.ZipFile, info: zipfile.ZipInfo, table: Table, *, fortran_order: bool = False) -> None:
    with out.open(info, "w", force_zip64=True) as member:
        write_array(member, table, fortran_order=fortran_order)


def _write_names(out: zipfile.ZipFile, info: zipfile.ZipInfo, names: Sequence[str], kind: str) -> None:
    strings = [name.encode("utf-8", "surrogateescape") for name in names] if kind == "S" else list(names)
    with out.open(info, "w", force_zip64=True) as member:
        np.lib.format.write_array(member, np.array(strings, dtype=kind), allow_pickle=False)
