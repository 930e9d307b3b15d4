"""Under activation checkpointing the forward pass runs twice, and must draw the same circles and samples."""

import pytest
import torch
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

import unclump as uc
from tests.cases import value_and_gradient

RANDOM = {
    "Sliced": lambda: uc.Sliced(3),
    "Sliced(axis-aligned)": lambda: uc.Sliced(3, axis_aligned=True),
    "SSW": lambda: uc.SSW(3),
    "Lloyd": lambda: uc.Lloyd(16),
    "Polarization": lambda: uc.Polarization(samples=16, steps=2),
    "SIGReg": lambda: uc.SIGReg(3),
    "VISReg": lambda: uc.VISReg(3),
}


@pytest.mark.parametrize("use_reentrant", [True, False])
@pytest.mark.parametrize("name", RANDOM)
def test_torchs_own_generator_is_replayed(name, use_reentrant, points):
    """Several calls in a row, each with draws of its own, as in layers that are checkpointed one by one."""
    x = points(12, 8)

    def total(run):
        def value(x):
            torch.manual_seed(0)
            return sum(run(lambda x: RANDOM[name]()(x.tanh()), x * factor) for factor in (1, 2, 3))

        return value_and_gradient(value, x)

    plain = total(lambda objective, x: objective(x))
    replayed = total(lambda objective, x: checkpoint(objective, x, use_reentrant=use_reentrant))
    for found, expected in zip(replayed, plain, strict=True):
        assert_close(found, expected, rtol=1e-12, atol=1e-14)
