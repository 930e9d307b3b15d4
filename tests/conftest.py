"""Points, rotations and kernels that many tests share: float64 and seeded.

Torch is imported inside the fixtures: the process that hands out tests to workers reads this file, too.
"""

import os
import subprocess
import sys

import pytest


@pytest.fixture
def generator():
    import torch

    return torch.Generator().manual_seed(0)


@pytest.fixture
def points(generator):
    """points(n, d): n uniform points in d dimensions, in float64."""
    import torch

    from unclump import project

    return lambda n, d: project(torch.randn(n, d, generator=generator, dtype=torch.float64))


@pytest.fixture
def rotation(generator):
    """rotation(d): a random orthogonal matrix."""
    import torch

    return lambda d: torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64)).Q


@pytest.fixture
def at_the_door():
    """Lets wrong arguments reach our own checks, as they do outside the tests, instead of the shape checker's."""
    import jaxtyping

    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def simplex():
    """simplex(d): d + 1 points in d dimensions with cosine -1/d."""
    import torch

    from unclump import project

    def make(d):
        centred = torch.eye(d + 1, dtype=torch.float64) - 1 / (d + 1)
        basis = torch.linalg.svd(centred).Vh[:d]
        return project(centred @ basis.mT)

    return make


@pytest.fixture
def icosahedron():
    import torch

    from unclump import project

    golden = (1 + 5**0.5) / 2
    corners = [(0.0, a, b * golden) for a in (1, -1) for b in (1, -1)]
    turned = [(p[i % 3], p[(i + 1) % 3], p[(i + 2) % 3]) for p in corners for i in range(3)]
    return project(torch.tensor(turned, dtype=torch.float64))


@pytest.fixture
def loaded_cores():
    """As many other processes as there are cores, which do nothing but keep them busy.

    They end when their standard input closes, so that they do not outlive tests that are killed.
    """
    program = """
import select, sys
while not select.select([sys.stdin], [], [], 0)[0]:
    for _ in range(1_000_000):
        pass
"""
    others = [
        subprocess.Popen([sys.executable, "-S", "-c", program], stdin=subprocess.PIPE)
        for _ in range(os.cpu_count() or 1)
    ]
    yield others
    for other in others:
        other.kill()
        other.communicate()


@pytest.fixture
def two_threads():
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)
