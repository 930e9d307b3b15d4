"""Histograms, in the words of the program that shows them."""

from typing import Any

from jaxtyping import Float
from torch import Tensor


def send_histogram(writer: Any, name: str, values: Float[Tensor, " n"], step: int, *, step_name: str) -> None:
    """To TensorBoard's writer or a run of W&B; other loggers have no histograms, and get none."""
    if len(values) == 0:
        return
    if hasattr(writer, "add_histogram"):
        writer.add_histogram(name, values, step)
    elif type(writer).__module__.startswith("wandb"):
        import wandb

        writer.log({name: wandb.Histogram(values.tolist()), step_name: step})
