"""Restarts on several threads, until all are done, a sufficient score is reached, time is up, or Ctrl-C is pressed."""

import itertools
import math
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

import numpy as np
import torch
from tqdm import tqdm

from unclump.codes.search.loops import Flag, Points

_POLL_SECONDS = 0.05


@dataclass
class Candidate:
    """A code with its score, and the work it took."""

    points: Points
    score: float
    """The smallest angle, or minus the energy."""
    starts: int = 0
    hops: int = 0
    screened: float | None = None
    """What the screening of moves makes of the score of these points; None if they were not screened yet."""


# Takes the number of a restart, a flag that ends it early, and a callback for the best score.
Search = Callable[[int, Flag, Callable[[float], None]], Candidate]


def run_restarts(
    search: Search,
    *,
    restarts: int | None,
    time_limit: float | None,
    sufficient_score: float,
    progress: bool,
    describe: Callable[[float], str],
) -> Candidate:
    """The best result of restarts 0, 1, 2, ..., or the first of equal ones, with the total of starts and hops.

    Args:
        search: Called with the number of a restart, a flag that ends it early, and a callback for scores.
        restarts: Number of restarts. None continues until time is up.
        time_limit: Seconds.
        sufficient_score: No restart begins once it is reached. Earlier restarts run to the end, and all scores above it
            count as equal, so that the result does not depend on the speed of threads.
        progress: Show a progress bar with the best score.
        describe: Formats the score for the progress bar.
    """
    deadline = math.inf if time_limit is None else time.monotonic() + time_limit
    numbers = itertools.count() if restarts is None else iter(range(restarts))
    running: dict[Future[Candidate], tuple[int, Flag]] = {}
    best: tuple[float, int, Candidate] | None = None
    starts = hops = 0
    reported = -math.inf
    threads = max(1, torch.get_num_threads())

    def report(score: float) -> None:
        nonlocal reported
        reported = max(reported, score)

    def finish(future: Future[Candidate]) -> None:
        nonlocal best, starts, hops
        candidate = future.result()
        number, _ = running.pop(future)
        starts, hops = starts + candidate.starts, hops + candidate.hops
        rank = min(candidate.score, sufficient_score), -number
        if best is None or rank > best[:2]:
            best = *rank, candidate

    # A pool per call: the threads of a longer-lived one would be missing after a fork.
    with ThreadPoolExecutor(threads, thread_name_prefix="unclump") as pool:
        try:
            with tqdm(
                total=restarts, disable=not progress, unit="restart", desc="searching", miniters=0, mininterval=0.5
            ) as bar:
                while True:
                    is_late = time.monotonic() >= deadline
                    is_sufficient = best is not None and best[0] >= sufficient_score
                    for number, flag in running.values():
                        if is_late or (best is not None and is_sufficient and number > -best[1]):
                            flag[0] = 1
                    while len(running) < threads and not is_sufficient and (not is_late or starts == len(running) == 0):
                        number = next(numbers, -1)
                        if number < 0:
                            break
                        flag = np.zeros(1, np.uint8)
                        running[pool.submit(search, number, flag, report)] = number, flag
                    if not running:
                        break
                    for future in wait(running, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED).done:
                        finish(future)
                        bar.update()
                    if reported > -math.inf:
                        bar.set_postfix_str(describe(reported), refresh=False)
                    bar.update(0)  # a restart may take minutes, in which the clock goes on
        except KeyboardInterrupt:
            if best is None and not running:
                raise
        finally:
            for _, flag in running.values():
                flag[0] = 1
        for future in list(running):
            finish(future)
    assert best is not None  # the first restart always runs
    return replace(best[2], starts=starts, hops=hops)
