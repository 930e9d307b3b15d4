"""Damaged files of every format that is read: each is read or refused in one line, and nothing else happens.

    python tools/fuzz_files.py --minutes 10 --state fuzz.json

A case is a good file with mutations: flipped bits, cut, pieces repeated, moved, removed or spliced, and lengths
replaced. It is read, and sometimes written again, in a process with limits on memory and time, and must give
a table or a one-line error. Anything else is a finding, and is kept: a traceback, a crash, a hang, memory, a
file written elsewhere, code that ran. Case N of a seed is always the same; `--state` continues after the last one.
"""

import argparse
import json
import os
import random
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TextIO

import pyarrow.ipc  # so that no process has to
import pyarrow.parquet  # noqa: F401
import safetensors.torch  # noqa: F401
import torch

torch.set_num_threads(1)

sys.path.insert(0, str(Path(__file__).parents[1]))
from tools.fuzz_samples import write_samples  # noqa: E402

import unclump as uc  # noqa: E402
from unclump.dispersion.checkpoint import read_state  # noqa: E402
from unclump.tables.files import FileError, bad_rows  # noqa: E402

SECONDS = 20  # of a case, on a busy machine
BATCH = 25  # cases in a process
MEMORY = 700  # megabytes more than before: a file may decompress to 256 without question
ADDRESS_SPACE = 3 * 2**30
LENGTHS = [0, 1, 2, 127, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**64 - 1]
FORBIDDEN = {"os.system", "os.exec", "os.posix_spawn", "os.putenv", "socket.connect", "webbrowser.open"}


def mutate(content: bytes, other: bytes, chance: random.Random) -> bytes:
    """Between one and four mutations, mostly small ones: a file that is still nearly whole reaches deepest."""
    data = bytearray(content)
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        size = len(data)
        if size == 0:
            break
        place, length = chance.randrange(size), 1 + min(int(chance.expovariate(1 / 20)), size - 1)
        kind = chance.randrange(9)
        if kind <= 1:
            for _ in range(chance.choice([1, 1, 2, 8, 32])):
                data[chance.randrange(size)] ^= 1 << chance.randrange(8)
        elif kind == 2:
            del data[place:]
        elif kind == 3:
            data[place:place] = data[place : place + length] * chance.choice([1, 2, 50])
        elif kind == 4:
            del data[place : place + length]
        elif kind == 5:
            target = chance.randrange(size)
            data[target : target + length] = data[place : place + length]
        elif kind == 6:
            data[place : place + length] = bytes([chance.choice([0, 32, 44, 48, 91, 123, 128, 255])]) * length
        elif kind == 7:
            form = chance.choice(["<H", "<I", "<Q", ">I", "text"])
            value = chance.choice(LENGTHS)
            packed = str(value).encode() if form == "text" else _pack(form, value)
            data[place : place + len(packed)] = packed
        else:
            start = chance.randrange(len(other)) if other else 0
            data[place : place + length] = other[start : start + length]
    return bytes(data)


def _pack(form: str, value: int) -> bytes:
    return struct.pack(form, value % 2 ** (8 * struct.calcsize(form)))


class Case:
    """One damaged file, the same for a seed and a number."""

    def __init__(self, samples: Path, seed: int, number: int) -> None:
        chance = random.Random(f"{seed} {number}")
        kinds = sorted(entry.name for entry in samples.iterdir())
        weights = [1 if kind in {"hdf5", "faiss"} else 5 for kind in kinds]  # those start a process each
        self.kind = chance.choices(kinds, weights)[0]
        choices = sorted((samples / self.kind).iterdir())
        self.sample, other = chance.choice(choices), chance.choice(choices)
        files = [self.sample]
        if self.sample.is_dir():
            files = sorted(file for file in self.sample.rglob("*") if file.is_file())
        self.file = chance.choice(files)
        self.content = mutate(self.file.read_bytes(), other.read_bytes() if other.is_file() else b"", chance)
        self.writes = chance.random() < 0.3

    def build(self, folder: Path) -> Path:
        """Write the damaged file, and what belongs to it, into the folder."""
        path = folder / self.sample.name
        if self.sample.is_dir():
            shutil.copytree(self.sample, path)
            (path / self.file.relative_to(self.sample)).write_bytes(self.content)
        else:
            path.write_bytes(self.content)
        return path


def run_case(case: Case, path: Path, folder: Path) -> str:
    """Read the file as a user would; return what happened, "read" or "refused" if all is well."""
    try:
        if case.kind == "checkpoint":
            read_state(path)
            return "read"
        table = uc.load(path)
        bad_rows(table)
        str(table.names)
        if case.writes:
            uc.save(folder / f"written{path.suffix}", table)
            uc.save(folder / "written.npz", uc.Table(table.points, table.names))
    except FileError as error:
        return "refused" if str(error).isprintable() else f"message: {str(error)!r}"
    except ValueError as error:
        return "refused" if case.kind == "checkpoint" and str(error).isprintable() else f"traceback: {error!r}"
    except BaseException as error:
        import traceback

        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"traceback: {error!r} at {Path(last.filename).name}:{last.lineno}"
    return "read"


