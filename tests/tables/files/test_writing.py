"""A file under its final name is whole: killed, interrupted, on a full disk, in place, through links."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import unclump as uc
from tests.tables.files import killing
from tests.tables.files.conftest import rows_of
from unclump.tables.files import FileError, Table, check_target

SUFFIXES = [".npy", ".npz", ".pt", ".safetensors", ".txt", ".csv", ".bin", ".parquet"]


@pytest.fixture(scope="module")
def died(tmp_path_factory):
    """What `killing` found, for every format."""
    environment = os.environ | {"PYTHONPATH": str(Path(uc.__file__).parents[1])}
    command = [sys.executable, killing.__file__, str(tmp_path_factory.mktemp("died")), *SUFFIXES]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=300)
    return json.loads(run.stdout)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_killed_writer_leaves_the_old_file_or_the_new(suffix, died):
    assert died[suffix]["broken"] == 0
    assert died[suffix]["complete"] == killing.KILLS


def test_the_kills_came_while_files_were_written(died):
    assert sum(died[suffix]["caught writing"] for suffix in SUFFIXES) > len(SUFFIXES)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_full_disk_says_so_and_leaves_nothing(suffix, died):
    assert f"table{suffix}: could not be written, nothing was changed: file too large" in died[suffix]["said"]
    assert died[suffix]["unchanged"]
    assert died[suffix]["left"] == [f"table{suffix}"]


def test_an_interrupt_leaves_nothing(died):
    assert died["interrupted"] == []


@pytest.fixture
def table(tmp_path):
    np.save(tmp_path / "a.npy", rows_of(3, 2))
    return uc.load(tmp_path / "a.npy")


def test_the_file_it_was_read_from_is_only_replaced_in_place(table, tmp_path, monkeypatch):
    (tmp_path / "link.npy").symlink_to("a.npy")
    (tmp_path / "hard.npy").hardlink_to(tmp_path / "a.npy")
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    for name in ("a.npy", "link.npy", "hard.npy", "folder/../a.npy", str(tmp_path / "a.npy")):
        with pytest.raises(FileError, match=r"is what the table was read from; .* in_place=True"):
            uc.save(name, table)
    uc.save("link.npy", table.with_points(-table.points), in_place=True)
    assert (tmp_path / "link.npy").is_symlink()
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), -rows_of(3, 2))
    np.testing.assert_array_equal(table.points.numpy(), rows_of(3, 2))  # still mapped from the file that was


def test_a_path_that_was_relative_still_names_the_same_file(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", rows_of(3, 2))
    monkeypatch.chdir(tmp_path)
    table = uc.load("a.npy")
    monkeypatch.chdir("/")
    with pytest.raises(FileError, match="is what the table was read from"):
        uc.save(tmp_path / "a.npy", table)


@pytest.mark.parametrize("suffix", [".npz", ".pt", ".safetensors", ".parquet"])
def test_what_is_copied_from_must_be_what_was_read(suffix, tmp_path):
    path = tmp_path / f"a{suffix}"
    uc.save(path, Table(torch.eye(3)))
    table = uc.load(path)
    uc.save(path, Table(-torch.eye(3)))
    with pytest.raises(FileError, match=r"has changed since it was read; read it again"):
        uc.save(tmp_path / f"b{suffix}", table)
    path.unlink()
    with pytest.raises(FileError, match=r"has changed since it was read"):
        uc.save(tmp_path / f"b{suffix}", table)
    assert os.listdir(tmp_path) == []


def test_places_that_cannot_be_written(table, tmp_path):
    os.mkfifo(tmp_path / "pipe.npy")
    (tmp_path / "folder.npy").mkdir()
    for name, message in (
        ("missing/a.npy", "its folder does not exist"),
        ("folder.npy", "is a folder; name a file in it"),
        ("pipe.npy", "is not a regular file"),
    ):
        with pytest.raises(FileError, match=message):
            check_target(tmp_path / name, table)
        with pytest.raises(FileError, match=message):
            uc.save(tmp_path / name, table)
    with pytest.raises(FileError, match=r"/dev/null: is not a regular file"):
        uc.save("/dev/null", table)
    with pytest.raises(FileError, match=r"has an unknown suffix, .*; use one of .npy"):
        uc.save(tmp_path / "table", Table(torch.eye(2)))


def test_what_a_format_cannot_hold_is_refused_before_anything_is_written(tmp_path):
    named = lambda *names: Table(torch.eye(len(names)), names)  # noqa: E731
    for name, table, message in (
        ("a.txt", Table(torch.eye(2)), "text needs a name for each row, and the table has none"),
        ("a.npy", named("a", "b"), r"npy cannot store names; write .npz"),
        ("a.safetensors", named("a", "b"), "safetensors cannot store names"),
        ("a.txt", named("a", "b\nc"), r"names cannot hold line breaks in this format, but row 1 is 'b\\nc'"),
        ("a.bin", named("a", "b c"), "cannot contain spaces, but row 1 is 'b c'"),
        ("a.bin", Table(torch.eye(2).double(), ["a", "b"]), "word2vec holds float32, the points are float64"),
        ("a.tsv", named("a", "b\tc"), r"TSV cannot hold the tab or line break in row 1, 'b\\tc'; use .csv"),
        ("a.npz", named("a", "b\0"), "cannot end in a NUL"),
        ("a.parquet", named("a", "\udc80"), "Parquet holds only Unicode"),
    ):
        with pytest.raises(FileError, match=message):
            uc.save(tmp_path / name, table)
        assert os.listdir(tmp_path) == []


def test_a_table_of_other_dimensions_is_a_new_one(table, tmp_path):
    with pytest.raises(FileError, match="was read in 2 dimensions and has 3 now"):
        uc.save(tmp_path / "b.npy", table.with_points(torch.eye(3)))


def test_permissions_are_those_of_any_new_file_or_of_the_old(table, tmp_path):
    mask = os.umask(0o027)
    try:
        uc.save(tmp_path / "new.npy", table)
        assert stat.S_IMODE((tmp_path / "new.npy").stat().st_mode) == 0o640
        (tmp_path / "new.npy").chmod(0o664)
        uc.save(tmp_path / "new.npy", table)
        assert stat.S_IMODE((tmp_path / "new.npy").stat().st_mode) == 0o664
    finally:
        os.umask(mask)


def test_the_bytes_are_on_the_disk_before_the_name_is(table, tmp_path, monkeypatch):
    done = []
    real_sync, real_replace = os.fsync, os.replace

    def sync(handle):
        is_folder = stat.S_ISDIR(os.fstat(handle).st_mode)
        done.append("folder" if is_folder else os.fstat(handle).st_size)
        real_sync(handle)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", lambda *paths: (done.append("name"), real_replace(*paths)))
    uc.save(tmp_path / "b.npy", table)
    assert done == [(tmp_path / "b.npy").stat().st_size, "name", "folder"]


def test_a_name_as_long_as_the_disk_allows(table, tmp_path):
    uc.save(tmp_path / ("a" * 251 + ".npy"), table)
    assert (tmp_path / ("a" * 251 + ".npy")).exists()


def test_points_that_need_gradients_or_are_not_contiguous_are_written(tmp_path):
    points = torch.arange(12.0).reshape(3, 4).T.requires_grad_()
    for suffix in (".npy", ".pt", ".safetensors", ".csv", ".parquet", ".npz"):
        uc.save(tmp_path / f"a{suffix}", Table(points))
        assert torch.equal(uc.load(tmp_path / f"a{suffix}").points, points.detach())


MEMORY = """
import json, os, resource, struct, sys
import torch
import unclump as uc
from unclump.tables.files import FileError

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

