"""Formats that are read and not written, and what other files look like."""

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import datasets
import faiss
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import torch

import unclump as uc
from tests.tables.files.conftest import rows_of
from unclump import _isolated
from unclump.tables.files import FileError, Table, _validation, check_target, parquet
from unclump.tables.files._columns import read_columns

NAMES = ["the", "naïve", "the", ""]
ROWS = rows_of(4, 3)
ARROW = pa.table({"word": NAMES, "vectors": list(ROWS), "count": [1, 2, 3, 4]})


def refused(path, **choices):
    with pytest.raises(FileError) as caught:
        uc.load(path, **choices)
    message = str(caught.value)
    assert message.isprintable()
    return message.removeprefix(f"{path}: ")


def write_stream(path, table=ARROW):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


def write_hdf5(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("group/vectors", data=ROWS, compression="gzip")
        file["word"] = NAMES
        file["count"] = np.arange(4)


def write_faiss(path, kind="Flat", ids=None):
    index = faiss.index_factory(3, kind)
    index.train(ROWS)
    index.add(ROWS) if ids is None else index.add_with_ids(ROWS, ids)
    faiss.write_index(index, str(path))


WRITERS = {
    "a.jsonl": lambda p: p.write_text(
        "\n".join(json.dumps({"word": n, "id": 7, "v": row.tolist()}) for n, row in zip(NAMES, ROWS, strict=True))
    ),
    "a.feather": lambda p: pa.feather.write_feather(ARROW, p),
    "b.feather": lambda p: pa.feather.write_feather(ARROW, p, compression="zstd"),
    "a.arrow": write_stream,
    "a.h5": write_hdf5,
    "flat.faiss": write_faiss,
    "hnsw.faiss": lambda p: write_faiss(p, "HNSW4"),
    "ivf.faiss": lambda p: write_faiss(p, "IVF1,Flat"),
    "ids.faiss": lambda p: write_faiss(p, "IDMap,Flat", np.array([7, 5, 3, 1])),
    "a.csv.gz": lambda p: p.write_bytes(gzip.compress(b"word,x,y,z\n" + _lines(","))),
    "a.vec.gz": lambda p: p.write_bytes(gzip.compress(_lines(" "))),
    "dataset": lambda p: datasets.Dataset.from_dict({"word": NAMES, "v": ROWS.tolist()}).save_to_disk(p, num_shards=2),
}
NAMELESS = {"flat.faiss", "hnsw.faiss", "ivf.faiss", "ids.faiss"}


def _lines(separator):
    rows = [separator.join([name, *map(str, row)]) for name, row in zip(NAMES, ROWS, strict=True)]
    return "\n".join(rows).encode()


@pytest.mark.parametrize("name", WRITERS)
def test_rows_and_names_are_read(name, tmp_path, capfd):
    path = tmp_path / name
    WRITERS[name](path)
    table = uc.load(path)
    np.testing.assert_array_equal(table.points.numpy(), ROWS)
    assert table.names == (None if name in NAMELESS else NAMES)
    assert os.listdir(tmp_path) == [name]
    with pytest.raises(FileError, match=r"can only be read; write elsewhere"):
        check_target(path, table, in_place=True)
    if not path.is_dir():
        with pytest.raises(FileError, match=r"only read|unknown suffix"):
            check_target(path.with_name(f"other{path.suffix}"), table)
        anonymous = path.rename(tmp_path / "anonymous")  # and by its bytes
        if name != "a.csv.gz":
            np.testing.assert_array_equal(uc.load(anonymous).points.numpy(), ROWS)
    uc.save(tmp_path / "b.npz", table)
    np.testing.assert_array_equal(uc.load(tmp_path / "b.npz").points.numpy(), ROWS)


def test_a_table_is_not_written_under_the_suffix_of_another_format(tmp_path):
    np.save(tmp_path / "a.npy", ROWS)
    for suffix in (".h5", ".jsonl", ".faiss", ".gz", ".arrow"):
        with pytest.raises(FileError, match=r"has the suffix of a format that is only read; use one of .npy"):
            uc.save(tmp_path / f"b{suffix}", uc.load(tmp_path / "a.npy"))


@pytest.mark.parametrize(
    ("numbers", "dtype"),
    [
        ([0.1, -2], torch.float32),
        ([float(np.float32(0.1)), 1], torch.float32),  # seventeen digits, and a float32 all the same
        ([0.12345678901, 1], torch.float64),
        ([1e300, 1], torch.float64),
        ([float("inf"), float("nan")], torch.float32),
    ],
)
def test_json_numbers_are_as_wide_as_they_need(numbers, dtype, tmp_path):
    (tmp_path / "a.jsonl").write_text(f"[1.5, 2]\n{json.dumps(numbers)}\n")
    points = uc.load(tmp_path / "a.jsonl").points
    assert points.dtype is dtype
    torch.testing.assert_close(points[1], torch.tensor(numbers, dtype=dtype), equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"v": [1, 2]}\n{"v": [1]}', "line 2: expected 2 numbers in 'v', got 1"),
        ('{"v": [1, 2]}\n{"w": [1, 3]}', "line 2: expected 2 numbers in 'v', got 'null'"),
        ('{"v": [1, 2]}\n{"v": [1, true]}', "line 2: expected 2 numbers in 'v', got '[1, true]'"),
        ('{"v": [1, 2]}\n{"v": [1, 2]', "line 2 is not valid JSON"),
        ('{"v": [1, 2]}\n3', "line 2: expected an object or a list, got '3'"),
        ('{"v": [1, 2]}\n{"v": [1, 1' + "0" * 400 + "]}", "line 2: a number is out of range"),
        ("[" * 10**5, "line 1 is not valid JSON"),
        ('{"v": [1, 2], "w": [3, 4]}\n', "holds several tables; pick one with tensor=...: 'v' float64 (1, 2), 'w'"),
        ('{"v": [1]}', "got 1 x 1"),
        ('{"a": "b"}', "holds no floating-point table of shape (n, d); it holds 'a' str (1,)"),
        ("", "is empty"),
    ],
)
def test_broken_json_lines(content, message, tmp_path):
    (tmp_path / "a.jsonl").write_text(content)
    assert message in refused(tmp_path / "a.jsonl")


