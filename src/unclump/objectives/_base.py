"""What all objectives have in common: the checks, who else takes part, and the way to the gradient.

An objective computes its value and its gradient together, without a graph, by the operations of `unclump.ops`; one node
of autograd holds both. Shapes here are (n, d), or (b, n, d) for b separate sets.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from unclump._checks import check_points, warn_too_few_points
from unclump._once import refuse_second_derivative
from unclump._precision import as_sets, full_precision
from unclump.distributed.ranks import Alone, Gather, check_gather, rows_here, shown
from unclump.objectives._arguments import (
    check_reduction,
    checked_queue,
    checked_weight,
    is_sets_of_ranks,
    ranks_of_call,
    split_sets,
)
from unclump.objectives._others import Others, among
from unclump.objectives._pull import Pull
from unclump.objectives._vmap import map_over_sets
from unclump.objectives._zero_rows import fused_without_zeros
from unclump.ops.project import unit_rows


class Objective(nn.Module):
    """A scalar of raw embeddings, lower where they are more dispersed. They are projected onto the sphere first.

    Args:
        gather: True, or a `torch.distributed` process group: the points of all its ranks take part, and gradients are
            right after their average over ranks, as DDP takes it. `Shards()` for the rows of a table that is spread
            over ranks, whose gradients stay where they are. See the page on many processes.
    """

    choices: tuple[str, ...] = ()
    """The names of the options, which `repr` shows."""

    supports_weights = False
    """Whether `weight` may be numbers; otherwise it must be a mask."""

    fewest = 2
    """The smallest number of points for which there is anything to compute."""

    reduction = "mean"
    """The reduction of calls that choose none."""

    needs_zero_rows = True
    """Whether masked rows are set to zero before the evaluation, whatever they hold."""

    vanishes = False
    """Whether value and gradient are zero by themselves where `Others.mass` is infinite, for want of points."""

    needs_directions = True
    """Whether rows of zeros are left out, since they have no direction; not if rows are used as they are."""

    has_fused = False
    """Whether there may be a compiled loop for this class with these options."""

    rows_of_pull = -2
    """The dimension of `Pull.vectors` that counts rows."""

    supports_second_derivatives = False
    """Whether there is a `definition` to differentiate twice."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "loss" in vars(cls) and "fused" not in vars(cls):
            cls.fused = Objective.fused  # type: ignore[method-assign]  # the inherited loop is of another loss
        cls.has_fused = cls.fused is not Objective.fused

    def __init__(self, *, gather: Gather = False) -> None:
        super().__init__()
        check_gather(gather)
        self.gather = gather

    def __deepcopy__(self, memo: dict[int, Any]) -> "Objective":
        memo[id(self.gather)] = self.gather  # a process group cannot be copied, and is shared
        copied = memo[id(self)] = type(self).__new__(type(self))
        copied.__dict__.update(deepcopy(self.__dict__, memo))
        return copied

    def forward(
        self,
        embeddings: Float[Tensor, "*sets n d"],
        *,
        against: Float[Tensor, "*sets m d"] | Float[Tensor, "m d"] | None = None,
        weight: Float[Tensor, "*sets n"] | Int[Tensor, "*sets n"] | Bool[Tensor, "*sets n"] | None = None,
        reduction: str | None = None,
    ) -> Float[Tensor, "*sets"] | Float[Tensor, "*sets n"]:
        """The objective of the embeddings, alone or together with a queue.

        Of fewer than two points, as a last batch may have, it is zero and part of the graph, with a warning once. Rows
        of zeros, as those of `padding_idx`, have no direction: like masked ones they do not count, and do not move.

        Args:
            embeddings: Of shape (..., n, d), of any norm: separate sets of points, with an objective each.
            against: A queue of other embeddings, which do not move: no gradient flows to them. Objectives that are a
                mean over points remain one over the embeddings, and look for each one's others among both;
                those of the set as a whole are of both together. Update a queue in place after the backward pass, or
                pass a copy of it.
            weight: A mask of shape (..., n), False for padding; or numbers that are not negative, where zero is False.
                The result is that without the masked rows; zero, with a zero gradient, where fewer than two points are
                left; NaN where a weight is negative.
            reduction: "mean" is the objective, "sum" the sum of the terms whose weighted mean it is, and "none" these
                terms, one per row and zero for masked rows. None is the objective's own reduction.
        """
        return self._run(embeddings, against, weight, reduction, None)

    def with_draw(
        self, embeddings: Float[Tensor, "*sets n d"], draw: Tensor, *, reduction: str | None = None
    ) -> Float[Tensor, "*sets"] | Float[Tensor, "*sets n"]:
        """The objective with `draw` as its random part, instead of a new one."""
        return self._run(embeddings, None, None, reduction, draw)

    def value_and_gradient(
        self, embeddings: Float[Tensor, "*sets n d"]
    ) -> tuple[Float[Tensor, "*sets"], Float[Tensor, "*sets n d"]]:
        """The objective of every set, and the gradient of their sum with respect to the embeddings, without a graph."""
        with torch.no_grad():
            x, _, _, draw, call = self._prepare(embeddings.detach(), None, None, None, None)
            if not call.has_points:
                raise ValueError(
                    f"expected two points or more, got {call.ranks.total} on {call.ranks.size} ranks: "
                    "a single point has nothing to keep apart from; pass more rows"
                )
            value, pull = _loss(x, None, None, draw, call, True)
            assert pull is not None
            if call.scale == 1 and pull.scale is None and type(self).pull_back is Objective.pull_back:
                gradient = pull.vectors
            else:
                gradient = self.pull_back(pull, draw, value.new_full((), call.scale), embeddings.shape[-1])
        return value.view(x.shape[:-2]), gradient.view(x.shape)

    def _run(
        self,
        embeddings: Tensor,
        against: Tensor | None,
        weight: Tensor | None,
        reduction: str | None,
        draw: Any,
        *,
        sets: tuple[int, ...] = (),
    ) -> Tensor:
        if self.gather is not False and is_sets_of_ranks(embeddings, self.gather):
            return self._run_each_set(embeddings, against, weight, reduction, draw)
        arguments = self._prepare(embeddings, against, weight, reduction, draw, sets)
        x, call = arguments[0], arguments[-1]
        if call.has_points:
            return _evaluate_eagerly(*arguments) if _is_eager(x) else _evaluate(*arguments)[0]
        if not torch.compiler.is_compiling():
            warn_too_few_points()
        return (x * 0).sum(dim=-1 if call.reduction == "none" else (-2, -1))  # part of the graph, as DDP needs it

    def _run_each_set(
        self, embeddings: Tensor, against: Tensor | None, weight: Tensor | None, reduction: str | None, draw: Any
    ) -> Tensor:
        """Sets whose points are on many ranks, one after the other, with one draw for all."""
        check_points(embeddings, at_least=0)
        if weight is not None:
            checked_weight(self, weight, embeddings, supports_weights=self.supports_weights)
        draw = self.draw(embeddings) if draw is None else draw
        sets = tuple(embeddings.shape[:-2])
        values = [self._run(*one, reduction, draw, sets=sets) for one in split_sets(embeddings, against, weight)]
        return torch.stack(values).view(sets)

    def _prepare(
        self,
        embeddings: Tensor,
        against: Tensor | None,
        weight: Tensor | None,
        reduction: str | None,
        draw: Any,
        sets: tuple[int, ...] = (),
    ) -> tuple[Tensor, Tensor | None, Tensor | None, Any, "_Call"]:
        """Validated arguments of an evaluation."""
        group, gradients_averaged = None, False
        reduction = self.reduction if reduction is None else reduction
        if reduction != "mean":
            check_reduction(self, reduction, has_terms=type(self).terms is not Objective.terms)
        if self.gather is not False:
            if reduction == "none":
                raise ValueError(
                    "expected reduction='mean' or 'sum' with gather, got 'none': the terms of other ranks are away"
                )
            embeddings, group, gradients_averaged = rows_here(embeddings, self.gather)
        check_points(embeddings, at_least=0)
        if embeddings.dtype in (torch.float16, torch.bfloat16):
            embeddings = full_precision(embeddings)
        ranks = Alone([embeddings.shape[-2]])
        if against is not None:
            against = checked_queue(against, embeddings)
        is_binary = weight is None or (isinstance(weight, Tensor) and weight.dtype == torch.bool)
        if weight is not None:
            weight = checked_weight(self, weight, embeddings, supports_weights=self.supports_weights)
        if group is not None:
            ranks = ranks_of_call(self, embeddings, against, weight, group, sets=sets)
        rows = embeddings.shape[-2] if group is None else ranks.total
        has_points = rows > 0 and rows + (0 if against is None else against.shape[-2]) >= self.fewest
        needs_grad = embeddings.requires_grad and torch.is_grad_enabled() and reduction != "none"
        scale = float(ranks.size) if gradients_averaged else 1.0
        draw = self.draw(embeddings) if draw is None else draw
        if draw is not None:
            draw = ranks.agree(draw)
        return (
            embeddings,
            against,
            weight,
            draw,
            _Call(self, ranks, reduction, needs_grad, scale, has_points, is_binary),
        )

    def draw(self, embeddings: Float[Tensor, "*sets n d"]) -> Tensor | None:
        """The random part of a call, one for all sets; None where there is none."""
        return None

    def normalise(self, x: Float[Tensor, "*sets n d"]) -> tuple[Float[Tensor, "*sets n d"], Float[Tensor, "*sets n 1"]]:
        """Rows as `loss` takes them, and a factor for the gradient of each, which is zero for rows of zeros alone."""
        x, inverse_norms = unit_rows(x)
        return x, inverse_norms

    def fused(
        self, embeddings: Float[Tensor, "*sets n d"], draw: Any, needs_grad: bool
    ) -> tuple[Float[Tensor, "*sets"], Pull | None] | None:
        """The objective of raw embeddings without others, in one compiled loop.

        Returns None if there is no such loop, or if a row has no direction. It is then called again without the rows
        of zeros; if that returns None too, `loss` takes over, with weights.
        """
        return None

    def loss(
        self, x: Float[Tensor, "*sets n d"], others: Others, draw: Any, needs_grad: bool
    ) -> tuple[Float[Tensor, "*sets"], Pull | None]:
        """The objective of rows from `normalise` among others, and what `pull_back` turns into its gradient."""
        raise NotImplementedError

    def terms(
        self,
        x: Float[Tensor, "*sets n d"],
        others: Others,
        draw: Any,
        left: Float[Tensor, "*sets n"] | None,
    ) -> tuple[Float[Tensor, "*sets n"], Pull | None]:
        """The terms whose mean is the objective, one per row, and the gradient of their sum weighted by `left`."""
        raise NotImplementedError

    def count(self, others: Others) -> Float[Tensor, "*sets"] | float:
        """The sum of the terms, weighted if there are weights, divided by the objective."""
        return others.mass

    def pull_back(
        self, pull: Pull, draw: Any, scale: Float[Tensor, "*sets 1 1"] | Float[Tensor, ""], d: int
    ) -> Float[Tensor, "*sets n d"]:
        """The gradient with respect to the embeddings, times `scale`."""
        return pull.vectors * (scale if pull.scale is None else scale * pull.scale)

    def definition(self, embeddings: Float[Tensor, "*sets n d"], others: Others, draw: Any) -> Float[Tensor, "*sets"]:
        """The objective, computed by operations that are twice differentiable."""
        raise NotImplementedError

    def extra_repr(self) -> str:
        choices = [f"{name}={getattr(self, name)!r}" for name in self.choices]
        return ", ".join(choices if self.gather is False else [*choices, f"gather={shown(self.gather)}"])


