r"""Angles on a circle: the nearest evenly spaced configuration, and how far it is.

Rows are circles, columns are points: (k, n).
"""

import torch
from jaxtyping import Float
from torch import Tensor

from unclump import _numba


def even_angles(
    n: int, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
) -> Float[Tensor, " {n}"]:
    r"""Evenly spaced angles in ascending order, centred at zero.

    .. math:: \phi_k = -\pi \frac{n+1}{n} + \frac{2 \pi k}{n}, \quad k = 1, \dots, n

    Example:
        >>> from unclump.circle import even_angles
        >>> even_angles(4) / torch.pi
        tensor([-0.7500, -0.2500,  0.2500,  0.7500])
    """
    return (2 * torch.arange(n, dtype=dtype or torch.get_default_dtype(), device=device) + (1 - n)) * (torch.pi / n)


def unevenness(angles: Float[Tensor, "k n"]) -> Float[Tensor, "k n"]:
    r"""How far each angle is from its place in the nearest evenly spaced configuration, :math:`\theta - \hat\theta`.

    The nearest one keeps the order of the angles and their mean:
    :math:`\hat\theta_i = \bar\theta + \phi_{\text{rank}(i)}`. Angles that coincide are ranked in the order of their
    points. It does not matter where the circle is cut.

    Example:
        >>> from unclump.circle import unevenness
        >>> unevenness(torch.tensor([[0.1, -0.1]])) / torch.pi  # two points belong half a circle apart
        tensor([[-0.4682,  0.4682]])
    """
    if angles.dtype is torch.float32 and _numba.usable(angles):
        from unclump._numba.circle import unevenness as ranked_by_radix

        return ranked_by_radix(angles)
    order = angles.argsort(dim=-1, stable=True)
    places = even_angles(angles.shape[-1], dtype=angles.dtype, device=angles.device)
    placed = torch.empty_like(angles).scatter_(-1, order, places.expand_as(angles))
    return angles - angles.mean(dim=-1, keepdim=True) - placed
