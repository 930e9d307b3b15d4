"""Conversion between tensors and NumPy arrays, so that callers get back the type they passed."""

import warnings
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


def read_only_tensor(x: Any) -> Any:
    """Convert an array to a tensor that must not be written to, without a copy if torch can share its memory.

    A memory-mapped array stays memory-mapped. Anything but an array is returned unchanged.
    """
    if not isinstance(x, np.ndarray):
        return x
    if not x.flags.c_contiguous or x.dtype != x.dtype.newbyteorder("="):
        return as_tensor(x)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(x)


def as_type_of(points: Tensor, x: Table) -> Table:
    """Convert `points` to an array with the dtype of `x` if `x` is an array; otherwise return them unchanged."""
    return points.numpy().astype(x.dtype, copy=False) if isinstance(x, np.ndarray) else points
