r"""First and second moments of rows that are added in blocks, in double precision.

They are summed about a point near the mean, so that a table in a narrow cone keeps its digits:

.. math:: s = \sum_i (x_i - c), \quad S = \sum_i (x_i - c) (x_i - c)^\top

The scatter about the mean is :math:`S - s s^\top / n`, and the sum of :math:`x_i x_i^\top` is
:math:`S + c s^\top + s c^\top + n c c^\top`.
"""

import torch
from jaxtyping import Float64
from torch import Tensor

from unclump.distributed.ranks import Alone
from unclump.measures.spectrum import eigenvalues, fit_range, power_law

_ROUNDING = 64  # of a coordinate, in units of the precision


class Moments:
    """The moments of rows; if there are fewer rows than dimensions, the rows themselves, which are smaller.

    Args:
        centre: A point near the mean.
        at_most: An upper bound on the number of rows.

    Example:
        >>> moments = Moments(torch.tensor([0.9, 0.0], dtype=torch.float64), at_most=3)
        >>> moments.add(torch.tensor([[1.0, 0.0], [1.0, 0.0]], dtype=torch.float64))
        >>> moments.add(torch.tensor([[1.0, 3.0]], dtype=torch.float64))
        >>> moments.mean, moments.scatter()
        (tensor([1., 1.], dtype=torch.float64), tensor([[0., 0.],
                [0., 6.]], dtype=torch.float64))
    """

    def __init__(self, centre: Float64[Tensor, " d"], *, at_most: int) -> None:
        self.n, self.centre, self._keep_rows = 0, centre, at_most < len(centre)
        self._sum = torch.zeros_like(centre)
        self._squares = torch.zeros_like(centre)
        self._rows: list[Tensor] = []
        self._products = centre.new_zeros(0, 0) if self._keep_rows else centre.new_zeros(len(centre), len(centre))

    def add(self, rows: Float64[Tensor, "k d"]) -> None:
        """Add a block of rows."""
        moved = rows - self.centre
        self.n += len(rows)
        self._sum += moved.sum(dim=0)
        self._squares += moved.square().sum(dim=0)
        if self._keep_rows:
            self._rows.append(moved)
        else:
            self._products.addmm_(moved.mT, moved)

    def add_other_ranks(self, ranks: Alone) -> None:
        """Add the sums of the other ranks, which have the same centre and keep sums, not rows."""
        if ranks.size > 1:
            assert not self._keep_rows
            self.n = int(ranks.sum(torch.tensor(self.n)))
            self._sum, self._squares, self._products = map(ranks.sum, (self._sum, self._squares, self._products))

    @property
    def mean(self) -> Float64[Tensor, " d"]:
        """The mean row."""
        return self.centre + self._sum / self.n

    @property
    def variances(self) -> Float64[Tensor, " d"]:
        """The variance of each dimension."""
        return (self._squares / self.n - (self._sum / self.n).square()).clamp_min(0)

    def gram(self) -> Float64[Tensor, "m m"]:
        """A matrix whose eigenvalues are the squared singular values of the rows; m is the smaller of n and d."""
        if self._keep_rows:
            rows = torch.cat(self._rows) + self.centre
            return rows @ rows.mT
        mixed = torch.outer(self.centre, self._sum)
        return self._products + mixed + mixed.mT + self.n * torch.outer(self.centre, self.centre)

    def scatter(self) -> Float64[Tensor, "m m"]:
        """The same after subtracting the mean; exactly zero if all rows are equal up to rounding."""
        if self._keep_rows:
            rows = torch.cat(self._rows) - self._sum / self.n
            scatter = rows @ rows.mT
        else:
            scatter = self._products - torch.outer(self._sum, self._sum) / self.n
        rounding = _ROUNDING * torch.finfo(scatter.dtype).eps * self.mean
        return scatter if scatter.trace() > self.n * rounding.square().sum() else torch.zeros_like(scatter)

    def singular_values(self) -> Float64[Tensor, " m"]:
        """The singular values of the rows, largest first."""
        return eigenvalues(self.gram()).sqrt()

    def centred_singular_values(self) -> Float64[Tensor, " m"]:
        """The same after subtracting the mean."""
        return eigenvalues(self.scatter()).sqrt()

    def isoscore(self) -> float:
        """`unclump.measures.spectrum.isoscore` of the rows."""
        scatter = self.scatter()
        squares = scatter.square().sum()
        return float((scatter.trace().square() / squares - 1) / (len(self.centre) - 1)) if squares > 0 else 0.0

    def alpha_req(self) -> float:
        """`unclump.measures.spectrum.alpha_req` of the rows."""
        first, last = fit_range(len(self.centre))
        return power_law(eigenvalues(self.scatter())[first - 1 : last], first)