@pytest.mark.parametrize("suffix", [".txt", ".bin", ".csv", ".tsv", ".npz", ".parquet"])
def test_a_name_that_is_no_text_is_not_written(suffix, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"word": "a", "v": [1, 2]}\n{"word": "\\ud800", "v": [3, 4]}\n')
    table = uc.load(tmp_path / "a.jsonl")
    with pytest.raises(FileError, match=r"the name of row 1, '\\ud800', is not valid Unicode; rename it"):
        uc.save(tmp_path / f"b{suffix}", table)
    assert not (tmp_path / f"b{suffix}").exists()


CSV = {
    "list column": ('id,text,vector\n7,"a, b","[1, 2.5]"\n8,c,"[3,4]"\n', ["a, b", "c"], [[1, 2.5], [3, 4]]),
    "NumPy's lists": ('vector\n"[1. 2.\n 3.]"\n"[ 4. 5.\n 6. ]"\n', None, [[1, 2, 3], [4, 5, 6]]),
    "list without headings": ('a,"[1, 2]"\nb,"[3, 4]"\n', ["a", "b"], [[1, 2], [3, 4]]),
    "text columns": ("id,text,kind,e0,e1\n7,a,k,1,2\n8,b,k,3,4\n", ["a", "b"], [[1, 2], [3, 4]]),
    "text and numbers": ("word,kind,x,y\na,k,1,2\nb,k,3,4\n", ["a", "b"], [[1, 2], [3, 4]]),
    "row numbers": ("id,word,x0,x1,count\n7,a,1,2,9\n8,b,3,4,9\n", ["a", "b"], [[1, 2], [3, 4]]),
    "a series": ("word,mass,x0,x1\na,7,1,2\nb,8,3,4\n", ["a", "b"], [[1, 2], [3, 4]]),
    "no series": ("id,word,count,x,y\n7,a,9,1,2\n8,b,9,3,4\n", ["a", "b"], [[1, 2], [3, 4]]),
    "several series": ("ID,word,x0,x1,y0,y1\n7,a,1,2,3,4\n8,b,5,6,7,8\n", ["a", "b"], [[1, 2, 3, 4], [5, 6, 7, 8]]),
    "texts with numbers": ("word,x,y,note1,note2\na,1,2,n,n\nb,3,4,n,n\n", ["a", "b"], [[1, 2], [3, 4]]),
    "semicolons": ("a;1;2\nb;3;4\n", ["a", "b"], [[1, 2], [3, 4]]),
    "decimal commas": ("word;x;y\na;1,5;2\nb;3;-4,25\n", ["a", "b"], [[1.5, 2], [3, -4.25]]),
    "decimal commas alone": ("1,5;2\n3;4\n", None, [[1.5, 2], [3, 4]]),
}


