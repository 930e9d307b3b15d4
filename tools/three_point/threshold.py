"""The least angle that the three-point bound of a degree proves to be too large for n points, by secants."""

import math
from dataclasses import dataclass

from program import Program
from proof import slack_of_proof

_GRID = 2.0**40  # cosines are multiples of its inverse, which keeps the integers of the proof small
_LEAST_GAIN = 1e-4  # radians, below which the search ends if nothing was found yet
_MARGIN = 1e-6  # of n - 1, left for the proof


@dataclass
class Threshold:
    angle: float  # in radians: n points have a smaller one
    cosine: float
    slack: float  # of the polynomial inequality, see `proof`


def threshold(n, d, degree, low, high, *, tolerance=1e-6, log=None):
    """A proved upper bound on the smallest angle of n points in d dimensions between two angles, or None.

    Args:
        n: Number of points.
        d: Dimensions.
        degree: Of the program.
        low: An angle that n points have.
        high: An upper bound on it.
        tolerance: In radians. The proof is tried at the lowest angle that the solver gets through, then a little above.
        log: Called with a line of text for every program that is solved.
    """
    values, certificates, solves = {}, {}, 0
    target, trial = 1 / ((n - 1) * (1 - _MARGIN)), (low + high) / 2
    while high - low > (tolerance if certificates else _LEAST_GAIN) and solves < 30:
        cosine = math.floor(math.cos(trial) * _GRID) / _GRID
        solution, certificate = Program(n, d, degree, cosine).solve()
        solves += 1
        # The reciprocal is nearly linear, also where the minimum is zero but for the penalty.
        values[trial] = 1 / max(solution.primal, 1e-9) / target - 1
        if log:
            log(
                f"{math.degrees(trial):.7f} degrees: {solution.primal:.8f} of {n - 1}, residual {solution.residual:.1e}"
            )
        if values[trial] < 0:
            low = trial
        else:
            high, certificates[trial] = trial, certificate
            if values[trial] < 2 * _MARGIN:
                break
        trial = _next(values, low, high, d)
    for angle in sorted(certificates):
        slack = slack_of_proof(certificates[angle])
        if slack is not None:
            return Threshold(angle, certificates[angle].cosine, slack)
    return None


def _next(values, low, high, d):
    """The zero of a secant, aimed a little high; the middle if that is outside.

    Where the minimum is zero but for the penalty, values are large. Secants join two large values or two small ones; of
    a single small one the slope is taken from the density, for which n is as the angle to the power of 1 - d.
    """
    nearest = sorted(values, key=lambda angle: abs(values[angle]))
    small = [angle for angle in nearest if values[angle] <= 1]
    angle, *others = small or nearest
    slope = (d - 1) / angle if small else 0.0
    if others:
        slope = (values[angle] - values[others[0]]) / (angle - others[0])
    guess = angle - (values[angle] - _MARGIN) / slope if slope > 0 else -1.0
    return guess if low < guess < high else (low + high) / 2
