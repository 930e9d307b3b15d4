"""Histograms for experiment trackers."""

from typing import Any

from jaxtyping import Float
from torch import Tensor


def send_histogram(writer: Any, name: str, values: Float[Tensor, " n"], step: int, *, step_name: str) -> None:
    """Log a histogram to a TensorBoard writer or a W&B run; other writers are ignored."""
    if len(values) == 0:
        return
    if hasattr(writer, "add_histogram"):
        writer.add_histogram(name, values, step)
    elif type(writer).__module__.startswith("wandb"):
        import wandb

        writer.log({name: wandb.Histogram(values.tolist()), step_name: step})
