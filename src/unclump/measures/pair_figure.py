"""A small histogram of the angles of all pairs, for notebooks."""

import math

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from unclump._notebook import histogram
from unclump.distributed.ranks import Alone
from unclump.geometry.sphere import angle_of
from unclump.geometry.uniform_law import uniform_density
from unclump.measures.pair_chords import pair_chords


def pair_figure(x: Float64[Tensor, "n d"], *, lines: bool = False) -> str:
    """The histogram of the angles between unit rows, or lines through them, with the density of uniform points."""
    chords = torch.cat(list(pair_chords(x, Alone([len(x)]))))
    angles = np.degrees(angle_of(torch.minimum(chords, 4 - chords) if lines else chords).numpy())
    largest = 90.0 if lines else 180.0
    grid = np.linspace(0, math.radians(largest), 60)
    density = np.radians(uniform_density(grid, x.shape[1])) * (180 / largest)  # per degree
    label = "angles of pairs (dashed: uniform)"
    return histogram(angles, (0.0, largest), label, unit="°", density=density)