@pytest.mark.parametrize("case", CSV)
def test_csv(case, tmp_path):
    content, names, points = CSV[case]
    (tmp_path / "a.csv").write_text(content)
    table = uc.load(tmp_path / "a.csv")
    assert table.names == names
    assert table.points.tolist() == points
    uc.save(tmp_path / "b.csv", table.with_points(-table.points))
    back = uc.load(tmp_path / "b.csv")
    assert back.names == names
    assert torch.equal(back.points, -table.points)


def test_other_columns_of_a_csv_are_kept(tmp_path):
    (tmp_path / "a.csv").write_text('id,text,vector,note\n7,"a, b","[1, 2]","x ""y"""\n8,c,"[3,4]",\n')
    table = uc.load(tmp_path / "a.csv")
    uc.save(tmp_path / "b.csv", table.with_points(table.points + 0.5))
    expected = 'id,text,vector,note\n7,"a, b","[1.5, 2.5]","x ""y"""\n8,c,"[3.5, 4.5]",\n'
    assert (tmp_path / "b.csv").read_text() == expected
    with pytest.raises(FileError, match="has other columns, without values for the new rows"):
        uc.save(tmp_path / "c.csv", table.with_points(torch.ones(3, 2), names=["a", "b", "c"]))


def test_columns_of_a_csv_are_chosen(tmp_path):
    (tmp_path / "a.csv").write_text("text,x0,x1,y0,y1\na,1,2,3,4\nb,5,6,7,8\n")
    assert uc.load(tmp_path / "a.csv", tensor="y").points.tolist() == [[3, 4], [7, 8]]
    assert uc.load(tmp_path / "a.csv").points.shape == (2, 4)
    assert "holds no column 'z'" in refused(tmp_path / "a.csv", tensor="z")
    (tmp_path / "b.csv").write_text("word,kind,x0,x1,y0,y1\na,k,1,2,3,4\nb,k,5,6,7,8\n")
    assert "holds several tables; pick one with tensor=...: 'x', 'y'" in refused(tmp_path / "b.csv")
    (tmp_path / "c.csv").write_text('v,w\n"[1,2]","[3,4]"\n"[5,6]","[7,8]"\n')
    assert uc.load(tmp_path / "c.csv", tensor="w").points.tolist() == [[3, 4], [7, 8]]
    assert "holds several tables; pick one with tensor=...: 'v', 'w'" in refused(tmp_path / "c.csv")


def test_a_broken_number_in_a_list_is_told_by_its_line(tmp_path):
    (tmp_path / "a.csv").write_text('v\n"[1 2 3]"\n"[1 ... 3]"\n')
    assert "line 3: expected 3 numbers, got '...'" in refused(tmp_path / "a.csv")


def test_splits_of_a_dataset_are_listed(tmp_path, capfd):
    data = datasets.Dataset.from_dict({"v": ROWS.tolist()})
    datasets.DatasetDict({"test": data, "train": data}).save_to_disk(tmp_path / "d")
    assert refused(tmp_path / "d") == "holds the splits of a dataset; name the folder of one: 'test', 'train'"
    assert uc.load(tmp_path / "d" / "test").points.shape == (4, 3)
    (tmp_path / "d" / "test" / "state.json").write_text('{"_data_files": [{"filename": "../../secret.arrow"}]}')
    assert "files outside of the folder" in refused(tmp_path / "d" / "test")


def test_a_folder_of_shards_says_how_to_name_them(tmp_path, monkeypatch):
    for i in range(3):
        pq.write_table(ARROW, tmp_path / f"{i}.parquet")
    assert refused(tmp_path).endswith(f"it holds 3 .parquet files: name them, {tmp_path}/*.parquet")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileError, match=r"name them, \*\.parquet$"):
        uc.load(".")


