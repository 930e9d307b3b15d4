r"""Polarization as an objective: no place on the sphere is far from all points."""

import torch
from jaxtyping import Float
from torch import Tensor

from unclump._checks import check_count, check_generator, check_kernel, check_points, check_same_dimension
from unclump.kernels import Kernel
from unclump.objectives._base import Objective
from unclump.objectives.energy import THOMSON
from unclump.pairs import block_size, narrow, nearest, separation, squared_chord_block, widen
from unclump.sphere import exp, full_precision, project, tangent
from unclump.starts import uniform

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
    with torch.no_grad():
        place = _emptiest(widen(x), kernel, widen(starts), steps)
    r2 = (widen(x) - place).square().sum(dim=-1).clamp_max(4)
    fixed = r2.detach()
    potential = (kernel(fixed) + kernel.derivative(fixed) * (r2 - fixed)).mean()  # the kernel's own, finite derivative
    return narrow(-potential, x.dtype)


def _emptiest(x: Tensor, kernel: Kernel, starts: Tensor, steps: int) -> Tensor:
    """The place of the smallest potential that a descent from the starts finds, of shape (1, d)."""
    potential, gradient = _potential(x, kernel, starts)
    best = potential.argsort()[:_REFINED]
    place, potential, gradient = starts[best], potential[best], gradient[best]
    stride = torch.full_like(potential, 0.25)  # radians; longer after a step down, shorter after one up
    for _ in range(steps):
        step = -stride.unsqueeze(-1) * project(tangent(place, gradient))
        trial = project(exp(place, step))
        trial_potential, trial_gradient = _potential(x, kernel, trial)
        down = trial_potential < potential
        place = torch.where(down.unsqueeze(-1), trial, place)
        gradient = torch.where(down.unsqueeze(-1), trial_gradient, gradient)
        potential = torch.where(down, trial_potential, potential)
        stride = torch.where(down, 1.5 * stride, 0.4 * stride)
    return place.gather(0, potential.argmin().expand(1, place.shape[1]))


def _potential(x: Tensor, kernel: Kernel, places: Tensor) -> tuple[Tensor, Tensor]:
    """The mean kernel between each place and all points, and its gradient by the place, streamed over the points."""
    value, gradient = places.new_zeros(len(places)), torch.zeros_like(places)
    for start in range(0, len(x), 8 * block_size(x)):
        some = x[start : start + 8 * block_size(x)]
        r2 = squared_chord_block(places, some).clamp_min(torch.finfo(places.dtype).eps)
        slopes = kernel.derivative(r2)
        value += kernel(r2).sum(dim=1) / len(x)
        gradient += 2 * (slopes.sum(dim=1, keepdim=True) * places - slopes @ some) / len(x)
    return value, gradient


class Polarization(Objective):
    """`polarization` of raw embeddings, with new random starts at every call.

    Args:
        kernel: `Gaussian`, `Laplace` or `Riesz`.
        samples: How many uniform starts a call draws.
        steps: How many steps of descent follow.
        generator: For the starts.
    """

    choices = ("kernel", "samples", "steps")

    def __init__(
        self,
        kernel: Kernel = THOMSON,
        *,
        samples: int = 256,
        steps: int = 64,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_kernel(kernel, Kernel)
        check_count("samples", samples)
        check_count("steps", steps, at_least=0)
        check_generator(generator)
        self.kernel, self.samples, self.steps, self.generator = kernel, samples, steps, generator

    def value(self, x: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
        starts = uniform(self.samples, x.shape[1], generator=self.generator, dtype=x.dtype, device=x.device)
        return polarization(x, self.kernel, starts, steps=self.steps)
