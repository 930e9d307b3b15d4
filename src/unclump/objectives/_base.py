"""What all objectives have in common: the checks, who else takes part, and the way to the gradient.

An objective computes its value and its gradient together, without a graph, by the operations of `unclump.ops`; one node
of autograd holds both. Shapes here are (b, n, d): b separate sets.
"""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from unclump._checks import check_choice, check_points, check_same_dimension
from unclump._once import refuse_second_derivative
from unclump._precision import as_sets, full_precision
from unclump.distributed.ranks import Alone, Gather, Ranks, check_gather, rows_here, shown
from unclump.objectives._others import Others
from unclump.ops.project import unit_rows

Pull = Float[Tensor, "b n d"] | Float[Tensor, "b k 2 n"] | None


class Objective(nn.Module):
    """A scalar of raw embeddings, lower where they are more dispersed. They are projected onto the sphere first.

    Args:
        gather: True, or a `torch.distributed` process group: the points of all its ranks take part, and gradients are
            right after their average over ranks, as DDP takes it. `Shards()` for the rows of a table that is spread
            over ranks, whose gradients stay where they are. See the page on many processes.
    """

    choices: tuple[str, ...] = ()
    """The names of the attributes that were chosen at birth."""

    supports_weights = False
    """Whether points can count more or less; where not, they can be left out."""

    fewest = 2
    """Points without which there is nothing to compute."""

    supports_second_derivatives = False
    """Whether there is a `definition` to differentiate twice."""

    def __init__(self, *, gather: Gather = False) -> None:
        super().__init__()
        check_gather(gather)
        self.gather = gather

    def forward(
        self,
        embeddings: Float[Tensor, "*sets n d"],
        *,
        against: Float[Tensor, "*sets m d"] | Float[Tensor, "m d"] | None = None,
        weight: Float[Tensor, "*sets n"] | Int[Tensor, "*sets n"] | Bool[Tensor, "*sets n"] | None = None,
        reduction: str = "mean",
    ) -> Float[Tensor, "*sets"] | Float[Tensor, "*sets n"]:
        """The objective of the embeddings, alone or in the company of others.

        Args:
            embeddings: Of shape (..., n, d), of any norm: separate sets of points, with an objective each.
            against: A queue of other embeddings, which do not move: no gradient flows to them. Objectives that are a
                mean over points remain one over the embeddings, and look for each one's others among both;
                those of the set as a whole are of both together.
            weight: A mask of shape (..., n), False for padding; or numbers that are not negative, where zero is False.
                The result is that without the masked rows; zero, with a zero gradient, where fewer than two points are
                left; NaN where a weight is negative.
            reduction: "mean" is the objective. "none" are its terms, one a row: those whose weighted mean it is, or
                for `Sliced` the sum; zero for masked rows.
        """
        return self._run(embeddings, against, weight, reduction, None)

    def with_draw(self, embeddings: Float[Tensor, "*sets n d"], draw: Tensor) -> Float[Tensor, "*sets"]:
        """The objective with this for its random part."""
        return self._run(embeddings, None, None, "mean", draw)

    def _run(
        self, embeddings: Tensor, against: Tensor | None, weight: Tensor | None, reduction: str, draw: Any
    ) -> Tensor:
        group, gradients_averaged = None, False
        if reduction != "mean":
            check_choice("reduction", reduction, ("mean", "none"))
        if self.gather is not False:
            if reduction == "none":
                raise ValueError("expected reduction='mean' with gather, got 'none': the terms of other ranks are away")
            embeddings, group, gradients_averaged = rows_here(embeddings, self.gather)
        check_points(embeddings, at_least=self.fewest if against is None and self.gather is False else 0)
        if embeddings.dtype in (torch.float16, torch.bfloat16):
            embeddings = full_precision(embeddings)
        ranks = Alone([embeddings.shape[-2]])
        if against is not None:
            check_points(against, at_least=0)
            check_same_dimension(embeddings, against, "against")
            against = against.detach().to(embeddings)
        if weight is not None:
            weight = self._checked(weight, embeddings)
        if group is not None:
            ranks = self._ranks(embeddings, against, weight, group)
        if against is not None or self.gather is not False:
            self._check_company(embeddings, against, ranks)
        needs_grad = embeddings.requires_grad and torch.is_grad_enabled() and reduction == "mean"
        scale = float(ranks.size) if gradients_averaged else 1.0
        draw = self.draw(embeddings) if draw is None else draw
        if draw is not None:
            draw = ranks.agree(draw)
        value, _ = _evaluate(embeddings, against, weight, draw, _Call(self, ranks, reduction, needs_grad, scale))
        return value

    def draw(self, embeddings: Float[Tensor, "*sets n d"]) -> Tensor | None:
        """The random part of a call, one for all sets; None where there is none."""
        return None

    def loss(
        self, embeddings: Float[Tensor, "b n d"], others: Others, draw: Any, needs_grad: bool
    ) -> tuple[Float[Tensor, " b"], Pull]:
        """The objective among others, and what `pull_back` makes its gradient of."""
        raise NotImplementedError

    def terms(
        self,
        embeddings: Float[Tensor, "b n d"],
        others: Others,
        draw: Any,
        left: Float[Tensor, "b n"] | None,
    ) -> tuple[Float[Tensor, "b n"], Float[Tensor, "b n d"] | None]:
        """What the objective is the mean of, for every point; and the gradient of their sum weighted by `left`."""
        raise ValueError(
            f"expected reduction='mean', got 'none': {type(self).__name__} is no mean over points; "
            "MaxMin, KoLeo, Energy, MMD and Sliced have a term for each"
        )

    def pull_back(self, pull: Tensor, draw: Any, scale: Float[Tensor, "b 1 1"], d: int) -> Float[Tensor, "b n d"]:
        """The gradient by the embeddings, scaled."""
        return scale * pull

    def definition(self, embeddings: Float[Tensor, "b n d"], others: Others, draw: Any) -> Float[Tensor, " b"]:
        """The objective by operations that are differentiable twice."""
        raise NotImplementedError

    def _checked(self, weight: Tensor, x: Tensor) -> Tensor:
        """Weights as numbers; negative ones as NaN, since to refuse them would make a GPU wait."""
        if not isinstance(weight, Tensor) or weight.shape != x.shape[:-1]:
            came = f"shape {tuple(weight.shape)}" if isinstance(weight, Tensor) else type(weight).__name__
            expected = ", ".join(map(str, x.shape[:-1])) + ("," if x.ndim == 2 else "")
            raise ValueError(f"expected weight as a tensor of shape ({expected}), one number a row, got {came}")
        weight = weight.detach().to(x.device)
        if weight.dtype == torch.bool:
            return weight.to(x.dtype)
        if not self.supports_weights:
            raise TypeError(
                f"expected weight as a boolean mask, got {weight.dtype}: in {type(self).__name__} a point is there or "
                "not; pass weight > 0, or choose MaxMin, KoLeo, Energy, Uniformity, MMD, Polarization"
            )
        return torch.where(weight >= 0, weight.to(x.dtype), torch.nan)

    def _ranks(self, x: Tensor, against: Tensor | None, weight: Tensor | None, group: Any) -> Ranks:
        if x.ndim > 2:
            raise ValueError(
                f"expected one table of shape (n, d) with gather, got {tuple(x.shape)}; loop over the sets"
            )
        fixed = 0 if against is None else against.shape[-2]
        return Ranks(x, group, self, fixed, weight is None, torch.is_grad_enabled())

    def _check_company(self, x: Tensor, against: Tensor | None, ranks: Alone) -> None:
        fixed = 0 if against is None else against.shape[-2]
        if ranks.total == 0 or ranks.total + fixed < self.fewest:
            raise ValueError(
                f"expected two points or more, got {ranks.total} on {ranks.size} ranks, and {fixed} to keep them from: "
                "a single point has nothing to keep apart from; pass more rows"
            )

    def extra_repr(self) -> str:
        choices = [f"{name}={getattr(self, name)!r}" for name in self.choices]
        return ", ".join(choices if self.gather is False else [*choices, f"gather={shown(self.gather)}"])