def sparse(path, gigabytes):
    "A model with an embedding of 4,000 rows and that many gigabytes around it, which take no disk."
    rest, emb = int(gigabytes * 2**30), 4000 * 256 * 4
    header = json.dumps({
        "before": {"dtype": "F32", "shape": [rest // 8], "data_offsets": [0, rest // 2]},
        "emb": {"dtype": "F32", "shape": [4000, 256], "data_offsets": [rest // 2, rest // 2 + emb]},
        "after": {"dtype": "F32", "shape": [rest // 8], "data_offsets": [rest // 2 + emb, rest + emb]},
    }).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + rest + emb)

folder = sys.argv[1]
uc.save(folder + "/warm.safetensors", uc.Table(torch.eye(3)))
uc.load(folder + "/warm.safetensors")
begin = peak()
sparse(folder + "/huge.safetensors", 5)
table = uc.load(folder + "/huge.safetensors")
table.points.sum()
reading = peak() - begin
sparse(folder + "/some.safetensors", 0.25)
uc.save(folder + "/copy.safetensors", uc.load(folder + "/some.safetensors"))
copying = peak() - begin
with open(folder + "/huge.npy", "wb") as file:
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (10000000, 128), }".ljust(117) + b"\\n"
    file.write(b"\\x93NUMPY\\x01\\x00" + struct.pack("<H", len(header)) + header)
    file.truncate(128 + 10_000_000 * 128 * 4)
uc.load(folder + "/huge.npy").points[::1_000_000].sum()
mapping = peak() - begin
print(json.dumps([reading, copying, mapping]))
"""


def test_huge_files_do_not_need_memory(tmp_path):
    """Megabytes for a table out of 5 GB of safetensors, for copying 256 MB around one, and for 5 GB of `.npy`."""
    environment = os.environ | {"PYTHONPATH": str(Path(uc.__file__).parents[1])}
    command = [sys.executable, "-c", MEMORY, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=100)
    assert max(json.loads(run.stdout)) < 60
    for path in tmp_path.iterdir():
        path.unlink()
