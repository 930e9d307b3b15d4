r"""The dispersion loop: moves the points of a table apart under any objective, and can be stopped and resumed.

A run is a sequence of states. Each step draws rows, computes the objective's gradient at them, and updates only these
rows. A checkpoint contains one complete state, so that a resumed run is bitwise the same as one that never stopped.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Generic

import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer
from tqdm import tqdm

from unclump._arrays import Table, as_tensor, as_type_of
from unclump._checks import check_count, check_generator, check_number, check_positive, check_table
from unclump._precision import full_dtype
from unclump.dispersion.checkpoint import Checkpoint
from unclump.dispersion.directed import DirectedRows
from unclump.dispersion.history import History
from unclump.dispersion.moves import Rows, bring_back, moving_rows, settle
from unclump.dispersion.run import Run
from unclump.distributed.ranks import Alone, Ranks, Shards, ranks_of
from unclump.objectives import objective as objective_by_name
from unclump.optim.optimizers import SphereAdam, SphereSGD
from unclump.optim.projected import project_after_step

__all__ = ["Dispersed", "History", "disperse"]


@dataclass(frozen=True, eq=False, repr=False)
class Dispersed(Generic[Table]):
    """The result of `disperse`: the points, and the history of the run. `history.to_pandas()` is a data frame."""

    points: Table
    history: History

    def __repr__(self) -> str:
        return f"Dispersed({self.points.shape[0]} x {self.points.shape[1]}; {self.history!r})"

    def __str__(self) -> str:
        return f"{self.points.shape[0]} points in {self.points.shape[1]} dimensions\n{self.history}"

    def _repr_html_(self) -> str:
        return self.history._repr_html_()


def disperse(
    x: Table,
    objective: nn.Module | str,
    *,
    steps: int = 1000,
    lr: float = 1e-3,
    batch_size: int | None = None,
    generator: torch.Generator | None = None,
    progress: bool = False,
    frozen: Rows | None = None,
    max_move: float | None = None,
    keep_norms: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = 10.0,
    optimizer: Callable[[list[nn.Parameter]], Optimizer] | None = None,
    schedule: Callable[[int], float] | None = None,
    measure_every: int | None = None,
) -> Dispersed[Table]:
    r"""Move the rows of a table apart on the sphere, by Riemannian descent on an objective.

    Args:
        x: Points of shape (n, d), a tensor or a NumPy array of any floating-point dtype, with rows of any norm. The
            input is never changed: a copy is projected onto the sphere. Half precision is computed in float32. Rows of
            zeros, such as padding, have no direction: they are left unchanged, and a warning lists them.
        objective: Maps embeddings to a scalar to be minimised; or its name, see `list_objectives`. With
            ``gather=Shards()``, the points are this rank's rows of a table that is distributed over ranks. All ranks
            must make the same call; batches are drawn from the whole table, with the first rank's generator.
        steps: The number of updates.
        lr: The step size of `SphereAdam`, which is about the angle in radians by which a row moves in a step. Its eps
            is 1e-8 divided by the number of rows in a step, so that for a mean over rows, steps do not depend on it.
        batch_size: Rows in a minibatch, drawn without replacement; an incomplete last batch of an epoch is dropped.
            Only the drawn rows are read and updated, each with its own step count. None uses the whole table.
        generator: Draws the minibatches. None uses torch's global generator, like the objective by default.
        progress: Show a progress bar on stderr, with the latest record.
        frozen: A mask of shape (n,), or row numbers. These rows repel the others, and are returned bitwise unchanged,
            whatever their norm.
        max_move: The largest angle, in radians, between a row and its start, guaranteed even after rounding to the
            dtype of `x`. A row that moves farther is brought back along the great circle to its start.
        keep_norms: Return each row with its original norm, instead of unit rows.
        checkpoint: A file for the state of the run. If it exists, the run resumes from it, bitwise as if it had never
            stopped: points, optimiser, batch order, and the state of every generator, including torch's global one. It
            must come from the same call: generators are compared by their seeds, and of a schedule only whether there
            is one. A damaged file raises an error. For a table that is distributed over ranks, it is a folder that all
            ranks can access; the number of ranks may change.
        checkpoint_seconds: The time between two writes of the checkpoint. It is also written at the end.
        optimizer: Creates another optimiser from a list of parameters, such as
            ``functools.partial(SphereSGD, lr=0.1, momentum=0.9)``; then `lr` is ignored. With an optimiser of
            torch.optim, points are projected after each step; with `batch_size` or `frozen` it must support sparse
            gradients.
        schedule: Maps the number of the step, from 0, to a factor of the learning rate.
        measure_every: Steps between two records of the history; None makes about twenty records. The first and the last
            state are always recorded.

    Returns:
        The points, with the type, dtype and device of `x`, and the history. Ctrl-C ends the run after the current step,
        writes the checkpoint, and returns the points so far; a second Ctrl-C does not wait for the step, and leaves the
        checkpoint unchanged.

    Example:
        >>> from unclump.dispersion.loop import disperse
        >>> clump = torch.tensor([1.0, 0.0, 0.0]) + 0.1 * torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
        >>> result = disperse(clump, uc.KoLeo(), steps=500, lr=0.05, schedule=lambda step: 1 - step / 500)
        >>> round(math.degrees(uc.min_angle(result.points)), 1)  # four points, a tetrahedron
        109.5
    """
    original = as_tensor(x)
    objective = _as_module(objective)
    check_table(original, at_least=0)
    directed = DirectedRows(original)
    ranks = _find_ranks(directed.rows, objective)
    check_table(directed.rows, at_least=2 if ranks.size == 1 else 0)
    _check_choices(
        steps=steps,
        batch_size=batch_size,
        generator=generator,
        max_move=max_move,
        checkpoint_seconds=checkpoint_seconds,
        schedule=schedule,
        measure_every=measure_every,
    )
    moving = _movable_rows(frozen, directed, ranks)
    dtype = full_dtype(directed.rows.dtype)
    table = nn.Parameter(directed.rows.to(dtype, copy=True, memory_format=torch.contiguous_format))
    batch_rows = min(batch_size or ranks.total, ranks.total)
    run = Run(
        table,
        objective,
        _make_optimizer(optimizer, table, lr, batch_rows),
        generator,
        batch_size=batch_rows,
        ranks=ranks,
        is_own_optimizer=optimizer is None,
    )
    start = None if max_move is None else table.detach().clone()
    record_every = max(1, steps // 20) if measure_every is None else measure_every
    rates = [group["lr"] for group in run.optimizer.param_groups]

    file = None
    if checkpoint is not None:
        file = _checkpoint_kind(ranks)(
            checkpoint,
            table=original,
            objective=objective,
            batch_size=batch_size,  # before the optimiser, whose eps depends on it
            optimizer=run.optimizer,
            schedule=schedule is not None,
            steps=steps,
            frozen=moving,
            max_move=max_move,
            measure_every=record_every,
            seed=run.seeds(),
        )
        state = file.read()
        if state is not None:
            run.load_state_dict(state)

    stopped = interrupted = False
    with (
        _defer_interrupts() as interrupts,
        tqdm(total=steps, initial=min(run.step, steps), disable=not progress, unit="step") as bar,
    ):
        saved = time.monotonic()
        try:
            while run.step <= steps and not stopped:
                rows, value, gradient = run.evaluate()
                if run.step % record_every == 0 or run.step == steps:
                    run.record(value)
                    bar.set_postfix(value=f"{run.records[-1][1]:.4g}", min_angle=f"{run.degrees():.3f}°")
                if run.step < steps:
                    for group, rate in zip(run.optimizer.param_groups, rates, strict=True):
                        group["lr"] = rate if schedule is None else rate * schedule(run.step)
                    moved = run.update(rows, gradient, moving)
                    if start is not None and max_move is not None:
                        bring_back(table.data, start, moved, max_move)
                    bar.update()
                run.step += 1
                stopped, due = ranks.any(bool(interrupts), time.monotonic() - saved >= checkpoint_seconds)
                if file is not None and due:
                    file.write(run.state_dict())
                    saved = time.monotonic()
        except KeyboardInterrupt:
            interrupted = True
    if file is not None and not interrupted:
        file.write(run.state_dict())
    free = slice(None) if moving is None else moving
    points = directed.rows.clone(memory_format=torch.contiguous_format)
    points[free] = settle(
        table.detach()[free], directed.rows[free], keep_norms=keep_norms, max_move=max_move, progress=progress
    )
    return Dispersed(as_type_of(directed.put_back(points), x), run.history(interrupted=run.step <= steps))


def _find_ranks(x: Tensor, objective: nn.Module) -> Alone:
    """The ranks over which the table is distributed, according to the objective."""
    if not isinstance(x, Tensor):
        check_table(x)
    gather = getattr(objective, "gather", False)
    if gather is not False and not isinstance(gather, Shards):
        raise ValueError(
            "expected gather=unclump.Shards() in the objective of a table that is distributed over ranks, "
            f"got {objective}: gradients are not averaged over ranks here"
        )
    return ranks_of(x, gather, objective)


def _movable_rows(frozen: Rows | None, directed: DirectedRows, ranks: Alone) -> Tensor | None:
    """The mask of the rows that may move, among those with a direction; None if all may, on every rank."""
    moving = moving_rows(frozen, directed.table, elsewhere=ranks.size > 1)
    if not ranks.any(moving is not None)[0]:  # rows may be frozen on other ranks only
        return None
    return directed.of(torch.ones_like(directed.table[:, 0], dtype=torch.bool) if moving is None else moving)


def _checkpoint_kind(ranks: Alone) -> Callable[..., Checkpoint]:
    if not isinstance(ranks, Ranks):
        return Checkpoint
    from unclump.dispersion.sharded_checkpoint import ShardedCheckpoint  # takes half a second

    return partial(ShardedCheckpoint, ranks=ranks)


def _as_module(objective: nn.Module | str) -> nn.Module:
    if isinstance(objective, str):
        return objective_by_name(objective)
    if not isinstance(objective, nn.Module):
        is_class = isinstance(objective, type)
        got = f"the class {objective.__name__}; construct it" if is_class else type(objective).__name__
        raise TypeError(f"expected objective to be a module such as unclump.KoLeo(), or a name, got {got}")
    return objective


def _make_optimizer(
    optimizer: Callable[[list[nn.Parameter]], Optimizer] | None, table: nn.Parameter, lr: float, rows: int
) -> Optimizer:
    if optimizer is None:  # the gradients of a mean over rows shrink with their number, and so must eps
        return SphereAdam([table], lr=lr, eps=1e-8 / rows)
    made = optimizer([table])
    if not isinstance(made, Optimizer):
        raise TypeError(
            f"expected optimizer to make a torch optimiser of a list of parameters, got {type(made).__name__}; "
            "for example, pass functools.partial(unclump.SphereSGD, lr=0.1)"
        )
    if not isinstance(made, SphereAdam | SphereSGD):
        project_after_step(made, [table])
    return made


@contextmanager
def _defer_interrupts() -> Iterator[list[int]]:
    """Append Ctrl-C to the list instead of interrupting a step; a second Ctrl-C interrupts immediately.

    Does nothing unless Ctrl-C would raise KeyboardInterrupt here: other threads do not receive signals, and a handler
    that the program has installed is kept.
    """
    received: list[int] = []

    def defer(number: int, frame: object) -> None:
        received.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    is_main_thread = threading.current_thread() is threading.main_thread()
    if not is_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield received
        return
    signal.signal(signal.SIGINT, defer)
    try:
        yield received
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _check_choices(
    *,
    steps: int,
    batch_size: int | None,
    generator: torch.Generator | None,
    max_move: float | None,
    checkpoint_seconds: float,
    schedule: Callable[[int], float] | None,
    measure_every: int | None,
) -> None:
    check_count("steps", steps)
    check_generator(generator)
    check_number("checkpoint_seconds", checkpoint_seconds)
    if batch_size is not None:
        check_count("batch_size", batch_size, at_least=2)
    if measure_every is not None:
        check_count("measure_every", measure_every)
    if max_move is not None:
        check_positive("max_move", max_move)
    if schedule is not None and not callable(schedule):
        raise TypeError(
            f"expected schedule to map the number of a step to a factor of lr, got {type(schedule).__name__}; "
            "for example, pass lambda step: 1 - step / 1000"
        )
