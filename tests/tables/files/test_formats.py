"""Files as other programs write them, and the choices a reader has."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.torch
import torch

import unclump as uc
from tests.tables.files.conftest import rows_of
from unclump.tables.files import BadRow, FileError, Table, bad_rows


def write(path, content):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("content", "names", "points"),
    [
        ("2 3\nthe 1 2 3\nof 4 5 6\n", ["the", "of"], [[1, 2, 3], [4, 5, 6]]),
        ("\ufeff2 3\r\nthe 1 2 3 \r\nof 4 5 6 \r\n\r\n", ["the", "of"], [[1, 2, 3], [4, 5, 6]]),  # word2vec's own
        ("the 1 2 3\nof 4 5 6", ["the", "of"], [[1, 2, 3], [4, 5, 6]]),
        ("1990 1 2 3\nof 4 5 6\n", ["1990", "of"], [[1, 2, 3], [4, 5, 6]]),
        (
            "new york 1 2 3\nof 4 5 6\nroute 66 7 8 9\n",
            ["new york", "of", "route 66"],
            [[1, 2, 3], [4, 5, 6], [7, 8, 9]],
        ),
        (". . . 1 2 3\n 4 5 6\n\xa0 7 8 9\n", [". . .", "", "\xa0"], [[1, 2, 3], [4, 5, 6], [7, 8, 9]]),
        ("2 2\na 1 1 2\nb b 2 3 4\n", ["a 1", "b b 2"], [[1, 2], [3, 4]]),  # the first line knows better
        ("a 1e-3 -.5\nb +2 1E2\n", ["a", "b"], [[1e-3, -0.5], [2, 100]]),
        ("inf 1 2\nthe inf nan\n", ["inf", "the"], [[1, 2], [float("inf"), float("nan")]]),
    ],
)
@pytest.mark.parametrize("suffix", [".txt", ".vec", ".kv", ""])
def test_word2vec_text_and_glove(content, names, points, suffix, tmp_path):
    table = uc.load(write(tmp_path / f"words{suffix}", content))
    assert table.names == names
    torch.testing.assert_close(table.points, torch.tensor(points, dtype=torch.float32), equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("0.123456789", torch.float32),
        ("0.1234567891", torch.float64),
        ("12345.678912345e-3", torch.float64),
        ("0.000000000001", torch.float32),
        ("1e39", torch.float64),
        ("9e38", torch.float64),
        ("1e-60", torch.float64),
        ("3.4028235e38", torch.float32),
        ("1e-45", torch.float32),
        ("inf", torch.float32),
        ("1.000000000000000000e+00", torch.float64),  # numpy.savetxt
    ],
)
def test_text_is_as_wide_as_its_digits_say(text, dtype, tmp_path):
    table = uc.load(write(tmp_path / "a.txt", f"12345678901 1 2\nb {text} 0\n"))
    assert table.points.dtype is dtype
    assert table.points[1, 0].item() == torch.tensor(float(text), dtype=torch.float64).to(dtype).item()


@pytest.mark.parametrize("end", [b"", b"\n"], ids=["gensim", "word2vec"])
def test_word2vec_binary_of_both_programs(end, tmp_path):
    rows = rows_of(3, 4)
    content = b"3 4\n" + b"".join(
        name.encode() + b" " + row.tobytes() + end for name, row in zip(["the", "", "日本"], rows, strict=True)
    )
    table = uc.load(write(tmp_path / "a.bin", content))
    assert table.names == ["the", "", "日本"]
    np.testing.assert_array_equal(table.points.numpy(), rows)
    uc.save(tmp_path / "b.bin", table)
    assert (tmp_path / "b.bin").read_bytes() == content


@pytest.mark.parametrize(
    ("content", "names", "points"),
    [
        ("1,2\n3,4\n", None, [[1, 2], [3, 4]]),
        ("x,y\n1,2\n3,4\n", None, [[1, 2], [3, 4]]),
        ("0,1\n1,2\n3,4\n", None, [[1, 2], [3, 4]]),  # pandas without index
        (",0,1\n0,1,2\n1,3,4\n", ["0", "1"], [[1, 2], [3, 4]]),  # pandas with index
        ("a,1,2\nb,3,4\n", ["a", "b"], [[1, 2], [3, 4]]),
        ("word,x,y\r\n1990,1,2\r\nb,3,4\r\n", ["1990", "b"], [[1, 2], [3, 4]]),
        ("label,0,1\na,1,2\nb,3,4\n", ["a", "b"], [[1, 2], [3, 4]]),
        ('\ufeff"x, ""y""\n z","1",2\n\n"b",3, 4 \n', ['x, "y"\n z', "b"], [[1, 2], [3, 4]]),
        (",1,2\nb,3,4\n", ["", "b"], [[1, 2], [3, 4]]),
    ],
)
def test_csv(content, names, points, tmp_path):
    table = uc.load(write(tmp_path / "a.csv", content))
    assert table.names == names
    assert table.points.tolist() == points


def test_tsv_has_no_quotes(tmp_path):
    table = uc.load(write(tmp_path / "a.tsv", '"\t1\t2\na, "b"\t3\t4\n'))
    assert table.names == ['"', 'a, "b"']
    assert table.points.tolist() == [[1, 2], [3, 4]]


def test_a_key_is_chosen_or_the_candidates_are_listed(tmp_path):
    arrays = {"input": rows_of(3, 2), "output": rows_of(4, 2), "labels": np.arange(3)}
    np.savez(tmp_path / "a.npz", **arrays)
    torch.save({key: torch.from_numpy(array) for key, array in arrays.items()}, tmp_path / "a.pt")
    safetensors.torch.save_file({k: torch.from_numpy(a) for k, a in arrays.items()}, tmp_path / "a.safetensors")
    for suffix, integers in ((".npz", "int64"), (".pt", "int64"), (".safetensors", "I64")):
        path = tmp_path / f"a{suffix}"
        assert uc.load(path, tensor="output").points.shape == (4, 2)
        several = "holds several tables; pick one with tensor=...: 'input' float32 (3, 2), 'output' float32 (4, 2)"
        with pytest.raises(FileError, match=re.escape(several)):
            uc.load(path)
        with pytest.raises(FileError, match=re.escape("holds no 'weird\\x1b'; it holds 'input' float32 (3, 2), 'out")):
            uc.load(path, tensor="weird\x1b")
        with pytest.raises(FileError, match=re.escape(f"of shape (n, d), got 'labels' {integers} (3,)")):
            uc.load(path, tensor="labels")


def test_many_candidates_are_listed_in_one_line(tmp_path):
    safetensors.torch.save_file({f"layer.{i}.weight": torch.ones(4, 4) for i in range(50)}, tmp_path / "a.safetensors")
    with pytest.raises(FileError, match=r"and 42 more$"):
        uc.load(tmp_path / "a.safetensors")


def test_parquet_columns_are_chosen(tmp_path):
    wide = {f"{name}{i}": [float(i), 1.0] for name in "xy" for i in range(3)}
    lists = {"left": [[1.0, 2.0], [3.0, 4.0]], "right": [[5.0, 6.0], [7.0, 8.0]]}
    pq.write_table(pa.table({**wide, "name": ["a", "b"], "kind": ["c", "d"]}), tmp_path / "wide.parquet")
    pq.write_table(pa.table(lists), tmp_path / "lists.parquet")
    table = uc.load(tmp_path / "wide.parquet", tensor="y")
    assert table.points.tolist() == [[0, 1, 2], [1, 1, 1]]
    assert table.names == ["a", "b"]
    assert uc.load(tmp_path / "wide.parquet").points.shape == (2, 6)
    assert uc.load(tmp_path / "lists.parquet", tensor="right").points.tolist() == lists["right"]
    with pytest.raises(FileError, match=r"pick one with tensor=...: 'left' list<element: double> \(2,\), 'right'"):
        uc.load(tmp_path / "lists.parquet")
    with pytest.raises(FileError, match="holds no column 'z' in floating point; it holds 'x0' double"):
        uc.load(tmp_path / "wide.parquet", tensor="z")


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([[1.0, 2.0], [3.0]], "row 1: expected 2 numbers, got 1"),
        ([[1.0, 2.0], None], "row 1: expected numbers in 'v', got null"),
        ([[1.0, 2.0], [3.0, None]], "row 1: expected numbers, got a null among them"),
        ([[1, 2], [3, 4]], "no columns of numbers or column of lists in floating point; it holds 'v' list.*; convert"),
        ([[1.0], [2.0]], "at least 1 row of at least 2 numbers, got 2 x 1"),
        ([], "at least 1 row"),
    ],
)
def test_parquet_refuses_what_is_no_table(column, message, tmp_path):
    kind = None if column else pa.list_(pa.float32())
    pq.write_table(pa.table({"v": pa.array(column, kind)}), tmp_path / "a.parquet")
    with pytest.raises(FileError, match=message):
        uc.load(tmp_path / "a.parquet")


def test_files_are_told_by_their_bytes_where_the_suffix_says_nothing(tmp_path):
    table = Table(torch.from_numpy(rows_of(3, 2)), ["a", "b", "c"])
    for suffix in (".npz", ".pt", ".parquet", ".txt", ".bin"):
        uc.save(tmp_path / f"a{suffix}", table)
    for suffix in (".npy", ".safetensors"):
        uc.save(tmp_path / f"a{suffix}", Table(table.points))
    for path in list(tmp_path.iterdir()):
        form = uc.load(path).source.format
        path.rename(tmp_path / "unknown.dat")
        back = uc.load(tmp_path / "unknown.dat")
        assert back.source.format == form
        assert torch.equal(back.points, table.points)
        uc.save(tmp_path / "again", back)  # and written as what they are
        assert uc.load(tmp_path / "again").source.format == form


def test_bad_rows_are_found_by_number_and_name():
    points = torch.ones(7, 3)
    points[1, 0], points[2, 1], points[3], points[5, 2] = float("nan"), float("-inf"), 0, float("nan")
    points[5, 1] = float("inf")
    found = [BadRow(1, "b", "NaN"), BadRow(2, "c", "infinite"), BadRow(3, "d", "zero"), BadRow(5, "f", "NaN")]
    assert bad_rows(Table(points, names=list("abcdefg"))) == found
    assert bad_rows(Table(points.bfloat16()))[1] == BadRow(2, None, "infinite")
    assert bad_rows(Table(torch.ones(2, 2))) == []


def test_bad_rows_of_a_table_of_many_blocks():
    points = torch.ones(5000, 2000)
    points[4999] = 0
    assert bad_rows(Table(points)) == [BadRow(4999, None, "zero")]


def test_reading_maps_and_never_changes_the_file(tmp_path):
    points = torch.from_numpy(rows_of(4, 3))
    for suffix in (".npy", ".pt", ".safetensors"):
        path = tmp_path / f"a{suffix}"
        uc.save(path, Table(points))
        uc.load(path).points.mul_(7)
        assert torch.equal(uc.load(path).points, points)


def test_numbers_lie_where_a_processor_wants_them(tmp_path):
    for length in range(1, 9):  # the length of the key moves the numbers in the archive
        np.savez(tmp_path / "a.npz", **{"k" * length: rows_of(3, 2)})
        points = uc.load(tmp_path / "a.npz").points
        assert points.data_ptr() % 4 == 0
        np.testing.assert_array_equal(points.numpy(), rows_of(3, 2))
