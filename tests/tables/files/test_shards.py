"""Several files that hold the rows of one table."""

import re

import numpy as np
import pytest
import torch

import unclump as uc
from tests.tables.files.conftest import bits, rows_of
from unclump._arrays import read_only_tensor
from unclump.tables.files import FileError, Table, check_target, read_shards, read_tables
from unclump.tables.rows import Rows


def test_rows_and_names_of_all_shards_in_order(tmp_path):
    paths = [tmp_path / name for name in ("b.npz", "a.txt", "c.parquet")]
    for number, path in enumerate(paths):
        uc.save(path, Table(torch.full((number + 2, 3), float(number)), [f"{number}.{i}" for i in range(number + 2)]))
    table = read_tables(paths)
    assert table.points[:, 0].tolist() == [0, 0, 1, 1, 1, 2, 2, 2, 2]
    assert table.names[1:4] == ["0.1", "1.0", "1.1"]
    uc.save(tmp_path / "all.npz", table)
    assert bits(uc.load(tmp_path / "all.npz").points) == bits(table.points)


def test_one_path_is_load(tmp_path):
    np.save(tmp_path / "a.npy", rows_of(3, 2).astype(np.float16))
    table = read_tables([tmp_path / "a.npy"])
    assert table.source == uc.load(tmp_path / "a.npy").source


def test_no_shard_is_written_over(tmp_path):
    paths = [tmp_path / name for name in ("a.npy", "b.npy")]
    for path in paths:
        np.save(path, rows_of(3, 2))
    table = read_tables(paths)
    for path in paths:
        with pytest.raises(FileError, match="read from"):
            check_target(path, table, in_place=True)
    uc.save(tmp_path / "c.npy", table)
    assert uc.load(tmp_path / "c.npy").points.shape == (6, 2)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (rows_of(3, 5), "rows of 2 float32 numbers without names, as in .*a.npy, got rows of 5 float32 numbers"),
        (rows_of(3, 2).astype(np.float64), "got rows of 2 float64 numbers without names"),
    ],
)
def test_shards_that_do_not_fit_are_refused(second, message, tmp_path):
    np.save(tmp_path / "a.npy", rows_of(3, 2))
    np.save(tmp_path / "b.npy", second)
    with pytest.raises(FileError, match=rf"b.npy: expected .*{message}"):
        read_tables([tmp_path / "a.npy", tmp_path / "b.npy"])


def test_names_are_those_of_all_shards_together(tmp_path):
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", rows_of(2, 2))
    paths = [tmp_path / "a.npy", tmp_path / "b.npy"]
    (tmp_path / "names.txt").write_text("w\nx\ny\nz\n")
    assert read_tables(paths, names=tmp_path / "names.txt").names == list("wxyz")
    (tmp_path / "names.txt").write_text("w\nx\n")
    with pytest.raises(FileError, match=re.escape("expected 4 names, one per line and row, got 2")):
        read_tables(paths, names=tmp_path / "names.txt")
    with pytest.raises(FileError, match="at least one file, got none"):
        read_tables([])


def test_shards_are_measured_where_they_are(tmp_path, points, monkeypatch):
    """As one table, whose blocks cross the ends of shards, and which is never copied whole."""
    x = points(900, 5).float()
    x[700], x[20], x[40, 1] = x[3], 0, torch.nan
    for number, part in enumerate(x.split((300, 1, 599))):
        torch.save(part.clone(), tmp_path / f"{number}.pt")
    parts = [shard.points for shard in read_shards(sorted(tmp_path.glob("*.pt")))]
    parts.insert(2, parts[0][:0])
    monkeypatch.setattr("unclump.tables.rows.BLOCK", 5 * 70)
    sampled, exact = uc.health(x, sample=200).to_dict(), uc.health(x, exact=True).to_dict()
    between, copied = Rows.between, []

    def watched(rows, start, stop):
        block = between(rows, start, stop)
        copied.append(0 if any(block.data_ptr() in addresses(part) for part in parts) else len(block))
        return block

    monkeypatch.setattr(Rows, "between", watched)
    assert uc.health(parts, sample=200).to_dict() == sampled
    assert sorted(copied)[-2:] == [0, 70]  # the one block that begins before row 300 and ends after it
    assert uc.health(parts, exact=True).to_dict() == exact


def addresses(x):
    return range(x.data_ptr(), x.data_ptr() + x.nbytes)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([torch.ones(2, 3), torch.ones(2, 4)], "expected parts of one dimension and dtype"),
        ([torch.ones(2, 3), torch.ones(2, 3).double()], "expected parts of one dimension and dtype"),
        ([torch.ones(1, 3), torch.ones(0, 3)], "expected at least 2 rows in all parts together, got 1"),
    ],
)
def test_parts_that_do_not_fit_are_refused(parts, message):
    with pytest.raises(ValueError, match=message):
        uc.health(parts)
    with pytest.raises(TypeError, match="expected a tensor, an array"):
        uc.health([[1.0, 2.0], [3.0, 4.0]])


def test_an_array_that_numpy_mapped_is_not_copied(tmp_path, points, recwarn):
    x = points(50, 4)
    np.save(tmp_path / "a.npy", x.numpy())
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    assert read_only_tensor(mapped).data_ptr() == mapped.ctypes.data
    assert uc.health(mapped) == uc.health(x)
    swapped = np.array(mapped, dtype=">f8")
    assert torch.equal(read_only_tensor(swapped), read_only_tensor(mapped))
    assert torch.equal(read_only_tensor(np.asfortranarray(mapped)), read_only_tensor(mapped))
    assert len(recwarn) == 0
