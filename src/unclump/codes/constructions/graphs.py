"""Two-distance codes from strongly regular graphs: rows of the projection onto an eigenspace."""

import numpy as np
from jaxtyping import Bool, Int64

from unclump.codes.constructions.fields import Field
from unclump.codes.constructions.polytopes import Points, unit_rows

Adjacency = Bool[np.ndarray, "n n"]
_BLOCK = 1024


def embed(adjacency: Adjacency, d: int, near: float, far: float) -> Points:
    """One point in d dimensions per vertex, with cosine `far` to its neighbours and `near` to the other vertices.

    For a strongly regular graph and the cosines of an eigenspace, the Gram matrix is n/d times a projection of rank d.
    It is applied to d random columns in float32, which finds the eigenspace, and again to an orthonormal basis of the
    result in float64, which leaves only rounding errors.
    """
    n = len(adjacency)
    basis: Points = np.random.default_rng(0).standard_normal((n, d))
    for precision in ("float32", "float64"):
        basis = basis.astype(precision)
        image = np.empty_like(basis)
        for start in range(0, n, _BLOCK):
            rows = slice(start, start + _BLOCK)
            image[rows] = (far - near) * (adjacency[rows].astype(precision) @ basis)
        image += (1 - near) * basis + near * basis.sum(axis=0)
        basis = np.linalg.qr(image)[0]
    return unit_rows(basis)


def hoffman_singleton() -> Adjacency:
    """Robertson's construction: pentagons P_h, pentagrams Q_i; corner j of P_h is adjacent to corner h i + j of Q_i."""
    kind, block, corner = np.indices((2, 5, 5)).reshape(3, 50)
    step = (corner[:, None] - corner) % 5
    inside = np.where(kind == 0, np.isin(step, (1, 4)), np.isin(step, (2, 3)))
    inside &= (kind[:, None] == kind) & (block[:, None] == block)
    across = (kind[:, None] < kind) & ((block[:, None] * block + corner[:, None] - corner) % 5 == 0)
    adjacency: Adjacency = inside | across | across.T
    return adjacency


def quadric(p: int, k: int) -> Adjacency:
    """Collinearity of the (q + 1)(q³ + 1) points of the elliptic quadric in five projective dimensions, q = p^k.

    The quadric is x0 x1 + x2 x3 + f(x4, x5) = 0 with an irreducible f. Its points correspond to the totally isotropic
    planes of a Hermitian form over the field of q² elements, from which Cameron, Goethals and Seidel construct codes.
    """
    field = Field(p, k)
    a, b = field.irreducible_quadratic()

    def total(*terms: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, " n"]:
        value = terms[0]
        for term in terms[1:]:
            value = field.sum[value, term]
        return value

    x = np.indices((field.q,) * 6).reshape(6, -1)
    leading = np.take_along_axis(x, (x != 0).argmax(axis=0)[None], axis=0)[0]
    x = x[:, leading == 1]
    times = field.product
    binary = total(times[x[4], x[4]], times[a, times[x[4], x[5]]], times[b, times[x[5], x[5]]])
    x = x[:, total(times[x[0], x[1]], times[x[2], x[3]], binary) == 0]

    double = field.sum[x, x]
    polar = np.stack(
        [
            *(x[1], x[0], x[3], x[2]),
            field.sum[double[4], times[a, x[5]]],
            field.sum[times[a, x[4]], times[b, double[5]]],
        ]
    )
    # Field products are bilinear in the digits, so each digit of the polar form is one matrix product.
    n = x.shape[1]
    right = field.digits[polar.T].reshape(n, -1).astype(np.float32)
    collinear = ~np.eye(n, dtype=bool)
    for digit in field.structure_constants():
        left = (field.digits[x.T] @ digit % p).reshape(n, -1).astype(np.float32)
        for start in range(0, n, _BLOCK):
            rows = slice(start, start + _BLOCK)
            collinear[rows] &= (left[rows] @ right.T).astype(np.uint8) % p == 0
    return collinear
