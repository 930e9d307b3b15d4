"""Random points to start from: independent uniform points, and two samplers that spread them more evenly."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.quasirandom import SobolEngine

from unclump._checks import check_count, check_generator
from unclump._precision import full_precision
from unclump.geometry.draws import standard_normal
from unclump.geometry.sphere import unit


def uniform(
    n: int,
    d: int,
    *,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Float[Tensor, "{n} {d}"]:
    r"""Draw independent uniform points: normal vectors, projected onto the sphere.

    Example:
        >>> from unclump.geometry.sampling import uniform
        >>> x = uniform(1000, 3, generator=torch.Generator().manual_seed(0))
        >>> torch.allclose(x.mean(dim=0), torch.zeros(3), atol=0.1)
        True
    """
    check_count("n", n)
    check_count("d", d, at_least=2)
    return unit(standard_normal(n, d, generator=generator, dtype=dtype, device=device))


def orthonormal_blocks(
    n: int,
    d: int,
    *,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Float[Tensor, "{n} {d}"]:
    r"""Draw the first n rows of stacked independent, uniformly random orthogonal matrices.

    Every single point is uniform, and orthogonal to the others in its block of d: a start that is better spread than
    independent points.

    References:
        Mezzadri. How to generate random matrices from the classical compact groups. Notices of the AMS, 2007.

    Example:
        >>> from unclump.geometry.sampling import orthonormal_blocks
        >>> x = orthonormal_blocks(5, 3, generator=torch.Generator().manual_seed(0))
        >>> torch.allclose(x[:3] @ x[:3].mT, torch.eye(3), atol=1e-6)
        True
    """
    check_count("n", n)
    check_count("d", d, at_least=2)
    blocks, rows = -(-n // d), min(n, d)
    normals = full_precision(standard_normal(blocks, d, rows, generator=generator, dtype=dtype, device=device))
    q, r = torch.linalg.qr(normals)
    # The algorithm is free to choose the signs of R's diagonal; Q is uniform only if they are all positive.
    q = torch.where(r.diagonal(dim1=-2, dim2=-1).unsqueeze(-2) < 0, -q, q)
    return q.mT.reshape(-1, d)[:n]


def sobol(
    n: int,
    d: int,
    *,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Float[Tensor, "{n} {d}"]:
    r"""Draw quasi-random points: a scrambled Sobol sequence, mapped by the normal quantile function and projected.

    Every single point is uniform; together they are more even than independent points, especially if n is a power of 2.

    Example:
        >>> from unclump.geometry.sampling import sobol
        >>> x = sobol(1024, 3, generator=torch.Generator().manual_seed(0))
        >>> torch.allclose(x.mean(dim=0), torch.zeros(3), atol=0.01)
        True
    """
    check_count("n", n)
    check_count("d", d, at_least=2)
    check_generator(generator)
    if d > SobolEngine.MAXDIM:
        raise ValueError(
            f"expected d <= {SobolEngine.MAXDIM}, the most that torch's Sobol sequence supports, got {d}; "
            "use uniform(...) or orthonormal_blocks(...)"
        )
    generator_device = None if generator is None else generator.device
    seed = int(torch.randint(2**62, (), generator=generator, device=generator_device))
    engine: Any = SobolEngine  # untyped in torch
    cells: Tensor = engine(d, scramble=True, seed=seed).draw(n, dtype=torch.float64)
    centres = cells + 2.0 ** -(SobolEngine.MAXBIT + 1)  # a cell starts at 0, where the normal quantile is infinite
    normals: Tensor = torch.special.ndtri(centres)
    return unit(normals.to(device=device, dtype=dtype or torch.get_default_dtype()))
