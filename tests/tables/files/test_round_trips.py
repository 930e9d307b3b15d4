"""What is written is read back to the last bit: numbers, dtype, names, order, and all else the file held."""

import csv
import dataclasses
import json
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.torch
import torch

import unclump as uc
from tests.tables.files.conftest import NAMES, bits, rows_of
from unclump.tables.files import FileError, Table

HALVES = [torch.float16, torch.bfloat16]
WIDE = [torch.float32, torch.float64]


@pytest.mark.parametrize("dtype", HALVES + WIDE, ids=str)
@pytest.mark.parametrize("suffix", [".npy", ".npz", ".pt", ".safetensors", ".parquet"])
def test_the_dtype_and_every_bit_are_kept(suffix, dtype, awkward, tmp_path):
    table = awkward(dtype, names=[name for name in NAMES if name.isprintable()])
    if suffix in {".npy", ".safetensors"}:
        table = Table(table.points)
    if dtype is torch.bfloat16 and suffix in {".npy", ".npz", ".parquet"}:
        with pytest.raises(
            FileError, match=r"holds float16, float32, float64, the points are bfloat16; write .safeten"
        ):
            uc.save(tmp_path / f"table{suffix}", table)
        return
    uc.save(tmp_path / f"table{suffix}", table)
    back = uc.load(tmp_path / f"table{suffix}")
    assert bits(back.points) == bits(table.points)
    assert back.names == table.names


@pytest.mark.parametrize("dtype", WIDE, ids=str)
@pytest.mark.parametrize("suffix", [".txt", ".vec", ".csv", ".tsv"])
def test_text_keeps_every_bit_and_name(suffix, dtype, awkward, tmp_path):
    table = awkward(dtype)
    uc.save(tmp_path / f"table{suffix}", table)
    back = uc.load(tmp_path / f"table{suffix}")
    assert bits(back.points) == bits(table.points)
    assert back.names == table.names


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".pt", ".safetensors", ".parquet", ".txt", ".bin", ".csv", ".tsv"])
def test_a_single_row_is_a_table(suffix, tmp_path):
    names = None if suffix in {".npy", ".safetensors"} else ["query"]
    table = Table(torch.tensor([[0.25, -1.5, 3.0]]), names)
    uc.save(tmp_path / f"one{suffix}", table)
    back = uc.load(tmp_path / f"one{suffix}")
    assert bits(back.points) == bits(table.points)
    assert back.names == names
    with pytest.raises(ValueError, match=r"n >= 2"):
        uc.health(back.points)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".pt", ".safetensors", ".parquet", ".txt", ".bin", ".csv", ".tsv"])
@pytest.mark.parametrize("is_new", [True, False], ids=["new", "read"])
def test_rows_are_converted_a_block_at_a_time(suffix, is_new, tmp_path, monkeypatch):
    monkeypatch.setattr("unclump.tables.files._writing.BLOCK", 7 * 3 * 4)
    monkeypatch.setattr("unclump.tables.files.parquet._GROUP", 7 * 3)
    names = None if suffix in {".npy", ".safetensors"} else [f"row{i}" for i in range(50)]
    table = Table(torch.from_numpy(rows_of(50, 3)), names)
    uc.save(tmp_path / f"old{suffix}", table)
    heights = []

    def double(rows):
        heights.append(len(rows))
        return 2 * rows

    source = table if is_new else uc.load(tmp_path / f"old{suffix}")
    uc.save(tmp_path / f"new{suffix}", dataclasses.replace(source, convert=double))
    back = uc.load(tmp_path / f"new{suffix}")
    assert bits(back.points) == bits(2 * table.points)
    assert back.names == names
    assert sum(heights) == 50
    assert max(heights) == (50 if suffix == ".pt" else 7)  # torch writes whole tensors


def test_columns_first_are_converted_too(tmp_path):
    np.save(tmp_path / "old.npy", np.asfortranarray(rows_of(50, 3)))
    table = uc.load(tmp_path / "old.npy")
    uc.save(tmp_path / "new.npy", dataclasses.replace(table, convert=lambda rows: 2 * rows))
    new = np.load(tmp_path / "new.npy")
    assert new.flags.f_contiguous
    np.testing.assert_array_equal(new, 2 * rows_of(50, 3))