def test_compressed_arrow_cannot_be_a_bomb(tmp_path, monkeypatch):
    columns = pa.table({"v": list(ROWS), "notes": pa.array(["x" * 1_000_000] * 4)})  # notes are not even read
    pa.feather.write_feather(columns, tmp_path / "a.feather", compression="zstd")
    uc.load(tmp_path / "a.feather")
    monkeypatch.setattr(_validation, "_TRUSTED_SIZE", 1_000_000)
    assert re.search(r"would decompress \d+ bytes into 4000\d+", refused(tmp_path / "a.feather"))


def test_offsets_of_arrow_are_checked_before_they_are_used(tmp_path):
    write_stream(tmp_path / "a.arrow", pa.table({"v": pa.array(ROWS.tolist(), pa.list_(pa.float32()))}))
    content = (tmp_path / "a.arrow").read_bytes()
    offsets = np.array([0, 3, 6], np.int32)
    damaged = content.replace(offsets.tobytes(), np.array([0, 3, 2**28 + 3], np.int32).tobytes())
    assert damaged != content
    (tmp_path / "a.arrow").write_bytes(damaged)
    assert "is not a valid Arrow file" in refused(tmp_path / "a.arrow")


def test_indices_of_names_are_checked_before_they_are_used():
    names = pa.DictionaryArray.from_arrays(np.array([0, 1, 7, 0], np.int32), ["a", "b"], safe=False)
    batch = pa.record_batch({"word": names, "v": list(ROWS)})
    with pytest.raises(pa.ArrowInvalid, match="out of bounds"):
        read_columns([batch], 4, ["v"], "word", 10**6)


def test_batches_without_rows_are_passed_over(tmp_path):
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_stream(file, ARROW.schema) as writer:
        (batch,) = ARROW.combine_chunks().to_batches()
        for part in (batch.slice(0, 0), batch, batch.slice(4)):
            writer.write_batch(part)
    assert uc.load(tmp_path / "a.arrow").names == NAMES


def test_what_parquet_would_decompress_to_is_known_before_it_is_read(tmp_path, monkeypatch):
    names = [f"{i}{'x' * 100_000}" for i in range(40)]
    pq.write_table(pa.table({"name": names, "v": list(rows_of(40, 3))}), tmp_path / "a.parquet", compression="zstd")
    uc.load(tmp_path / "a.parquet")
    monkeypatch.setattr(_validation, "_TRUSTED_SIZE", 1_000_000)
    monkeypatch.setattr(parquet, "read_columns", None)
    assert re.search(r"would decompress \d+ bytes into 4\d{6};", refused(tmp_path / "a.parquet"))


def test_gzip_cannot_be_a_bomb(tmp_path, monkeypatch):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"a 1 2\n" * 1_000_000))
    monkeypatch.setattr(_validation, "_TRUSTED_SIZE", 1_000_000)
    assert re.search(r"would decompress \d+ bytes into \d+", refused(tmp_path / "a.txt.gz"))


def test_gzip_damaged_cut_or_twice(tmp_path):
    content = gzip.compress(b"a 1 2\nb 3 4\n" * 1000)
    for name, damaged, message in (
        ("cut", content[:-9], "is not a valid gzip file"),
        ("flipped", content[:-6] + bytes([content[-6] ^ 1]) + content[-5:], "is not a valid gzip file: CRC"),
        ("twice", gzip.compress(content), "is compressed twice"),
    ):
        (tmp_path / f"{name}.txt.gz").write_bytes(damaged)
        assert message.lower() in refused(tmp_path / f"{name}.txt.gz").lower()


BOMB = """
import resource, sys
import unclump as uc
uc.load(sys.argv[1])
begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
names = uc.load(sys.argv[2]).names
assert len(names) == 600 and len(names[99]) == 1_000_000
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - begin) // 1024)
"""


def test_a_long_name_that_repeats_is_in_memory_once(tmp_path):
    names = pa.DictionaryArray.from_arrays(np.zeros(600, np.int32), ["x" * 1_000_000])
    pq.write_table(pa.table({"name": names, "v": list(np.ones((600, 2)))}), tmp_path / "a.parquet", store_schema=False)
    assert (tmp_path / "a.parquet").stat().st_size < 100_000
    pq.write_table(ARROW, tmp_path / "warm.parquet")
    environment = os.environ | {"PYTHONPATH": str(Path(uc.__file__).parents[1])}
    command = [sys.executable, "-c", BOMB, str(tmp_path / "warm.parquet"), str(tmp_path / "a.parquet")]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert int(run.stdout) < 100


