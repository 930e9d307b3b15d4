r"""The geometry of the unit sphere: maps between points, tangent vectors, angles and great circles.

Points are rows of norm one. Everything acts on the last dimension and broadcasts over the others. No expression has a
hidden epsilon: each is chosen so that coinciding points, zero tangent vectors and antipodes give finite values and
gradients.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.linalg import vector_norm

from unclump._precision import full_precision


def unit(x: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape d"]:
    r"""The definition of `unclump.project`, :math:`x / \lVert x \rVert`; a row of zeros stays zero.

    Rows are first divided by their largest absolute entry, so that no norm underflows or overflows.
    """
    x = full_precision(x)
    largest = x.detach().abs().amax(dim=-1, keepdim=True)
    x = x / torch.where(largest > 0, largest, 1)
    norm = vector_norm(x, dim=-1, keepdim=True)
    on_sphere: Tensor = x / torch.where(norm > 0, norm, torch.inf)
    return on_sphere


def tangent(x: Float[Tensor, "*#shape d"], v: Float[Tensor, "*#shape d"]) -> Float[Tensor, "*shape d"]:
    r"""The component of `v` that is tangent at `x`, :math:`v - \langle x, v \rangle x`.

    Applied to a Euclidean gradient, it gives the Riemannian gradient.

    Example:
        >>> from unclump.geometry.sphere import tangent
        >>> tangent(torch.tensor([1.0, 0.0]), torch.tensor([5.0, 2.0]))
        tensor([0., 2.])
    """
    return torch.addcmul(v, x, (x * v).sum(dim=-1, keepdim=True), value=-1)


def exp(x: Float[Tensor, "*#shape d"], v: Float[Tensor, "*#shape d"]) -> Float[Tensor, "*shape d"]:
    r"""The exponential map: follow the great circle from `x` with velocity `v` for one unit of time.

    .. math:: \exp_x(v) = \cos(\lVert v \rVert) \, x + \frac{\sin \lVert v \rVert}{\lVert v \rVert} \, v

    Args:
        x: Points on the sphere.
        v: Tangent vectors at `x`.

    Example:
        >>> from unclump.geometry.sphere import exp
        >>> exp(torch.tensor([1.0, 0.0]), torch.tensor([0.0, torch.pi / 3]))
        tensor([0.5000, 0.8660])
    """
    norm = vector_norm(v, dim=-1, keepdim=True)
    return torch.cos(norm) * x + torch.sinc(norm / torch.pi) * v


def log(x: Float[Tensor, "*#shape d"], y: Float[Tensor, "*#shape d"]) -> Float[Tensor, "*shape d"]:
    r"""The tangent vector at `x` that `exp` maps to `y`; its length is the angle between them.

    .. math:: \log_x(y) = \theta \, \frac{u}{\lVert u \rVert}, \quad u = y - \langle x, y \rangle x

    For antipodes the direction is not unique, and the result is zero.

    Example:
        >>> from unclump.geometry.sphere import log
        >>> log(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]))
        tensor([0.0000, 1.5708])
    """
    u = tangent(x, y - x)
    norm = vector_norm(u, dim=-1, keepdim=True)
    is_nonzero = norm > 0
    return torch.where(is_nonzero, angle(x, y).unsqueeze(-1) / torch.where(is_nonzero, norm, 1), 1) * u


def retract(x: Float[Tensor, "*#shape d"], v: Float[Tensor, "*#shape d"]) -> Float[Tensor, "*shape d"]:
    r"""The cheaper retraction :math:`(x + v) / \lVert x + v \rVert`, which agrees with `exp` to second order in `v`.

    Example:
        >>> from unclump.geometry.sphere import retract
        >>> retract(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]))
        tensor([0.7071, 0.7071])
    """
    return unit(x + v)


def transport(
    x: Float[Tensor, "*#shape d"], y: Float[Tensor, "*#shape d"], v: Float[Tensor, "*#shape d"]
) -> Float[Tensor, "*shape d"]:
    r"""Parallel transport of the tangent vector `v` from `x` to `y`, along the shortest great circle.

    .. math:: v - \frac{\langle y, v \rangle}{1 + \langle x, y \rangle} (x + y)

    For antipodes there is no unique shortest circle; `v`, which is tangent at both, is returned unchanged.

    Example:
        >>> from unclump.geometry.sphere import transport
        >>> transport(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]), torch.tensor([0.0, 2.0]))
        tensor([-2.,  0.])
    """
    total = x + y
    twice_sum = (total * total).sum(dim=-1, keepdim=True)  # |x + y|^2 = 2 (1 + <x, y>), without cancellation
    return v - 2 * (y * v).sum(dim=-1, keepdim=True) / torch.where(twice_sum > 0, twice_sum, torch.inf) * total


def chord(x: Float[Tensor, "*#shape d"], y: Float[Tensor, "*#shape d"]) -> Float[Tensor, "*shape"]:
    r"""The Euclidean distance :math:`\lVert x - y \rVert` of points on the sphere, in [0, 2].

    Rows of any other norm must be projected first, by `unclump.project`.

    Example:
        >>> chord(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]))
        tensor(1.4142)
    """
    length: Tensor = vector_norm(x - y, dim=-1)
    return length


def angle(x: Float[Tensor, "*#shape d"], y: Float[Tensor, "*#shape d"]) -> Float[Tensor, "*shape"]:
    r"""The geodesic distance :math:`2 \operatorname{atan2}(\lVert x - y \rVert, \lVert x + y \rVert)`, in radians.

    Both must be points on the sphere: rows of any other norm must be projected first, by `unclump.project`.

    The arc cosine of the inner product cannot resolve angles below the square root of machine epsilon (0.02 degrees in
    float32); this form is accurate from coinciding points to antipodes.

    Example:
        >>> angle(torch.tensor([1.0, 0.0]), torch.tensor([1.0, 1e-6]))
        tensor(1.0000e-06)
    """
    return 2 * torch.atan2(vector_norm(x - y, dim=-1), vector_norm(x + y, dim=-1))


def angle_of(r2: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The angle between two points, from their squared chord r2 in [0, 4]."""
    return 2 * torch.atan2(torch.sqrt(r2), torch.sqrt((4 - r2).clamp_min(0)))
