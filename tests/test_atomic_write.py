"""Temporary files: a killed writer's are removed by the next write, a living one's are not, nor anything else."""

import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import unclump
from unclump._atomic_write import remove_abandoned, replace_file, replace_folder, temporary_folder

WRITER = """
import sys
from pathlib import Path
from unclump._atomic_write import replace_file, replace_folder, temporary_folder
if sys.argv[1] == "file":
    with replace_file(Path(sys.argv[2])) as file:
        file.write(b"half"); file.flush(); print("writing", flush=True); sys.stdin.read()
elif sys.argv[1] == "temporary":
    with temporary_folder() as folder:
        (folder / "part").write_bytes(b"half"); print("writing", flush=True); sys.stdin.read()
else:
    with replace_folder(Path(sys.argv[2])) as folder:
        (folder / "part").write_bytes(b"half"); print("writing", flush=True); sys.stdin.read()
"""


@pytest.fixture
def writer(tmp_path):
    """writer(kind): a process that has written half of `a`, and waits."""
    processes = []

    def start(kind):
        environment = os.environ | {"PYTHONPATH": str(Path(unclump.__file__).parents[1]), "TMPDIR": str(tmp_path)}
        command = [sys.executable, "-c", WRITER, kind, str(tmp_path / "a")]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        processes.append(process)
        assert process.stdout.readline() == b"writing\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


@pytest.mark.parametrize("kind", ["file", "folder", "temporary"])
def test_what_a_killed_writer_left_is_removed_by_the_next_write(kind, writer, tmp_path):
    process = writer(kind)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(names(tmp_path)) == 1
    with replace_file(tmp_path / "b") as file:
        file.write(b"whole")
    assert names(tmp_path) == ["b"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_a_living_writer_is_at_stays(kind, writer, tmp_path):
    process = writer(kind)
    with replace_folder(tmp_path / "b"):
        pass
    assert len(names(tmp_path)) == 2
    process.communicate()
    assert process.returncode == 0
    assert names(tmp_path) == ["a", "b"]


def test_a_temporary_folder_is_private_and_gone_afterwards(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with temporary_folder() as folder:
        assert folder.parent == tmp_path
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        with temporary_folder():
            assert folder.exists()
    assert names(tmp_path) == []


def test_nothing_else_is_removed(tmp_path):
    others = [".unclump-notes.tmp", ".unclump-0123456789abcdef.tmp.bak", "unclump-0123456789abcdef.tmp"]
    for name in others:
        (tmp_path / name).write_text("mine")
    (tmp_path / "target").write_text("mine")
    (tmp_path / ".unclump-0123456789abcdef.tmp").symlink_to("target")
    os.mkfifo(tmp_path / ".unclump-1123456789abcdef.tmp")
    before = names(tmp_path)
    with replace_file(tmp_path / "b") as file:
        file.write(b"whole")
    assert names(tmp_path) == sorted([*before, "b"])


@pytest.mark.parametrize("before", ["copymode", "replace"])
def test_a_complete_file_is_not_taken_for_abandoned_before_its_rename(before, monkeypatch, tmp_path):
    module = {"copymode": shutil, "replace": os}[before]
    original = getattr(module, before)

    def meanwhile(*paths):
        remove_abandoned(tmp_path)  # by another writer
        return original(*paths)

    (tmp_path / "a").write_bytes(b"old")
    monkeypatch.setattr(module, before, meanwhile)
    with replace_file(tmp_path / "a") as file:
        file.write(b"whole")
    assert (tmp_path / "a").read_bytes() == b"whole"


def test_a_folder_that_another_writer_removes_before_it_is_locked_is_created_again(monkeypatch, tmp_path):
    original, removed = os.open, []

    def meanwhile(path, *flags):
        if not removed and Path(path).name.startswith(".unclump-"):
            removed.append(path)
            Path(path).rmdir()
        return original(path, *flags)

    monkeypatch.setattr(os, "open", meanwhile)
    with replace_folder(tmp_path / "a") as folder:
        (folder / "part").write_bytes(b"whole")
    assert len(removed) == 1
    assert (tmp_path / "a" / "part").read_bytes() == b"whole"
