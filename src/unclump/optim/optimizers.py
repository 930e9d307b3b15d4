r"""Optimisers of points on the sphere: plain `nn.Parameter` objects whose rows are points.

A group with `sphere=False` is Euclidean, and updated by torch's own functions, so that one optimiser can train a model
whose embedding is on the sphere and whose other weights are not. `.grad` is never modified.

Rows are projected onto the sphere when the optimiser is created, and again before a parameter's first step, since
weights may be loaded in between; rows that are already on the sphere stay bitwise the same. The first step also checks
the data, once: NaN and infinity raise an error that names parameter and rows, before anything moves. A row of zeros,
such as that of `padding_idx`, has no direction: it is left unchanged, and a warning lists it.

Half-precision parameters are updated in float32 and rounded when written. Their state is float32; points are off the
sphere by the rounding error (up to 2^-9 in bfloat16), and smaller steps are lost.

Parameters of FSDP2, and other DTensors that are sharded by rows, are updated locally; their state is sharded likewise,
for torch.distributed.checkpoint.

Sparse gradients, such as those of `nn.Embedding(sparse=True)`, update only their rows: every row has its own state and
step count.
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
    r"""Riemannian gradient descent on the sphere, with momentum that is transported along each step.

    .. math::
        b &\leftarrow \mu b + (1 - \tau) g, \quad g = (I - x x^\top) \nabla f(x) \\
        x &\leftarrow \exp_x(-\text{lr} \, u), \quad u = b, \text{ or } u = g + \mu b \text{ with } \texttt{nesterov}

    and b is transported with x along the great circle of the step: its component along u is rotated, the rest is
    unchanged. The formulas are those of torch.optim.SGD, with the tangent gradient; a row's first gradient is not
    dampened.

    Args:
        params: Parameters of shape (..., d), or groups of them, as torch.optim takes them. Every row becomes a point of
            norm one, as for tables, prototypes and the rows of a router. Put all other parameters, such as the weights
            of other layers, into a group with `sphere=False`.
        lr: The step size: a number, or a tensor or array with one element.
        momentum: The factor :math:`\mu`; 0 for none.
        dampening: The share :math:`\tau` of each gradient that is not added to the momentum.
        nesterov: Use Nesterov momentum. Like `dampening`, it has no compiled loop.
        retraction: "exp", along the great circle by the length of the step, or "project", :math:`(x + u) / |x + u|`.
        weight_decay: For groups with `sphere=False`.
        maximize: Maximise the objective instead of minimising it.

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
    r"""Riemannian Adam on the sphere, with the same steps as geoopt's `RiemannianAdam` on `SphereExact`.

    .. math::
        m &\leftarrow \beta_1 m + (1 - \beta_1) g, \quad v \leftarrow \beta_2 v + (1 - \beta_2) \lVert g \rVert^2,
            \quad g = (I - x x^\top) \nabla f(x) \\
        x &\leftarrow \exp_x \big( -\text{lr} \, \hat m / (\sqrt{\hat v} + \epsilon) \big)

    with the bias-corrected :math:`\hat m` and :math:`\hat v` of Adam; then m is projected onto the new tangent space.
    The second moment is one number per row: all coordinates move at the same rate, independent of the choice of axes.

    Args:
        params: Parameters of shape (..., d), or groups of them, as torch.optim takes them. Every row becomes a point of
            norm one, as for tables, prototypes and the rows of a router. Put all other parameters, such as the weights
            of other layers, into a group with `sphere=False`.
        lr: The step size, which is about the angle in radians by which a row moves in a step. A number, or a tensor or
            array with one element.
        betas: The decay of the first and the second moment.
        eps: Added to the square root of the second moment.
        amsgrad: Use the largest v so far instead of the latest, with the same bias correction.
        retraction: "exp", along the great circle by the length of the step, or "project", :math:`(x + u) / |x + u|`.
        lazy: Skip rows whose gradient is zero: they do not move, and their step count does not increase. For
            minibatches of a large table. On a GPU without Triton, finding these rows synchronises the device.
        weight_decay: For groups with `sphere=False`.
        maximize: Maximise the objective instead of minimising it.

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
