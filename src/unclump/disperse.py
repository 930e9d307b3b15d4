r"""The loop: a table of points is dispersed under any objective, step by step, and can be stopped and continued.

A run is a sequence of states. Each is reached from the one before by a draw of rows, the objective's gradient at them
and an update of these rows alone; a checkpoint holds one state complete, so that a continued run cannot be told from
one that never stopped.
"""

import hashlib
import math
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer
from tqdm import tqdm

from unclump._checks import check_count, check_generator, check_number, check_points, check_positive
from unclump._updates import put_on_sphere
from unclump.measures import min_angle, spherical_variance
from unclump.objectives import objective as objective_by_name
from unclump.optim import SphereAdam, SphereSGD
from unclump.projected import project_after_step
from unclump.sphere import angle, exp, full_precision, log, project

# Rows among which the smallest angle is looked for, at every record: a tenth of a second on one core.
_MEASURED_ROWS = 4096

Floats = npt.NDArray[np.floating[Any]]
Rows = Tensor | npt.NDArray[Any] | Sequence[int] | Sequence[bool]
Table = TypeVar("Table", Tensor, Floats)


@dataclass(frozen=True, eq=False)
class History:
    """What was recorded on the way: one entry a record in every array. Prints itself as a table, angles in degrees."""

    step: npt.NDArray[np.int64]
    """How many updates the points had had."""
    value: Floats
    """The objective at them: of the whole table, or of the batch that was drawn next."""
    min_angle: Floats
    """The smallest angle in radians, among `min_angle_rows` rows."""
    spherical_variance: Floats
    seconds: Floats
    """Since the start of the run, measuring included; a continued run counts on."""
    rows: int
    """The rows of the table."""
    min_angle_rows: int
    """How many of them `min_angle` looks at. Where fewer than `rows`, a fixed random choice: an upper bound."""
    interrupted: bool = False
    """Whether the run was stopped before its last step."""

    def __str__(self) -> str:
        lines = [f"{'step':>8}  {'value':>12}  {'min angle':>10}  {'variance':>8}  {'seconds':>8}"]
        for step, value, smallest, variance, seconds in zip(
            self.step, self.value, self.min_angle, self.spherical_variance, self.seconds, strict=True
        ):
            lines.append(f"{step:8d}  {value:12.6g}  {math.degrees(smallest):9.4f}°  {variance:8.4f}  {seconds:8.2f}")
        if self.min_angle_rows < self.rows:
            lines.append(f"min angle among {self.min_angle_rows} of {self.rows} rows")
        if self.interrupted:
            lines.append("interrupted")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Dispersed(Generic[Table]):
    """What `disperse` returns: the points, and how they came there."""

    points: Table
    history: History

    def __str__(self) -> str:
        return f"{self.points.shape[0]} points in {self.points.shape[1]} dimensions\n{self.history}"


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
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = 10.0,
    optimizer: Callable[[list[nn.Parameter]], Optimizer] | None = None,
    schedule: Callable[[int], float] | None = None,
    measure_every: int | None = None,
) -> Dispersed[Table]:
    r"""Move the rows of a table apart on the sphere, by Riemannian descent of an objective.

    Args:
        x: Points of shape (n, d), a tensor or a NumPy array of any floating-point dtype, rows of any norm but zero.
            They are put on the sphere; the input is never changed. Half precision is computed in float32.
        objective: Maps embeddings to a scalar, lower being better; or the name of one, see `unclump.objectives`.
        steps: How many updates.
        lr: The step size of `SphereAdam`: about the angle, in radians, that a row turns in a step.
        batch_size: Rows in a minibatch, drawn without replacement; those left over at the end of an epoch sit it out.
            Only the drawn rows are read and updated, each with a step count of its own. None is the whole table.
        generator: For the minibatches. None is torch's global generator, as for the objective's own draws.
        progress: Show a bar on stderr, with the latest record.
        frozen: A mask of shape (n,), or row numbers. These rows act on the others by their direction, and are returned
            exactly as they were given, whatever their norm.
        max_move: An angle in radians that no row travels beyond, from where it started. A row that would is
            brought back along the great circle to its start.
        checkpoint: A file for the state of the run. Where it exists already the run continues from it, to the same bits
            as if it had never stopped: points, optimiser, batch order, and the state of every generator, torch's global
            one included. It must come from the same call; of the schedule only its presence is compared.
        checkpoint_seconds: How long to wait between two writes of it. It is also written at the end.
        optimizer: Makes another optimiser of the list of parameters, such as
            ``functools.partial(SphereSGD, lr=0.1, momentum=0.9)``; then `lr` is not used. Those of torch.optim are
            projected after each step; with `batch_size` or `frozen` they must take sparse gradients.
        schedule: Maps the number of the step, from 0, to a factor of the learning rate.
        measure_every: Steps between two records of the history; None makes about twenty. The first and the last state
            are always recorded.

    Returns:
        The points, unit rows of the kind, dtype and device of `x`, and the history. Ctrl-C ends the run after the
        current step, with the checkpoint written and what is there returned; a second one does not wait for the step,
        and leaves the checkpoint as it was.

    Example:
        >>> from unclump.disperse import disperse
        >>> clump = torch.tensor([1.0, 0.0, 0.0]) + 0.1 * torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
        >>> found = disperse(clump, uc.KoLeo(), steps=500, lr=0.05, schedule=lambda step: 1 - step / 500)
        >>> round(math.degrees(uc.min_angle(found.points)), 1)  # four points, a tetrahedron
        109.5
    """
    given = as_tensor(x)
    check_points(given, at_least=2)
    _check_choices(
        steps=steps,
        batch_size=batch_size,
        generator=generator,
        max_move=max_move,
        checkpoint_seconds=checkpoint_seconds,
        schedule=schedule,
        measure_every=measure_every,
    )
    if isinstance(objective, str):
        objective = objective_by_name(objective)
    if not isinstance(objective, nn.Module):
        raise TypeError(
            f"expected objective to be a module such as unclump.KoLeo(), or a name, got {type(objective).__name__}"
        )
    moving = _moving(frozen, given)
    table = nn.Parameter(full_precision(given.detach()).clone(memory_format=torch.contiguous_format))
    put_on_sphere(table.data)
    run = _Run(table, objective, _make(optimizer, table, lr), generator, min(batch_size or len(table), len(table)))
    start = None if max_move is None else table.detach().clone()
    every = max(1, steps // 20) if measure_every is None else measure_every
    rates = [group["lr"] for group in run.optimizer.param_groups]

    path = None if checkpoint is None else Path(checkpoint)
    identity = {
        "table": f"{tuple(given.shape)} {given.dtype} {_digest(given)}",
        "objective": _in_one_line(objective),
        "optimizer": _in_one_line(run.optimizer),
        "schedule": str(schedule is not None),
        "steps": str(steps),
        "batch_size": str(batch_size),
        "frozen": "None" if moving is None else _digest(moving),
        "max_move": str(max_move),
        "measure_every": str(every),
    }
    if path is not None and path.exists():
        run.load_state_dict(_read(path, identity))

    def save() -> None:
        if path is not None:
            _write(path, {"identity": identity, **run.state_dict()})

    torn = False
    with (
        _interrupts_noted() as interrupts,
        tqdm(total=steps, initial=min(run.step, steps), disable=not progress, unit="step") as bar,
    ):
        saved = time.monotonic()
        try:
            while run.step <= steps and not interrupts:
                rows, value, gradient = run.evaluate()
                if run.step % every == 0 or run.step == steps:
                    run.record(value)
                    bar.set_postfix(value=f"{run.records[-1][1]:.4g}", min_angle=f"{run.degrees():.3f}°")
                if run.step < steps:
                    for group, rate in zip(run.optimizer.param_groups, rates, strict=True):
                        group["lr"] = rate if schedule is None else rate * schedule(run.step)
                    moved = run.update(rows, gradient, moving)
                    if start is not None and max_move is not None:
                        _bring_back(table.data, start, moved, max_move)
                    bar.update()
                run.step += 1
                if time.monotonic() - saved >= checkpoint_seconds:
                    save()
                    saved = time.monotonic()
        except KeyboardInterrupt:
            torn = True
    if not torn:
        save()
    points = table.detach().to(given.dtype)
    if moving is not None:
        points[~moving] = given.detach()[~moving]
    return Dispersed(like(points, x), run.history(interrupted=run.step <= steps))


class _Run:
    """The state of a run: all that changes from one step to the next, and so all that a checkpoint has to hold."""

    def __init__(
        self,
        table: nn.Parameter,
        objective: nn.Module,
        optimizer: Optimizer,
        generator: torch.Generator | None,
        batch_size: int,
    ) -> None:
        self.table, self.objective, self.optimizer, self.batch_size = table, objective, optimizer, batch_size
        self.generator = torch.default_generator if generator is None else generator
        self.generators = _generators(self.generator, objective, table.device)
        self.step = 0
        self.order = torch.empty(0, dtype=torch.long)  # of the rows that this epoch has not drawn yet
        self.records: list[tuple[int, float, float, float, float]] = []
        self.started = time.perf_counter()
        chosen = torch.randperm(len(table), generator=torch.Generator().manual_seed(0))[:_MEASURED_ROWS]
        self.measured = chosen.to(table.device) if len(table) > _MEASURED_ROWS else None

    def draw(self) -> Tensor | None:
        """The rows of the next step in ascending order; None for all of them."""
        n = len(self.table)
        if self.batch_size == n:
            return None
        if len(self.order) < self.batch_size:
            self.order = torch.randperm(n, generator=self.generator, device=self.generator.device)
        rows, self.order = self.order[: self.batch_size], self.order[self.batch_size :]
        return rows.sort().values.to(self.table.device)

    def evaluate(self) -> tuple[Tensor | None, Tensor, Tensor]:
        """Draw rows: their numbers, the objective at them, and its gradient by them."""
        rows = self.draw()
        points = (self.table.detach() if rows is None else self.table.detach()[rows]).requires_grad_()
        value = self.objective(points)
        if not isinstance(value, Tensor) or value.ndim != 0:
            came = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(f"expected the objective to return a scalar tensor, got {came}; average it")
        return rows, value.detach(), torch.autograd.grad(value, points)[0]

    def update(self, rows: Tensor | None, gradient: Tensor, moving: Tensor | None) -> Tensor | slice:
        """Step the optimiser on the drawn rows that may move; returns which they were."""
        if moving is not None:
            free = moving if rows is None else moving[rows]
            rows, gradient = free.nonzero()[:, 0] if rows is None else rows[free], gradient[free]
        if rows is not None:  # as a sparse gradient, which makes the optimiser touch no other row
            gradient = torch.sparse_coo_tensor(
                rows[None], gradient, self.table.shape, is_coalesced=True, check_invariants=False
            )
        self.table.grad = gradient
        self.optimizer.step()
        return slice(None) if rows is None else rows

    def record(self, value: Tensor) -> None:
        """Measure the points as they are now."""
        points, number = self.table.detach(), value.item()
        if not math.isfinite(number):
            raise ValueError(
                f"expected a finite objective, got {number} at step {self.step}; try a smaller lr, or another objective"
            )
        smallest = min_angle(points if self.measured is None else points[self.measured])
        seconds = time.perf_counter() - self.started
        self.records.append((self.step, number, smallest, spherical_variance(points), seconds))

    def degrees(self) -> float:
        """The latest smallest angle, for a person to read."""
        return math.degrees(self.records[-1][2])

    def history(self, *, interrupted: bool) -> History:
        step, value, smallest, variance, seconds = np.array(self.records, dtype=np.float64).reshape(-1, 5).T
        return History(
            step=step.astype(np.int64),
            value=value,
            min_angle=smallest,
            spherical_variance=variance,
            seconds=seconds,
            rows=len(self.table),
            min_angle_rows=len(self.table) if self.measured is None else len(self.measured),
            interrupted=interrupted,
        )

    def state_dict(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "points": self.table.detach(),
            "optimizer": self.optimizer.state_dict(),
            "objective": self.objective.state_dict(),
            "generators": [generator.get_state() for generator in self.generators],
            "order": self.order.clone(),
            "records": self.records,
            "seconds": time.perf_counter() - self.started,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.step, self.records = state["step"], [tuple(record) for record in state["records"]]
        self.table.data.copy_(state["points"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.objective.load_state_dict(state["objective"])
        for generator, saved in zip(self.generators, state["generators"], strict=True):
            generator.set_state(saved)
        self.order = state["order"]
        self.started = time.perf_counter() - state["seconds"]


def _generators(generator: torch.Generator, objective: nn.Module, device: torch.device) -> list[torch.Generator]:
    """All generators that a run may draw from."""
    own = [getattr(module, "generator", None) for module in objective.modules()]
    of_device = [torch.cuda.default_generators[device.index or 0]] if device.type == "cuda" else []
    return [torch.default_generator, *of_device, generator, *(g for g in own if isinstance(g, torch.Generator))]


def _make(optimizer: Callable[[list[nn.Parameter]], Optimizer] | None, table: nn.Parameter, lr: float) -> Optimizer:
    if optimizer is None:
        return SphereAdam([table], lr=lr)
    made = optimizer([table])
    if not isinstance(made, Optimizer):
        raise TypeError(
            f"expected optimizer to make a torch optimiser of a list of parameters, got {type(made).__name__}; "
            "pass for example functools.partial(unclump.SphereSGD, lr=0.1)"
        )
    if not isinstance(made, SphereAdam | SphereSGD):
        project_after_step(made, [table])
    return made


def _bring_back(table: Tensor, start: Tensor, rows: Tensor | slice, max_move: float) -> None:
    """Put those of the rows that are farther than `max_move` from their start at just this angle from it."""
    origin, here = start[rows], table[rows]
    travelled = angle(origin, here).unsqueeze(-1)
    bounded = project(exp(origin, log(origin, here) * (max_move / travelled)))
    table[rows] = torch.where(travelled > max_move, bounded, here)


def _moving(frozen: Rows | None, x: Tensor) -> Tensor | None:
    """The mask of the rows that are not frozen, or None where all of them may move."""
    if frozen is None:
        return None
    chosen, n = torch.as_tensor(frozen).to(x.device), len(x)
    if chosen.numel() == 0:
        return None
    if chosen.dtype == torch.bool:
        if chosen.shape != (n,):
            raise ValueError(f"expected frozen as a mask of shape ({n},), got shape {tuple(chosen.shape)}")
        moving = ~chosen
    else:
        if chosen.is_floating_point() or chosen.ndim != 1:
            raise TypeError(
                f"expected frozen as a mask or a list of row numbers, got {chosen.dtype} of shape {tuple(chosen.shape)}"
            )
        wrong = chosen[(chosen < 0) | (chosen >= n)].tolist()
        if wrong:
            raise ValueError(f"expected frozen rows from 0 to {n - 1}, got {wrong[0]}; a table of {n} has no such row")
        moving = torch.ones(n, dtype=torch.bool, device=x.device)
        moving[chosen.long()] = False
    if not moving.any():
        raise ValueError(f"expected at least one row that may move, got all {n} frozen; leave some out of frozen")
    return moving


def as_tensor(x: Tensor | Floats) -> Tensor:
    """Arrays as tensors: a copy in the machine's byte order."""
    return torch.from_numpy(x.astype(x.dtype.newbyteorder("="), order="C")) if isinstance(x, np.ndarray) else x


def like(points: Tensor, x: Table) -> Table:
    """The points as an array of the dtype of `x` where that is an array."""
    return points.numpy().astype(x.dtype, copy=False) if isinstance(x, np.ndarray) else points


def _digest(x: Tensor) -> str:
    """Tells tables apart by their bytes."""
    return hashlib.sha256(x.detach().cpu().contiguous().view(torch.uint8).numpy().data).hexdigest()[:16]


def _in_one_line(thing: object) -> str:
    return " ".join(repr(thing).split())


def _write(path: Path, state: dict[str, Any]) -> None:
    """Write beside, then rename: a kill at any moment leaves the old file or the new one, never half of one."""
    beside = path.with_name(path.name + ".partial")
    with beside.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def _read(path: Path, identity: dict[str, str]) -> dict[str, Any]:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError):
        state = None
    if not isinstance(state, dict) or "identity" not in state:
        raise ValueError(f"expected a checkpoint of disperse in {path}, got another file; delete it or name another")
    there = state["identity"]
    for name, here in identity.items():
        if there.get(name) != here:
            raise ValueError(
                f"expected the checkpoint {path} of this run, got that of one with another {name}: "
                f"{there.get(name)} there, {here} here; delete it or name another"
            )
    return state


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
