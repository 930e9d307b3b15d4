"""What the experiments share: their options, results that grow run by run, and the look of their figures."""

import argparse
import collections
import contextlib
import ctypes
import functools
import importlib.metadata
import itertools
import json
import multiprocessing
import os
import platform
import re
import statistics
import time
from concurrent import futures
from pathlib import Path

import matplotlib
import torch
from matplotlib.figure import Figure
from tqdm import tqdm

import unclump as uc

FOLDER = Path(__file__).parents[1] / "results"

# Okabe and Ito's colours, which colour-blind readers can tell apart; every line has a marker of its own as well.
BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PINK = (
    "#000000", "#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7",
)  # fmt: skip
COLOURS = [BLUE, ORANGE, GREEN, RED, PINK, SKY, BLACK]
_M_MMAP_MAX, _M_TRIM_THRESHOLD = -4, -1  # of glibc's malloc.h
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "1"]


def generator(*seeds):
    """A generator for these numbers, unlike that of any others."""
    mixed = 0
    for seed in seeds:
        mixed = (mixed * 1_000_003 + seed + 1) % 2**63
    return torch.Generator().manual_seed(mixed)


def data_place(given=None):
    """Where data sets lie: the folder that was given, else the one that UNCLUMP_DATA names, else data/ where we are."""
    return Path(given or os.environ.get("UNCLUMP_DATA") or "data").resolve()


def clump(n, d, seed, *, kappa=100.0, dtype=torch.float32):
    """Power spherical points around a random direction: the paper's clumped start."""
    draw = generator(seed, n, d)
    loc = uc.uniform(1, d, generator=draw, dtype=dtype)[0]
    return uc.PowerSpherical(loc, torch.tensor(kappa, dtype=dtype)).sample((n,), generator=draw)


class Results:
    """results/NAME.json: a run that it holds already is not run again.

    Every setting is an option of the command line, lists in JSON, so that fewer seeds, steps or objectives can be asked
    for; the file says what was.
    """

    def __init__(self, name, description, argv, *, full, quick, options=None, implied=None):
        """`options` is a parser of the experiment's own, which has read them already.

        `implied` has the values of settings that a record does not name: it was written when there were no others.
        """
        self.name, self.implied = name, implied or {}
        parser = argparse.ArgumentParser(description=description, parents=[] if options is None else [options])
        parser.add_argument("--quick", action="store_true", help="seconds instead of the paper's setting")
        parser.add_argument("--output", type=Path, help="folder of the results; default results, or results/quick")
        parser.add_argument("--minutes", type=float, help="stop after about so long; the same command goes on")
        parser.add_argument("--jobs", type=int, default=1, help="runs at a time, each in a process of its own")
        for setting, value in full.items():
            option = f"--{setting.replace('_', '-')}"
            parser.add_argument(
                option, type=json.loads, metavar=type(value).__name__, help=f"default {json.dumps(value)}"
            )
        chosen = parser.parse_args(argv)
        self.configuration = full | (quick if chosen.quick else {})
        for setting in full:
            if getattr(chosen, setting, None) is not None:
                self.configuration[setting] = getattr(chosen, setting)
        self.reduced = {s: self.configuration[s] for s in full if self.configuration[s] != full[s]}
        self.quick = chosen.quick
        self.folder = chosen.output or (FOLDER / "quick" if chosen.quick else FOLDER)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path = self.folder / f"{name}.json"
        self.before = json.loads(self.path.read_text()) if self.path.exists() else {"runs": [], "summary": None}
        self.runs, self.versions = self.before["runs"], self.before.get("versions") or versions()
        self.stop = time.monotonic() + 60 * chosen.minutes if chosen.minutes else float("inf")
        self.jobs = chosen.jobs
        torch.set_num_threads(1)  # tables this small are faster without a second thread, and times comparable
        keep_memory()

    def __getitem__(self, setting):
        return self.configuration[setting]

    def complete(self, settings, run, *, shares=None, over=("seed",)):
        """The records of all these settings: run(**setting) for each that the file does not hold yet.

        With `shares`, run takes a list `seeds` instead of `seed`, and so for every name of `over`, and returns a list:
        those of settings that differ in nothing else, and for which shares(setting) is true, at once; otherwise one.
        """
        missing = [one for place, one in enumerate(settings) if self._held(one) is None and one not in settings[:place]]
        bar = tqdm(total=len(settings), initial=len(settings) - len(missing), desc=self.name, unit="run", disable=None)
        together = functools.partial(of_setting, run) if shares is None else functools.partial(of_group, run, over)
        with bar, at_a_time(self.jobs, together) as start:
            waiting, running, failed = collections.deque(grouped(missing, shares, over)), [], []
            while running or (waiting and not failed and time.monotonic() <= self.stop):
                while waiting and not failed and len(running) < self.jobs and time.monotonic() <= self.stop:
                    group = waiting.popleft()
                    bar.set_postfix_str(" ".join(str(value) for value in group[0].values()))
                    running.append(start(group))
                done, left = futures.wait(running, return_when=futures.FIRST_COMPLETED)
                failed += [one for one in done if one.exception()]
                for one in done - set(failed):
                    self.runs.extend(one.result())
                    self.versions = versions()
                    self._write(None)
                    bar.update(len(one.result()))
                running = list(left)
            for one in failed:  # only now: what other processes had begun is kept
                one.result()
        if waiting:
            left = sum(map(len, waiting))
            raise SystemExit(f"{self.name}: {left} of {len(settings)} runs left; the same command goes on")
        return [self._held(setting) for setting in settings]

    def _held(self, setting):
        """The record of the setting, if the file holds it."""
        return next((run for run in self.runs if setting.items() <= (self.implied | run).items()), None)

    def finish(self, summary):
        """Write what the runs amount to."""
        self._write(summary)
        print(f"wrote {self.path}")
        return summary

    def figure(self, figure, suffix=""):
        with matplotlib.rc_context({"svg.hashsalt": "unclump", "svg.fonttype": "none"}):
            figure.savefig(self.folder / f"{self.name}{suffix}.png", dpi=130)
            figure.savefig(self.folder / f"{self.name}{suffix}.svg", metadata={"Date": None})

    def page(self, name, text):
        """Print a page of the documentation, and write it unless the setting is the quick one."""
        print(text)
        if not self.quick:
            (FOLDER.parent / f"docs/{name}.md").write_text(text)

    def _write(self, summary):
        """With no summary yet, that of the last complete call stays, and what it asked for."""
        asked = {"configuration": self.configuration, "reduced": self.reduced, "summary": summary}
        if summary is None and self.before["summary"] is not None:
            asked = {key: self.before[key] for key in asked}
        data = {
            "name": self.name,
            **asked,
            "versions": self.versions,  # of the last run, not of who summarises them
            "seconds": round(sum(run["seconds"] for run in self.runs), 1),
            "runs": self.runs,
        }
        with replacing(self.path) as file:
            file.write(f"{on_lines(data)}\n".encode())


