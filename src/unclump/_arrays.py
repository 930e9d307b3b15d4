"""Tables come as tensors or as NumPy arrays, and go back as they came."""

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Floats = npt.NDArray[np.floating[Any]]
Table = TypeVar("Table", Tensor, Floats)


def as_tensor(x: Tensor | Floats) -> Tensor:
    """Arrays as tensors: a copy in the machine's byte order."""
    return torch.from_numpy(x.astype(x.dtype.newbyteorder("="), order="C")) if isinstance(x, np.ndarray) else x


def like(points: Tensor, x: Table) -> Table:
    """The points as an array of the dtype of `x` where that is an array."""
    return points.numpy().astype(x.dtype, copy=False) if isinstance(x, np.ndarray) else points
