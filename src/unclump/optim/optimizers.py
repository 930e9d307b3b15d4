r"""Optimisers whose parameters are points on the sphere: plain `nn.Parameter` objects with points as their rows.

A group with `sphere=False` is Euclidean, and updated by torch's own functions: one optimiser serves a model whose
embedding is on the sphere and whose other weights are not. `.grad` is never modified.

Rows are put on the sphere when the optimiser is built, and again before a parameter's first step, since weights may be
loaded in between; those that are there keep every bit. The first step also looks at the data, once: NaN and infinity
are refused, by parameter and row, before anything moves. A row of zeros, as `padding_idx` makes it, has no direction:
it stays as it is, and a warning lists it.

Half-precision parameters are updated in float32 and rounded when written: state is float32, the point is off the
sphere by the rounding (up to 2^-9 in bfloat16), and a step smaller than that is lost.

Parameters of FSDP2, or other DTensors that are sharded by rows, are updated row by row where they are; state is sharded
as they are, for torch.distributed.checkpoint.

Gradients of an `nn.Embedding(sparse=True)` touch only the rows they name: state and step count are each row's own.
"""

from typing import ClassVar

import torch
from torch.optim.optimizer import ParamsT

from unclump.ops.update_rules import adam_update, sgd_update
from unclump.optim.base import SphereOptimizer
from unclump.optim.euclidean import euclidean_adam, euclidean_sgd
from unclump.optim.groups import LearningRate, check_moments, check_momentum
from unclump.optim.state import Entry


class SphereSGD(SphereOptimizer):
    r"""Riemannian gradient descent on the sphere, with momentum that is carried along each step.

    .. math::
        b &\leftarrow \mu b + (1 - \tau) g, \quad g = (I - x x^\top) \nabla f(x) \\
        x &\leftarrow \exp_x(-\text{lr} \, u), \quad u = b, \text{ or } u = g + \mu b \text{ with } \texttt{nesterov}

    and b follows x along the step's great circle: its part along u turns, the rest stays. These are torch.optim.SGD's
    formulas with the tangent gradient; a row's first gradient is not dampened.

    Args:
        params: Parameters of shape (..., d), or groups of them, as torch.optim takes them.
        lr: The step size: a number, or a tensor or array of one.
        momentum: The factor :math:`\mu`; 0 for none.
        dampening: The share :math:`\tau` of a gradient that momentum does not take up.
        nesterov: Step along the gradient and the momentum after it. Like `dampening`, it has no compiled loop.
        retraction: "exp", along the great circle by the length of the step, or "project", :math:`(x + u) / |x + u|`.
        weight_decay: For groups with `sphere=False`.
        maximize: Climb instead of descend.

    Example:
        >>> from unclump.optim.optimizers import SphereSGD
        >>> x = torch.nn.Parameter(torch.tensor([[1.0, 0.0]]))
        >>> optimizer = SphereSGD([x], lr=math.pi / 6)
        >>> (-x[:, 1]).sum().backward()
        >>> optimizer.step()
        >>> x.data
        tensor([[0.8660, 0.5000]])
    """

    rule = staticmethod(sgd_update)
    choices = ("momentum", "dampening", "nesterov", "retraction")
    entries = (Entry("momentum_buffer", option="momentum"),)
    euclidean_update = staticmethod(euclidean_sgd)
    euclidean_entries = ()
    takes_sparse_if_euclidean = True
    check_choices = staticmethod(check_momentum)
    added_options: ClassVar = {"dampening": 0.0, "nesterov": False}

    def __init__(
        self,
        params: ParamsT,
        lr: LearningRate,
        *,
        momentum: float = 0.0,
        dampening: float = 0.0,
        nesterov: bool = False,
        retraction: str = "exp",
        weight_decay: float = 0.0,
        maximize: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "nesterov": nesterov,
                "retraction": retraction,
                "weight_decay": weight_decay,
                "maximize": maximize,
            },
        )


class SphereAdam(SphereOptimizer):
    r"""Riemannian Adam on the sphere: step for step what geoopt's `RiemannianAdam` does on `SphereExact`.

    .. math::
        m &\leftarrow \beta_1 m + (1 - \beta_1) g, \quad v \leftarrow \beta_2 v + (1 - \beta_2) \lVert g \rVert^2,
            \quad g = (I - x x^\top) \nabla f(x) \\
        x &\leftarrow \exp_x \big( -\text{lr} \, \hat m / (\sqrt{\hat v} + \epsilon) \big)

    with the bias-corrected :math:`\hat m` and :math:`\hat v` of Adam; then m is projected onto the new tangent space.
    The second moment is one number per row: coordinates move at one rate, and the choice of axes makes no difference.

    Args:
        params: Parameters of shape (..., d), or groups of them, as torch.optim takes them.
        lr: The step size: about the angle, in radians, that a row turns in a step. A number, or a tensor or array of
            one.
        betas: The decay of the first and the second moment.
        eps: Added to the root of the second moment.
        amsgrad: Divide by the root of the largest v so far instead of the latest, with the same bias correction.
        retraction: "exp", along the great circle by the length of the step, or "project", :math:`(x + u) / |x + u|`.
        lazy: Skip the rows whose gradient is zero: they neither move nor count the step. For minibatches of a large
            table. On a GPU without Triton, finding these rows makes the host wait.
        weight_decay: For groups with `sphere=False`.
        maximize: Climb instead of descend.

    Example:
        >>> from unclump.optim.optimizers import SphereAdam
        >>> x = torch.nn.Parameter(uc.project(torch.randn(4, 3, generator=torch.Generator().manual_seed(0))))
        >>> optimizer = SphereAdam([x], lr=0.05)
        >>> for _ in range(300):
        ...     optimizer.zero_grad()
        ...     (1 / torch.pdist(x)).sum().backward()
        ...     optimizer.step()
        >>> torch.rad2deg(uc.angle(x[0], x[1:]).detach()).round()  # four points, a tetrahedron
        tensor([109., 109., 109.])
    """

    rule = staticmethod(adam_update)
    choices = ("betas", "eps", "retraction")
    entries = (
        Entry("exp_avg"),
        Entry("exp_avg_sq", is_column=True),
        Entry("steps", is_column=True, dtype=torch.long),
        Entry("max_exp_avg_sq", is_column=True, option="amsgrad"),
    )
    euclidean_update = staticmethod(euclidean_adam)
    euclidean_entries = ("step", "exp_avg", "exp_avg_sq")
    takes_sparse_if_euclidean = False
    check_choices = staticmethod(check_moments)
    added_options: ClassVar = {"amsgrad": False}

    def __init__(
        self,
        params: ParamsT,
        lr: LearningRate,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        amsgrad: bool = False,
        retraction: str = "exp",
        lazy: bool = False,
        weight_decay: float = 0.0,
        maximize: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "amsgrad": amsgrad,
                "retraction": retraction,
                "lazy": lazy,
                "weight_decay": weight_decay,
                "maximize": maximize,
            },
        )