@contextlib.contextmanager
def at_a_time(jobs, run):
    """A function that starts the settings of a group and returns the future of their records: here, or in a process.

    The processes are forked, so that a run may be a closure over data that are read once.
    """
    if jobs == 1:

        def start(group):
            future = futures.Future()
            future.set_result(timed(run, group))
            return future

        yield start
        return
    fork = multiprocessing.get_context("fork")
    with futures.ProcessPoolExecutor(jobs, fork, initializer=_remember, initargs=(run,)) as pool:
        yield lambda group: pool.submit(_run_remembered, group)


def grouped(settings, shares, over):
    """The settings that differ in nothing but these names, where they share a run, in the order of their first."""
    groups = {}
    for place, setting in enumerate(settings):
        alone = shares is None or not shares(setting)
        groups.setdefault(place if alone else str(setting | dict.fromkeys(over)), []).append(setting)
    return list(groups.values())


def keep_memory():
    """Let glibc keep what is freed: large tensors are otherwise new pages at every step, which take longer to come."""
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def of_setting(run, group):
    return [run(**group[0])]


def of_group(run, over, group):
    """The results of settings that differ in these names alone."""
    fixed = {key: value for key, value in group[0].items() if key not in over}
    return run(**{f"{name}s": [setting[name] for setting in group] for name in over}, **fixed)


def timed(run, group):
    """The records of a group of settings, each with its part of the processor's time: a busy machine takes no more."""
    begin = time.process_time()
    found = run(group)
    seconds = round((time.process_time() - begin) / len(group), 3)
    return [setting | one | {"seconds": seconds} for setting, one in zip(group, found, strict=True)]


def _remember(run):
    """In a process of the pool: what it is there for. Arguments of the initializer reach a fork without pickling."""
    _run_remembered.run = run


def _run_remembered(group):
    return timed(_run_remembered.run, group)


@contextlib.contextmanager
def replacing(path):
    """A file beside the path, renamed once it is complete: a kill at any moment leaves the old file or the new one."""
    beside = path.with_name(f"{path.name}.partial")
    with beside.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def markdown(head, rows):
    """The lines of a table; a bar within a cell is no border."""
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for cells in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def tell(report):
    """Print the table of a report and its verdicts."""
    findings = (f"{found['verdict']}: {found['claim']} {found['evidence']}" for found in report["findings"])
    print("", *report["table"], "", *findings, sep="\n")


def on_lines(data):
    """JSON with a line an entry, but lists of numbers on one."""
    text = json.dumps(data, indent=1, allow_nan=False)
    return re.sub(r"\[[-\d.eE+,\s]+\]", lambda found: re.sub(r"\s+", "", found[0]).replace(",", ", "), text)


@functools.cache
def versions():
    packages = ("unclump", "torch", "numpy", "scipy", "matplotlib")
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in packages}


def product(**choices):
    """The settings with every combination of the choices; the first varies slowest."""
    return [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())]


def where(records, **choice):
    return [r for r in records if all(r[key] == value for key, value in choice.items())]


def mean_and_error(values):
    """Mean, standard error of it (0 for a single value), and number of values."""
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return {"mean": statistics.fmean(values), "error": error, "n": len(values)}


def counted(n, noun):
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def axes(rows=1, columns=1, *, width=6.5, height=4.0, **choices):
    """A figure and its axes, without the lines that say nothing."""
    figure = Figure(figsize=(width, height), layout="constrained")
    made = figure.subplots(rows, columns, **choices)
    for ax in figure.axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.25, linewidth=0.5)
    return figure, made


def family_colour(objective):
    families = {"MHE": BLUE, "MM": ORANGE, "KoLeo": RED, "Lloyd": GREEN, "SSW": PINK, "Sliced": SKY}
    return families.get(objective.split()[0], BLACK)