def _is_eager(x: Tensor) -> bool:
    """Whether there is neither a compiler nor a transform of `torch.func`, where tensors may have no address."""
    if torch.compiler.is_compiling():
        return False
    try:
        x.data_ptr(), torch.empty(0).data_ptr()
    except RuntimeError:
        return False
    return True


def check_objective(objective: object) -> None:
    """Raise unless it is an objective, rather than its name."""
    if isinstance(objective, Objective):
        return
    if isinstance(objective, nn.Module):
        got, advice = f"the module {type(objective).__name__}", "add what it returns to the loss yourself"
        if isinstance(getattr(objective, "objective", None), Objective):
            got, advice = f"{got}, which holds one", f"pass its .objective, or {advice}"
    else:
        got, advice = repr(objective), "unclump.objective(name) makes one from its name"
    raise TypeError(f"expected an objective such as unclump.Sliced(13) or unclump.KoLeo(), got {got}; {advice}")


@dataclass(eq=False)
class _Call:
    """What else an evaluation depends on."""

    objective: Objective
    ranks: Alone
    reduction: str
    needs_grad: bool
    scale: float
    """Of the gradient."""
    has_points: bool
    """Whether there are enough of them, on all ranks."""
    is_binary: bool
    """Whether weights, if any, are a mask."""


