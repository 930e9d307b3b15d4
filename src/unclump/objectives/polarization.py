r"""Polarization as an objective: no location on the sphere is far from all points."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from unclump._checks import check_count, check_generator, check_kernel, check_points, check_same_dimension, check_table
from unclump._precision import apart, push_aside, take_rows
from unclump.distributed.gathering import nearest_among
from unclump.distributed.ranks import Gather
from unclump.geometry.sampling import uniform
from unclump.geometry.sphere import exp, tangent, unit
from unclump.kernels import Kernel
from unclump.objectives._base import Objective
from unclump.objectives._others import Others
from unclump.objectives._pull import Pull
from unclump.objectives.energy import THOMSON
from unclump.ops.kernel_sum import kernel_sum

_DESCENTS = 8  # starts from which the descent runs
Potential = Callable[[Tensor], tuple[Tensor, Tensor]]


def polarization(
    x: Float[Tensor, "*sets n d"], kernel: Kernel, starts: Float[Tensor, "m d"], *, steps: int = 64
) -> Float[Tensor, "*sets"]:
    r"""Minus the smallest potential of the points anywhere on the sphere.

    .. math:: \mathcal{L}_{Pol}(x) = -\min_{v} \frac1n \sum_{i=1}^n k(x_i, v)

    Maximum hyperspherical polarization of [1]. The minimum is found by descent from the best of the starts, outside of
    autograd; then only the n distances to it are differentiated, which is the gradient by Danskin's theorem.

    Args:
        x: Points, n >= 2, in separate sets; only their directions count.
        kernel: `Gaussian`, `Laplace` or `Riesz`.
        starts: Locations from which to search, of which only the directions count; see `uniform`.
        steps: The number of steps of the descent; 0 uses the best start itself.

    References:
        [1] Liu et al. Learning with Hyperspherical Uniformity. AISTATS 2021.

    Example:
        >>> poles = torch.tensor([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
        >>> polarization(poles, Riesz(s=1.0), torch.eye(3))  # smallest on the equator, sqrt(2) from both
        tensor(-0.7071)
    """
    check_points(x, at_least=0)
    check_table(starts)
    check_same_dimension(x, starts, "starts")
    objective = Polarization(kernel, samples=len(starts), steps=steps)
    return objective.with_draw(x, unit(starts))


def _minimise_potential(
    potential_at: Potential, starts: Float[Tensor, "*sets m d"], steps: int
) -> Float[Tensor, "*sets 1 d"]:
    """The location of the smallest potential that a descent from the starts finds."""
    potential, gradient = potential_at(starts)
    best = potential.argsort(dim=-1)[..., :_DESCENTS]
    location, potential, gradient = take_rows(starts, best), potential.gather(-1, best), take_rows(gradient, best)
    gradient, rounding = tangent(location, gradient), 8 * torch.finfo(location.dtype).eps
    stride = torch.full_like(potential, 0.25)  # radians; grows after a successful step, shrinks after a failed one
    for _ in range(steps):
        step = -stride.unsqueeze(-1) * unit(gradient)
        trial = unit(exp(location, step))
        trial_potential, trial_gradient = potential_at(trial)
        trial_gradient = tangent(trial, trial_gradient)
        # Near the minimum, differences of the potential are rounding errors: compare gradients instead.
        is_level = (trial_potential - potential).abs() <= rounding * potential.abs()
        is_flatter = trial_gradient.square().sum(dim=-1) < gradient.square().sum(dim=-1)
        is_better = torch.where(is_level, is_flatter, trial_potential < potential)
        location = torch.where(is_better.unsqueeze(-1), trial, location)
        gradient = torch.where(is_better.unsqueeze(-1), trial_gradient, gradient)
        potential = torch.where(is_better, trial_potential, potential)
        stride = torch.where(is_better, 1.5 * stride, 0.4 * stride)
    return take_rows(location, potential.argmin(dim=-1, keepdim=True))


class Polarization(Objective):
    """`polarization` of raw embeddings, with new random starts at every call.

    Args:
        kernel: `Gaussian`, `Laplace` or `Riesz`.
        samples: The number of random starts per call.
        steps: The number of steps of the descent.
        generator: Draws the starts. Under activation checkpointing, see `unclump.replay`.
    """

    choices = ("kernel", "samples", "steps")
    supports_weights = True

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

    def draw(self, embeddings: Float[Tensor, "*sets n d"]) -> Float[Tensor, "m d"]:
        """Random starts, with the dimension, dtype and device of the points."""
        d, dtype, device = embeddings.shape[-1], embeddings.dtype, embeddings.device
        return uniform(self.samples, d, generator=self.generator, dtype=dtype, device=device)

    def loss(
        self, x: Float[Tensor, "*sets n d"], others: Others, draw: Float[Tensor, "m d"], needs_grad: bool
    ) -> tuple[Float[Tensor, "*sets"], Pull | None]:
        weight = x.new_ones(x.shape[:-1]) if others.weight is None else others.weight
        mass = others.mass_with_fixed
        mass = mass.unsqueeze(-1) if isinstance(mass, Tensor) else x.new_full((*x.shape[:-2], 1), mass)
        table, shares = others.with_fixed(self._separate_duplicates(x, others)), weight / mass
        if others.against is not None:
            fixed = 1 if others.against_weight is None else others.against_weight
            fixed = fixed / (mass * others.ranks.size)  # every rank has the fixed points
            shares = torch.cat([fixed.expand(*x.shape[:-2], others.fixed), shares], dim=-1)

        def potential_at(locations: Tensor) -> tuple[Tensor, Tensor]:
            value, gradient = kernel_sum(locations, self.kernel, table, right=shares)
            assert gradient is not None
            return others.ranks.sum(value), others.ranks.sum(gradient)

        location = _minimise_potential(potential_at, draw.to(x.dtype).expand(*x.shape[:-2], -1, -1), self.steps)
        vector = table - location
        r2 = vector.square().sum(dim=-1).clamp_max(4)
        value, slope = self.kernel.value_and_derivative(r2)
        potential = others.ranks.sum((shares * value).sum(dim=-1))
        if not needs_grad:
            return -potential, None
        gradient = (-2 * shares * slope).unsqueeze(-1) * vector
        return -potential, Pull(tangent(x, gradient[..., others.fixed :, :]), others.scale)

    def _separate_duplicates(self, x: Float[Tensor, "*sets n d"], others: Others) -> Float[Tensor, "*sets n d"]:
        """Move points that coincide with another one slightly: equal points would have equal gradients forever."""
        if others.ranks.total == 1:
            return x
        _, number, r2 = nearest_among(x, others.ranks, fixed=others.against)
        own = torch.arange(x.shape[-2], device=x.device).unsqueeze(-1) + others.ranks.before
        by = apart(x.dtype) * torch.sign(own - number).to(x.dtype)
        moved = x.clone()
        push_aside(moved, x, torch.where(r2 == 0, by, 0))
        return moved
