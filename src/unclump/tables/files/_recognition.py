"""The format of a file by its first bytes, whether it can be read or not."""

import zipfile
from pathlib import Path

from unclump._text import FileError, sanitise
from unclump.tables.files import arrow, faiss_files, gzip_files, hdf5, word2vec
from unclump.tables.files._validation import wrap_errors

FALLBACK = "text"  # the format of a file whose suffix and first bytes determine none
_HEAD = 4096  # bytes
_READ = {  # formats by their first bytes
    b"\x93NUMPY": "npy",
    b"PAR1": "parquet",
    arrow.FILE_MAGIC: "arrow",
    arrow.STREAM_MAGIC: "arrow",
    hdf5.MAGIC: "hdf5",
    gzip_files.MAGIC: "gzip",
}
_NAMES = {
    "npy": "a NumPy array (.npy)",
    "npz": "a zip archive",
    "torch": "a file of torch.save (.pt)",
    "parquet": "Parquet",
    "arrow": "Arrow",
    "hdf5": "HDF5",
    "gzip": "gzip",
    "faiss": "a FAISS index",
    "safetensors": "safetensors",
}
_NOT_READ = {  # names of other formats, and advice
    b"\xba\x16\x4f\x2f": "a fastText model; use the .vec file that comes with it",
    b"version https://git-lfs": "a pointer of Git LFS and not the file itself; fetch it with: git lfs pull",
    b"GGUF": "a GGUF model; take the model's safetensors files",
    b"FEA1": "Feather of version 1; write it again as version 2",
    b"SQLite format 3\0": "an SQLite database; export the table as Parquet or CSV",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; decompress it first",
    b"BZh9": "compressed with bzip2; decompress it first",
    b"\xfd7zXZ\0": "compressed with xz; decompress it first",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive; unpack it first",
    b"Rar!\x1a\x07": "a RAR archive; unpack it first",
    b"Obj\x01": "Avro; write it as Parquet",
    b"MATLAB 5.0": "a MATLAB file; read it with scipy.io.loadmat and save the array as .npy",
    b"%PDF-": "a PDF document",
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"\x7fELF": "a program",
    b"<!DOCTYPE": "a web page, perhaps of a download that failed",
    b"<!doctype": "a web page, perhaps of a download that failed",
    b"<html": "a web page, perhaps of a download that failed",
}


def sniff(path: Path) -> str:
    """Detect the format of a file from its first bytes; raise if it cannot be read, naming what it is."""
    head = _head(path)
    if _is_pickle(head):
        raise FileError(
            "is a pickle, which could run code when it is loaded; if you trust it, convert it with gensim: "
            f"KeyedVectors.load('{sanitise(path.name)}').save_word2vec_format('{sanitise(path.stem)}.bin', binary=True)"
        )
    name = _format_of(path, head)
    if name is not None:
        return name
    other = _not_read(head)
    if other is not None:
        raise FileError(f"is {other}")
    if head.lstrip()[:2] == b'{"':
        return "jsonl"
    return "word2vec" if word2vec.looks_binary(head) else FALLBACK


def describe(path: Path) -> str | None:
    """Describe a file by its first bytes; None if they match no format."""
    head = _head(path)
    name = _format_of(path, head, open_archive=False)
    if name is not None:
        return describe_format(name)
    if _is_pickle(head):
        return "a pickle"
    return _not_read(head)


def _not_read(head: bytes) -> str | None:
    """Describe a file of a known format that cannot be read, or return None."""
    if head[257:262] == b"ustar":
        return "a tar archive; unpack it first"
    if head[:1] == b"\x08" and head[1:2] < b"\x20" and head[2:3] == b"\x12":  # its version, then who made it
        return "an ONNX model; take the model's safetensors files"
    return next((what for magic, what in _NOT_READ.items() if head.startswith(magic)), None)


def describe_format(name: str) -> str | None:
    """Describe a format; the two formats that are zip archives have the same description."""
    return _NAMES.get("npz" if name == "torch" else name)


def _head(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(_HEAD)


def _is_pickle(head: bytes) -> bool:
    return head[:1] == b"\x80" and head[1:2] in {b"\2", b"\3", b"\4", b"\5"}


def _format_of(path: Path, head: bytes, *, open_archive: bool = True) -> str | None:
    """The readable format that begins like this, or None if the first bytes do not determine it."""
    if head.startswith(b"PK\x03\x04"):
        if not open_archive:
            return "npz"
        with wrap_errors("is not a valid zip archive"), zipfile.ZipFile(path) as archive:
            return "torch" if any(name.endswith("data.pkl") for name in archive.namelist()) else "npz"
    if faiss_files.looks_like_index(head):
        return "faiss"
    if head[4:9] == b"\0\0\0\0{":
        return "safetensors"
    return next((name for magic, name in _READ.items() if head.startswith(magic)), None)
