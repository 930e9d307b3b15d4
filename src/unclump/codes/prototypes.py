r"""Prototypes: one fixed direction a class, and a head that maps outputs of a network to the nearest of them.

A network's last layer usually learns one weight vector a class. A hyperspherical prototype network [1] instead chooses
these directions before training, as far apart as they can be, and only learns to send an image there.

References:
    [1] Mettes, van der Pol and Snoek. Hyperspherical prototype networks. NeurIPS 2019.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding

from unclump._checks import (
    check_count,
    check_generator,
    check_positive,
    check_rows,
    check_same_dimension,
    check_table,
)
from unclump._precision import exact_products
from unclump.codes import catalogue
from unclump.codes.constructions.exact import exact_above, exact_code
from unclump.dispersion.loop import disperse
from unclump.geometry.sampling import orthonormal_blocks
from unclump.geometry.sphere import chord
from unclump.measures.angles import min_angle
from unclump.objectives import MaxMin
from unclump.ops.project import project


def prototypes(
    classes: int,
    d: int,
    *,
    objective: nn.Module | str | None = None,
    steps: int = 1000,
    lr: float = 0.05,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Float[Tensor, "{classes} {d}"]:
    r"""Unit vectors for classes, far apart: dispersed, or a spherical code where one is known that is better.

    Random orthonormal blocks are dispersed by `SphereAdam`, whose learning rate falls to zero along a line. If a code
    in closed form, or part of one, or the catalogue's, has a larger smallest angle, it is taken instead: for up to
    d + 1 classes the regular simplex, for up to 2d classes directions at right angles or more, which no others surpass.
    Nothing is searched for beyond that; `spherical_code` does, for as long as you let it. Codes come in random order:
    in their own, opposite points may follow each other, as related classes often do.

    Args:
        classes: How many, at least two.
        d: In how many dimensions, at least two.
        objective: What to disperse by: a module, or the name of one, see `list_objectives`. None is `MaxMin()`, and
            nothing to be dispersed where the code is proved to be the best. For points that an objective alone has
            made, whatever is known, call `disperse`.
        steps: How many updates.
        lr: The step size of the first of them: about the angle, in radians, that a prototype turns.
        generator: For start and order. None is torch's global generator, as for the objective's own draws.
        dtype: Of the result; None is torch's default.
        device: Where it is made; None is torch's default.

    Example:
        >>> from unclump.codes.prototypes import prototypes
        >>> ten = prototypes(10, 16)  # a regular simplex in nine of the sixteen dimensions
        >>> round(math.degrees(uc.min_angle(ten)), 2)
        96.38
    """
    check_count("classes", classes, at_least=2)
    check_count("d", d, at_least=2)
    check_count("steps", steps)
    check_positive("lr", lr)
    check_generator(generator)
    like = torch.empty(0, dtype=dtype, device=device)  # also where the defaults are others than float32 and the CPU
    if not like.is_floating_point():
        raise TypeError(f"expected a floating-point dtype, got {dtype}; directions are no integers")
    known, proved = _known(classes, d)
    if known is not None:
        place = None if generator is None else generator.device
        known = known[torch.randperm(classes, generator=generator, device=place).cpu()]
    if known is not None and proved and objective is None:
        return known.to(like)
    dispersed = disperse(
        orthonormal_blocks(classes, d, generator=generator, dtype=dtype, device=device),
        MaxMin() if objective is None else objective,
        steps=steps,
        lr=lr,
        schedule=lambda step: 1 - step / steps,
        measure_every=steps,
    ).points
    if known is not None and min_angle(known) > min_angle(dispersed):
        return known.to(like)
    return dispersed.to(like)


def _known(n: int, d: int) -> tuple[Float[Tensor, "{n} {d}"] | None, bool]:
    """The best code that needs no search, and whether it is proved that none is better."""
    if (exact := exact_code(n, d)) is not None:
        return torch.from_numpy(exact.points), exact.proof != ""
    stored, above = catalogue.look_up(n, d), exact_above(n, d)
    if stored is not None and (above is None or stored.record.angle >= math.acos(above.cosine)):
        return torch.from_numpy(stored.points), False
    return (None if above is None else torch.from_numpy(above.points)), False


def squared_cosine_loss(x: Float[Tensor, "n d"], y: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    r"""Mean over the rows of the squared distance of their cosine from one.

    .. math:: \frac1n \sum_i (1 - \langle x_i, y_i \rangle)^2 = \frac{1}{4n} \sum_i \lVert x_i - y_i \rVert^4

    The right-hand side keeps its digits where x has nearly reached y. The gradient vanishes there with the cube of the
    distance, so that outputs on their prototype leave the work to the others.

    Args:
        x: Points on the unit sphere, not checked to be unit: see `project`.
        y: Where they should be.

    References:
        Mettes, van der Pol and Snoek. Hyperspherical prototype networks. NeurIPS 2019. Equation 1.

    Example:
        >>> from unclump.codes.prototypes import squared_cosine_loss
        >>> squared_cosine_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.6, 0.8]]))  # (1 - 0.6)^2
        tensor(0.1600)
    """
    check_table(x)
    check_table(y)
    if x.shape != y.shape:
        raise ValueError(f"expected a target for every point, got shapes {tuple(x.shape)} and {tuple(y.shape)}")
    return (chord(x, y).square() / 2).square().mean()


class PrototypeHead(nn.Module):
    """The last layer of a network whose classes are directions: cosines, loss and prediction.

    Args:
        prototypes: One row a class, of shape (classes, d), rows of any norm but zero; see `prototypes`.
        trainable: Whether they are a parameter. Under the loss alone all of them would meet in one point: add
            ``weight * unclump.KoLeo()(head.prototypes)`` or another objective, and keep them on the sphere with
            `SphereSGD` or `SphereAdam`. Otherwise they are a buffer, saved with the model and never updated.

    Example:
        >>> from unclump.codes.prototypes import PrototypeHead, prototypes
        >>> head = PrototypeHead(prototypes(3, 2))
        >>> outputs = 5 * head.prototypes  # of a network that has learnt its three images
        >>> head.predict(outputs)
        tensor([0, 1, 2])
        >>> round(head.loss(outputs, torch.tensor([1, 2, 0])).item(), 3)  # (1 + 1/2)^2, each to a wrong one
        2.25
    """

    prototypes: Tensor

    def __init__(self, prototypes: Float[Tensor, "classes d"], *, trainable: bool = False) -> None:
        super().__init__()
        check_table(prototypes, at_least=2)
        check_rows(prototypes)
        unit = project(prototypes.detach())
        if trainable:
            self.prototypes = nn.Parameter(unit)
        else:
            self.register_buffer("prototypes", unit)

    def forward(self, outputs: Float[Tensor, "batch d"]) -> Float[Tensor, "batch classes"]:
        """The cosine of every output with every prototype: logits, in [-1, 1]."""
        self._check(outputs)
        with exact_products(outputs.device):
            return project(outputs) @ project(self.prototypes).mT

    def loss(self, outputs: Float[Tensor, "batch d"], labels: Int[Tensor, " batch"]) -> Float[Tensor, ""]:
        """The `squared_cosine_loss` of the outputs to the prototypes of their labels."""
        self._check(outputs)
        _check_labels(labels, len(outputs))
        # torch's lookup refuses labels out of range without a wait for the GPU; an index would take -1 for the last.
        return squared_cosine_loss(project(outputs), embedding(labels, project(self.prototypes)))

    def predict(self, outputs: Float[Tensor, "batch d"]) -> Int[Tensor, " batch"]:
        """The class of the nearest prototype."""
        with torch.no_grad():
            return self.forward(outputs).argmax(dim=-1)

    def _check(self, outputs: Tensor) -> None:
        check_table(outputs)
        check_same_dimension(self.prototypes, outputs, "outputs")

    def extra_repr(self) -> str:
        """Shown by print(head)."""
        classes, d = self.prototypes.shape
        return f"classes={classes}, d={d}, trainable={isinstance(self.prototypes, nn.Parameter)}"


def _check_labels(labels: Tensor, batch: int) -> None:
    if not isinstance(labels, Tensor) or labels.dtype not in (torch.int64, torch.int32):
        got = labels.dtype if isinstance(labels, Tensor) else type(labels).__name__
        raise TypeError(f"expected labels to be a tensor of int64 or int32, got {got}; convert with labels.long()")
    if labels.shape != (batch,):
        raise ValueError(f"expected one label an output, of shape ({batch},), got {tuple(labels.shape)}")
