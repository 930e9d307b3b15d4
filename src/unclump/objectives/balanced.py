r"""Dispersion scaled to a share of the task's gradient, for when no weight is known."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.linalg import vector_norm

from unclump._checks import check_points, check_positive
from unclump.distributed.ranks import rows_here
from unclump.objectives._base import Objective, check_objective


class Balanced(nn.Module):
    r"""Identity whose backward pass adds the gradient of an objective, scaled to a share of the task's gradient.

    .. math:: g \;\leftarrow\; g + \text{share} \, \lVert g \rVert \, \frac{h}{\lVert h \rVert},
        \qquad h = \nabla \text{objective}

    where g is the gradient of the task. The share is the weight of the objective relative to the task: it has the same
    meaning for every objective, loss scale and batch size. For a table with more than 10,000 rows, most of which are in
    no batch, use a smaller share: see the page on weights. If the gradient of the task is zero, nothing is added; if it
    is sparse, only its rows change. In evaluation, or if no gradient is needed, the embeddings are returned unchanged.
    With an objective that has `gather`, h is the gradient of the objective on all ranks, and both norms are over a
    rank's own rows: every rank adds its share to its own gradient.

    Args:
        objective: The objective whose gradient is added.
        share: The norm of the added gradient, relative to the norm of the task's gradient.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.8, 0.6]], requires_grad=True)
        >>> task = uc.Balanced(uc.KoLeo(), share=0.5)(x)[:, 0].sum()  # moves both rows to the left
        >>> task.backward()
        >>> x.grad
        tensor([[ 1.0000,  0.5000],
                [ 1.3000, -0.4000]])

    For the table of an existing module, as a parametrisation::

        torch.nn.utils.parametrize.register_parametrization(model.tokens, "weight", uc.Balanced(uc.Sliced(13)))
    """

    def __init__(self, objective: Objective, *, share: float = 0.01) -> None:
        super().__init__()
        check_objective(objective)
        check_positive("share", share)
        self.objective, self.share = objective, share

    def forward(self, embeddings: Float[Tensor, "*sets n d"]) -> Float[Tensor, "*sets n d"]:
        """The embeddings, unchanged; the backward pass adds the gradient of the objective."""
        check_points(embeddings, at_least=0)
        if not (self.training and torch.is_grad_enabled() and embeddings.requires_grad):
            return embeddings
        is_alone = rows_here(embeddings, self.objective.gather)[1] is None  # otherwise, other ranks wait for this one
        if is_alone and embeddings.shape[-2] < self.objective.fewest:  # a last batch may have a single row
            return embeddings
        _, direction = self.objective.value_and_gradient(embeddings)
        return _add_share(embeddings, direction, self.share)

    def extra_repr(self) -> str:
        return f"share={self.share}"


class _AddShare(torch.autograd.Function):
    @staticmethod
    def forward(embeddings: Tensor, direction: Tensor, share: float) -> Tensor:
        return embeddings.view_as(embeddings)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, float], output: Tensor) -> None:
        _, direction, ctx.share = inputs
        ctx.save_for_backward(direction)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (direction,) = ctx.saved_tensors
        if not grad.is_sparse:
            return _scale_and_add(grad, direction, ctx.share), None, None
        grad = grad.coalesce()
        rows = grad.indices()
        values = _scale_and_add(grad.values(), direction[tuple(rows)], ctx.share)
        added = torch.sparse_coo_tensor(rows, values, grad.shape, is_coalesced=True, check_invariants=False)
        return added, None, None


def _scale_and_add(
    grad: Float[Tensor, "*sets n d"], direction: Float[Tensor, "*sets n d"], share: float
) -> Float[Tensor, "*sets n d"]:
    norm: Tensor = vector_norm(direction)
    scale: Tensor = share * vector_norm(grad.to(direction.dtype)) / torch.where(norm > 0, norm, torch.inf)
    return grad + (scale * direction).to(grad.dtype)


_add_share: Callable[[Tensor, Tensor, float], Tensor] = _AddShare.apply
