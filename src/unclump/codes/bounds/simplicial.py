r"""Density bounds: no packing of caps is denser than that of mutually touching caps within a regular simplex."""

import math

import numpy as np
from scipy.optimize import brentq

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(50)


def fejes_toth(n: int, d: int) -> float:
    r"""Fejes Tóth's bound on the smallest angle of n points in three dimensions, in radians; infinite if d != 3.

    .. math::
        \arccos \frac{\cot^2 \omega - 1}{2} = 2 \arcsin \frac{\sqrt{\sin \varepsilon \, \sin(\varepsilon + \pi/3)}}
        {\sin \omega}, \qquad \omega = \varepsilon + \frac{\pi}{6} = \frac{n}{n - 2} \frac{\pi}{6}

    The right-hand side stays accurate for large n. Sharp for n = 3, 4, 6 and 12, and to first order for large n.
    Rounded up.

    References:
        Fejes Tóth. Über die Abschätzung des kürzesten Abstandes zweier Punkte eines auf einer Kugelfläche liegenden
        Punktsystems. Jahresbericht der DMV 53, 1943.

    Example:
        >>> from unclump.codes.bounds.upper_bound import fejes_toth
        >>> round(math.degrees(fejes_toth(12, 3)), 6)  # the icosahedron
        63.434949
    """
    if d != 3 or n < 3:
        return math.inf
    epsilon = math.pi / 3 / (n - 2)
    half = math.asin(math.sqrt(math.sin(epsilon) * math.sin(epsilon + math.pi / 3)) / math.sin(epsilon + math.pi / 6))
    return 2 * half * (1 + 2**-47)  # covers the rounding of a dozen operations, 2^-53 each


def boroczky(n: int, d: int) -> float:
    r"""Böröczky's bound on the smallest angle of n points in four dimensions, in radians; infinite if d != 4.

    Coxeter's conjecture of 1963, for angles :math:`\theta < \pi/2`. A regular tetrahedron in the three-dimensional
    sphere with edges :math:`\theta` has dihedral angles A, with :math:`\sec A = 2 + \sec \theta`, solid angles
    3A - π and, by Schläfli's formula, the volume V:

    .. math:: n \le \frac{2 \pi (3 A - \pi)}{V}, \qquad V(\theta) = 3 \int_0^\theta t \, A'(t) \, dt

    Sharp for the 120 points of the 600-cell. The integrand is smooth, and 50 Gauss nodes integrate it to nearly full
    precision; the angle is rounded up by a relative 1e-13.

    References:
        Böröczky. Packing of spheres in spaces of constant curvature. Acta Mathematica Hungarica 32, 1978.

    Example:
        >>> from unclump.codes.bounds.upper_bound import boroczky
        >>> round(math.degrees(boroczky(120, 4)), 9)
        36.0
    """
    if d != 4 or n <= 8:
        return math.inf
    guess = (30 / n) ** (1 / 3)  # n angle^3 is 29.4 for large n and 31 for n = 8
    angle: float = brentq(lambda angle: _max_points(angle) - n, 0.9 * guess, 1.1 * guess, xtol=1e-16 * guess)
    return angle * (1 + 1e-13)


def _max_points(angle: float) -> float:
    """The right-hand side of the bound on n, for edges of this angle."""
    t = angle * (1 + _NODES) / 2
    dihedral = np.arccos(np.cos(t) / (1 + 2 * np.cos(t)))
    slope = np.sin(t) / (np.sin(dihedral) * (1 + 2 * np.cos(t)) ** 2)
    volume = 3 * angle / 2 * float(_WEIGHTS @ (t * slope))
    return 2 * math.pi * (3 * math.acos(math.cos(angle) / (1 + 2 * math.cos(angle))) - math.pi) / volume
