"""Conversion between tensors and NumPy arrays, so that callers get back the type they passed."""

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Floats = npt.NDArray[np.floating[Any]]
Table = TypeVar("Table", Tensor, Floats)


def as_tensor(x: Tensor | npt.NDArray[Any]) -> Tensor:
    """Convert an array to a tensor, as a copy in native byte order; return a tensor unchanged."""
    return torch.from_numpy(x.astype(x.dtype.newbyteorder("="), order="C")) if isinstance(x, np.ndarray) else x


def like(points: Tensor, x: Table) -> Table:
    """Convert `points` to an array with the dtype of `x` if `x` is an array; otherwise return them unchanged."""
    return points.numpy().astype(x.dtype, copy=False) if isinstance(x, np.ndarray) else points
