"""Lightning (extra `[lightning]`): a callback that monitors a table, and a mixin that regularises tables."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from unclump.integrations._extras import require_extra
from unclump.integrations._monitor import DEFAULT_LEAST, MEASURES, CollapseAlarm, TableMonitor, send_histogram
from unclump.integrations._penalty import Penalty, Weight
from unclump.integrations._tables import find_table
from unclump.objectives import Objective

with require_extra("lightning"):
    from lightning.pytorch import Callback, LightningModule, Trainer


class DispersionCallback(Callback):
    """Logs the measures of a table and a histogram of its nearest angles, and warns or stops when it collapses.

    At the start and every `every` steps, it logs to all loggers of the trainer: ``table/min_angle``,
    ``table/median_nearest_angle`` (radians), ``table/spherical_variance``, ``table/effective_rank`` and
    ``table/rank_share``, the effective rank divided by min(n, d). Other callbacks can monitor these names. The
    histogram, ``table/nearest_angles``, goes to TensorBoard and W&B.

    Args:
        table: The name of a parameter, or of the module that has it: "encoder.tokens.weight". Padding is ignored.
        every: The number of optimiser steps between measurements.
        rows: The number of rows to sample for nearest angles, None for all. The cost is rows² d.
        least: Thresholds by measure: a table with a measure below its threshold has collapsed, and so has one with NaN
            in its rows. `rank_share` is at least 1 / min(n, d): in ten dimensions or fewer, its default threshold of
            0.1 never triggers, and should be larger.
        on_collapse: "warn" warns once for each collapse, "stop" also stops the training.
        measures: The names of the measures to log instead of these five, in addition to those in `least`; also
            available are "rankme", "alpha_req", "isoscore", "mean_cosine", and "uniformity" of the sampled rows.
    """

    def __init__(
        self,
        table: str,
        *,
        every: int = 100,
        rows: int | None = 4096,
        least: Mapping[str, float] = DEFAULT_LEAST,
        on_collapse: str = "warn",
        measures: Sequence[str] = MEASURES,
    ) -> None:
        self.table, self.monitor = table, TableMonitor(every, rows, least, on_collapse, measures)
        self._alarm, self._last_step = CollapseAlarm(on_collapse), -1

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Measure the initial table; a table that starts collapsed does not stop the training."""
        self._measure(trainer, pl_module)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Measure every `every` steps; batches that only accumulate gradients are not steps."""
        if trainer.global_step % self.monitor.every or trainer.global_step == self._last_step:
            return
        measures, should_stop = self._measure(trainer, pl_module)
        pl_module.log_dict(measures, logger=False, on_step=True, on_epoch=False)  # for callbacks; loggers have them
        trainer.should_stop = trainer.should_stop or should_stop

    def _measure(self, trainer: Trainer, pl_module: LightningModule) -> tuple[dict[str, float], bool]:
        snapshot, step = self.monitor.measure(*find_table(pl_module, self.table)), trainer.global_step
        self._last_step = step
        measures = {f"{self.table}/{name}": value for name, value in snapshot.measures.items()}
        for logger in trainer.loggers:
            logger.log_metrics(measures, step=step)
            name = f"{self.table}/nearest_angles"
            send_histogram(logger.experiment, name, snapshot.nearest, step, step_name="trainer/global_step")
        return measures, self._alarm.update(self.table, step, snapshot.collapse)


class DispersionMixin:
    """For a LightningModule: `regularize` registers its tables, `dispersion` returns the term to add to the loss.

    Example::

        class Model(DispersionMixin, LightningModule):
            def __init__(self):
                super().__init__()
                self.tokens = torch.nn.Embedding(1000, 64)
                self.regularize("tokens", unclump.Sliced(13), weight=0.1)

            def training_step(self, batch):
                return self.task(batch) + self.dispersion()
    """

    def regularize(
        self,
        table: str,
        objective: Objective,
        *,
        weight: Weight,
        rows: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        """Register a table whose rows are to be kept apart; one table may have several terms.

        Args:
            table: The name of a parameter, or of the module that has it. The padding row is ignored.
            objective: Any objective, without `gather`: with many processes it is still that of the whole table.
            weight: The weight of the term in the loss: a number, or a function of the number of optimiser steps.
            rows: The number of rows drawn for each step; None for all.
            generator: Draws the rows.
        """
        self.__dict__.setdefault("_penalties", []).append((table, Penalty(objective, weight, rows, generator)))

    def dispersion(self: Any) -> Float[Tensor, ""]:
        """Return the sum of the weighted terms of all registered tables; each is logged, as ``table/KoLeo``.

        Terms of one table by the same kind of objective are logged as their sum.
        """
        penalties = self.__dict__.get("_penalties")
        if not penalties:
            raise ValueError("expected a table to disperse, got none; add one with self.regularize(...) in __init__")
        step, logged, terms = self.global_step, dict[str, Tensor](), list[Tensor]()
        for table, penalty in penalties:
            terms.append(penalty(*find_table(self, table), step=step))
            name = f"{table}/{type(penalty.objective).__name__}"
            logged[name] = logged.get(name, 0) + terms[-1].detach()
        self.log_dict(logged)
        return torch.stack(terms).sum()
