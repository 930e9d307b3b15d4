r"""Spherical codes known in closed form, by the number of points and the dimension.

They are constructed algebraically, in float64; no points are stored. Nearly all are proved optimal. Most of these are
sharp: m distinct cosines, and a spherical design of strength 2m - 1, so that Levenshtein's bound is attained [1, 2].
A few are only the best known of their size, kissing configurations, sign codes [3] and pairs of conference matrices;
their `proof` is empty. Two families continue beyond this list: the Kerdock code in 1024 dimensions is also proved
optimal, but its million points would take eight gigabytes, and isotropic subspaces exist for every prime power q.

References:
    [1] Levenshtein. Designs as maximum codes in polynomial metric spaces. Acta Applicandae Mathematicae 29, 1992.
    [2] Cohn and Kumar. Universally optimal distribution of points on spheres. J. Amer. Math. Soc. 20, 2007.
    [3] Ericson and Zinoviev. Codes on Euclidean Spheres. 2001.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import cos, pi, sqrt

import numpy as np
from jaxtyping import Bool

from unclump._checks import check_count
from unclump.codes.constructions import graphs, lattices, polyhedra, polytopes, signs
from unclump.codes.constructions.conference import conference_pairs
from unclump.codes.constructions.kerdock import kerdock
from unclump.codes.constructions.polytopes import Points


@dataclass(frozen=True)
class ExactCode:
    """A code in closed form.

    Attributes:
        cosine: The largest inner product of two of its points.
        name: Its name.
        proof: Who proved that no n points in d dimensions have a smaller largest cosine; "" if that is open.
        points: Unit rows of shape (n, d), constructed on first access.
    """

    cosine: float
    name: str
    proof: str
    build: Callable[[], Points] = field(repr=False, compare=False)

    @cached_property
    def points(self) -> Points:
        """The points, unit rows of shape (n, d)."""
        return self.build()


def exact_code(n: int, d: int) -> ExactCode | None:
    """The code of n points in d dimensions if it is known in closed form, otherwise None.

    The lookup is immediate; the points are constructed on first access.

    Args:
        n: Number of points, at least 2.
        d: Dimension of the space, at least 2.

    Example:
        >>> code = exact_code(24, 3)
        >>> code.name, code.proof, round(code.cosine, 6), code.points.shape
        ('snub cube', 'Robinson 1961', 0.723078, (24, 3))
        >>> exact_code(15, 3) is None
        True
    """
    check_count("n", n, at_least=2)
    check_count("d", d, at_least=2)
    if n <= 2 * d:
        name = "regular simplex" if n <= d + 1 else "cross-polytope" if n == 2 * d else "orthogonal simplices"
        cosine = -1 / (n - 1) if n <= d + 1 else 0.0
        return ExactCode(cosine, name, "Rankin 1955", partial(polytopes.orthogonal_simplices, n, d))
    if d == 2:
        return ExactCode(cos(2 * pi / n), "regular polygon", "elementary", partial(polytopes.polygon, n))
    if (n, d) not in _CODES:
        return None
    return ExactCode(*_CODES[n, d])


def exact_subset(n: int, d: int) -> ExactCode | None:
    """The first n points of the best larger closed-form code in at most d dimensions, or None if there is none.

    A lower bound for a search.

    Example:
        >>> exact_subset(200, 8).name
        '200 of the 240 points of the roots of E8'
    """
    larger = [(code[0], size, dimension) for (size, dimension), code in _CODES.items() if size > n and dimension <= d]
    if not larger:
        return None
    cosine, size, dimension = min(larger)
    _, name, _, build = _CODES[size, dimension]
    return ExactCode(cosine, f"{n} of the {size} points of the {name}", "", partial(_truncate, build, n, d))


def _truncate(build: Callable[[], Points], n: int, d: int) -> Points:
    points = build()[:n]
    return np.pad(points, ((0, 0), (0, d - points.shape[1])))


def _unit_vectors(vectors: Callable[[], lattices.Vectors]) -> Points:
    return polytopes.unit_rows(vectors().astype(np.float64))


def _section(vectors: Callable[[], lattices.Vectors], *conditions: tuple[list[int], int]) -> Points:
    anchors, products = zip(*conditions, strict=True)
    return lattices.section(vectors(), anchors, products)


def _hoffman_singleton() -> Points:
    return graphs.embed(graphs.hoffman_singleton(), 21, near=1 / 21, far=-3 / 7)


def _isotropic_subspaces(p: int, k: int) -> Points:
    q = p**k
    return graphs.embed(graphs.quadric(p, k), q * (q**2 - q + 1), near=1 / q**2, far=-1 / q)


def _signed_blocks(blocks: Callable[[], Bool[np.ndarray, "b d"]]) -> Callable[[], Points]:
    return lambda: signs.signed_blocks(blocks())


def _signed_plane(*differences: int) -> Callable[[], Points]:
    return _signed_blocks(partial(signs.projective_plane, differences))


def _icosahedron_minus_point() -> Points:
    return polyhedra.icosahedron()[1:]


_LEVENSHTEIN = "Levenshtein 1992"
_KISSING = "Levenshtein 1979; Odlyzko and Sloane 1979"
_SCHUETTE = "Schütte and van der Waerden 1951"
_THREE_POINT = "Cohn, de Laat and Leijenhorst 2024"

# Three minimal vectors of the Leech lattice and two of the next norm, without trailing zeros: the codes are sections of
# the lattice at given inner products with them. Sections of E8 use some of its roots.
_A, _B, _C = [4, 4], [4, 0, 4], [1, 1, -3] + [1] * 21
_U, _V = [5, 1] + [1] * 22, [1, 5] + [1] * 22
_in_e8 = partial(partial, _section, lattices.e8)
_in_leech = partial(partial, _section, lattices.leech)

_CODES: dict[tuple[int, int], tuple[float, str, str, Callable[[], Points]]] = {
    (7, 3): (polyhedra.COSINE[7], "C3v arrangement of 7", _SCHUETTE, polyhedra.points_7),
    (8, 3): (polyhedra.COSINE[8], "square antiprism", _SCHUETTE, polyhedra.points_8),
    (9, 3): (polyhedra.COSINE[9], "triaugmented triangular prism", _SCHUETTE, polyhedra.points_9),
    (10, 3): (polyhedra.COSINE[10], "C2v arrangement of 10", "Danzer 1986", polyhedra.points_10),
    (11, 3): (polyhedra.COSINE[11], "icosahedron less a point", "Danzer 1986", _icosahedron_minus_point),
    (12, 3): (polyhedra.COSINE[12], "icosahedron", "Fejes Tóth 1943", polyhedra.icosahedron),
    (13, 3): (polyhedra.COSINE[13], "C4v arrangement of 13", "Musin and Tarasov 2012", polyhedra.points_13),
    (14, 3): (polyhedra.COSINE[14], "D2d arrangement of 14", "Musin and Tarasov 2015", polyhedra.points_14),
    (24, 3): (polyhedra.COSINE[24], "snub cube", "Robinson 1961", polyhedra.snub_cube),
    (10, 4): (1 / 6, "Petersen code", "Bachoc and Vallentin 2009", polytopes.petersen),
    (24, 4): (1 / 2, "24-cell", "de Laat, Leijenhorst and de Muinck Keizer 2024", polytopes.cell_24),
    (120, 4): ((1 + sqrt(5)) / 4, "600-cell", "Böröczky 1978", polytopes.cell_600),
    (16, 5): (1 / 5, "half-cube", _LEVENSHTEIN, partial(polytopes.half_cube, 5)),
    (27, 6): (1 / 4, "Schläfli configuration", _LEVENSHTEIN, _in_e8(([2], 2), ([1, 1, 1, 1], 2))),
    (56, 7): (1 / 3, "Gosset configuration", _LEVENSHTEIN, _in_e8(([2], 2))),
    (240, 8): (1 / 2, "roots of E8", _KISSING, partial(_unit_vectors, lattices.e8)),
    (162, 21): (1 / 7, "McLaughlin section of 162", _LEVENSHTEIN, _in_leech((_U, 24), (_A, 16), (_B, 16))),
    (275, 22): (1 / 6, "McLaughlin graph", _LEVENSHTEIN, _in_leech((_U, 24), (_A, 16))),
    (552, 23): (1 / 5, "276 equiangular lines", _LEVENSHTEIN, _in_leech((_U, 24))),
    (891, 22): (1 / 4, "Leech section of 891", _LEVENSHTEIN, _in_leech((_A, 16), (_B, 16))),
    (4600, 23): (1 / 3, "Leech section of 4600", _LEVENSHTEIN, _in_leech((_A, 16))),
    (196560, 24): (1 / 2, "Leech lattice", _KISSING, partial(_unit_vectors, lattices.leech)),
    (50, 21): (1 / 21, "Hoffman-Singleton graph", _THREE_POINT, _hoffman_singleton),
    (56, 20): (1 / 15, "Gewirtz graph", _THREE_POINT, _in_leech((_U, 24), (_V, 24), (_A, 16), (_C, 16))),
    (77, 21): (1 / 12, "M22 graph", _THREE_POINT, _in_leech((_U, 24), (_V, 24), (_A, 16))),
    (100, 22): (1 / 11, "Higman-Sims graph", _LEVENSHTEIN, _in_leech((_U, 24), (_V, 24))),
    (40, 5): (1 / 2, "roots of D5", "", partial(_unit_vectors, partial(lattices.root_system, 5))),
    (72, 6): (1 / 2, "roots of E6", "", _in_e8(([2], 0), ([1, 1, 1, 1], 0))),
    (126, 7): (1 / 2, "roots of E7", "", _in_e8(([2], 0))),
    (104, 13): (1 / 4, "signed lines of a plane of order 3", "", _signed_plane(0, 1, 3, 9)),
    (336, 21): (1 / 5, "signed lines of a plane of order 4", "", _signed_plane(0, 1, 4, 14, 16)),
    (512, 16): (1 / 3, "signed blocks of a biplane", "", _signed_blocks(signs.biplane)),
    (1024, 16): (3 / 7, "signed blocks of seven", "", _signed_blocks(signs.blocks_of_seven)),
    (2112, 32): (1 / 4, "Gold code and basis", "", partial(signs.gold, 5)),
    (4320, 16): (1 / 2, "Barnes-Wall lattice", "", partial(_unit_vectors, lattices.barnes_wall)),
    (49896, 22): (1 / 2, "laminated lattice in 22 dimensions", "", _in_leech((_A, 0), (_B, 0))),
    (93150, 23): (1 / 2, "laminated lattice in 23 dimensions", "", _in_leech((_A, 0))),
}
_CODES |= {
    (2 ** (4 * k) + 2 ** (2 * k + 1), 4**k): (2.0**-k, "Kerdock code", _THREE_POINT, partial(kerdock, k))
    for k in (2, 3, 4)
}
_CODES |= {
    (2 * q, q - 1): (1 / (q + 1), "pairs of a conference matrix", "", partial(conference_pairs, p, k))
    for p, k, q in ((13, 1, 13), (17, 1, 17), (5, 2, 25))
}
_CODES |= {
    ((q + 1) * (q**3 + 1), q * (q**2 - q + 1)): (
        1 / q**2,
        f"isotropic subspaces over {q**2} elements",
        _LEVENSHTEIN,
        partial(_isotropic_subspaces, p, k),
    )
    for p, k, q in ((3, 1, 3), (2, 2, 4), (5, 1, 5), (7, 1, 7), (2, 3, 8), (3, 2, 9))
}
