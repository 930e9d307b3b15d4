"""Points, rotations and kernels that many tests share: float64 and seeded."""

import jaxtyping
import pytest
import torch

from unclump import project

torch.set_num_threads(1)  # one worker a core; more threads would only fight over it


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


@pytest.fixture
def points(generator):
    """points(n, d): n uniform points in d dimensions, in float64."""
    return lambda n, d: project(torch.randn(n, d, generator=generator, dtype=torch.float64))


@pytest.fixture
def rotation(generator):
    """rotation(d): a random orthogonal matrix."""
    return lambda d: torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64)).Q


@pytest.fixture
def at_the_door():
    """Lets wrong arguments reach our own checks, as they do outside the tests, instead of the shape checker's."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
