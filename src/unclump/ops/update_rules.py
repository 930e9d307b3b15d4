r"""The update rules of the optimisers: pure functions of points, gradients and state, with one row per point.

Both retractions rotate a point x towards a tangent vector u, in the plane that they span, by an angle :math:`\theta`:

.. math:: y = \cos\theta \, x + \sin\theta \, \frac{u}{\lVert u \rVert}, \quad
    \theta = \lVert u \rVert \text{ ("exp")} \quad\text{or}\quad \theta = \arctan \lVert u \rVert \text{ ("project")}

Tangent vectors along u rotate with x; those orthogonal to u are unchanged. A row of zeros, such as padding, has no
direction: it is left unchanged, and its gradient is ignored. `unclump.ops.row_update` applies a rule to parameters.
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.linalg import vector_norm

from unclump.geometry.sphere import tangent

RETRACTIONS = ("exp", "project")

Points = Float[Tensor, "n d"]
Column = Float[Tensor, "n 1"]
Rate = float | Tensor  # a number, or a tensor with one element


def sgd_update(
    x: Points,
    grad: Points,
    momentum_buffer: Points | None,
    *,
    lr: Rate,
    momentum: float,
    retraction: str,
    dampening: float = 0.0,
    nesterov: bool = False,
) -> tuple[Points, Points | None]:
    r"""One step of Riemannian gradient descent [1]: new points, and the momentum transported to them.

    .. math::
        g &\leftarrow g - \langle x, g \rangle x, \quad b \leftarrow \mu b + (1 - \tau) g, \quad
            u = b \text{ or, with Nesterov, } g + \mu b \\
        x &\leftarrow \cos\theta \, x - \sin\theta \, e, \quad e = u / \lVert u \rVert \\
        b &\leftarrow b + \langle e, b \rangle \big( (\cos\theta - 1) \, e + \sin\theta \, x \big)

    The last line transports the momentum along the great circle of the step, with x before the step; its length is
    preserved. As in torch, the first gradient of a row, which has no momentum yet, is not dampened. In the limit of a
    large, flat sphere, this is torch.optim.SGD.

    Args:
        x: Points on the sphere.
        grad: The Euclidean gradient at x.
        momentum_buffer: The momentum b, tangent at x: zeros at the first step, or None for no momentum.
        lr: The step size; negative to maximise.
        momentum: The factor :math:`\mu`.
        retraction: "exp" or "project".
        dampening: The share :math:`\tau` of the gradient that is not added to the momentum.
        nesterov: Step along :math:`g + \mu b`.

    References:
        [1] Bonnabel. Stochastic Gradient Descent on Riemannian Manifolds. IEEE Transactions on Automatic Control, 2013.

    Example:
        >>> from unclump.ops.update_rules import sgd_update
        >>> x, grad = torch.tensor([[1.0, 0.0]]), torch.tensor([[7.0, -1.0]])
        >>> sgd_update(x, grad, None, lr=math.pi / 6, momentum=0.0, retraction="exp")
        (tensor([[0.8660, 0.5000]]), None)
    """
    u = g = tangent(x, _clamp_gradient(grad, x))
    if momentum_buffer is not None:
        added = g if dampening == 0 else torch.where(_is_nonzero(momentum_buffer), (1 - dampening) * g, g)
        u = momentum_buffer = momentum * momentum_buffer + added
        if nesterov:
            u = g + momentum * momentum_buffer
    speed, cosine, sine = _turn(u, lr, retraction)
    y = _renormalise(cosine * x - sine * u)
    if momentum_buffer is None:
        return y, None
    if not nesterov:  # b equals u, and rotates entirely
        return y, cosine * u + (sine * speed * speed) * x
    along = (u * momentum_buffer).sum(dim=-1, keepdim=True)  # the speed times the component along e
    # (1 - cos) / speed^2, without cancellation for small angles
    inward = torch.where(cosine > 0, sine * sine / (1 + cosine), (1 - cosine) / (speed * speed))
    return y, momentum_buffer + along * (sine * x - inward * u)


def adam_update(
    x: Points,
    grad: Points,
    exp_avg: Points,
    exp_avg_sq: Column,
    steps: Int[Tensor, "n 1"],
    max_exp_avg_sq: Column | None = None,
    *,
    lr: Rate,
    betas: tuple[float, float],
    eps: float,
    retraction: str,
) -> tuple[Points, Points, Column, Int[Tensor, "n 1"], Column | None]:
    r"""One step of Riemannian Adam [1]: new points, moments and step counts.

    .. math::
        t &\leftarrow t + 1, \quad g \leftarrow g - \langle x, g \rangle x \\
        m &\leftarrow \beta_1 m + (1 - \beta_1) g \\
        v &\leftarrow \beta_2 v + (1 - \beta_2) \lVert g \rVert^2 \\
        \alpha &= \frac{\text{lr}}{1 - \beta_1^t} \Big/ \Big( \sqrt{\frac{v}{1 - \beta_2^t}} + \epsilon \Big) \\
        x &\leftarrow y = \cos\theta \, x - \sin\theta \, m / \lVert m \rVert,
            \quad \theta = \alpha \lVert m \rVert \text{ or its arctangent} \\
        m &\leftarrow m - \langle y, m \rangle y

    The second moment is one number per row, from the squared length of the gradient: it does not depend on the
    coordinates, and the step is parallel to m. The first moment is projected onto the new tangent space, which scales
    it by :math:`\cos\theta`, as in geoopt. With `max_exp_avg_sq` this is AMSGrad: the largest v of the row so far
    replaces v in :math:`\alpha`.

    Args:
        x: Points on the sphere.
        grad: The Euclidean gradient at x.
        exp_avg: The first moment m, tangent at x; zeros at the first step.
        exp_avg_sq: The second moment v, of each row; zeros at the first step.
        steps: The number of updates of each row so far.
        max_exp_avg_sq: The largest second moment so far, zeros at the first step; None for Adam without AMSGrad.
        lr: The step size; negative to maximise.
        betas: The decay rates of both moments.
        eps: Added to the square root of the second moment.
        retraction: "exp" or "project".

    References:
        [1] Bécigneul and Ganea. Riemannian Adaptive Optimization Methods. ICLR 2019.

    Example:
        >>> from unclump.ops.update_rules import adam_update
        >>> x, grad = torch.tensor([[1.0, 0.0]]), torch.tensor([[7.0, -5.0]])
        >>> state = torch.zeros(1, 2), torch.zeros(1, 1), torch.zeros(1, 1, dtype=torch.long)
        >>> adam_update(x, grad, *state, lr=math.pi / 6, betas=(0.9, 0.999), eps=1e-8, retraction="exp")[0]
        tensor([[0.8660, 0.5000]])
    """
    steps = steps + 1
    grad = tangent(x, _clamp_gradient(grad, x))
    exp_avg = torch.lerp(exp_avg, grad, 1 - betas[0])
    exp_avg_sq = torch.lerp(exp_avg_sq, vector_norm(grad, dim=-1, keepdim=True).square(), 1 - betas[1])
    if max_exp_avg_sq is not None:
        max_exp_avg_sq = torch.maximum(max_exp_avg_sq, exp_avg_sq)
    largest = exp_avg_sq if max_exp_avg_sq is None else max_exp_avg_sq
    first, second = (_bias_correction(beta, steps.to(x.dtype)) for beta in betas)
    # A row without any gradient so far, such as padding, does not move even if eps is zero.
    rate = (lr / first / (torch.sqrt(largest / second) + eps)).masked_fill(largest == 0, 0)
    _, cosine, sine = _turn(exp_avg, rate, retraction)
    y = _renormalise(cosine * x - sine * exp_avg)
    return y, tangent(y, exp_avg), exp_avg_sq, steps, max_exp_avg_sq


def _is_nonzero(x: Points) -> Bool[Tensor, "n 1"]:
    """The mask of the rows that are not all zero; NaN counts as nonzero."""
    largest: Tensor = vector_norm(x, math.inf, dim=-1, keepdim=True)
    return largest != 0


def _clamp_gradient(grad: Points, x: Points) -> Points:
    """Clamp the gradient so that its squared length cannot overflow: that of coinciding rows may be huge.

    For rows of zeros it is zero.
    """
    most = _is_nonzero(x).to(grad.dtype) * torch.finfo(grad.dtype).max ** 0.45
    return grad.clamp(-most, most)


def _bias_correction(beta: float, steps: Column) -> Column:
    r""":math:`1 - \beta^t` to full precision; computed directly, it would have four digits in float32 at t = 1."""
    return -torch.expm1(steps * (math.log(beta) if beta > 0 else -math.inf))


def _turn(v: Points, rate: Rate | Column, retraction: str) -> tuple[Column, Column, Column]:
    r"""The norm of v and, for a step `-rate * v`, :math:`\cos\theta` and the finite :math:`\sin\theta / |v|`."""
    speed = vector_norm(v, dim=-1, keepdim=True)
    length = rate * speed
    if retraction == "exp":
        return speed, torch.cos(length), rate * torch.sinc(length / torch.pi)
    cosine = torch.rsqrt(1 + length * length)
    return speed, cosine, rate * cosine


def _renormalise(y: Points) -> Points:
    """Normalise y, whose norm is one up to rounding, which would accumulate over many steps. Rows of zeros stay."""
    norm: Tensor = vector_norm(y, dim=-1, keepdim=True)
    return y / norm.masked_fill(norm == 0, 1)
