"""The means of kernels over uniform points, which the energy of a dispersed table approaches."""

import itertools
import math
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from scipy import integrate, special

from unclump._checks import check_count, check_kernel
from unclump.kernels import FramePotential, Gaussian, Kernel, Riesz

_QUADRATURE_OPTIONS: Any = {"epsabs": 1e-13, "epsrel": 1e-11, "limit": 200}


def kernel_mean(kernel: Kernel, d: int) -> float:
    r"""The mean of the kernel over two independent uniform points: the constant c of the MMD lemma.

    .. math:: c = \frac{1}{B(\frac12, \frac{d-1}2)} \int_{-1}^{1} f(t) \, (1 - t^2)^{(d-3)/2} \, dt

    The chordal Gaussian has the closed form :math:`\Gamma(\tfrac d2) (\tfrac\gamma2)^{1 - d/2} I_{d/2-1}(\gamma)`,
    evaluated as the hypergeometric function 0F1, in which neither factor overflows. The mean of the chordal Riesz
    kernel is a ratio of Beta functions, since :math:`r^2 / 4` is Beta distributed; that of the squared cosine is 1/d.
    All others are integrated numerically.

    Infinite for Riesz kernels with s >= d - 1, unless shifted.

    Example:
        >>> print(round(kernel_mean(Gaussian(gamma=1.0), 3), 6), round(math.sinh(1), 6))
        1.175201 1.175201
    """
    check_kernel(kernel, Kernel)
    check_count("d", d, at_least=2)
    return _cached_mean(kernel, d)


@lru_cache(maxsize=1024)
def _cached_mean(kernel: Kernel, d: int) -> float:
    a = (d - 1) / 2  # r2 / 4 ~ Beta(a, a)
    # A subclass may override the values, so closed forms apply to the exact types only.
    if type(kernel) is Riesz and kernel.distance != "shifted" and kernel.s >= d - 1:
        return math.inf
    if type(kernel) is FramePotential:
        return 1 / d
    if type(kernel) is Gaussian and kernel.distance == "chordal":
        return float(special.hyp0f1(d / 2, kernel.gamma**2 / 4))
    if type(kernel) is Riesz and kernel.distance == "chordal":
        if kernel.s == 0:
            return float(-(math.log(4) + special.digamma(a) - special.digamma(2 * a)) / 2)
        moment = special.betaln(a - kernel.s / 2, a) - special.betaln(a, a) - kernel.s * math.log(2)
        return math.copysign(math.exp(moment), kernel.s)
    return _mean_by_quadrature(kernel, d)


def _mean_by_quadrature(kernel: Kernel, d: int) -> float:
    if type(kernel) is Riesz and kernel.distance == "geodesic" and kernel.s > d - 2:
        # theta^(d - 2 - s) is singular but integrable: pass it as the weight function of the quadrature
        total, _ = integrate.quad(
            lambda theta: np.sinc(theta / math.pi) ** (d - 2), 0, math.pi, weight="alg", wvar=(d - 2 - kernel.s, 0)
        )
        return float(total / special.beta(0.5, (d - 1) / 2))

    def log_density(theta: Any) -> Any:
        return (d - 2) * np.log(np.sin(theta)) - special.betaln(0.5, (d - 1) / 2)

    def values(theta: Any) -> Any:
        return kernel(torch.as_tensor(4 * np.sin(np.asarray(theta) / 2) ** 2)).numpy()

    # Kernel and density may both be sharply peaked, at different angles: integrate where their product is large.
    near = np.geomspace(1e-9, math.pi / 2, 4000)
    grid = np.concatenate([near, math.pi - near[-2::-1]])
    with np.errstate(divide="ignore"):  # log mass of an interval whose width is its distance from 0 or pi
        weight = np.log(np.abs(values(grid))) + log_density(grid) + np.log(np.minimum(grid, math.pi - grid))
    weight[weight == math.inf] = -math.inf  # the kernel overflowed where the density is negligible
    peak, counts = weight.max(), np.flatnonzero(weight > weight.max() - 50)
    low, high = grid[max(counts[0] - 1, 0)], grid[min(counts[-1] + 1, len(grid) - 1)]
    breaks = np.unique([low if counts[0] > 0 else 0.0, grid[weight.argmax()], high if high < grid[-1] else math.pi])
    total = sum(
        integrate.quad(
            lambda theta: float(values(theta) * np.exp(log_density(theta) - peak)), a, b, **_QUADRATURE_OPTIONS
        )[0]
        for a, b in itertools.pairwise(breaks)
    )
    return float(total * math.exp(peak))
