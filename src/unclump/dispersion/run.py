"""The state of a run of `disperse`, and the operations that advance it by a step."""

import math
import time
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.linalg import vector_norm
from torch.nn.functional import pad
from torch.optim.optimizer import Optimizer

from unclump._checks import list_rows
from unclump._precision import widen, widest
from unclump.dispersion.history import History
from unclump.distributed.gathering import nearest_among
from unclump.distributed.ranks import Alone
from unclump.geometry.sphere import angle
from unclump.measures.rows import raw_rows_on_ranks
from unclump.objectives._base import Objective
from unclump.ops.project import project
from unclump.optim.optimizers import SphereAdam

_SUMMED_ROWS = 32  # rows summed in the table's dtype before the sums are widened: converting every entry is slower
_MEASURED_ROWS = 4096  # rows searched for the smallest angle, which of larger tables is an upper bound


class Run:
    """The state of a run: everything that changes from step to step, and that a checkpoint must contain."""

    def __init__(
        self,
        table: nn.Parameter,
        objective: nn.Module,
        optimizer: Optimizer,
        generator: torch.Generator | None,
        *,
        batch_size: int,
        ranks: Alone,
        is_own_optimizer: bool,
    ) -> None:
        self.table, self.objective, self.optimizer, self.batch_size = table, objective, optimizer, batch_size
        self.is_own_optimizer = is_own_optimizer  # ours has no hooks, which a user's optimiser may have
        self.generator = torch.default_generator if generator is None else generator
        own = [getattr(module, "generator", None) for module in objective.modules()]
        passed = [self.generator, *(each for each in own if isinstance(each, torch.Generator))]
        # Every generator that a run may draw from.
        self.generators = [torch.default_generator, *_device_generators(table.device), *passed]
        self.passed = [each for each in passed if each is not torch.default_generator]
        self.step = 0
        self.order = torch.empty(0, dtype=torch.long)  # rows that this epoch has not drawn yet
        self.records: list[tuple[int, float, float, float, float]] = []
        self.started = time.perf_counter()
        self.ranks, self.gather = ranks, getattr(objective, "gather", False) if ranks.size > 1 else False
        self.measured: Tensor | None = None  # rows among which records search the smallest angle; None for all
        if ranks.total > _MEASURED_ROWS:
            chosen = torch.randperm(ranks.total, generator=torch.Generator().manual_seed(0))[:_MEASURED_ROWS]
            self.measured = self._local_rows(chosen.to(table.device))

    def draw(self) -> Tensor | None:
        """The rows of the next step, in ascending order; None for all rows."""
        n = self.ranks.total
        if self.batch_size == n:
            return None
        if len(self.order) < self.batch_size:
            order = torch.randperm(n, generator=self.generator, device=self.generator.device)
            self.order = self._sort_batches(self.ranks.agree(order.to(self.table.device)))
        rows, self.order = self.order[: self.batch_size], self.order[self.batch_size :]
        return self._local_rows(rows)

    def _sort_batches(self, order: Tensor) -> Tensor:
        """Sort the rows within every batch of the order."""
        whole = len(order) // self.batch_size * self.batch_size
        batches = order[:whole].view(-1, self.batch_size)
        # On a CPU by NumPy: torch sorts the places too, and takes many times as long.
        batches = torch.from_numpy(np.sort(batches.numpy())) if order.is_cpu else batches.sort(dim=-1).values
        return torch.cat([batches.view(-1), order[whole:]])

    def _local_rows(self, rows: Tensor) -> Tensor:
        """Of global row numbers, those on this rank, as local row numbers."""
        if self.ranks.size == 1:
            return rows
        local = rows - self.ranks.before
        return local[(local >= 0) & (local < len(self.table))]

    def evaluate(self) -> tuple[Tensor | None, Tensor, Tensor]:
        """Draw rows; return their numbers, the objective at them, and its gradient."""
        rows = self.draw()
        points = self.table.detach() if rows is None else self.table.detach().index_select(0, rows)
        if isinstance(self.objective, Objective) and type(self.objective).forward is Objective.forward:
            return rows, *self.objective.value_and_gradient(points)
        points.requires_grad_()
        value = self.objective(points)
        if not isinstance(value, Tensor) or value.ndim != 0:
            got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(f"expected the objective to return a scalar tensor, got {got}; average it")
        return rows, value.detach(), torch.autograd.grad(value, points)[0]

    def update(self, rows: Tensor | None, gradient: Tensor, moving: Tensor | None) -> Tensor | slice:
        """Step the optimiser on the drawn rows that may move; return these rows."""
        if moving is not None:
            free = moving if rows is None else moving[rows]
            rows, gradient = free.nonzero()[:, 0] if rows is None else rows[free], gradient[free]
        if self.is_own_optimizer and isinstance(self.optimizer, SphereAdam):
            self.optimizer.step_rows(self.table, gradient, rows)
            return slice(None) if rows is None else rows
        if rows is not None:  # with a sparse gradient, the optimiser updates no other row
            gradient = torch.sparse_coo_tensor(
                rows[None], gradient, self.table.shape, is_coalesced=True, check_invariants=False
            )
        self.table.grad = gradient
        self.optimizer.step()
        return slice(None) if rows is None else rows

    def record(self, value: Tensor) -> None:
        """Measure the current points."""
        points, number = self.table.detach(), value.item()
        if not math.isfinite(number):
            raise ValueError(
                f"expected a finite objective, got {number} at step {self.step}; try a smaller lr, or another objective"
            )
        length = vector_norm(self.ranks.sum(_sum_of_rows(points))).item()
        if not math.isfinite(length):  # on all ranks, wherever the rows are
            bad = ~points.isfinite().all(dim=-1)
            where = f"in {list_rows(bad)}" if bad.any() else "on another rank"
            raise ValueError(f"expected finite rows, got NaN or infinity {where} at step {self.step}; try a smaller lr")
        variance = 1 - length / self.ranks.total
        self.records.append((self.step, number, self._smallest_angle(), variance, time.perf_counter() - self.started))

    def _smallest_angle(self) -> float:
        """The smallest angle among the measured rows: neighbours in the table's dtype, the angle in float64."""
        points = self.table.detach() if self.measured is None else self.table.detach()[self.measured]
        ranks = Alone([len(points)])
        if self.gather is not False:
            points, ranks = raw_rows_on_ranks(points, self.gather)
        near, _, r2 = nearest_among(points, ranks)
        chords = pad(r2.sqrt().squeeze(-1), (0, 1), value=math.inf)  # a rank may have no rows
        # All others are farther, even with rounding.
        is_nearest = (chords <= chords.amin() + 32 * torch.finfo(points.dtype).eps)[:-1]
        angles = angle(project(widen(points[is_nearest])), project(widen(near[is_nearest])))
        return float(ranks.minimum(pad(angles, (0, 1), value=math.inf).amin()))

    def degrees(self) -> float:
        """The latest smallest angle, in degrees."""
        return math.degrees(self.records[-1][2])

    def history(self, *, interrupted: bool) -> History:
        step, value, smallest, variance, seconds = np.array(self.records, dtype=np.float64).reshape(-1, 5).T
        return History(
            step=step.astype(np.int64),
            value=value,
            min_angle=smallest,
            spherical_variance=variance,
            seconds=seconds,
            rows=self.ranks.total,
            min_angle_rows=self.ranks.total if self.measured is None else _MEASURED_ROWS,
            interrupted=interrupted,
        )

    def seeds(self) -> list[int]:
        """The seeds (low 63 bits) of the generators that were passed, on the first rank, which draws for all."""
        seeds = torch.tensor([each.initial_seed() % 2**63 for each in self.passed], dtype=torch.long)
        return list(self.ranks.agree(seeds.to(self.table.device)).tolist())

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
        self.order = self._sort_batches(state["order"].to(self.table.device))  # older versions saved unsorted batches
        self.started = time.perf_counter() - state["seconds"]


def _sum_of_rows(points: Float[Tensor, "n d"]) -> Float[Tensor, " d"]:
    """The sum of all rows, in double precision where the device has it."""
    whole = len(points) // _SUMMED_ROWS * _SUMMED_ROWS
    sums = points[:whole].view(-1, _SUMMED_ROWS, points.shape[1]).sum(dim=1)
    return torch.cat([sums, points[whole:]]).sum(dim=0, dtype=widest(points.device))


def _device_generators(device: torch.device) -> list[torch.Generator]:
    return [torch.cuda.default_generators[device.index or 0]] if device.type == "cuda" else []
