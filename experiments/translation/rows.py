"""The rows of both tables: where the decoder's embeddings live, and what keeps them apart."""

from dataclasses import dataclass
from functools import partial

import torch
from _common import generator

import unclump as uc


@dataclass(frozen=True)
class Row:
    """A way to come by embeddings.

    Args:
        sphere: Whether the decoder's table is on the sphere.
        regulariser: What keeps its rows apart during training, or None.
        origin: For continuous output, the discrete row whose table is taken and frozen.
        offline: What moves the rows of that table apart before training, or None.
    """

    sphere: bool
    regulariser: str | None = None
    origin: str | None = None
    offline: str | None = None


OBJECTIVES = ("MHE", "Lloyd", "Sliced")

DISCRETE = {
    "Euclidean": Row(sphere=False),
    "spherical": Row(sphere=True),
    **{f"spherical + {name}": Row(sphere=True, regulariser=name) for name in OBJECTIVES},
}
CONTINUOUS = {
    "continuous, Euclidean": Row(sphere=True, origin="Euclidean"),
    **{
        f"continuous, Euclidean + offline {name}": Row(sphere=True, origin="Euclidean", offline=name)
        for name in OBJECTIVES
    },
    **{f"continuous, {name}": Row(sphere=True, origin=name) for name in DISCRETE if name != "Euclidean"},
}
ROWS = DISCRETE | CONTINUOUS


def row_named(name):
    if name not in ROWS:
        raise ValueError(f"expected a row of {'; '.join(ROWS)}, got {name!r}")
    return ROWS[name]


def objective(name, draw):
    """As the paper sets them: RBF with gamma = 1, 100 samples, one circle. Sliced is a sum over the points."""
    return {
        "MHE": lambda: uc.Energy(uc.Gaussian()),
        "Lloyd": lambda: uc.Lloyd(100, generator=draw),
        "Sliced": lambda: uc.Sliced(1, reduction="sum", generator=draw),
    }[name]()


def penalty(name, table, draw, *, drawn=1000):
    """The regulariser of a table; MHE sees so many drawn tokens, the others all."""
    if name == "MHE":
        table = table[torch.randperm(len(table), generator=draw)[:drawn].to(table.device)]
    return objective(name, draw)(table)


def dispersed(table, name, *, seed, epochs, lr, batch=2000):
    """The table with its rows moved apart: MHE in batches, the others as a whole, so many times through the table."""
    batch = min(batch, len(table)) if name == "MHE" else None
    return uc.disperse(
        uc.project(table),
        objective(name, generator(seed, 71)),
        steps=epochs * (len(table) // batch if batch else 1),
        optimizer=partial(uc.SphereAdam, lr=lr),
        batch_size=batch,
        generator=generator(seed, 72),
    ).points


def frozen_table(row, trained, *, seed, epochs, lr):
    """The embeddings of continuous output, from the trained table of the row's origin."""
    points = uc.project(trained.detach())
    return points if row.offline is None else dispersed(points, row.offline, seed=seed, epochs=epochs, lr=lr)
