"""Files are not trusted: nothing in them runs, no promise is believed, and each refusal is one clear line."""

import dataclasses
import io
import os
import pickle
import random
import re
import struct
import zipfile

import numpy as np
import pytest
import torch

import unclump as uc
from tests.tables.files.conftest import NAMES, npy_bytes, rows_of, safetensors_bytes
from unclump._text import word_for_command_line
from unclump.tables.files import FileError, Table, _validation

MANY = 10**12


class Bomb:
    """Unpickling this makes a file: proof that code ran."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def refused(path, **choices):
    """The one line with which a file is refused."""
    with pytest.raises(FileError) as caught:
        uc.load(path, **choices)
    message = str(caught.value)
    assert message.isprintable(), message  # one line, no control characters
    assert message.startswith(str(path) if "names" not in choices else str(choices["names"]))
    return message.removeprefix(f"{path}: ")


def zipped(path, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


NPY = {
    "10^12 rows": (npy_bytes((MANY, 100), body=b"\0" * 800), "declares 400000000000000 bytes for (1000000000000, 100)"),
    "a row too many": (
        npy_bytes((3, 2), body=b"\0" * 16),
        "declares 24 bytes for (3, 2) float32, holds 16: it is trunc",
    ),
    "more than promised": (npy_bytes((3, 2), body=b"\0" * 32), "declares 24 bytes for (3, 2) float32, holds 8 more"),
    "overflow": (npy_bytes((2**40, 2**40), body=b"\0" * 8), "declares 4835703278458516698824704 bytes"),
    "no rows, many numbers": (npy_bytes((0, 10**30)), "at least 1 row of at least 2 numbers, got 0 x 1000000000000"),
    "negative": (npy_bytes((-2, -2), body=b"\0" * 16), "has a broken header: shape (-2, -2)"),
    "one dimension": (npy_bytes((4,), body=b"\0" * 16), "shape (n, d), got float32 (4,); save one row per point"),
    "integers": (
        npy_bytes((2, 2), "<i4", b"\0" * 16),
        "table of shape (n, d), got int32 (2, 2); save it as float32",
    ),
    "a structure": (npy_bytes((2, 2), [("a", "<f4")], b"\0" * 16), "floating-point table of shape (n, d)"),
    "quadruple": (npy_bytes((2, 2), "<f16", b"\0" * 64), "got float128 (2, 2)"),
    "objects": (npy_bytes((2, 2), "|O", pickle.dumps([1])), "floating-point table of shape (n, d), got object (2, 2)"),
    "no array": (b"hello", "is not a .npy array"),
    "nothing": (b"", "is empty"),
    "only magic": (b"\x93NUMPY", "has no header, or one of an unknown version"),
    "later version": (b"\x93NUMPY\x09\x00" + b"\0" * 100, "unknown version"),
    "long header": (
        b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1) + b"x" * 99,
        "has a header of 4294967295 bytes",
    ),
    "code in the header": (npy_bytes("__import__('os').mkdir('ran')"), "has a broken header"),
    "deep header": (b"\x93NUMPY\x01\x00" + struct.pack("<H", 9000) + b"(" * 9000, "has a broken header"),
}


@pytest.mark.parametrize("case", NPY)
def test_npy(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content, message = NPY[case]
    (tmp_path / "a.npy").write_bytes(content)
    assert message in refused(tmp_path / "a.npy")
    assert os.listdir(tmp_path) == ["a.npy"]
    zipped(tmp_path / "a.npz", {"array.npy": content})
    assert refused(tmp_path / "a.npz", tensor="array")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_archive_that_lies_about_its_size(method, tmp_path):
    path = tmp_path / "a.npz"
    array = npy_bytes((200_000, 10), body=b"\1\2\3\4" * 20_000)
    zipped(path, {"a.npy": array}, method)
    assert "declares 8000000 bytes for (200000, 10) float32, holds 80000: it is truncated" in refused(path)
    path.write_bytes(path.read_bytes().replace(struct.pack("<I", len(array)), struct.pack("<I", 8_000_128)))
    assert re.search("truncated|is not a valid .npz archive", refused(path))


def test_a_bomb_is_refused_before_it_unpacks(tmp_path, monkeypatch):
    zipped(tmp_path / "a.npz", {"a.npy": npy_bytes((100_000, 10), body=b"\0" * 4_000_000)}, zipfile.ZIP_DEFLATED)
    uc.load(tmp_path / "a.npz")  # four megabytes harm nobody
    monkeypatch.setattr(_validation, "_TRUSTED_SIZE", 1_000_000)
    assert re.search(r"would decompress \d+ bytes into 4000128", refused(tmp_path / "a.npz"))
    uc.save(tmp_path / "a.parquet", Table(torch.zeros(500_000, 2)))
    assert re.search(r"would decompress \d+ bytes into 4000000", refused(tmp_path / "a.parquet"))


def test_a_damaged_archive_fails_its_checksum(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", a=np.random.default_rng(0).standard_normal((100, 10)).astype(np.float32))
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[2000] ^= 1
    (tmp_path / "a.npz").write_bytes(content)
    assert "is not a valid .npz archive" in refused(tmp_path / "a.npz")


def test_a_damaged_companion_is_found_when_it_is_copied(tmp_path):
    np.savez(tmp_path / "a.npz", vectors=rows_of(3, 2), other=np.arange(50_000))
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[content.rindex(np.int64(49_999).tobytes())] ^= 1
    (tmp_path / "a.npz").write_bytes(content)
    table = uc.load(tmp_path / "a.npz")
    with pytest.raises(FileError, match=r"b.npz: .*a.npz cannot be copied: bad CRC"):
        uc.save(tmp_path / "b.npz", table)
    assert os.listdir(tmp_path) == ["a.npz"]


def test_arrays_of_objects_are_listed_and_never_opened(tmp_path):
    trap = tmp_path / "ran"
    np.savez(tmp_path / "a.npz", a=np.array([Bomb(trap)], dtype=object))
    assert "holds no floating-point table of shape (n, d); it holds 'a' object ()" in refused(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", a=rows_of(3, 2), words=np.array(["a", "b", Bomb(trap)], dtype=object))
    assert uc.load(tmp_path / "b.npz").names is None
    assert "'words' holds Python objects, which are not opened" in repr(uc.load(tmp_path / "b.npz"))
    uc.save(tmp_path / "c.npz", uc.load(tmp_path / "b.npz"))
    longer = dataclasses.replace(uc.load(tmp_path / "b.npz"), points=torch.ones(4, 2))
    with pytest.raises(
        FileError, match=r"'words' of .* has 3 entries, one for each old row, and none for the new ones"
    ):
        uc.save(tmp_path / "d.npz", longer)
    assert not trap.exists()


def test_pickles_are_refused_and_not_run(tmp_path):
    trap = tmp_path / "ran"
    torch.save({"weight": torch.ones(3, 2), "bomb": Bomb(trap)}, tmp_path / "a.pt")
    assert re.search(r"holds \S*mkdir, and loading that could run code; if you trust it", refused(tmp_path / "a.pt"))
    torch.save(torch.nn.Linear(2, 3), tmp_path / "b.pt")
    assert "holds torch.nn.modules.linear.Linear, and loading that could run code" in refused(tmp_path / "b.pt")
    torch.save(Bomb(trap), tmp_path / "c.pt", _use_new_zipfile_serialization=False)
    assert "was not saved by torch.save of version 1.6 or later" in refused(tmp_path / "c.pt")
    for protocol in range(2, 6):
        for name in ("d.kv", "d.model", "d.pkl", "d"):
            (tmp_path / name).write_bytes(pickle.dumps({"vectors": Bomb(trap)}, protocol))
            message = refused(tmp_path / name)
            assert "is a pickle" in message
            assert f"KeyedVectors.load('{name}').save_word2vec_format('d.bin', binary=True)" in message
    for protocol in (0, 1):
        (tmp_path / "e.kv").write_bytes(pickle.dumps(Bomb(trap), protocol))
        assert refused(tmp_path / "e.kv")
    assert not trap.exists()


def test_a_tensor_must_hold_what_it_promises(tmp_path):
    torch.save(torch.zeros(1, 100).expand(MANY, 100), tmp_path / "a.pt")
    assert "declares 400000000000000 bytes for (1000000000000, 100) torch.float32" in refused(tmp_path / "a.pt")
    torch.save({"a": torch.ones(3, 2).to_sparse()}, tmp_path / "b.pt")
    assert "expected a dense tensor, got torch.sparse_coo" in refused(tmp_path / "b.pt")
    torch.save(torch.ones(3, 2, device="meta"), tmp_path / "c.pt")
    assert "expected a dense tensor" in refused(tmp_path / "c.pt")
    torch.save(torch.ones(2, 1), tmp_path / "d.pt")
    assert "got 2 x 1" in refused(tmp_path / "d.pt")
    torch.save({"step": 3}, tmp_path / "e.pt")
    assert "holds no floating-point table of shape (n, d); it holds no arrays" in refused(tmp_path / "e.pt")


def test_containers_in_each_other_end(tmp_path):
    table = torch.ones(3, 2)
    cycle = [table]
    cycle.append(cycle)
    torch.save(cycle, tmp_path / "cycle.pt")
    laughs = ["ha", table]
    for _ in range(60):
        laughs = [laughs, laughs]
    torch.save(laughs, tmp_path / "laughs.pt")
    deep = table
    for _ in range(101):
        deep = [deep]
    torch.save(deep, tmp_path / "deep.pt")
    assert "nests containers more than 100 levels" in refused(tmp_path / "deep.pt")
    for name in ("cycle", "laughs"):
        assert torch.equal(uc.load(tmp_path / f"{name}.pt").points, table)
    torch.save({"a": table, "b": table.to_sparse(), "c": torch.ones(3, 2, device="meta")}, tmp_path / "odd.pt")
    assert torch.equal(uc.load(tmp_path / "odd.pt", tensor="a").points, table)


class Allocating:
    def __init__(self, make, *args):
        self.call = make, args

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("make", [bytearray, torch.FloatTensor, torch.Tensor], ids=str)
def test_a_checkpoint_cannot_ask_for_memory(make, tmp_path):
    torch.save({"a": Allocating(make, MANY), "b": torch.ones(3, 2)}, tmp_path / "a.pt")
    assert refused(tmp_path / "a.pt")
    torch.save(Allocating(torch.FloatTensor, 10**5, 10), tmp_path / "b.pt")  # numbers that are in no file
    assert "does not hold them" in refused(tmp_path / "b.pt")


def test_a_packed_checkpoint_is_refused(tmp_path):
    buffer = io.BytesIO()
    torch.save(torch.ones(3, 2), buffer)
    with zipfile.ZipFile(buffer) as archive:
        zipped(tmp_path / "a.pt", {n: archive.read(n) for n in archive.namelist()}, zipfile.ZIP_DEFLATED)
    assert "is compressed" in refused(tmp_path / "a.pt")


SAFETENSORS = {
    "short": b"{}",
    "header longer than the file": struct.pack("<Q", 10**15) + b"{}",
    "no JSON": safetensors_bytes(b"hello"),
    "10^12 rows": safetensors_bytes(
        b'{"a":{"dtype":"F32","shape":[1000000000000,100],"data_offsets":[0,24]}}', b"\0" * 24
    ),
    "cut short": safetensors_bytes(b'{"a":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]}}', b"\0" * 23),
    "overlapping": safetensors_bytes(
        b'{"a":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]},"b":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]}}',
        b"\0" * 24,
    ),
}


@pytest.mark.parametrize("case", SAFETENSORS)
def test_safetensors(case, tmp_path):
    (tmp_path / "a.safetensors").write_bytes(SAFETENSORS[case])
    assert "is not a valid safetensors file" in refused(tmp_path / "a.safetensors")


TEXT = {
    "10^12 rows": (f"{MANY} 100\nthe 1 2\n", f"declares {MANY} rows of 100 numbers, which its 26 bytes cannot hold"),
    "too few rows": ("3 2\na 1 2\nb 3 4\n", "declares 3 rows, holds 2"),
    "too many rows": ("2 2\na 1 2\nb 3 4\nc 5 6\n", "declares 2 rows, holds 3"),
    "no rows": ("0 999999999999999999\n", "at least 1 row of at least 2 numbers, got 0 x 999999999999999999"),
    "a broken line": (
        "a 1 2 3\nb 4 5 6\nc 7 8\nd 1 2 3\n",
        "line 3: expected a name and 3 numbers, got 3 fields: 'c",
    ),
    "a word in a line": ("a 1 2 3\nb 4 five 6\nd 7 8 9\n", "line 2: expected 3 numbers, got 'five'"),
    "an escape in a line": ("a 1 2\nb \x1b[2J 6\nd 7 8\n", r"line 2: expected 2 numbers, got '\x1b[2J'"),
    "a lone underscore": ("a 1 2\nb 1_0 2\nc 1 2\n", "line 2: expected 2 numbers, got '1_0'"),
    "two spaces": ("a 1 2\nb 3  4\nc 5 6\n", "line 2: expected 2 numbers, got ''"),
    "an empty line": ("a 1 2\n\nb 3 4\n", "line 2 is empty"),
    "no numbers": ("hello world\nthis is text\n", "line 1: expected a name and at least two numbers"),
    "no names": ("0.1 0.2 0.3\n0.4 0.5 0.6\n", "holds numbers without names; read it with numpy.loadtxt"),
    "tabs": ("a\t1\t2\nb\t3\t4\n", "separated by single spaces"),
    "nothing": ("", "is empty"),
    "only space": (" \n\n", "is empty"),
    "gzip": (b"\x1f\x8b\x08rest", "is not a valid gzip file"),
    "fastText": (b"\xba\x16\x4f\x2frest", "is a fastText model"),
}


@pytest.mark.parametrize("case", TEXT)
def test_text(case, tmp_path):
    content, message = TEXT[case]
    (tmp_path / "a.txt").write_bytes(content if isinstance(content, bytes) else content.encode())
    assert message in refused(tmp_path / "a.txt")


def test_a_line_without_end_is_no_text(tmp_path):
    with open(tmp_path / "a.txt", "wb") as file:
        file.truncate(2**33)  # sparse: takes no disk, and must take no memory
    assert "line 1 is longer than 16777216 bytes" in refused(tmp_path / "a.txt")


TABULAR = {
    "a short line": ("a,1,2\nb,3\n", "line 2: expected 3 cells, as in the previous lines, got 2"),
    "a word": ("a,1,2\nb,3,x y\n", "line 2: expected 2 numbers, got 'x y'"),
    "an empty cell": ("x,y,z\n1,2,3\n4,,6\n", "line 3: expected 3 numbers, got ''"),
    "two in one cell": ("1,2\n3 4,\n", "line 2: expected 2 numbers, got '3 4'"),
    "two in quotes": ('1,2\n"3,4",\n', "line 2: expected 2 numbers, got ''"),
    "decimal commas": ('"0,5","1,5"\n"2,5","3,5"\n', "at least 1 row of at least 2 numbers, got 1 x 1"),
    "a broken quote": ('a,1,2\n"b,3,4\n', "line 2: unexpected end of data"),
    "one column": ("a\nb\n", "line 1: expected several cells, separated by ',', got one"),
    "semicolons": ("a;1;2\nb;3;x\n", "line 2: expected 2 numbers, got 'x'"),
    "only headings": ("x,y\n", "got 0 x 0"),
    "nothing": ("", "is empty"),
    "headings half numbers": ("a,x,2\nb,3,4\n", "line 1: expected 2 numbers, got 'x'"),
}


@pytest.mark.parametrize("case", TABULAR)
def test_csv(case, tmp_path):
    content, message = TABULAR[case]
    (tmp_path / "a.csv").write_text(content)
    assert message in refused(tmp_path / "a.csv")


def test_word2vec_binary(tmp_path):
    row = np.ones(2, np.float32).tobytes()
    for content, message in (
        (
            f"{MANY} 100\n".encode() + b"a " + row,
            f"declares {MANY} rows of 100 numbers, at least 401",
        ),
        (b"2 2\na " + row + b"b " + row[:-1], "ends inside row 1 of the 2 it declares"),
        (b"2 2\na " + row + b"bbbbbbbbb" + b"\xff" * 9, "ends inside row 1"),
        (b"2 2\na " + row + b"b " + row + b"c " + row, "declares 2 rows of 2 numbers, but continues after them"),
        (b"2 1\na " + row, "got 2 x 1"),
    ):
        (tmp_path / "a.bin").write_bytes(content)
        assert message in refused(tmp_path / "a.bin")


def test_what_is_no_file(tmp_path):
    assert "no such file or directory" in refused(tmp_path / "missing.npy")
    assert "is a folder without model.safetensors" in refused(tmp_path)
    os.mkfifo(tmp_path / "pipe.npy")
    assert "is not a regular file" in refused(tmp_path / "pipe.npy")
    (tmp_path / "loop.npy").symlink_to("loop.npy")
    assert "too many levels of symbolic links" in refused(tmp_path / "loop.npy")
    for suffix in ("safetensors", "parquet", "h5", "pt", "npz", "unknown"):
        (tmp_path / f"empty.{suffix}").write_bytes(b"")
        assert refused(tmp_path / f"empty.{suffix}") == "is empty"
    (tmp_path / "table.xyz").write_text("hello\n")
    assert refused(tmp_path / "table.xyz").endswith("; it was read as text, since it is of no other known format")
    (tmp_path / "table.txt").write_text("hello\n")
    assert "read as text" not in refused(tmp_path / "table.txt")
    (tmp_path / "a\x1b[31m.npy").write_bytes(b"no array")
    with pytest.raises(FileError, match=r"a\\x1b\[31m\.npy: is not a \.npy array"):
        uc.load(tmp_path / "a\x1b[31m.npy")


def test_names_of_the_wrong_count(tmp_path):
    np.save(tmp_path / "a.npy", rows_of(3, 2))
    for content, count in (("a\nb", 2), ("a\nb\nc\nd\n", 4), ("", 1)):
        (tmp_path / "names.txt").write_text(content)
        message = refused(tmp_path / "a.npy", names=tmp_path / "names.txt")
        assert re.search(rf"expected 3 names, one per line and row, got {count}$", message)
    assert "no such file" in refused(tmp_path / "a.npy", names=tmp_path / "none.txt")
    assert "is not a regular file" in refused(tmp_path / "a.npy", names=tmp_path)
    with pytest.raises(FileError, match="expected 2 names, one for each row, got 1"):
        Table(torch.eye(2), names=["a"])


def test_a_choice_where_there_is_none(tmp_path):
    np.save(tmp_path / "a.npy", rows_of(3, 2))
    assert "holds a single table; leave out tensor='x'" in refused(tmp_path / "a.npy", tensor="x")
    with word_for_command_line():
        assert "holds a single table; leave out --tensor 'x'" in refused(tmp_path / "a.npy", tensor="x")


@pytest.mark.parametrize("package", ["safetensors", "pyarrow"])
def test_a_missing_package_is_named_with_its_extra(package, tmp_path, monkeypatch):
    suffix = {"safetensors": ".safetensors", "pyarrow": ".parquet"}[package]
    uc.save(tmp_path / f"a{suffix}", Table(torch.eye(2)))
    for name in (package, "pyarrow.parquet", "pyarrow.compute"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    message = refused(tmp_path / f"a{suffix}")
    assert message == f"needs the package {package}; install it with: pip install 'unclump[files]'"


BINARY = [".npy", ".npz", ".pt", ".safetensors", ".bin", ".parquet"]


@pytest.fixture
def whole(tmp_path):
    """whole(suffix): the path and bytes of a good file."""

    def make(suffix):
        names = None if suffix in {".npy", ".safetensors"} else [name for name in NAMES if name.isalnum()]
        points = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
        uc.save(tmp_path / f"a{suffix}", Table(points, names and names[:5]))
        return tmp_path / f"a{suffix}", (tmp_path / f"a{suffix}").read_bytes()

    return make


@pytest.mark.parametrize("suffix", BINARY)
def test_a_file_cut_anywhere_is_refused(suffix, whole):
    path, content = whole(suffix)
    for length in (*range(0, len(content), 1 + len(content) // 150), len(content) - 1):
        path.write_bytes(content[:length])
        assert refused(path)


@pytest.mark.parametrize("suffix", [*BINARY, ".txt", ".csv", ".tsv"])
def test_a_damaged_file_is_read_or_refused_and_nothing_else(suffix, whole):
    path, content = whole(suffix)
    chance = random.Random(suffix)
    for _ in range(150):
        damaged = bytearray(content)
        for _ in range(chance.choice([1, 1, 2, 8])):
            damaged[chance.randrange(len(damaged))] = chance.choice([0, 1, 10, 32, 57, 127, 128, 255])
        path.write_bytes(damaged)
        try:
            table = uc.load(path)
        except FileError as error:
            message = str(error)
        else:
            message, size = "", table.points.numel() * table.points.element_size()
            assert size <= 8 * len(content)
        assert message.isprintable()
