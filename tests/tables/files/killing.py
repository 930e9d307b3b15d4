"""Run as a program: writes files in child processes that die on the way, and prints what is left as JSON.

One process imports torch and forks the children: a fork costs milliseconds, an import seconds.
"""

import json
import os
import random
import resource
import signal
import sys
import time
from pathlib import Path

import torch

import unclump as uc
from unclump.tables.files import FileError, Table

torch.set_num_threads(1)
KILLS = 6
NAMES = [f"row{i}" for i in range(1000)]


def tables(suffix):
    """Two tables that nobody can confuse, and that take a while to write."""
    names = None if suffix in {".npy", ".safetensors", ""} else NAMES
    generator = torch.Generator().manual_seed(0)
    return [Table(torch.randn(1000, 64, generator=generator), names) for _ in range(2)]


def forked(action):
    child = os.fork()
    if child == 0:
        try:
            action()
        finally:
            os._exit(0)
    return child


def killed(folder, suffix, seconds, chance):
    """What stands under the final name after the writer was killed: the old, the new, or a broken file."""
    path = folder / f"table{suffix}"
    old, new = tables(suffix)

    def write_forever():
        table = uc.load(path)
        while True:
            uc.save(path, table.with_points(new.points), in_place=True)
            table = uc.load(path)

    found = {"complete": 0, "broken": 0, "caught writing": 0}
    for _ in range(KILLS):
        for rest in folder.glob(".unclump-*"):
            rest.unlink()
        uc.save(path, old)
        child = forked(write_forever)
        time.sleep(chance.uniform(0.2, 1.8) * seconds)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        try:
            points = uc.load(path).points
            is_whole = any(torch.equal(points, table.points) for table in (old, new))
        except FileError:
            is_whole = False
        found["complete" if is_whole else "broken"] += 1
        found["caught writing"] += any(folder.glob(".unclump-*"))
    return found


def timed(folder, suffix):
    begin = time.perf_counter()
    uc.save(folder / f"timed{suffix}", tables(suffix)[0])
    return time.perf_counter() - begin


def full(folder, suffix):
    """What is left, and what is said, where the disk has no more room."""
    path, report = folder / f"table{suffix}", folder / "report"
    old, new = tables(suffix)
    uc.save(path, old)
    before = path.read_bytes()

    def write_too_much():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        try:
            uc.save(path, new)
        except FileError as error:
            report.write_text(str(error))
        except BaseException as error:
            report.write_text(f"not a FileError but {type(error)}")

    os.waitpid(forked(write_too_much), 0)
    said = report.read_text()
    report.unlink()
    return {"said": said, "unchanged": path.read_bytes() == before, "left": sorted(os.listdir(folder))}


def interrupted(folder):
    """Ctrl-C in the middle of writing text."""
    path = folder / "table.txt"

    def write():
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            while True:
                uc.save(path, tables(".txt")[0])
        except KeyboardInterrupt:
            return

    child = forked(write)
    while not any(folder.glob(".unclump-*")):
        time.sleep(0.001)
    os.kill(child, signal.SIGINT)
    os.waitpid(child, 0)
    return sorted(name for name in os.listdir(folder) if name != "table.txt")


def main():
    base, suffixes = Path(sys.argv[1]), sys.argv[2:]
    chance = random.Random(0)
    found = {}
    for suffix in suffixes:
        folder = base / f"kill{suffix}"
        folder.mkdir()
        found[suffix] = killed(folder, suffix, timed(folder, suffix), chance)
        folder = base / f"full{suffix}"
        folder.mkdir()
        found[suffix] |= full(folder, suffix)
    (base / "interrupt").mkdir()
    found["interrupted"] = interrupted(base / "interrupt")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