def run_batch(samples: Path, seed: int, numbers: range, folder: Path) -> list[tuple[int, str]]:
    """Run cases in a process with limits, until one of them ends it; return their numbers and what happened."""
    answers = folder / "answers"
    answers.touch()
    child = os.fork()
    if child == 0:
        os.setsid()  # so that its readers end with it
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        live(samples, seed, numbers, folder, answers)
        os._exit(0)
    status, waited, size, began = 0, 0, 0, 0.0
    # Not by a clock, which goes on while all of this is stopped, or while other programs have the processor.
    while waited < SECONDS * 200 and processor_seconds(child) - began < SECONDS:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.005)
        if answers.stat().st_size != size:
            size, waited, began = answers.stat().st_size, 0, processor_seconds(child)
        waited += is_waiting(child)
    else:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    results = [line.partition(" ")[2] for line in answers.read_text().splitlines()]
    done_numbers = list(zip(numbers, results, strict=False))
    if len(results) == len(numbers) or (results and results[-1].startswith(("code:", "memory:"))):
        return done_numbers
    how = f"crash: {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else "hang"
    return [*done_numbers, (numbers[len(results)], how)]


def is_waiting(process: int) -> bool:
    """Whether a process, with those it has started, waits for something other than a processor."""
    return all(status[0] in "SD" for status in _statuses(process))


def processor_seconds(process: int) -> float:
    """The processor time that a process has taken, with those it has started."""
    ticks = sum(sum(map(int, status[11:15])) for status in _statuses(process))
    return ticks / os.sysconf("SC_CLK_TCK")


def _statuses(process: int) -> list[list[str]]:
    """What Linux says of a process and of its children after their names: the state, and then numbers."""
    try:
        folder = Path(f"/proc/{process}")
        status = (folder / "stat").read_text().rpartition(")")[2].split()
        children = (folder / f"task/{process}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return []
    return [status, *(found for child in children for found in _statuses(int(child)))]


def live(samples: Path, seed: int, numbers: range, folder: Path, answers: Path) -> None:
    """What the process does: a line for each case, and an end after one that took too much memory."""
    baseline = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE + address_space(), resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open(answers, "a", buffering=1) as file:
        watch(folder, file)
        for number in numbers:
            case, place = Case(samples, seed, number), folder / str(number)
            place.mkdir()
            result = run_case(case, case.build(place), place)
            used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024 - baseline
            result = f"memory: {used} MB, {result}" if used > MEMORY else result
            file.write(f"{number} {' '.join(result.split())}\n")
            if used > MEMORY:
                return
            shutil.rmtree(place)


def watch(folder: Path, answers: TextIO) -> None:
    """End the process where code runs, or a file is opened for writing elsewhere."""
    allowed = (str(folder), tempfile.gettempdir(), os.devnull)

    def hook(event: str, arguments: tuple) -> None:
        writes = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wxa+")
        elsewhere = writes and isinstance(arguments[0], str) and not arguments[0].startswith(allowed)
        started = event == "subprocess.Popen" and arguments[0] != sys.executable
        if event in FORBIDDEN or elsewhere or started:
            answers.write(f"? code: {event} {arguments!r}"[:300] + "\n")
            os._exit(0)

    sys.addaudithook(hook)


def address_space() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def main(arguments: list[str] | None = None) -> int:
    """Run cases until their number or the time is reached; returns how many findings there are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, help="how many (unlimited)")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--state", type=Path, help="a file to continue from, with all counts")
    parser.add_argument("--only", help="formats, between commas")
    parser.add_argument("--keep", type=Path, help="a folder for the files of findings")
    args = parser.parse_args(arguments)
    state = {"seed": args.seed, "next": 0, "seconds": 0.0, "results": {}, "findings": []}
    if args.state is not None and args.state.exists():
        state = json.loads(args.state.read_text())
    results = Counter(state["results"])
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as temporary:
        samples = Path(temporary) / "samples"
        write_in_child(samples)
        for kind in samples.iterdir():
            if args.only is not None and kind.name not in args.only.split(","):
                shutil.rmtree(kind)
        last = sys.maxsize if args.cases is None else state["next"] + args.cases
        while state["next"] < last and time.monotonic() - start < 60 * args.minutes:
            numbers = range(state["next"], min(last, state["next"] + BATCH))
            with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
                batch = run_batch(samples, state["seed"], numbers, Path(folder))
            for number, result in batch:
                case = Case(samples, state["seed"], number)
                results[f"{case.kind} {result.partition(':')[0]}"] += 1
                if result not in {"read", "refused"}:
                    state["findings"].append([number, case.kind, case.sample.name, case.file.name, result])
                    print(*state["findings"][-1], flush=True)
                    if args.keep is not None:
                        args.keep.mkdir(parents=True, exist_ok=True)
                        (args.keep / f"{number}-{case.file.name}").write_bytes(case.content)
            state["next"] = batch[-1][0] + 1
            if args.state is not None:
                save(args.state, state, results, start)
    print(json.dumps({"cases": state["next"], "findings": len(state["findings"]), **dict(sorted(results.items()))}))
    return len(state["findings"])


def write_in_child(samples: Path) -> None:
    """Write the good files in another process: libraries start threads, which do not survive a fork."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            write_samples(samples)
            code = 0
        finally:
            os._exit(code)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
        raise RuntimeError("expected samples of every format, got an error; see above")


def save(path: Path, state: dict, results: Counter, start: float) -> None:
    """Write the state, with the time so far."""
    seconds = state["seconds"] + time.monotonic() - start
    path.write_text(json.dumps({**state, "seconds": round(seconds, 1), "results": dict(sorted(results.items()))}))


if __name__ == "__main__":
    sys.exit(min(main(), 1))
