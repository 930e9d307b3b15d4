r"""The solver's inner loops: sums over all pairs, over near pairs, and of kernels, with their gradients.

Loops over all pairs take points as columns, shape (d, n), so that they vectorise over points for any d; loops over near
pairs take rows. The soft maximum of the cosines,

.. math::
    f(x) = \frac1s \log \sum_{i < j} \exp(s \, \langle x_i, x_j \rangle),

is computed relative to a fixed reference to avoid overflow; on overflow f is infinite and the line search backtracks.
"""

import math

import numpy as np
from jaxtyping import Float, Int

from unclump.ops.native.compiler import compiled, compiled_in_any_order

Columns = Float[np.ndarray, "d n"]
Points = Float[np.ndarray, "n d"]
Row = Float[np.ndarray, " n"]
Numbers = Int[np.ndarray, " k"]

FAR = -36.0  # terms below e^FAR of the reference are negligible


@compiled_in_any_order
def cosines(x: Columns, i: int, row: Row) -> None:
    """Inner products of point i with the later ones, into `row[i + 1:]`, four coordinates per pass."""
    d, n = x.shape
    if d == 3:
        a, b, c = x[0], x[1], x[2]
        for j in range(i + 1, n):
            row[j] = a[i] * a[j] + b[i] * b[j] + c[i] * c[j]
        return
    for j in range(i + 1, n):
        row[j] = 0.0
    k = 0
    while k + 4 <= d:
        a, b, c, e = x[k], x[k + 1], x[k + 2], x[k + 3]
        p, q, r, s = a[i], b[i], c[i], e[i]
        for j in range(i + 1, n):
            row[j] += p * a[j] + q * b[j] + r * c[j] + s * e[j]
        k += 4
    while k < d:
        a = x[k]
        p = a[i]
        for j in range(i + 1, n):
            row[j] += p * a[j]
        k += 1


@compiled_in_any_order
def largest_cosine(x: Columns) -> float:
    """The cosine of the closest pair."""
    row = np.empty(x.shape[1])
    largest = -1.0
    for i in range(x.shape[1] - 1):
        cosines(x, i, row)
        for j in range(i + 1, x.shape[1]):
            largest = row[j] if row[j] > largest else largest
    return largest


@compiled_in_any_order
def _add_gradient(x: Columns, g: Columns, i: int, row: Row) -> None:
    """Add the gradient of the sum of `row[j] <x_i, x_j>` over the later points j to g."""
    d, n = x.shape
    if d == 3:
        a, b, c = x[0], x[1], x[2]
        p, q, r = a[i], b[i], c[i]
        ga, gb, gc = g[0], g[1], g[2]
        ta = tb = tc = 0.0
        for j in range(i + 1, n):
            w = row[j]
            ta += w * a[j]
            tb += w * b[j]
            tc += w * c[j]
            ga[j] += w * p
            gb[j] += w * q
            gc[j] += w * r
        ga[i] += ta
        gb[i] += tb
        gc[i] += tc
        return
    k = 0
    while k + 2 <= d:
        a, b = x[k], x[k + 1]
        p, q = a[i], b[i]
        ga, gb = g[k], g[k + 1]
        ta = tb = 0.0
        for j in range(i + 1, n):
            w = row[j]
            ta += w * a[j]
            tb += w * b[j]
            ga[j] += w * p
            gb[j] += w * q
        ga[i] += ta
        gb[i] += tb
        k += 2
    if k < d:
        a, ga = x[k], g[k]
        p, ta = a[i], 0.0
        for j in range(i + 1, n):
            ta += row[j] * a[j]
            ga[j] += row[j] * p
        ga[i] += ta


@compiled_in_any_order
def soft_sum(x: Columns, g: Columns, sharpness: float, reference: float) -> float:
    r"""The sum of :math:`e^{s (c - c_0)}` over all pairs, and the gradient of the sum divided by s, into `g`.

    The exponential is a Taylor polynomial, raised to the power 256 by squaring: accurate to 1e-9 for relevant terms,
    and vectorised, unlike that of the math library.
    """
    n = x.shape[1]
    row = np.empty(n)
    g[:] = 0.0
    total = 0.0
    for i in range(n - 1):
        cosines(x, i, row)
        for j in range(i + 1, n):
            z = sharpness * (row[j] - reference)
            t = (z if z > FAR else FAR) / 256
            t = 1 + t * (1 + t * (1 / 2 + t * (1 / 6 + t * (1 / 24 + t * (1 / 120)))))
            t *= t
            t *= t
            t *= t
            t *= t
            t *= t
            t *= t
            t *= t
            t *= t
            row[j] = t
            total += t
        _add_gradient(x, g, i, row)
    return total