def test_numbers_with_few_digits_stay_what_they_are_in_either_dtype(tmp_path):
    for dtype in WIDE:
        for first in (0.1, 0.0, 123456789.0, float("nan")):
            points = torch.tensor([[first, first], [0.123, 0.25]], dtype=dtype)
            uc.save(tmp_path / "few.txt", Table(points, ["a", "b"]))
            assert bits(uc.load(tmp_path / "few.txt").points) == bits(points)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_half_precision_in_text_comes_back_as_the_same_numbers(dtype, awkward, tmp_path):
    table = awkward(dtype)
    uc.save(tmp_path / "half.txt", table)
    assert bits(uc.load(tmp_path / "half.txt").points) == bits(table.points.float())


def test_every_sort_of_float32_survives_text(generator, tmp_path):
    raw = torch.randint(-(2**31), 2**31, (2000, 20), generator=generator).to(torch.int32).view(torch.float32)
    points = torch.where(raw.isnan(), 1.0, raw)
    uc.save(tmp_path / "all.csv", Table(points))
    assert bits(uc.load(tmp_path / "all.csv").points) == bits(points)


@pytest.mark.parametrize("name", ["table.bin", "table"])
def test_word2vec_binary(name, awkward, tmp_path):
    table = awkward(names=[name for name in NAMES if " " not in name])
    uc.save(tmp_path / "table.bin", table)
    (tmp_path / "table.bin").rename(tmp_path / name)  # told by its first bytes
    back = uc.load(tmp_path / name)
    assert bits(back.points) == bits(table.points)
    assert back.names == table.names


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("descr", ["<f4", ">f4", "<f2", ">f8"])
def test_arrays_of_any_order_are_read_and_keep_it(order, descr, tmp_path):
    array = np.asarray(rows_of(6, 4), dtype=descr, order=order)
    np.save(tmp_path / "a.npy", array)
    np.savez_compressed(tmp_path / "a.npz", array)
    for suffix in (".npy", ".npz"):
        table = uc.load(tmp_path / f"a{suffix}")
        np.testing.assert_array_equal(table.points.numpy(), array)
        uc.save(tmp_path / f"b{suffix}", table)
        back = np.load(tmp_path / f"b{suffix}")
        back = back if suffix == ".npy" else back["arr_0"]
        np.testing.assert_array_equal(back, array)
        assert back.flags.f_contiguous == (order == "F")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_archive_keeps_its_other_arrays(save, tmp_path):
    words = np.array(["a", "b", "c"])
    save(
        tmp_path / "a.npz", vectors=rows_of(3, 2), words=words, counts=np.arange(3), note=np.array({1: 2}, dtype=object)
    )
    table = uc.load(tmp_path / "a.npz")
    assert table.names == ["a", "b", "c"]
    uc.save(tmp_path / "b.npz", table.with_points(-table.points))
    with np.load(tmp_path / "b.npz") as back:
        assert back.files == ["vectors", "words", "counts", "note"]
        np.testing.assert_array_equal(back["vectors"], -rows_of(3, 2))
        np.testing.assert_array_equal(back["words"], words)
        np.testing.assert_array_equal(back["counts"], np.arange(3))
    with zipfile.ZipFile(tmp_path / "a.npz") as old, zipfile.ZipFile(tmp_path / "b.npz") as new:
        assert old.read("note.npy") == new.read("note.npy")  # a pickle: copied, not opened
        assert [info.compress_type for info in old.infolist()] == [info.compress_type for info in new.infolist()]
    with pytest.raises(FileError, match=r"'counts' of .*a.npz has 3 entries, one for each old row"):
        uc.save(tmp_path / "c.npz", table.with_points(torch.ones(4, 2), names=["a", "b", "c", "d"]))


