r"""Polarization as an objective: no place on the sphere is far from all points."""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from unclump._checks import check_count, check_generator, check_kernel, check_points, check_same_dimension
from unclump._once import once
from unclump.distributed.ranks import Alone, Gather
from unclump.geometry.sampling import uniform
from unclump.geometry.sphere import exp, full_precision, project, tangent
from unclump.kernels import Kernel
from unclump.objectives._base import Objective, Others
from unclump.objectives.energy import THOMSON
from unclump.ops.between import nearest_among
from unclump.ops.pairs import block_size, narrow, nearest, separation, separation_from, squared_chord_block, widen

_REFINED = 8  # how many of the starts are followed down


def polarization(
    x: Float[Tensor, "n d"], kernel: Kernel, starts: Float[Tensor, "m d"], *, steps: int = 64
) -> Float[Tensor, ""]:
    r"""Minus the potential of the points at the place where it is smallest.

    .. math:: \mathcal{L}_{Pol}(x) = -\min_{v} \frac1n \sum_{i=1}^n k(x_i, v)

    Maximum hyperspherical polarization of [1]. The place is found by descent, without gradient, from the best of the
    starts; then only the n distances to it are differentiated, which is the gradient by Danskin's theorem.

    Args:
        x: Points on the unit sphere, n >= 2. Not checked to be unit: see `project`.
        kernel: `Gaussian`, `Laplace` or `Riesz`.
        starts: Places on the sphere to search from; see `uniform`.
        steps: How many steps of the descent; 0 takes the best start itself.

    References:
        [1] Liu et al. Learning with Hyperspherical Uniformity. AISTATS 2021.

    Example:
        >>> poles = torch.tensor([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
        >>> polarization(poles, Riesz(s=1.0), torch.eye(3))  # smallest on the equator, sqrt(2) from both
        tensor(-0.7071)
    """
    check_points(x, at_least=2)
    check_kernel(kernel, Kernel)
    check_points(starts)
    check_same_dimension(x, starts, "starts")
    check_count("steps", steps, at_least=0)
    x = full_precision(x)
    near = nearest(x)  # coinciding rows would feel the same pull for ever: they are taken apart
    x = x[near] + separation(x, near)
    return _polarization(x, None, kernel, starts, steps=steps, ranks=Alone(x))


def _polarization(
    x: Tensor, weight: Tensor | None, kernel: Kernel, starts: Tensor, *, steps: int, ranks: Alone
) -> Tensor:
    """The same of rows that do not coincide, spread over ranks, with weights."""
    weight = widen(x).new_ones(len(x)) if weight is None else widen(weight)
    weight = weight / ranks.sum(weight.sum())
    with torch.no_grad():
        place = _emptiest(partial(_potential, widen(x), weight, kernel, ranks=ranks), widen(starts), steps)
    r2 = (widen(once(x)) - place).square().sum(dim=-1).clamp_max(4)
    fixed = r2.detach()
    terms = kernel(fixed) + kernel.derivative(fixed) * (r2 - fixed)  # the kernel's own, finite derivative
    return narrow(-ranks.sum(weight @ terms), x.dtype)


def _emptiest(
    potential_at: Callable[[Tensor], tuple[Tensor, Tensor]], starts: Tensor, steps: int
) -> Float[Tensor, "1 d"]:
    """The place of the smallest potential that a descent from the starts finds."""
    potential, gradient = potential_at(starts)
    best = potential.argsort()[:_REFINED]
    place, potential, gradient = starts[best], potential[best], gradient[best]
    stride = torch.full_like(potential, 0.25)  # radians; longer after a step down, shorter after one up
    for _ in range(steps):
        step = -stride.unsqueeze(-1) * project(tangent(place, gradient))
        trial = project(exp(place, step))
        trial_potential, trial_gradient = potential_at(trial)
        down = trial_potential < potential
        place = torch.where(down.unsqueeze(-1), trial, place)
        gradient = torch.where(down.unsqueeze(-1), trial_gradient, gradient)
        potential = torch.where(down, trial_potential, potential)
        stride = torch.where(down, 1.5 * stride, 0.4 * stride)
    return place.gather(0, potential.argmin().expand(1, place.shape[1]))


def _potential(x: Tensor, weight: Tensor, kernel: Kernel, places: Tensor, *, ranks: Alone) -> tuple[Tensor, Tensor]:
    """The mean kernel between each place and all points, and its gradient by the place, streamed over the points."""
    both = places.new_zeros(len(places), 1 + places.shape[1])
    for start in range(0, len(x), 8 * block_size(x)):
        here = slice(start, start + 8 * block_size(x))
        r2 = squared_chord_block(places, x[here]).clamp_min(torch.finfo(places.dtype).eps)
        slopes = kernel.derivative(r2) * weight[here]
        both[:, 0] += kernel(r2) @ weight[here]
        both[:, 1:] += 2 * (slopes.sum(dim=1, keepdim=True) * places - slopes @ x[here])
    both = ranks.sum(both)
    return both[:, 0], both[:, 1:]


class Polarization(Objective):
    """`polarization` of raw embeddings, with new random starts at every call.

    Args:
        kernel: `Gaussian`, `Laplace` or `Riesz`.
        samples: How many uniform starts a call draws.
        steps: How many steps of descent follow.
        generator: For the starts.
    """

    choices = ("kernel", "samples", "steps")
    of_weights = True

    def __init__(
        self,
        kernel: Kernel = THOMSON,
        *,
        samples: int = 256,
        steps: int = 64,
        generator: torch.Generator | None = None,
        gather: Gather = False,
    ) -> None:
        super().__init__(gather=gather)
        check_kernel(kernel, Kernel)
        check_count("samples", samples)
        check_count("steps", steps, at_least=0)
        check_generator(generator)
        self.kernel, self.samples, self.steps, self.generator = kernel, samples, steps, generator

    def draw(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "m d"]:
        """Starts for the points' dimension, dtype and device."""
        return uniform(self.samples, x.shape[1], generator=self.generator, dtype=x.dtype, device=x.device)

    def value(self, x: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
        return polarization(x, self.kernel, self.draw(x), steps=self.steps)

    def value_among(self, x: Float[Tensor, "n d"], others: Others) -> Float[Tensor, ""]:
        found = nearest_among(x, others.against, others.ranks)
        x = found.points + separation_from(x, found.points, found.side)
        table, weight = others.with_fixed(x)
        starts = others.ranks.agree(self.draw(x))
        return _polarization(table, weight, self.kernel, starts, steps=self.steps, ranks=others.ranks)
