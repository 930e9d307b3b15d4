r"""The loop: a table of points is dispersed under any objective, step by step, and can be stopped and continued.

A run is a sequence of states. Each is reached from the one before by a draw of rows, the objective's gradient at them
and an update of these rows alone; a checkpoint holds one state complete, so that a continued run cannot be told from
one that never stopped.
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

from unclump._arrays import Table, as_tensor, like
from unclump._checks import check_count, check_generator, check_number, check_positive, check_table
from unclump._precision import full_precision
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
    """What `disperse` returns: the points, and how they came there. `history.to_pandas()` is a data frame."""

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
    r"""Move the rows of a table apart on the sphere, by Riemannian descent of an objective.

    Args:
        x: Points of shape (n, d), a tensor or a NumPy array of any floating-point dtype, rows of any norm. They are put
            on the sphere; the input is never changed. Half precision is computed in float32. Rows of zeros, as padding
            is, have no direction: they take no part, stay as they are, and are listed in a warning.
        objective: Maps embeddings to a scalar, lower being better; or the name of one, see `list_objectives`. With
            ``gather=Shards()`` the points are this rank's rows of a table that is spread over ranks, all of which make
            the same call; batches are drawn from the whole table, with the first rank's generator.
        steps: How many updates.
        lr: The step size of `SphereAdam`: about the angle, in radians, that a row turns in a step. Its eps is 1e-8
            divided by the rows in a step, so that a mean over rows has the same steps whatever their number.
        batch_size: Rows in a minibatch, drawn without replacement; those left over at the end of an epoch sit it out.
            Only the drawn rows are read and updated, each with a step count of its own. None is the whole table.
        generator: For the minibatches. None is torch's global generator, as for the objective's own draws.
        progress: Show a bar on stderr, with the latest record.
        frozen: A mask of shape (n,), or row numbers. These rows act on the others by their direction, and are returned
            exactly as they were given, whatever their norm.
        max_move: An angle in radians that no row travels beyond, from where it started, also after rounding to the
            dtype of `x`. A row that would is brought back along the great circle to its start.
        keep_norms: Return each row with the norm that it had, instead of unit rows.
        checkpoint: A file for the state of the run. Where it exists already the run continues from it, to the same bits
            as if it had never stopped: points, optimiser, batch order, and the state of every generator, torch's global
            one included. It must come from the same call; of the schedule only its presence is compared, of generators
            that were passed their seeds. A damaged one is refused. With a table that is spread over ranks it is a
            folder that all ranks see, and they may be more or fewer than they were.
        checkpoint_seconds: How long to wait between two writes of it. It is also written at the end.
        optimizer: Makes another optimiser of the list of parameters, such as
            ``functools.partial(SphereSGD, lr=0.1, momentum=0.9)``; then `lr` is not used. Those of torch.optim are
            projected after each step; with `batch_size` or `frozen` they must take sparse gradients.
        schedule: Maps the number of the step, from 0, to a factor of the learning rate.
        measure_every: Steps between two records of the history; None makes about twenty. The first and the last state
            are always recorded.

    Returns:
        The points, of the kind, dtype and device of `x`, and the history. Ctrl-C ends the run after the
        current step, with the checkpoint written and what is there returned; a second one does not wait for the step,
        and leaves the checkpoint as it was.

    Example:
        >>> from unclump.dispersion.loop import disperse
        >>> clump = torch.tensor([1.0, 0.0, 0.0]) + 0.1 * torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
        >>> found = disperse(clump, uc.KoLeo(), steps=500, lr=0.05, schedule=lambda step: 1 - step / 500)
        >>> round(math.degrees(uc.min_angle(found.points)), 1)  # four points, a tetrahedron
        109.5
    """
    given = as_tensor(x)
    objective = _module(objective)
    check_table(given, at_least=0)
    directed = DirectedRows(given)
    ranks = _ranks(directed.rows, objective)
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
    moving = _moving(frozen, directed, ranks)
    table = nn.Parameter(full_precision(directed.rows).clone(memory_format=torch.contiguous_format))
    batch_rows = min(batch_size or ranks.total, ranks.total)
    run = Run(
        table,
        objective,
        _make(optimizer, table, lr, batch_rows),
        generator,
        batch_size=batch_rows,
        ranks=ranks,
        is_own_optimizer=optimizer is None,
    )
    start = None if max_move is None else table.detach().clone()
    every = max(1, steps // 20) if measure_every is None else measure_every
    rates = [group["lr"] for group in run.optimizer.param_groups]

    file = None
    if checkpoint is not None:
        file = _checkpoint_kind(ranks)(
            checkpoint,
            table=given,
            objective=objective,
            batch_size=batch_size,  # before the optimiser, whose eps depends on it
            optimizer=run.optimizer,
            schedule=schedule is not None,
            steps=steps,
            frozen=moving,
            max_move=max_move,
            measure_every=every,
            seed=run.seeds(),
        )
        state = file.read()
        if state is not None:
            run.load_state_dict(state)

    stopped = torn = False
    with (
        _interrupts_noted() as interrupts,
        tqdm(total=steps, initial=min(run.step, steps), disable=not progress, unit="step") as bar,
    ):
        saved = time.monotonic()
        try:
            while run.step <= steps and not stopped:
                rows, value, gradient = run.evaluate()
                if run.step % every == 0 or run.step == steps:
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
            torn = True
    if file is not None and not torn:
        file.write(run.state_dict())
    free = slice(None) if moving is None else moving
    points = directed.rows.clone(memory_format=torch.contiguous_format)
    points[free] = settle(table.detach()[free], directed.rows[free], keep_norms=keep_norms, max_move=max_move)
    return Dispersed(like(directed.put_back(points), x), run.history(interrupted=run.step <= steps))


def _ranks(x: Tensor, objective: nn.Module) -> Alone:
    """Those over which the table is spread, if the objective says so."""
    if not isinstance(x, Tensor):
        check_table(x)
    gather = getattr(objective, "gather", False)
    if gather is not False and not isinstance(gather, Shards):
        raise ValueError(
            f"expected gather=unclump.Shards() in the objective of a table that is spread over ranks, got {objective}: "
            "nobody averages gradients here"
        )
    return ranks_of(x, gather, objective)


def _moving(frozen: Rows | None, directed: DirectedRows, ranks: Alone) -> Tensor | None:
    """The mask of the rows that may move, among those with a direction; None where all may, on every rank."""
    moving = moving_rows(frozen, directed.table, elsewhere=ranks.size > 1)
    if not ranks.any(moving is not None)[0]:  # perhaps on other ranks only
        return None
    return directed.of(torch.ones_like(directed.table[:, 0], dtype=torch.bool) if moving is None else moving)


def _checkpoint_kind(ranks: Alone) -> Callable[..., Checkpoint]:
    if not isinstance(ranks, Ranks):
        return Checkpoint
    from unclump.dispersion.sharded_checkpoint import ShardedCheckpoint  # and half a second of torch's own imports

    return partial(ShardedCheckpoint, ranks=ranks)


def _module(objective: nn.Module | str) -> nn.Module:
    if isinstance(objective, str):
        return objective_by_name(objective)
    if not isinstance(objective, nn.Module):
        raise TypeError(
            f"expected objective to be a module such as unclump.KoLeo(), or a name, got {type(objective).__name__}"
        )
    return objective


def _make(
    optimizer: Callable[[list[nn.Parameter]], Optimizer] | None, table: nn.Parameter, lr: float, rows: int
) -> Optimizer:
    if optimizer is None:  # the gradients of a mean over rows become smaller with their number, and so does eps
        return SphereAdam([table], lr=lr, eps=1e-8 / rows)
    made = optimizer([table])
    if not isinstance(made, Optimizer):
        raise TypeError(
            f"expected optimizer to make a torch optimiser of a list of parameters, got {type(made).__name__}; "
            "pass for example functools.partial(unclump.SphereSGD, lr=0.1)"
        )
    if not isinstance(made, SphereAdam | SphereSGD):
        project_after_step(made, [table])
    return made


@contextmanager
def _interrupts_noted() -> Iterator[list[int]]:
    """Ctrl-C is noted in the list, so that it tears no step apart; pressed again, it interrupts at once.

    Only where it would raise KeyboardInterrupt: other threads do not receive it, and a program's own handler stays.
    """
    noted: list[int] = []

    def note(number: int, frame: object) -> None:
        noted.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    in_charge = threading.current_thread() is threading.main_thread()
    if not in_charge or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield noted
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield noted
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
            "pass for example lambda step: 1 - step / 1000"
        )