def test_rows_may_be_added_where_nothing_else_counts_them(tmp_path):
    np.savez(tmp_path / "a.npz", vectors=rows_of(3, 2), words=np.array([b"a", b"b", b"c"]), scale=np.array(2.0))
    more = torch.cat([torch.from_numpy(rows_of(3, 2)), torch.ones(1, 2)])
    uc.save(tmp_path / "b.npz", uc.load(tmp_path / "a.npz").with_points(more, names=["a", "b", "c", "déjà"]))
    back = uc.load(tmp_path / "b.npz")
    assert torch.equal(back.points, more)
    assert back.names == ["a", "b", "c", "déjà"]
    assert np.load(tmp_path / "b.npz")["words"].dtype.kind == "S"


def test_a_state_dict_keeps_the_rest_and_its_ties(tmp_path):
    weight = torch.nn.Parameter(torch.from_numpy(rows_of(5, 3)))
    saved = {
        "model": {"emb.weight": weight, "head.weight": weight, "other": torch.ones(5, 3), "bias": torch.ones(5)},
        "step": 7,
        "names": list("abcde"),
    }
    torch.save(saved, tmp_path / "a.pt")
    table = uc.load(tmp_path / "a.pt", tensor="model.emb.weight")
    assert table.names == list("abcde")
    uc.save(tmp_path / "b.pt", table.with_points(2 * table.points))
    back = torch.load(tmp_path / "b.pt", weights_only=True)
    assert isinstance(back["model"]["emb.weight"], torch.nn.Parameter)
    assert torch.equal(back["model"]["emb.weight"], 2 * weight)
    assert back["model"]["head.weight"].data_ptr() == back["model"]["emb.weight"].data_ptr()
    assert torch.equal(back["model"]["other"], torch.ones(5, 3))  # as large, and not tied
    assert torch.equal(back["model"]["bias"], torch.ones(5))
    assert back["step"] == 7
    with pytest.raises(FileError, match=r"'model.other' of .* has 5 entries"):
        uc.save(tmp_path / "c.pt", table.with_points(torch.ones(6, 3), names=list("abcdef")))


def test_a_slice_does_not_bring_what_it_was_cut_from(tmp_path):
    uc.save(tmp_path / "a.pt", Table(torch.ones(10_000, 100)[:5]))
    assert (tmp_path / "a.pt").stat().st_size < 10_000


def test_safetensors_keeps_other_tensors_and_metadata(tmp_path):
    tensors = {"emb": torch.from_numpy(rows_of(4, 3)), "a": torch.ones(2, 2, 2).bfloat16(), "z": torch.arange(5)}
    safetensors.torch.save_file(tensors, tmp_path / "a.safetensors", metadata={"format": "pt", "note": "naïve"})
    table = uc.load(tmp_path / "a.safetensors")
    uc.save(tmp_path / "same.safetensors", table)
    assert (tmp_path / "same.safetensors").read_bytes() == (tmp_path / "a.safetensors").read_bytes()
    uc.save(tmp_path / "b.safetensors", table.with_points(torch.cat([-table.points, torch.ones(3, 3)])))
    back = safetensors.torch.load_file(tmp_path / "b.safetensors")
    assert torch.equal(back.pop("emb"), torch.cat([-table.points, torch.ones(3, 3)]))
    assert all(bits(back[key]) == bits(tensors[key]) for key in ("a", "z"))
    with safetensors.safe_open(tmp_path / "b.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt", "note": "naïve"}


