"""Upper bounds on the smallest angle of n lines through the origin, for codes where x and -x are equivalent."""

import math


def welch(n: int, d: int) -> float:
    r"""Welch's bound on the smallest angle of n lines in d dimensions, in radians, which is Rankin's for lines.

    .. math:: \cos^2 \ge \frac{n - d}{d (n - 1)} \quad (n > d)

    Attained by equiangular tight frames, such as the six diagonals of the icosahedron.

    References:
        Welch. Lower bounds on the maximum cross correlation of signals. IEEE Trans. Inform. Theory 20, 1974.

    Example:
        >>> from unclump.codes.bounds.lines import welch
        >>> [round(math.degrees(welch(n, 3)), 4) for n in (3, 4, 6)]
        [90.0, 70.5288, 63.4349]
    """
    return _angle(max(0, n - d), d * (n - 1))


def orthoplex(n: int, d: int) -> float:
    r"""Rankin's second bound for lines: the squared cosine is at least 1/d for more than d (d + 1) / 2 lines.

    Attained by mutually unbiased bases.

    References:
        Conway, Hardin and Sloane. Packing lines, planes, etc. Experimental Mathematics 5, 1996.
    """
    return _angle(1, d) if n > d * (d + 1) // 2 else math.inf


def levenshtein_lines(n: int, d: int) -> float:
    r"""Levenshtein's bound for more than d (d + 1) / 2 lines.

    .. math:: \cos^2 \ge \frac{3 n - d^2 - 2 d}{(n - d) (d + 2)}

    References:
        Levenshtein. Bounds on the maximal cardinality of a code with bounded modulus of the inner product. Soviet
        Mathematics Doklady 25, 1982.

    Example:
        >>> from unclump.codes.bounds.lines import levenshtein_lines
        >>> round(math.degrees(levenshtein_lines(120, 8)), 6)  # the roots of E8
        60.0
    """
    return _angle(3 * n - d * d - 2 * d, (n - d) * (d + 2)) if n > d * (d + 1) // 2 else math.inf


LINE_BOUNDS = {"Welch": welch, "Rankin": orthoplex, "Levenshtein": levenshtein_lines}


def _angle(numerator: int, denominator: int) -> float:
    """The angle whose squared cosine is a fraction, rounded up unless it is a right angle."""
    if numerator == 0:
        return math.pi / 2
    return math.atan2(math.sqrt(denominator - numerator), math.sqrt(numerator)) * (1 + 2**-50)
