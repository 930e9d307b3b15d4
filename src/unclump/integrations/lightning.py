"""Lightning (extra `[lightning]`): a callback that watches a table, and a mixin that regularises tables."""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from unclump.integrations._histograms import send_histogram
from unclump.integrations._penalty import Penalty
from unclump.integrations._required import required
from unclump.integrations._tables import named_table
from unclump.integrations._watch import LEAST, Alarm, Watch
from unclump.objectives import Objective

with required("lightning"):
    from lightning.pytorch import Callback, LightningModule, Trainer


class DispersionCallback(Callback):
    """Logs the measures of a table and a histogram of its nearest angles, and warns or stops when it collapses.

    At the start and every so many steps, to all loggers of the trainer: ``table/min_angle``,
    ``table/median_nearest_angle`` (radians), ``table/spherical_variance``, ``table/effective_rank`` and
    ``table/rank_share``, the effective rank as a share of min(n, d). Other callbacks can monitor them by these names.
    The histogram, ``table/nearest_angles``, goes to TensorBoard and W&B.

    Args:
        table: The name of a parameter, or of the module that holds it: "encoder.tokens.weight". Padding is left out.
        every: How many optimiser steps lie between two looks.
        rows: How many rows the nearest angles are taken among, None for all. It costs rows² d.
        least: The smallest value that each of some measures may have; a table below one of them has collapsed, and so
            has one with rows that are NaN. A share of rank is at least 1 / min(n, d): in ten dimensions or fewer, its
            bound of 0.1 never rings, and wants to be larger.
        on_collapse: "warn" warns once for each collapse, "stop" ends the training as well.
    """

    def __init__(
        self,
        table: str,
        *,
        every: int = 100,
        rows: int | None = 4096,
        least: Mapping[str, float] = LEAST,
        on_collapse: str = "warn",
    ) -> None:
        self.table, self.watch = table, Watch(every, rows, least, on_collapse)
        self._alarm, self._looked_at = Alarm(on_collapse), -1

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Look at the table as training finds it; that it has collapsed before is no reason to stop."""
        self._look(trainer, pl_module)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Look when it is time; batches whose gradients are still being collected are no steps."""
        if trainer.global_step % self.watch.every or trainer.global_step == self._looked_at:
            return
        found, stop = self._look(trainer, pl_module)
        pl_module.log_dict(found, logger=False, on_step=True, on_epoch=False)  # for monitors; loggers have it
        trainer.should_stop = trainer.should_stop or stop

    def _look(self, trainer: Trainer, pl_module: LightningModule) -> tuple[dict[str, float], bool]:
        seen, step = self.watch.look(*named_table(pl_module, self.table)), trainer.global_step
        self._looked_at = step
        found = {f"{self.table}/{name}": value for name, value in seen.measures.items()}
        for logger in trainer.loggers:
            logger.log_metrics(found, step=step)
            name = f"{self.table}/nearest_angles"
            send_histogram(logger.experiment, name, seen.nearest, step, step_name="trainer/global_step")
        return found, self._alarm.rings(self.table, step, seen.collapse)


class DispersionMixin:
    """For a LightningModule: `regularize` names its tables once, `dispersion` is what to add to the loss.

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
        weight: float,
        rows: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        """Name a table whose rows are to be kept apart.

        Args:
            table: The name of a parameter, or of the module that holds it. A padding row does not take part.
            objective: Any, of the whole table: no `gather`, on many processes either.
            weight: How much it counts in the loss.
            rows: How many rows, drawn anew for each step, take part; None for all.
            generator: For this draw.
        """
        self.__dict__.setdefault("_penalties", {})[table] = Penalty(objective, weight, rows, generator)

    def dispersion(self: Any) -> Float[Tensor, ""]:
        """The weighted sum over all named tables; each objective is logged, as it counts: ``table/KoLeo``."""
        penalties = self.__dict__.get("_penalties")
        if not penalties:
            raise ValueError("expected a table to disperse, got none; name one with self.regularize(...) in __init__")
        terms = {name: penalty(*named_table(self, name)) for name, penalty in penalties.items()}
        self.log_dict(
            {f"{name}/{type(penalties[name].objective).__name__}": term.detach() for name, term in terms.items()}
        )
        return torch.stack(list(terms.values())).sum()