class _Evaluate(torch.autograd.Function):
    """An objective and its gradient in one node."""

    @staticmethod
    def forward(
        embeddings: Tensor, against: Tensor | None, weight: Tensor | None, draw: Any, call: _Call
    ) -> tuple[Tensor, Tensor, Tensor]:
        if call.reduction == "none":
            terms, _ = _terms(embeddings, against, weight, draw, call, None)
            return terms.view(embeddings.shape[:-1]), terms.new_empty(0), terms.new_empty(0)
        value, pull = _loss(embeddings, against, weight, draw, call, call.needs_grad)
        vectors, scale = (None, None) if pull is None else pull
        if embeddings.ndim > 3:
            value = value.view(embeddings.shape[:-2])
        return value, value.new_empty(0) if vectors is None else vectors, value.new_empty(0) if scale is None else scale

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        _Evaluate.save(ctx, inputs, output)

    @staticmethod
    def save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
        """Keep what the gradient is made of."""
        embeddings, against, weight, draw, ctx.call = inputs
        ctx.set_materialize_grads(False)
        ctx.shape = embeddings.shape
        # What is not needed again is not saved, and may change in place, as a queue does that takes in its batch.
        twice = ctx.call.objective.supports_second_derivatives and ctx.call.reduction != "none"
        ctx.sources = () if twice else (embeddings,)
        again = twice or not ctx.call.needs_grad
        kept = (embeddings, against, weight) if again else (None, None, None)
        ctx.save_for_backward(*kept, draw, *output[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        nothing, objective = (None,) * 4, ctx.call.objective
        if grad is None:
            return None, *nothing
        embeddings, against, weight, draw, *pull = _saved(ctx)
        twice = objective.supports_second_derivatives and ctx.call.reduction != "none" and ctx.call.ranks.size == 1
        if torch.is_grad_enabled() and twice:

            def definition(embeddings: Tensor) -> Tensor:
                x, queue, weights = _sets(embeddings, against, weight, objective)
                others = among(objective, x.detach(), queue, weights, ctx.call.ranks, is_binary=ctx.call.is_binary)[1]
                value, too_few = objective.definition(x, others, draw), others.too_few
                value = value * objective.count(others) if ctx.call.reduction == "sum" else value
                return (value if too_few is None else torch.where(too_few, 0, value)).reshape(grad.shape)

            pull_back = torch.func.vjp(definition, embeddings)[1]
            return pull_back(grad)[0], *nothing
        if not torch.is_grad_enabled():
            return _gradient(ctx, grad, embeddings, against, weight, draw, *pull), *nothing
        with torch.no_grad():
            gradient = _gradient(ctx, grad, embeddings, against, weight, draw, *pull)
        return refuse_second_derivative(gradient, *ctx.sources, grad), *nothing

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[tuple[Tensor, ...], Any]:
        return map_over_sets(_evaluate, info.batch_size, in_dims, inputs)


class _EvaluateEagerly(torch.autograd.Function):
    """The same where there is neither a compiler nor a transform: torch takes half the time to make the node."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        output = _Evaluate.forward(*inputs)
        _Evaluate.save(ctx, inputs, output)
        return output[0]

    backward = _Evaluate.backward


def _saved(ctx: Any) -> tuple[Any, ...]:
    """What the forward pass saved, unless it was changed in place since."""
    if torch.compiler.is_compiling():
        saved: tuple[Any, ...] = ctx.saved_tensors
        return saved
    try:
        saved = ctx.saved_tensors
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
        raise RuntimeError(
            f"expected embeddings, weight and against as {type(ctx.call.objective).__name__} saw them, got one that "
            "was changed in place before the backward pass; update a queue after backward(), or pass "
            f"against=queue.clone() ({error})"
        ) from None
    return saved


def _sets(
    embeddings: Tensor, against: Tensor | None, weight: Tensor | None, objective: Objective
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Embeddings, queue and weights with one leading dimension or none; masked rows are zeros."""
    x = embeddings if embeddings.ndim <= 3 else as_sets(embeddings)
    if weight is not None:
        weight = weight.reshape(x.shape[:-1])
        if objective.needs_zero_rows:
            x = torch.where((weight != 0).unsqueeze(-1), x, 0)
    if against is not None and against.shape[-2] == 0:
        against = None
    elif against is not None and against.ndim > 2:
        against = as_sets(against.expand(*embeddings.shape[:-2], -1, -1))
    return x, against, weight


def _loss(
    embeddings: Tensor, against: Tensor | None, weight: Tensor | None, draw: Any, call: _Call, needs_grad: bool
) -> tuple[Float[Tensor, "*sets"], Pull | None]:
    """The objective, reduced; zero, with a zero gradient, where weights leave too few points for a value."""
    objective, too_few = call.objective, None
    count: Tensor | float
    x, against, weight = _sets(embeddings, against, weight, objective)
    is_fused = objective.has_fused and against is None and weight is None and call.ranks.size == 1
    result, count = objective.fused(x, draw, needs_grad) if is_fused else None, x.shape[-2]
    if result is None and is_fused:
        result, count = fused_without_zeros(objective, x, draw, needs_grad)
    if result is None:
        x, others = among(objective, x, against, weight, call.ranks, is_binary=call.is_binary)
        result = objective.loss(x, others, draw, needs_grad)
        if call.reduction == "sum":
            count = objective.count(others)
        if call.reduction == "sum" or not objective.vanishes:
            too_few = others.too_few
    value, pull = result if result[0].dtype == embeddings.dtype else _narrowed(*result, embeddings.dtype)
    if call.reduction == "sum":
        value = value * count
        pull = None if pull is None else pull.times(count * torch.ones_like(value))
    if too_few is None:
        return value, pull
    if pull is not None:
        scale = value.new_ones(too_few.shape)[..., None, None] if pull.scale is None else pull.scale
        pull = pull._replace(scale=scale.masked_fill(too_few[..., None, None], 0))
    return value.masked_fill(too_few, 0), pull


def _narrowed(value: Tensor, pull: Pull | None, dtype: torch.dtype) -> tuple[Float[Tensor, "*sets"], Pull | None]:
    """What was computed in double precision, in that of the embeddings."""
    if pull is not None:
        pull = Pull((pull.vectors if pull.scale is None else pull.vectors * pull.scale).to(dtype))
    return value.to(dtype), pull


def _terms(
    embeddings: Tensor, against: Tensor | None, weight: Tensor | None, draw: Any, call: _Call, grad: Tensor | None
) -> tuple[Float[Tensor, "*sets n"], Pull | None]:
    """The terms, zero where a row takes no part or there are too few points; and their gradient by this one."""
    objective = call.objective
    x, others = among(objective, *_sets(embeddings, against, weight, objective), call.ranks, is_binary=call.is_binary)
    left = counts = None
    too_few = others.too_few
    if others.mask is not None and too_few is not None:
        counts = others.mask & ~too_few.unsqueeze(-1)
    if grad is not None:
        left = grad.reshape(x.shape[:-1])
        left = left if counts is None else left * counts
    terms, pull = objective.terms(x, others, draw, left)
    return terms if counts is None else torch.where(counts, terms, 0), pull


def _gradient(
    ctx: Any,
    grad: Tensor,
    embeddings: Tensor | None,
    against: Tensor | None,
    weight: Tensor | None,
    draw: Any,
    vectors: Tensor,
    scale: Tensor,
) -> Tensor:
    """The gradient by the embeddings, from what was kept, or anew."""
    call, objective = ctx.call, ctx.call.objective
    pull: Pull | None = Pull(vectors, scale if scale.numel() > 0 else None)
    if call.reduction == "none":
        assert embeddings is not None
        pull = _terms(embeddings, against, weight, draw, call, grad)[1]
        factor = grad.new_ones(())
    else:
        if not call.needs_grad:  # a transform that did not say so
            assert embeddings is not None
            pull = _loss(embeddings, against, weight, draw, call, True)[1]
        factor = grad if call.scale == 1 else call.scale * grad
        factor = factor if factor.ndim == 0 else factor.reshape(-1, 1, 1)
    assert pull is not None
    gradient: Tensor = objective.pull_back(pull, draw, factor, ctx.shape[-1])
    return gradient if gradient.ndim == len(ctx.shape) else gradient.view(ctx.shape)


# Torch looks at the signature at every call: this saves it the making.
_Evaluate.forward.__signature__ = signature(_Evaluate.forward)  # type: ignore[attr-defined]
_evaluate: Callable[..., tuple[Tensor, Tensor, Tensor]] = _Evaluate.apply
_evaluate_eagerly: Callable[..., Tensor] = _EvaluateEagerly.apply