@dataclass(frozen=True)
class _Call:
    """What else an evaluation depends on."""

    objective: Objective
    ranks: Alone
    reduction: str
    needs_grad: bool
    scale: float
    """Of the gradient."""


class _Evaluate(torch.autograd.Function):
    """An objective and its gradient in one node."""

    @staticmethod
    def forward(
        embeddings: Tensor, against: Tensor | None, weight: Tensor | None, draw: Any, call: _Call
    ) -> tuple[Tensor, Tensor]:
        objective = call.objective
        x, others = _sets(embeddings, against, weight, call.ranks)
        if call.reduction == "none":
            terms, _ = objective.terms(x, others, draw, None)
            terms = terms if others.mask is None else torch.where(others.mask, terms, 0)
            return terms.reshape(embeddings.shape[:-1]), x.new_empty(0)
        value, pull = objective.loss(x, others, draw, call.needs_grad)
        if others.weight is not None:
            count = others.ranks.sum((others.weight != 0).sum(dim=1))
            enough = (count > 0) & (count + others.fixed >= objective.fewest)
            value = torch.where(enough, value, 0)
            pull = None if pull is None else torch.where(enough.view(-1, *[1] * (pull.ndim - 1)), pull, 0)
        return value.reshape(embeddings.shape[:-2]), x.new_empty(0) if pull is None else pull

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        embeddings, against, weight, draw, ctx.call = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.shape = embeddings.shape
        # Where the embeddings' values are not needed again they are not saved, and may change in place.
        twice = ctx.call.objective.supports_second_derivatives
        ctx.sources = () if twice else (embeddings,)
        again = twice or not ctx.call.needs_grad
        ctx.save_for_backward(embeddings if again else None, against, weight, draw, output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        nothing, objective = (None,) * 4, ctx.call.objective
        embeddings, against, weight, draw, pull = ctx.saved_tensors
        if torch.is_grad_enabled() and objective.supports_second_derivatives and ctx.call.ranks.size == 1:

            def definition(embeddings: Tensor) -> Tensor:
                x, others = _sets(embeddings, against, weight, ctx.call.ranks)
                value: Tensor = objective.definition(x, others, draw).reshape(grad.shape)
                return value

            pull_back = torch.func.vjp(definition, embeddings)[1]
            return pull_back(grad)[0], *nothing
        with torch.no_grad():
            gradient = _gradient(ctx, grad, embeddings, against, weight, draw, pull)
        if torch.is_grad_enabled():
            gradient = refuse_second_derivative(gradient, *ctx.sources, grad)
        return gradient, *nothing

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[tuple[Tensor, Tensor], Any]:
        moved = [value if dim is None else value.movedim(dim, 0) for value, dim in zip(inputs, in_dims, strict=True)]
        if in_dims[3] is not None:  # a draw of its own for each
            each = [
                _evaluate(*(v if dim is None else v[i] for v, dim in zip(moved, in_dims, strict=True)))
                for i in range(info.batch_size)
            ]
            values, pulls = zip(*each, strict=True)
            return (torch.stack(values), torch.stack(pulls)), (0, 0)
        if in_dims[0] is None:
            moved[0] = moved[0].expand(info.batch_size, *moved[0].shape)
        if in_dims[2] is None and moved[2] is not None:
            moved[2] = moved[2].expand(info.batch_size, *moved[2].shape)
        value, pull = _evaluate(*moved)
        if pull.numel() == 0:
            return (value, pull), (0, None)
        return (value, pull.view(info.batch_size, -1, *pull.shape[1:])), (0, 0)


def _sets(embeddings: Tensor, against: Tensor | None, weight: Tensor | None, ranks: Alone) -> tuple[Tensor, Others]:
    """Embeddings and others with one leading dimension; masked rows are zeros, whatever they were."""
    x = embeddings.unsqueeze(0) if embeddings.ndim == 2 else as_sets(embeddings)
    if weight is not None:
        weight = weight.reshape(x.shape[:2])
        x = torch.where((weight != 0).unsqueeze(-1), x, 0)
    if against is not None and against.shape[-2] > 0:
        against = as_sets(unit_rows(against)[0].expand(*embeddings.shape[:-2], -1, -1))
    else:
        against = None
    return x, Others(against, weight, ranks, against is None and weight is None and ranks.size == 1)


def _gradient(
    ctx: Any,
    grad: Tensor,
    embeddings: Tensor | None,
    against: Tensor | None,
    weight: Tensor | None,
    draw: Any,
    pull: Tensor,
) -> Tensor:
    """The gradient by the embeddings, from what was kept, or anew."""
    call, objective = ctx.call, ctx.call.objective
    if call.reduction == "none":
        assert embeddings is not None
        x, others = _sets(embeddings, against, weight, call.ranks)
        left = grad.reshape(x.shape[:2])
        gradient = objective.terms(x, others, draw, left if others.mask is None else left * others.mask)[1]
    else:
        if not call.needs_grad:  # a transform that did not say so
            assert embeddings is not None
            x, others = _sets(embeddings, against, weight, call.ranks)
            pull = objective.loss(x, others, draw, True)[1]
        factor = grad if call.scale == 1 else call.scale * grad
        gradient = objective.pull_back(pull, draw, factor.reshape(-1, 1, 1), ctx.shape[-1])
    by_embeddings: Tensor = gradient.reshape(ctx.shape)
    return by_embeddings


# Torch looks at the signature at every call: this saves it the making.
_Evaluate.forward.__signature__ = signature(_Evaluate.forward)  # type: ignore[attr-defined]
_evaluate: Callable[..., tuple[Tensor, Tensor]] = _Evaluate.apply
