r"""Great circles: random circles, the angles of points projected onto them, and their distance from even spacing.

Angles have the shape (k, n): one row per circle, one column per point.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unclump._checks import check_count
from unclump.geometry.draws import standard_normal, unit_interval, unit_normal
from unclump.geometry.sphere import tangent

Circles = Float[Tensor, "k 2 d"] | Int[Tensor, "k 2"]


def great_circles(
    count: int,
    d: int,
    *,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Float[Tensor, "count 2 {d}"]:
    r"""Uniformly random great circles, each as two orthonormal vectors: Gaussian pairs, orthonormalised.

    Example:
        >>> p, q = great_circles(1, 5, generator=torch.Generator().manual_seed(0))[0]
        >>> torch.allclose(torch.stack([p @ p, q @ q, p @ q]), torch.tensor([1.0, 1.0, 0.0]), atol=1e-6)
        True
    """
    check_count("circles", count)
    check_count("d", d, at_least=2)
    pairs = standard_normal(count, 2, d, generator=generator, dtype=dtype, device=device)
    p, q = unit_normal(pairs).unbind(dim=1)
    q = tangent(p, tangent(p, q))  # applied twice: once is not orthogonal enough for a nearly parallel pair
    return torch.stack([p, unit_normal(q)], dim=1)


def axis_circles(
    count: int,
    d: int,
    *,
    generator: torch.Generator | None = None,
    device: torch.device | str | None = None,
) -> Int[Tensor, "count 2"]:
    r"""Random great circles through two coordinate axes, each as the pair of axis numbers.

    Axes are drawn without replacement: none is used again until all others (except one, if d is odd) have been used.
    Each circle on its own is uniform among the d (d - 1) ordered pairs.

    Example:
        >>> axis_circles(3, 6, generator=torch.Generator().manual_seed(0)).flatten().sort().values
        tensor([0, 1, 2, 3, 4, 5])
    """
    check_count("circles", count)
    check_count("d", d, at_least=2)
    pairs_per_shuffle = d // 2
    shuffles = -(-count // pairs_per_shuffle)
    shuffled = unit_interval(shuffles, d, generator=generator, device=device).argsort(dim=-1)
    return shuffled[:, : 2 * pairs_per_shuffle].reshape(-1, 2)[:count]


def matched(circles: Circles, x: Tensor, d: int) -> Circles:
    """Circles, contiguous, axes on the device of x; raise unless shape and dtype fit points in d dimensions.

    Vectors must be on that device.
    """
    if circles.is_floating_point():
        if circles.shape[1:] != (2, d) or circles.dtype != x.dtype or circles.device != x.device:
            raise ValueError(
                f"expected circles of shape (k, 2, {d}) and {x.dtype} on {x.device}, got {tuple(circles.shape)} and "
                f"{circles.dtype} on {circles.device}; draw them with great_circles(k, {d})"
            )
        return circles.contiguous()
    if circles.shape[1:] != (2,):
        raise ValueError(
            f"expected axes of shape (k, 2), got {tuple(circles.shape)}; draw them with axis_circles(k, {d})"
        )
    return circles.to(x.device, torch.long).contiguous()


def check_axes(circles: Circles, d: int) -> None:
    """Raise unless all axis numbers are from 0 to d - 1. This reads them, which synchronises a GPU."""
    if circles.is_floating_point() or circles.numel() == 0:
        return
    least, largest = torch.aminmax(circles)
    if least < 0 or largest >= d:
        raise ValueError(
            f"expected axes from 0 to {d - 1}, got {least} to {largest}; draw them with axis_circles(k, {d})"
        )


def circle_coordinates(x: Float[Tensor, "*sets n d"], circles: Circles) -> Float[Tensor, "*sets k 2 n"]:
    """The inner products of the points with both vectors of each circle."""
    vectors = matched(circles, x, x.shape[-1]).flatten(end_dim=1)
    products = vectors @ x.mT if circles.is_floating_point() else x.mT.index_select(-2, vectors)
    return products.view(*products.shape[:-2], len(circles), 2, products.shape[-1])


def circle_angles(x: Float[Tensor, "*sets n d"], circles: Circles) -> Float[Tensor, "*sets k n"]:
    r"""The projections of the points onto great circles, as angles in [-pi, pi]: one row per circle.

    The point of the circle spanned by p and q that is nearest to x lies at the angle
    :math:`\operatorname{atan2}(\langle x, q \rangle, \langle x, p \rangle)`.

    Args:
        x: Points on the sphere.
        circles: From `great_circles` or `axis_circles`.

    Example:
        >>> from unclump.geometry.circles import circle_angles
        >>> circle_angles(torch.tensor([[0.6, 0.6, 0.529]]), torch.tensor([[0, 1]]))
        tensor([[0.7854]])
    """
    along, across = circle_coordinates(x, circles).unbind(dim=-2)
    return torch.atan2(across, along)


def even_angles(
    n: int, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
) -> Float[Tensor, " {n}"]:
    r"""Evenly spaced angles in ascending order, centred at zero.

    .. math:: \phi_k = -\pi \frac{n+1}{n} + \frac{2 \pi k}{n}, \quad k = 1, \dots, n

    Example:
        >>> from unclump.geometry.circles import even_angles
        >>> even_angles(4) / torch.pi
        tensor([-0.7500, -0.2500,  0.2500,  0.7500])
    """
    return torch.arange(1 - n, n, 2, dtype=dtype or torch.get_default_dtype(), device=device) * (torch.pi / n)


def unevenness(
    angles: Float[Tensor, "*sets n"],
    weight: Float[Tensor, "*#sets n"] | Bool[Tensor, "*#sets n"] | None = None,
) -> Float[Tensor, "*sets n"]:
    r"""How far each angle is from its place in the nearest evenly spaced configuration, :math:`\theta - \hat\theta`.

    The nearest one keeps the order of the angles and their mean:
    :math:`\hat\theta_i = \bar\theta + \phi_{\text{rank}(i)}`. Equal angles are ranked in any order.
    The result does not depend on where the circle is cut. With weights, the places are the centres of consecutive arcs
    whose lengths are proportional to the weights. Angles that have weight zero or are masked out must be finite; they
    do not count, and their result is zero.

    Example:
        >>> from unclump.geometry.circles import unevenness
        >>> unevenness(torch.tensor([[0.1, -0.1]])) / torch.pi  # two points belong half a circle apart
        tensor([[-0.4682,  0.4682]])
    """
    if weight is None:
        places = even_angles(angles.shape[-1], dtype=angles.dtype, device=angles.device)
        mean = angles.mean(dim=-1, keepdim=True)
        return (angles - mean).sub_(_by_rank(places, _order(angles)))
    if weight.dtype == torch.bool:
        total = weight.sum(dim=-1, keepdim=True, dtype=angles.dtype).clamp_min_(1)
        order = _order(angles.masked_fill(~weight, torch.inf))
        odd = torch.arange(1, 2 * angles.shape[-1], 2, dtype=angles.dtype, device=angles.device)
        places = (odd - total).div_(total).mul_(torch.pi)  # masked angles sort last; their places are ignored
        mean = (angles * weight).sum(dim=-1, keepdim=True) / total
        return (angles - mean).sub_(_by_rank(places, order)).mul_(weight)
    total = weight.sum(dim=-1, keepdim=True)
    order = _order(torch.where(weight > 0, angles, torch.inf))
    arcs = weight.expand_as(angles).gather(-1, order)
    places = (2 * arcs.cumsum(dim=-1) - arcs - total) * (torch.pi / total)
    mean = (weight * angles).sum(dim=-1, keepdim=True) / total
    return torch.where(weight != 0, (angles - mean).sub_(_by_rank(places, order)), 0)


def _by_rank(places: Float[Tensor, "*#sets n"], order: Int[Tensor, "*sets n"]) -> Float[Tensor, "*sets n"]:
    """For every angle the place of its rank."""
    return torch.empty_like(order, dtype=places.dtype).scatter_(-1, order, places.expand_as(order))


_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""By the size of an entry in bytes."""


def _order(angles: Float[Tensor, "*sets n"]) -> Int[Tensor, "*sets n"]:
    """`argsort` along the last dimension.

    On a CPU by the bits as integers, with all but the sign inverted for negative numbers, which keeps the order: torch
    sorts integers faster, since it does not check for NaN in every comparison.
    """
    if not angles.is_cpu:
        return angles.argsort(dim=-1)
    bits = angles.detach().view(_INTEGERS[angles.element_size()])
    return torch.where(bits < 0, bits ^ torch.iinfo(bits.dtype).max, bits).argsort(dim=-1)
