r"""Prototypes: one fixed direction per class, and a head that maps network outputs to the nearest of them.

A network's last layer usually learns one weight vector per class. A hyperspherical prototype network [1] instead
chooses these directions before training, as far apart as possible, and only learns to map inputs to them.

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
    check_points,
    check_positive,
    check_rows,
    check_same_dimension,
    check_table,
)
from unclump._precision import exact_products
from unclump.codes import catalogue
from unclump.codes.constructions.exact import exact_code, exact_subset
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
    r"""Well-separated unit vectors for classes: dispersed points, or a known spherical code if that is better.

    Random orthonormal blocks are dispersed by `SphereAdam` with a learning rate that decays linearly to zero. If a code
    in closed form, a subset of one, or a catalogue entry has a larger minimal angle, it is returned instead: for up to
    d + 1 classes the regular simplex, for up to 2d classes directions at right angles or more; both are optimal. There
    is no further search; `spherical_code` offers one. A code is returned in random order, because in its own order
    opposite points may be adjacent, as related classes often are.

    Args:
        classes: Number of classes, at least two.
        d: Dimension, at least two.
        objective: The objective to disperse with: a module or its name, see `list_objectives`. None means `MaxMin()`,
            and no dispersion at all if an optimal code is known. To always use the objective, call `disperse`.
        steps: Number of updates.
        lr: Initial step size: about the angle, in radians, by which a prototype moves in a step.
        generator: Draws the start and the order. None uses torch's global generator, like the objective by default.
        dtype: The dtype of the result; None is torch's default.
        device: The device of the result; None is torch's default.

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
    like = torch.empty(0, dtype=dtype, device=device)  # resolves torch's default dtype and device
    if not like.is_floating_point():
        raise TypeError(f"expected a floating-point dtype, got {dtype}; directions are not integers")
    known, is_optimal = _best_known(classes, d)
    if known is not None:
        generator_device = None if generator is None else generator.device
        known = known[torch.randperm(classes, generator=generator, device=generator_device).cpu()]
    if known is not None and is_optimal and objective is None:
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


def _best_known(n: int, d: int) -> tuple[Float[Tensor, "{n} {d}"] | None, bool]:
    """The best code that needs no search, and whether it is proved optimal."""
    if (exact := exact_code(n, d)) is not None:
        return torch.from_numpy(exact.points), exact.proof != ""
    entry, subset = catalogue.look_up(n, d), exact_subset(n, d)
    if entry is not None and (subset is None or entry.record.angle >= math.acos(subset.cosine)):
        return torch.from_numpy(entry.points), False
    return (None if subset is None else torch.from_numpy(subset.points)), False


def squared_cosine_loss(x: Float[Tensor, "n d"], y: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    r"""Mean over the rows of the squared difference between one and their cosine.

    .. math:: \frac1n \sum_i (1 - \langle x_i, y_i \rangle)^2 = \frac{1}{4n} \sum_i \lVert x_i - y_i \rVert^4

    The right-hand side stays accurate for x near y. There the gradient vanishes with the cube of the distance, so that
    outputs that have reached their prototype hardly contribute to it.

    Args:
        x: Points on the unit sphere, not checked to be unit: see `project`.
        y: Their targets, on the unit sphere.

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
    """The last layer of a prototype network: cosines, loss and prediction.

    Outputs have the shape (..., d) with any batch dimensions, such as (sentences, tokens, d).

    Args:
        prototypes: One row per class, of shape (classes, d), with any nonzero norm; see `prototypes`.
        trainable: Whether they are a parameter. The loss alone would collapse them to a single point: add
            ``weight * unclump.KoLeo()(head.prototypes)`` or another objective, and keep them on the sphere with
            `SphereSGD` or `SphereAdam`. Otherwise they are a buffer, saved with the model and never updated.

    Example:
        >>> from unclump.codes.prototypes import PrototypeHead, prototypes
        >>> head = PrototypeHead(prototypes(3, 2))
        >>> outputs = 5 * head.prototypes  # of a network that has learnt three examples
        >>> head.predict(outputs)
        tensor([0, 1, 2])
        >>> round(head.loss(outputs, torch.tensor([1, 2, 0])).item(), 3)  # (1 + 1/2)^2: every label is wrong
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

    def forward(self, outputs: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch classes"]:
        """The cosine of every output with every prototype: logits, in [-1, 1]."""
        self._check(outputs)
        with exact_products(outputs.device):
            return project(outputs) @ project(self.prototypes).mT

    def loss(
        self, outputs: Float[Tensor, "*batch d"], labels: Int[Tensor, "*batch"], *, ignore_index: int = -100
    ) -> Float[Tensor, ""]:
        """The `squared_cosine_loss` of the outputs to the prototypes of their labels.

        Outputs whose label is `ignore_index` do not count, as in `torch.nn.functional.cross_entropy`; the loss of a
        batch with no other labels is zero. On a CPU, other labels out of range raise an `IndexError`; checking them on
        a GPU would synchronise it, so there torch's own assertion stops the program.
        """
        self._check(outputs)
        _check_labels(labels, outputs)
        counts = labels != ignore_index
        # embedding() rejects labels out of range without a GPU synchronisation; indexing would accept -1.
        try:
            targets = embedding(torch.where(counts, labels, 0), project(self.prototypes))
        except IndexError:
            raise _out_of_range(labels, len(self.prototypes), ignore_index) from None
        terms = (chord(project(outputs), targets).square() / 2).square()
        return torch.where(counts, terms, 0).sum() / counts.sum().clamp_min(1)

    def predict(self, outputs: Float[Tensor, "*batch d"]) -> Int[Tensor, "*batch"]:
        """The class of the nearest prototype."""
        with torch.no_grad():
            return self.forward(outputs).argmax(dim=-1)

    def _check(self, outputs: Tensor) -> None:
        check_points(outputs)
        check_same_dimension(self.prototypes, outputs, "outputs")

    def extra_repr(self) -> str:
        """Shown by print(head)."""
        classes, d = self.prototypes.shape
        return f"classes={classes}, d={d}, trainable={isinstance(self.prototypes, nn.Parameter)}"


def _out_of_range(labels: Tensor, classes: int, ignore_index: int) -> IndexError:
    outside = (labels != ignore_index) & ((labels < 0) | (labels >= classes))
    place = tuple(outside.nonzero()[0].tolist())
    return IndexError(
        f"expected labels from 0 to {classes - 1}, or ignore_index={ignore_index}, got {int(labels[place])} in row "
        f"{place[0] if len(place) == 1 else place}, {int(outside.sum())} out of range in all"
    )


def _check_labels(labels: Tensor, outputs: Tensor) -> None:
    if not isinstance(labels, Tensor) or labels.dtype not in (torch.int64, torch.int32):
        got = labels.dtype if isinstance(labels, Tensor) else type(labels).__name__
        raise TypeError(f"expected labels to be a tensor of int64 or int32, got {got}; convert with labels.long()")
    expected = outputs.shape[:-1]
    if labels.shape != expected:
        raise ValueError(f"expected one label per output, of shape {tuple(expected)}, got {tuple(labels.shape)}")