@pytest.mark.parametrize("kind", ["list", "large", "fixed", "columns"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_parquet_keeps_its_columns_types_and_row_groups(kind, dtype, tmp_path):
    array = rows_of(7, 3).astype(dtype)
    number = pa.from_numpy_dtype(dtype)
    types = {"list": pa.list_(number), "large": pa.large_list(number), "fixed": pa.list_(number, 3)}
    vectors = (
        {f"x{i}": array[:, i] for i in range(3)} if kind == "columns" else {"v": pa.array(list(array), types[kind])}
    )
    old = pa.table({"id": list(range(7)), "word": ["a", None, *"cdefg"], **vectors}).replace_schema_metadata({"k": "v"})
    pq.write_table(old, tmp_path / "a.parquet", row_group_size=3, compression="zstd")
    table = uc.load(tmp_path / "a.parquet")
    np.testing.assert_array_equal(table.points.numpy(), array)
    assert table.names == ["a", "", *"cdefg"]
    uc.save(tmp_path / "b.parquet", table)
    assert pq.read_table(tmp_path / "b.parquet").equals(pq.read_table(tmp_path / "a.parquet"), check_metadata=True)
    assert pq.ParquetFile(tmp_path / "b.parquet").num_row_groups == 3
    uc.save(tmp_path / "c.parquet", table.with_points(-table.points))
    np.testing.assert_array_equal(uc.load(tmp_path / "c.parquet").points.numpy(), -array)
    with pytest.raises(FileError, match=r"column 'id' of .* has no values for the new rows"):
        uc.save(tmp_path / "d.parquet", table.with_points(torch.ones(8, 3), names=list("abcdefgh")))


def test_rows_may_be_added_to_parquet_without_other_columns(tmp_path):
    uc.save(tmp_path / "a.parquet", Table(torch.ones(3, 2), names=["a", "b", "c"]))
    uc.save(tmp_path / "b.parquet", uc.load(tmp_path / "a.parquet").with_points(torch.eye(4, 2), names=list("abcd")))
    back = uc.load(tmp_path / "b.parquet")
    assert torch.equal(back.points, torch.eye(4, 2))
    assert back.names == list("abcd")


def test_text_without_a_first_line_stays_without(tmp_path):
    (tmp_path / "glove.txt").write_text("the 0.418 0.24968 -0.41242\nnew york 0.013441 0.23682 -0.16899\n")
    uc.save(tmp_path / "b.txt", uc.load(tmp_path / "glove.txt"))
    assert (tmp_path / "b.txt").read_bytes() == (tmp_path / "glove.txt").read_bytes()


@pytest.mark.parametrize("head", ["word,a,b\n", "", "a,b,c\n", ",0,1\n"])
def test_csv_keeps_its_headings(head, tmp_path):
    (tmp_path / "a.csv").write_text(head + 'the,0.5,1.25\n"x, y",2.0,3.0\n')
    uc.save(tmp_path / "b.csv", uc.load(tmp_path / "a.csv"))
    assert (tmp_path / "b.csv").read_bytes() == (tmp_path / "a.csv").read_bytes()


def test_other_programs_read_what_is_written(awkward, tmp_path):
    table = awkward(names=[name for name in NAMES if name.isprintable()])
    for suffix in (".csv", ".npz", ".parquet", ".pt"):
        uc.save(tmp_path / f"a{suffix}", table)
    with open(tmp_path / "a.csv", newline="", encoding="utf-8") as file:
        assert [row[0] for row in csv.reader(file)][1:] == table.names
    assert np.load(tmp_path / "a.npz")["names"].tolist() == table.names
    assert pq.read_table(tmp_path / "a.parquet")["name"].to_pylist() == table.names
    assert torch.load(tmp_path / "a.pt", weights_only=True)["names"] == table.names
    uc.save(tmp_path / "a.safetensors", Table(table.points))
    assert bits(safetensors.torch.load_file(tmp_path / "a.safetensors")["points"]) == bits(table.points)
    header = (tmp_path / "a.safetensors").read_bytes()
    assert json.loads(header[8 : 8 + int.from_bytes(header[:8], "little")])["points"]["shape"] == [*table.points.shape]


def test_names_of_a_names_file_stay_there(tmp_path):
    np.save(tmp_path / "a.npy", rows_of(3, 2))
    (tmp_path / "names.txt").write_bytes("\ufeffa b\r\n\r\nc".encode())
    table = uc.load(tmp_path / "a.npy", names=tmp_path / "names.txt")
    assert table.names == ["a b", "", "c"]
    uc.save(tmp_path / "b.npy", table)
    uc.save(tmp_path / "b.txt", table)
    assert uc.load(tmp_path / "b.txt").names == ["a b", "", "c"]
    with pytest.raises(FileError, match=r"names.txt: is one of the files the table was read from"):
        uc.save(tmp_path / "names.txt", table)


def test_with_points_keeps_the_dtype():
    table = Table(torch.ones(2, 2, dtype=torch.bfloat16))
    assert table.with_points(torch.rand(2, 2, dtype=torch.float64)).points.dtype is torch.bfloat16
