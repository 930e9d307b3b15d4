"""Runs of `disperse` to be killed: `python -m tests.killable` forks a process for each line it reads.

A line is a JSON object: where the `result` goes, the `checkpoint`, the `seconds` between two, and `dies_at`
[number, fraction] for a process that kills itself when so much of the checkpoint of that number is written. The answers
are the process's number and, when it has ended, how. Torch is imported once: each run starts within milliseconds.
"""

import io
import json
import os
import signal
import sys

import torch

import unclump as uc
from tests.small_tables import clump, seeded

STEPS = 1000


def run(steps=STEPS, **options):
    """A short step of many parts: minibatches, random circles, frozen rows, a bound, a schedule, records."""
    return uc.disperse(
        clump(60, 5),
        uc.Sliced(generator=seeded(1)),
        steps=steps,
        lr=0.01,
        batch_size=16,
        generator=seeded(2),
        frozen=[3, 4],
        max_move=0.7,
        schedule=lambda step: 1 / (1 + step / 300),
        measure_every=50,
        **options,
    )


def die_while_writing(number, fraction):
    """SIGKILL to this very process, when a part of that checkpoint has gone to the file."""
    save, written = torch.save, 0

    def save_in_part(state, file):
        nonlocal written
        written += 1
        if written < number:
            return save(state, file)
        whole = io.BytesIO()
        save(state, whole)
        file.write(whole.getvalue()[: int(fraction * whole.tell())])
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)

    torch.save = save_in_part


def live(*, result, checkpoint=None, seconds=0, dies_at=None):
    if dies_at is not None:
        die_while_writing(*dies_at)
    found = run(checkpoint=checkpoint, checkpoint_seconds=seconds)
    history = found.history
    columns = history.step, history.value, history.min_angle, history.spherical_variance
    torch.save((found.points, [column.tolist() for column in columns]), result)


if __name__ == "__main__":
    torch.set_num_threads(1)  # a fork copies no threads
    run(steps=2)
    print("ready", flush=True)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            live(**json.loads(line))
            os._exit(0)
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