def test_data_of_an_hdf5_file_that_lies_elsewhere_is_not_opened(tmp_path):
    ROWS.tofile(tmp_path / "secret")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", (4, 3), "f4", external=[(str(tmp_path / "secret"), 0, 48)])
    assert "'v' has its data in another file, which is not opened" in refused(tmp_path / "a.h5")
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["v"] = h5py.ExternalLink(str(tmp_path / "a.h5"), "v")
    assert "it holds no arrays" in refused(tmp_path / "b.h5")
    layout = h5py.VirtualLayout((4, 3), "f4")
    layout[:] = h5py.VirtualSource(str(tmp_path / "c.h5"), "v", (4, 3))
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file.create_virtual_dataset("v", layout)
    assert "'v' has its data in another file" in refused(tmp_path / "d.h5")
    text = h5py.VirtualLayout((4,), "S12")
    text[:] = h5py.VirtualSource(str(tmp_path / "c.h5"), "w", (4,))
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["v"] = ROWS
        file.create_dataset("words", (4,), "S12", external=[(str(tmp_path / "secret"), 0, 48)])
    with h5py.File(tmp_path / "g.h5", "w") as file:
        file["v"] = ROWS
        file.create_virtual_dataset("words", text)
    for name in ("f.h5", "g.h5"):
        assert "'words' has its data in another file, which is not opened" in refused(tmp_path / name)
    with h5py.File(tmp_path / "e.h5", "w") as file:
        file.create_dataset("v", (10**9, 100), "f4", chunks=(1000, 100))
    assert "declares 1000000000 x 100 numbers, much more than its size" in refused(tmp_path / "e.h5")


@pytest.mark.parametrize("refusal", [None, ValueError, OSError])
def test_limits_are_not_raised_above_those_of_the_system(refusal, monkeypatch):
    resource = pytest.importorskip("resource")
    limits = {resource.RLIMIT_AS: resource.RLIM_INFINITY, resource.RLIMIT_CPU: 5}
    taken = {}

    def setrlimit(kind, pair):
        taken[kind] = pair
        if refusal is not None:
            raise refusal

    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limits[kind], limits[kind]))
    monkeypatch.setattr(resource, "setrlimit", setrlimit)
    _isolated._limit_resources(2**20)
    assert taken == {resource.RLIMIT_AS: (2**31 + 2**22,) * 2, resource.RLIMIT_CPU: (5, 5)}


@pytest.mark.deep  # ten seconds of the processor
def test_a_heap_on_which_the_library_loops_is_refused(tmp_path):
    write_hdf5(tmp_path / "a.h5")
    content = bytearray((tmp_path / "a.h5").read_bytes())
    size = content.index(b"GCOL") + 16 + 8  # of the first name, in the global heap
    content[size + 1] = 2
    (tmp_path / "a.h5").write_bytes(content)
    began = sum(os.times()[2:4])
    assert re.search("needs more memory or time|cannot be read|damaged", refused(tmp_path / "a.h5"))
    assert sum(os.times()[2:4]) - began < 15


