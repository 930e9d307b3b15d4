r"""Mean, covariance and shrinkage of a table's rows, in one pass over blocks of rows.

Sums are computed in double precision about the mean of the first block, so that a table far from the origin keeps its
digits. Rows of zeros, such as padding, are left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor
from tqdm import tqdm

from unclump._arrays import Floats, as_tensor
from unclump._checks import check_table, has_direction
from unclump.tables.moments import Moments
from unclump.tables.rows import BLOCK


@dataclass(frozen=True)
class Covariance:
    """The result of `estimate_covariance`.

    Attributes:
        rows: The number of rows that are not zero.
        mean: Their mean.
        matrix: Their covariance S, with the divisor n.
        shrinkage: The share of the identity in the covariance that has the least expected error.
    """

    rows: int
    mean: Float64[Tensor, " d"]
    matrix: Float64[Tensor, "d d"]
    shrinkage: float


def estimate_covariance(x: Tensor | Floats, *, progress: bool = False) -> Covariance:
    r"""Mean, covariance and the shrinkage of Ledoit and Wolf.

    With the covariance :math:`S`, its mean eigenvalue :math:`\mu = \operatorname{tr} S / d` and the centred rows
    :math:`z_i`, the estimate :math:`(1 - \rho) S + \rho \mu I` has the least expected squared error for about

    .. math:: \rho = \min\Big(1, \frac{\frac1n \big(\frac1n \sum_i \lVert z_i \rVert^4 - \lVert S \rVert_F^2\big)}
        {\lVert S - \mu I \rVert_F^2}\Big)

    Few rows in many dimensions are shrunk much, a million rows hardly.

    References:
        Ledoit and Wolf. A well-conditioned estimator for large-dimensional covariance matrices. Journal of
        Multivariate Analysis 88, 2004.
    """
    d = x.shape[1]
    sums: Moments | None = None
    cubes, fourth = torch.zeros(d).double(), 0.0
    for _, block in row_blocks(x, progress=progress):
        rows = block[has_direction(block)].cpu().double()
        if len(rows) == 0:
            continue
        if sums is None:
            sums = Moments(rows.mean(dim=0), at_most=max(d, x.shape[0]))
        sums.add(rows)
        z = rows - sums.centre
        squares = z.square().sum(dim=1)
        cubes += squares @ z
        fourth += float(squares.square().sum())
    check_enough(0 if sums is None else sums.n, x.shape[0])
    assert sums is not None
    n, m = sums.n, sums.mean - sums.centre
    scatter = sums.scatter()
    covariance, products = scatter / n, scatter + n * torch.outer(m, m)
    # The sum of |z - m|^4, expanded: the mean is known only after the pass.
    m2 = float(m @ m)
    fourth += 4 * float(m @ products @ m) - 4 * float(cubes @ m) + 2 * m2 * float(products.trace()) - 3 * n * m2**2
    mu = covariance.trace() / d
    distance = float((covariance - mu * torch.eye(d).double()).square().sum())
    error = max(0.0, (fourth / n - float(covariance.square().sum())) / n)
    return Covariance(n, sums.mean, covariance, min(1.0, error / distance) if distance > 0 else 1.0)


def check_rows_to_fit(x: Tensor | Floats, *, at_least: int) -> None:
    """Raise unless `x` is a table, a tensor or an array; does not copy it."""
    if isinstance(x, np.ndarray):
        dtype = as_tensor(np.empty(0, x.dtype)).dtype if x.dtype.kind in "fiu" else torch.int64
        check_table(torch.empty(x.shape, dtype=dtype, device="meta"), at_least=at_least)
    else:
        check_table(x, at_least=at_least)


def check_enough(n: int, total: int) -> None:
    """Raise unless at least two rows are not zero."""
    if n < 2:
        raise ValueError(f"expected at least 2 rows that are not zero, got {n} of {total}; fit on more rows")


def row_blocks(x: Tensor | Floats, *, progress: bool = False) -> Iterator[tuple[int, Tensor]]:
    """Blocks of rows, each with the number of its first row; raise on NaN and infinity, listing the rows."""
    n, step = x.shape[0], max(1, BLOCK // x.shape[1])
    with tqdm(total=n, disable=not progress, unit="row", unit_scale=True) as bar:
        for start in range(0, n, step):
            part = x[start : start + step]
            block = (as_tensor(part) if isinstance(part, np.ndarray) else part).detach()
            if not block.isfinite().all():
                before = block.new_ones(start)
                has_direction(torch.cat([before, block.abs().amax(dim=1)]).unsqueeze(1))
            yield start, block
            bar.update(len(block))
