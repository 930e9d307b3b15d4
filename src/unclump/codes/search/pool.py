"""Restarts on several threads, until they are done, enough is reached, time is up, or Ctrl-C."""

import itertools
import math
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, UInt8
from tqdm import tqdm

Points = Float[np.ndarray, "n d"]
Flag = UInt8[np.ndarray, "1"]

_LOOK = 0.05  # seconds between two looks at the clock


@dataclass
class Found:
    """What a restart came to."""

    points: Points
    score: float
    """The least angle, or minus the energy."""
    starts: int = 0
    hops: int = 0


# The number of a restart, a flag that ends it early, and where to report the best score.
Search = Callable[[int, Flag, Callable[[float], None]], Found]


def compile_loops(search: Search) -> None:
    """Run a small search, so that no time limit is spent on compiling."""
    search(0, np.zeros(1, np.uint8), lambda score: None)


def best_of(
    search: Search,
    *,
    restarts: int | None,
    time_limit: float | None,
    enough: float,
    progress: bool,
    describe: Callable[[float], str],
) -> Found:
    """The best result of restarts 0, 1, 2, ..., the first of equals, with the starts and hops of all.

    Args:
        search: Called with the number of a restart, a flag that ends it early, and a function to report scores to.
        restarts: How many. None goes on until time is up.
        time_limit: Seconds.
        enough: A score at which no further restart is begun. Those before it are waited for, and what is better still
            is no better, so that the result does not depend on which thread was faster.
        progress: Show a bar, with what `describe` makes of the best score.
        describe: See `progress`.
    """
    deadline = math.inf if time_limit is None else time.monotonic() + time_limit
    numbers = itertools.count() if restarts is None else iter(range(restarts))
    running: dict[Future[Found], tuple[int, Flag]] = {}
    best: tuple[float, int, Found] | None = None
    starts = hops = 0
    reported = -math.inf
    threads = max(1, torch.get_num_threads())

    def report(score: float) -> None:
        nonlocal reported
        reported = max(reported, score)

    def finish(future: Future[Found]) -> None:
        nonlocal best, starts, hops
        found = future.result()
        number, _ = running.pop(future)
        starts, hops = starts + found.starts, hops + found.hops
        rank = min(found.score, enough), -number
        if best is None or rank > best[:2]:
            best = *rank, found

    # Threads of this call alone: those of a pool that outlives it would be missing after a fork.
    with ThreadPoolExecutor(threads, thread_name_prefix="unclump") as pool:
        try:
            with tqdm(total=restarts, disable=not progress, unit="restart") as bar:
                while True:
                    late = time.monotonic() >= deadline
                    reached = best is not None and best[0] >= enough
                    for number, flag in running.values():
                        if late or (best is not None and reached and number > -best[1]):
                            flag[0] = 1
                    while len(running) < threads and not reached and (not late or starts == len(running) == 0):
                        number = next(numbers, -1)
                        if number < 0:
                            break
                        flag = np.zeros(1, np.uint8)
                        running[pool.submit(search, number, flag, report)] = number, flag
                    if not running:
                        break
                    for future in wait(running, timeout=_LOOK, return_when=FIRST_COMPLETED).done:
                        finish(future)
                        bar.update()
                    if reported > -math.inf:
                        bar.set_postfix_str(describe(reported), refresh=False)
        except KeyboardInterrupt:
            if best is None and not running:
                raise
        finally:
            for _, flag in running.values():
                flag[0] = 1
        for future in list(running):
            finish(future)
    assert best is not None  # the first restart is begun whatever the time
    return replace(best[2], starts=starts, hops=hops)