@compiled_in_any_order
def near_pairs(x: Columns, threshold: float) -> tuple[Numbers, Numbers]:
    """The pairs with cosine above `threshold`: the later partners of point i are `partner[start[i]:start[i + 1]]`."""
    n = x.shape[1]
    row = np.empty(n)
    start = np.zeros(n + 1, np.int64)
    partner = np.empty(8 * n, np.int32)
    count = 0
    for i in range(n):
        cosines(x, i, row)
        for j in range(i + 1, n):
            if row[j] > threshold:
                if count == len(partner):
                    grown = np.empty(2 * count, np.int32)
                    grown[:count] = partner
                    partner = grown
                partner[count] = j
                count += 1
        start[i + 1] = count
    return start, partner[:count]


@compiled_in_any_order
def soft_sum_near(x: Points, g: Points, sharpness: float, reference: float, start: Numbers, partner: Numbers) -> float:
    """`soft_sum` over the listed pairs, with points as rows."""
    n, d = x.shape
    g[:] = 0.0
    total = 0.0
    for i in range(n):
        for index in range(start[i], start[i + 1]):
            j = partner[index]
            if d == 3:
                c = x[i, 0] * x[j, 0] + x[i, 1] * x[j, 1] + x[i, 2] * x[j, 2]
            else:
                c = 0.0
                for k in range(d):
                    c += x[i, k] * x[j, k]
            z = sharpness * (c - reference)
            if z > FAR:
                w = math.exp(z)
                total += w
                if d == 3:
                    for k in range(3):
                        g[i, k] += w * x[j, k]
                        g[j, k] += w * x[i, k]
                else:
                    for k in range(d):
                        g[i, k] += w * x[j, k]
                        g[j, k] += w * x[i, k]
    return total


CHORDAL, GEODESIC, SHIFTED = 0, 1, 2
GAUSSIAN, LAPLACE, RIESZ = 0, 1, 2


@compiled
def kernel_at(r2: float, kind: int, distance: int, parameter: float) -> tuple[float, float]:
    """Value and derivative, with respect to the squared chord, of a kernel in `unclump.kernels`."""
    squared, slope = r2, 1.0
    if distance == GEODESIC:
        theta = 2 * math.atan2(math.sqrt(r2), math.sqrt(max(4 - r2, 0.0)))
        squared = theta * theta
        slope = theta / math.sin(theta) if 0 < theta < math.pi else 1.0
    elif distance == SHIFTED:
        squared, slope = 1 + r2 / 2, 0.5
    if kind == GAUSSIAN:
        rate = parameter / 2 if distance == CHORDAL else parameter
        value = math.exp((parameter if distance == CHORDAL else 0.0) - rate * squared)
        return value, -rate * value * slope
    if kind == LAPLACE:
        length = math.sqrt(squared)
        value = math.exp(-parameter * length)
        return value, -parameter / 2 * value / length * slope
    if parameter == 0:
        return -math.log(squared) / 2, -slope / (2 * squared)
    value = squared ** (-parameter / 2)
    if parameter < 0:
        return -value, parameter / 2 * value / squared * slope
    return value, -parameter / 2 * value / squared * slope


@compiled_in_any_order
def kernel_sum(x: Points, g: Points, kind: int, distance: int, parameter: float) -> float:
    """The sum of a kernel over all pairs, and its gradient; infinite if points coincide."""
    n, d = x.shape
    g[:] = 0.0
    total = 0.0
    for i in range(n):
        for j in range(i + 1, n):
            r2 = 0.0
            for k in range(d):
                r2 += (x[i, k] - x[j, k]) ** 2
            if r2 == 0:
                return np.inf
            value, slope = kernel_at(r2, kind, distance, parameter)
            total += value
            for k in range(d):
                pull = 2 * slope * (x[i, k] - x[j, k])
                g[i, k] += pull
                g[j, k] -= pull
    return total
