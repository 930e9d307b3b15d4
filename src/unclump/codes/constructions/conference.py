r"""Paley's symmetric conference matrices, and the lines and points that they give.

For a prime power q = 1 mod 4, let :math:`S_{ab} = \chi(a - b)` for elements a, b of the field with q elements, where
:math:`\chi` is 1 for nonzero squares, -1 for other nonzero elements, and 0 for zero. Then :math:`S^2 = q I - J`.
"""

import numpy as np
from jaxtyping import Float

from unclump.codes.constructions.fields import Field
from unclump.codes.constructions.polytopes import Points, unit_rows

Matrix = Float[np.ndarray, "q q"]


def conference_lines(p: int, k: int) -> Points:
    r"""The directions of q + 1 equiangular lines in (q + 1) / 2 dimensions, q = p^k.

    S with a row and a column of ones is C, with :math:`C^2 = q I`, and :math:`I + C / \sqrt q` is the Gram matrix.
    """
    core = _core(p, k)
    matrix = np.pad(core, ((1, 0), (1, 0)), constant_values=1.0)
    matrix[0, 0] = 0
    _, vectors = np.linalg.eigh(matrix)
    return unit_rows(vectors[:, (len(core) + 1) // 2 :])


def conference_pairs(p: int, k: int) -> Points:
    """2 q points in q - 1 dimensions with cosines of at most 1 / (q + 1), q = p^k: for q = 5, the Petersen code.

    Two points for every element of the field, which are far apart. All others touch, but for differences that are
    squares among the first points, and not squares among the second. The Gram matrix is a multiple of a projection.
    """
    core = _core(p, k)
    q = len(core)
    near = 1 / (q + 1)
    far = near - 4 / (q - 1) * (1 - near)
    within = [np.where(core == sign, far, near) for sign in (1, -1)]
    across = np.full((q, q), near)
    for block in within:
        np.fill_diagonal(block, 1.0)
    np.fill_diagonal(across, 2 * near - 1)
    _, vectors = np.linalg.eigh(np.block([[within[0], across], [across, within[1]]]))
    return unit_rows(vectors[:, q + 1 :])


def _core(p: int, k: int) -> Matrix:
    field = Field(p, k)
    squares = np.unique(np.diagonal(field.product)[1:])
    character = np.where(np.isin(np.arange(field.q), squares), 1.0, -1.0)
    character[0] = 0
    negative = field.sum.argmin(axis=1)  # the index of -a, since zero is the smallest
    core: Matrix = character[field.sum[:, negative]]
    return core
