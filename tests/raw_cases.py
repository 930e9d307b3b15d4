"""Objectives of raw embeddings, which are not projected, and their definitions as loops."""

import math

import torch

import unclump as uc


def _seeded():
    return torch.Generator().manual_seed(5)


# Name -> maker: they draw the same directions each time they are made anew.
RAW_OBJECTIVES = {
    "SIGReg": lambda: uc.SIGReg(12, generator=_seeded()),
    "SIGReg(distance)": lambda: uc.SIGReg(5, knots=9, t_max=5.0, times_n=False, generator=_seeded()),
    "VISReg": lambda: uc.VISReg(12, generator=_seeded()),
    "VISReg(weights)": lambda: uc.VISReg(5, scale=2.0, shape=0.3, centre=0.7, generator=_seeded()),
}


def epps_pulley(sample, knots, t_max):
    """n times the integral, over all of [-t_max, t_max] by the trapezoidal rule, of one sample of numbers."""
    total, step = 0.0, t_max / (knots - 1)
    for k in range(1 - knots, knots):
        t = k * step
        real = sum(torch.cos(t * value) for value in sample) / len(sample) - math.exp(-t * t / 2)
        imaginary = sum(torch.sin(t * value) for value in sample) / len(sample)
        weight = step * (0.5 if abs(k) == knots - 1 else 1.0) * math.exp(-t * t / 2)
        total = total + len(sample) * weight * (real**2 + imaginary**2)
    return total


def sigreg_by_loop(x, directions, *, knots=17, t_max=3.0, times_n=True):
    statistics = [epps_pulley(x @ direction, knots, t_max) for direction in directions]
    return sum(statistics) / len(statistics) / (1 if times_n else len(x))


def visreg_by_loop(x, directions, *, scale=1.0, shape=1.0, centre=1.0):
    (n, d), normal = x.shape, torch.distributions.Normal(0.0, 1.0)
    mean = sum(x) / n
    deviation = torch.stack([sum((x[i, j] - mean[j]) ** 2 for i in range(n)) / n for j in range(d)]).sqrt()
    z = (x - mean) / deviation.detach()
    distance = 0.0
    for direction in directions:
        ascending = sorted(z @ direction)
        for i, value in enumerate(ascending, start=1):
            quantile = normal.icdf(torch.tensor(i / (n + 1), dtype=torch.float64))
            distance = distance + (value - quantile) ** 2 / (n * len(directions))
    return scale * sum((1 - deviation) ** 2) / d + shape * distance + centre * sum(mean**2) / d


def by_loop(objective, x):
    """The definition, with the directions that the objective draws."""
    directions = objective.draw(x)
    if isinstance(objective, uc.SIGReg):
        names = ("knots", "t_max", "times_n")
        return sigreg_by_loop(x, directions, **{name: getattr(objective, name) for name in names})
    names = ("scale", "shape", "centre")
    return visreg_by_loop(x, directions, **{name: getattr(objective, name) for name in names})