def test_an_index_without_vectors_says_so(tmp_path):
    write_faiss(tmp_path / "a.faiss", "IDMap,HNSW4", np.arange(4))
    assert uc.load(tmp_path / "a.faiss").points.shape == (4, 3)
    write_faiss(tmp_path / "b.faiss", "IVF1,Flat", np.array([10**12, 5, 3, 1]))
    assert re.search("cannot reconstruct|cannot be read", refused(tmp_path / "b.faiss"))
    content = (tmp_path / "a.faiss").read_bytes()
    (tmp_path / "c.faiss").write_bytes(content[: len(content) // 2])
    assert refused(tmp_path / "c.faiss")


def test_a_flat_index_must_hold_what_it_declares(tmp_path):
    write_faiss(tmp_path / "a.faiss")
    content = bytearray((tmp_path / "a.faiss").read_bytes())
    content[14] = 1  # of the number of vectors
    (tmp_path / "a.faiss").write_bytes(content)
    assert "declares 281474976710660 vectors of 3 numbers" in refused(tmp_path / "a.faiss")


@pytest.mark.parametrize(("name", "package", "extra"), [("a.h5", "h5py", "hdf5"), ("hnsw.faiss", "faiss-cpu", "faiss")])
def test_a_missing_package_is_named_with_its_extra(name, package, extra, tmp_path, monkeypatch):
    WRITERS[name](tmp_path / name)
    (tmp_path / "none").mkdir()
    module = package.removesuffix("-cpu")
    (tmp_path / "none" / f"{module}.py").write_text("raise ImportError")
    monkeypatch.syspath_prepend(tmp_path / "none")
    expected = f"needs the package {package}; install it with: pip install 'unclump[{extra}]'"
    assert refused(tmp_path / name) == expected


def test_no_module_of_the_present_folder_is_run(tmp_path, monkeypatch):
    write_hdf5(tmp_path / "a.h5")
    for module in ("h5py", "json", "numpy"):
        (tmp_path / f"{module}.py").write_text("import os; os.mkdir('ran')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])  # as in an interactive session
    assert uc.load("a.h5").points.shape == (4, 3)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("SIGKILL", "needs more memory or time than is allowed"),
        ("SIGXCPU", "needs more memory or time than is allowed"),
        ("SIGSEGV", "ends h5py, which reads it, with SIGSEGV: it is damaged"),
    ],
)
def test_a_process_that_the_system_ends_is_no_damaged_file(name, message, tmp_path, monkeypatch):
    write_hdf5(tmp_path / "a.h5")
    killed = "import os, signal; signal.signal(signal.SIGXCPU, signal.SIG_DFL); os.kill(os.getpid(), signal.{})"
    monkeypatch.setattr("unclump.tables.files._child._START", killed.format(name))
    assert refused(tmp_path / "a.h5") == message


LOOKS = {
    "a.npy": (b"<!DOCTYPE html><html>", "is not a .npy array: .*; its first bytes are those of a web page"),
    "b.npy": (b"version https://git-lfs.github.com/spec/v1\n", "those of a pointer of Git LFS .*: git lfs pull"),
    "a.csv": (b"PAR1 and more", "its first bytes are those of Parquet$"),
    "a.safetensors": (b"\x93NUMPY\x01\x00", "those of a NumPy array"),
    "a.parquet": (b"PK\x03\x04", "those of a zip archive"),
    "a.h5": (b"\x80\x04 pickle", "those of a pickle"),
    "a.gguf": (b"GGUF\x03\0\0\0", "^is a GGUF model; take the model's safetensors files"),
    "b.gguf": (b"GGUF\x02\0\0\0", "^is a GGUF model"),
    "a.onnx": (b"\x08\x08\x12\x07pytorch\x1a\x052.1.0", "^is an ONNX model; take the model's safetensors files"),
    "c.npy": (b"\x08\x08\x12\x07pytorch", "those of an ONNX model"),
    "a.db": (b"SQLite format 3\0", "^is an SQLite database; export"),
    "a.zst": (b"\x28\xb5\x2f\xfd", "^is compressed with zstd; decompress it first"),
    "a.tar": (b"x" * 257 + b"ustar", "^is a tar archive"),
}


@pytest.mark.parametrize("name", LOOKS)
def test_a_file_of_another_format_is_told_by_its_first_bytes(name, tmp_path):
    content, message = LOOKS[name]
    (tmp_path / name).write_bytes(content)
    assert re.search(message, refused(tmp_path / name))


@pytest.mark.parametrize("shards", [1, 2])
def test_weights_of_torch_in_a_model_folder(shards, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    tensors = {"wte.weight": torch.from_numpy(ROWS), "head.weight": torch.ones(2, 2)}
    if shards == 1:
        torch.save(tensors, folder / "pytorch_model.bin")
    else:
        files = {key: f"pytorch_model-{i}.bin" for i, key in enumerate(tensors)}
        for key, file in files.items():
            torch.save({key: tensors[key]}, folder / file)
        (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": files}))
    (folder / "vocab.txt").write_text("a\nb\nc\nd\n")
    table = uc.load(folder)
    assert table.names == list("abcd")
    uc.save(tmp_path / "new", table.with_points(-table.points))
    assert torch.equal(uc.load(tmp_path / "new").points, -torch.from_numpy(ROWS))
    uc.save(folder, table.with_points(2 * table.points), in_place=True)
    assert torch.equal(uc.load(folder).points, 2 * torch.from_numpy(ROWS))
    if shards == 1:
        assert torch.equal(torch.load(tmp_path / "new" / "pytorch_model.bin")["head.weight"], torch.ones(2, 2))
    assert Table(table.points).names is None
