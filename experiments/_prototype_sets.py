"""The sets of prototypes: how each row of the table is made, and at what rate."""

from functools import partial

import numpy as np
import torch
from _common import generator, replacing
from filelock import FileLock

import unclump as uc

OBJECTIVES = {
    "MM squared": lambda g: uc.MaxMin(distance="squared"),
    "KoLeo": lambda g: uc.KoLeo(),
    "MM geodesic": lambda g: uc.MaxMin(),
    "MHE Riesz geodesic": lambda g: uc.Energy(uc.Riesz(distance="geodesic")),
    "MHE Riesz geodesic, s = 8": lambda g: uc.Energy(uc.Riesz(s=8.0, distance="geodesic")),
    "MHE RBF": lambda g: uc.Energy(uc.Gaussian()),
    "Lloyd 200": lambda g: uc.Lloyd(200, generator=g),
    "Sliced 1": lambda g: uc.Sliced(1, reduction="sum", generator=g),
    "SSW 1": lambda g: uc.SSW(1, generator=g),
}
RIEMANNIAN, PROJECTED, ADAM = "Riemannian SGD", "projected SGD", "Riemannian Adam"
# The rows of the paper's table: objective, optimiser, learning rate, momentum, and how many times the steps. It gives
# none of the last four; they are those whose smallest angles fit its column best.
PAPER_ROWS = {
    "MM squared, projected": ("MM squared", PROJECTED, 0.007, 0.0, 1),
    "MM squared": ("MM squared", RIEMANNIAN, 0.1, 0.9, 1),
    "KoLeo": ("KoLeo", RIEMANNIAN, 0.1, 0.0, 1),
    "MM geodesic": ("MM geodesic", RIEMANNIAN, 0.1, 0.0, 1),
    "MHE Riesz geodesic": ("MHE Riesz geodesic", ADAM, 0.05, 0.9, 1),
    "MHE RBF": ("MHE RBF", RIEMANNIAN, 100.0, 0.9, 3),
    "Lloyd 200": ("Lloyd 200", RIEMANNIAN, 0.3, 0.9, 3),
    "Sliced 1": ("Sliced 1", RIEMANNIAN, 0.001, 0.0, 1),
    "SSW 1": ("SSW 1", RIEMANNIAN, 0.1, 0.0, 1),
}
MHE = ["MHE RBF", "MHE Riesz geodesic"]
EQUAL, STEEP, KOLEO_TUNED = "MM squared, projected, same rate", "MHE Riesz geodesic, s = 8", "KoLeo, tuned rate"
# Rows of the paper with one thing changed; of the second only the angles are compared.
CHANGED = {
    EQUAL: ("MM squared", PROJECTED, *PAPER_ROWS["MM squared"][2:]),
    STEEP: (STEEP, *PAPER_ROWS["MHE Riesz geodesic"][1:]),
    KOLEO_TUNED: ("KoLeo", RIEMANNIAN, 0.3, 0.9, 1),
}
RANDOM, BLOCKS = "random", "orthonormal blocks"
# A code comes in an order of its own, in which opposite points may follow each other, as related classes do.
CODE, ORDERED = "spherical code", "spherical code, in order"
SOFTMAX, TRAINED = "softmax", "trained, with KoLeo"
# What the paper's table does not have; the last two learn their directions with the network.
BEYOND = [RANDOM, EQUAL, KOLEO_TUNED, BLOCKS, CODE, ORDERED, SOFTMAX, TRAINED]

# Accuracy, its error, and the smallest angle of the paper's table, in 50, 100 and 200 dimensions.
PAPER = {
    "MM squared, projected": [(41.13, 0.34, 1.22), (43.39, 0.46, 1.36), (43.43, 0.28, 1.44)],
    "MM squared": [(42.38, 0.16, 1.46), (43.27, 0.31, 1.52), (42.88, 0.29, 1.56)],
    "KoLeo": [(41.72, 0.09, 1.37), (42.93, 0.23, 1.44), (42.55, 0.13, 1.49)],
    "MM geodesic": [(42.11, 0.28, 1.39), (43.23, 0.17, 1.46), (42.73, 0.28, 1.51)],
    "MHE Riesz geodesic": [(42.98, 0.29, 1.41), (42.53, 0.22, 1.56), (33.70, 0.54, 1.58)],
    "MHE RBF": [(43.37, 0.36, 1.22), (42.64, 0.09, 1.57), (33.36, 0.83, 1.58)],
    "Lloyd 200": [(41.58, 0.08, 1.20), (42.43, 0.03, 1.30), (43.07, 0.40, 1.35)],
    "Sliced 1": [(40.91, 0.11, 1.10), (42.68, 0.45, 1.20), (42.62, 0.30, 1.33)],
    "SSW 1": [(40.44, 0.31, 1.08), (42.34, 0.30, 1.18), (43.01, 0.22, 1.29)],
}
# The rates that are tried for each kind of objective, whose scales differ.
RATES = {
    "MM": [0.03, 0.1, 0.3, 1.0],
    "KoLeo": [0.03, 0.1, 0.3, 1.0],
    "MHE": [3.0, 10.0, 30.0, 100.0],
    "Lloyd": [0.1, 0.3, 1.0],
    "Sliced": [0.0003, 0.001, 0.003],
    "SSW": [1.0, 3.0, 10.0],
}


def paper(row, d):
    """What the paper's table has, or None."""
    place = {50: 0, 100: 1, 200: 2}.get(d)
    return None if place is None or row not in PAPER else PAPER[row][place]


def start(classes, d, seed):
    return uc.uniform(classes, d, generator=generator(seed, classes, d))


def dispersed(objective, way, *, classes, d, seed, steps, lr, momentum):
    """So many steps at this rate, from uniform points that depend on the seed alone."""
    optimizer = {
        RIEMANNIAN: partial(uc.SphereSGD, lr=lr, momentum=momentum),
        PROJECTED: partial(torch.optim.SGD, lr=lr, momentum=momentum),
        ADAM: partial(uc.SphereAdam, lr=lr),
    }[way]
    return uc.disperse(
        start(classes, d, seed),
        OBJECTIVES[objective](generator(seed, classes, d, 1)),
        steps=steps,
        optimizer=optimizer,
        measure_every=steps,
    ).points


def prototypes(row, *, classes, d, seed, steps, restarts):
    """The prototypes of a row of the table; those that are trained later begin as random ones."""
    if row in (RANDOM, TRAINED):
        return start(classes, d, seed)
    if row == BLOCKS:
        return uc.orthonormal_blocks(classes, d, generator=generator(seed, classes, d))
    if row == ORDERED:
        return uc.spherical_code(classes, d, restarts=restarts).points.float()
    objective, way, lr, momentum, times = (PAPER_ROWS | CHANGED)[row]
    return dispersed(objective, way, classes=classes, d=d, seed=seed, steps=times * steps, lr=lr, momentum=momentum)


def shuffled(points, seed):
    return points[torch.randperm(len(points), generator=generator(seed, len(points)))]


def cached(file, make):
    """The points in this file, or those that make() returns, written there."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{file}.lock"):  # another process may be at it: one waits for the other's
            if not file.exists():
                with replacing(file) as beside:
                    np.save(beside, make().numpy())
    return torch.from_numpy(np.load(file))


def measured(points):
    return {
        "min_angle": round(uc.min_angle(points), 6),
        "median_angle": round(uc.median_angle(points), 6),
        "variance": round(uc.spherical_variance(points), 6),
    }
