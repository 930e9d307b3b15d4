"""The base class of all objectives: validation, queues, weights and ranks, and the gradient.

An objective computes its value and its gradient together, without a graph, by the operations of `unclump.ops`; one node
of autograd holds both. Shapes here are (n, d), or (b, n, d) for b separate sets. `_transforms.py` has the node that
compilers and transforms of `torch.func` see, and second derivatives.
"""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from unclump._checks import check_points, warn_too_few_points
from unclump._precision import as_sets, full_precision
from unclump.distributed.ranks import Alone, Gather, check_gather, rows_here, shown
from unclump.objectives._arguments import (
    Call,
    Inputs,
    check_reduction,
    checked_queue,
    checked_weight,
    is_sets_of_ranks,
    ranks_of_call,
    split_sets,
)
from unclump.objectives._others import Others, among
from unclump.objectives._pull import Pull
from unclump.objectives._zero_rows import fused_without_zeros
from unclump.ops import native
from unclump.ops.project import unit_rows


class Objective(nn.Module):
    """A loss of raw embeddings that is lower if they are more dispersed. They are projected onto the sphere first.

    Args:
        gather: True, or a `torch.distributed` process group: include the points of all its ranks; gradients are those
            of one process after they are averaged over ranks, as by DDP. `Shards()` is for a table that is sharded by
            rows over ranks, whose gradients are not averaged. See the page on many processes.
    """

    choices: tuple[str, ...] = ()
    """The names of the options, which `repr` shows."""

    supports_weights = False
    """Whether `weight` may contain numbers; otherwise it must be a mask."""

    fewest = 2
    """The smallest number of points for which the objective is defined."""

    reduction = "mean"
    """The reduction of calls without `reduction=`."""

    needs_zero_rows = True
    """Whether masked rows are set to zero before the evaluation, whatever they hold."""

    joins_queue = True
    """Whether queue and embeddings are normalised together, in one table."""

    vanishes = False
    """Whether value and gradient become zero if `Others.mass` is infinite, as it is for too few points."""

    needs_directions = True
    """Whether rows of zeros are left out because they have no direction; False if rows are used as they are."""

    has_fused = False
    """Whether this class has a compiled loop, for some inputs at least."""

    rows_of_pull = -2
    """The dimension of `Pull.vectors` that corresponds to rows."""

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

        With fewer than two points, such as a last batch of one row, it is zero and part of the graph, with a warning
        the first time. Rows of zeros, such as that of `padding_idx`, have no direction: they are ignored, like masked
        rows, and get no gradient.

        Args:
            embeddings: Of shape (..., n, d) and any norm: separate sets of points, with one value per set.
            against: A queue of other embeddings, which get no gradient. An objective that is a mean over points
                remains a mean over the embeddings, each compared with the other embeddings and with the queue; an
                objective of the set as a whole is computed on both. Update a queue in place only after the
                backward pass, or pass a copy of it.
            weight: A mask of shape (..., n), False for padding; or non-negative weights, where zero means False. The
                result is that of the other rows alone. It is zero, with a zero gradient, if fewer than two points
                remain, and NaN if a weight is negative.
            reduction: "mean" for the objective; "none" for its terms, one per row and zero for masked rows; "sum" for
                their weighted sum. None is the objective's own reduction.
        """
        return self._run(Inputs(embeddings, against, weight), reduction)

    def with_draw(
        self, embeddings: Float[Tensor, "*sets n d"], draw: Tensor, *, reduction: str | None = None
    ) -> Float[Tensor, "*sets"] | Float[Tensor, "*sets n"]:
        """The objective with `draw` as its random part, instead of a new one."""
        return self._run(Inputs(embeddings, draw=draw), reduction)

    def value_and_gradient(
        self, embeddings: Float[Tensor, "*sets n d"]
    ) -> tuple[Float[Tensor, "*sets"], Float[Tensor, "*sets n d"]]:
        """The objective of every set, and the gradient of their sum with respect to the embeddings, without a graph."""
        with torch.no_grad():
            inputs, call = self._prepare(Inputs(embeddings.detach()))
            if not call.has_points:
                raise ValueError(
                    f"expected two points or more, got {call.ranks.total} on {call.ranks.size} ranks: "
                    "a single point has nothing to keep apart from; pass more rows"
                )
            value, pull = loss_of(inputs, call, needs_grad=True)
            assert pull is not None
            if call.scale == 1 and pull.scale is None and type(self).pull_back is Objective.pull_back:
                gradient = pull.vectors
            else:
                gradient = self.pull_back(pull, inputs.draw, value.new_full((), call.scale), embeddings.shape[-1])
        shape = inputs.embeddings.shape
        return value.view(shape[:-2]), gradient.view(shape)

    def _run(self, inputs: Inputs, reduction: str | None = None, sets: tuple[int, ...] = ()) -> Tensor:
        """The objective in one node of autograd; `sets` is the shape of the batch that contains the embeddings."""
        if self.gather is not False and is_sets_of_ranks(inputs.embeddings, self.gather):
            return self._run_each_set(inputs, reduction)
        inputs, call = self._prepare(inputs, reduction, sets)
        if call.has_points:
            if is_eager(inputs.embeddings):
                return _evaluate(inputs.embeddings, inputs, call)
            from unclump.objectives._transforms import evaluate_in_parts  # which imports this file

            return evaluate_in_parts(*inputs, call)[0]
        if not torch.compiler.is_compiling():
            warn_too_few_points()
        zeros = inputs.embeddings * 0  # part of the graph, as DDP needs it
        return zeros.sum(dim=-1 if call.reduction == "none" else (-2, -1))

    def _run_each_set(self, inputs: Inputs, reduction: str | None) -> Tensor:
        """Sets whose points are on many ranks, one after the other, with one draw for all."""
        embeddings, _, weight, draw = inputs
        check_points(embeddings, at_least=0)
        if weight is not None:
            checked_weight(self, weight, embeddings, supports_weights=self.supports_weights)
        draw = self.draw(embeddings) if draw is None else draw
        sets = tuple(embeddings.shape[:-2])
        values = [self._run(one, reduction, sets) for one in split_sets(inputs._replace(draw=draw))]
        return torch.stack(values).view(sets)

    def _prepare(self, inputs: Inputs, reduction: str | None = None, sets: tuple[int, ...] = ()) -> tuple[Inputs, Call]:
        """Validated arguments of an evaluation."""
        embeddings, against, weight, draw = inputs
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
        n, is_binary, fixed = embeddings.shape[-2], True, 0
        if against is not None:
            against = checked_queue(against, embeddings)
            fixed = against.shape[-2]
        if weight is not None:
            is_binary = isinstance(weight, Tensor) and weight.dtype == torch.bool
            weight = checked_weight(self, weight, embeddings, supports_weights=self.supports_weights)
        ranks = Alone([n]) if group is None else ranks_of_call(self, embeddings, against, weight, group, sets=sets)
        rows = n if group is None else ranks.total
        has_points = rows > 0 and rows + fixed >= self.fewest
        needs_grad = embeddings.requires_grad and torch.is_grad_enabled() and reduction != "none"
        draw = self.draw(embeddings) if draw is None else draw
        if draw is not None:
            draw = ranks.agree(draw)
        scale = float(ranks.size) if gradients_averaged else 1.0
        has_definition = self.supports_second_derivatives and reduction != "none"
        call = Call(self, ranks, reduction, needs_grad, scale, has_points, is_binary, has_definition)
        return Inputs(embeddings, against, weight, draw), call

    def draw(self, embeddings: Float[Tensor, "*sets n d"]) -> Tensor | None:
        """Draw the random part of a call, shared by all sets; None if the objective is not random."""
        return None

    def normalise(self, x: Float[Tensor, "*sets n d"]) -> tuple[Float[Tensor, "*sets n d"], Float[Tensor, "*sets n 1"]]:
        """Normalise rows for `loss`; also return a factor for the gradient of each, zero only for rows of zeros."""
        x, inverse_norms = unit_rows(x)
        return x, inverse_norms

    def fused(
        self, embeddings: Float[Tensor, "*sets n d"], draw: Any, needs_grad: bool
    ) -> tuple[Float[Tensor, "*sets"], Pull | None] | None:
        """Compute the objective of raw embeddings, without queue, weights or other ranks, in one compiled loop.

        Returns None if there is no such loop, or if a row has no direction. It is then called again without the rows
        of zeros; if that returns None too, `loss` is called, with weights.
        """
        return None

    def loss(
        self, x: Float[Tensor, "*sets n d"], others: Others, draw: Any, needs_grad: bool
    ) -> tuple[Float[Tensor, "*sets"], Pull | None]:
        """Compute the objective of normalised rows, and the data from which `pull_back` computes its gradient."""
        raise NotImplementedError

    def terms(
        self,
        x: Float[Tensor, "*sets n d"],
        others: Others,
        draw: Any,
        left: Float[Tensor, "*sets n"] | None,
    ) -> tuple[Float[Tensor, "*sets n"], Pull | None]:
        """Compute the terms of rows, whose mean is the objective, and the gradient of their sum weighted by `left`."""
        raise NotImplementedError

    def count(self, others: Others) -> Float[Tensor, "*sets"] | float:
        """The weighted sum of the terms divided by the objective: the divisor of their mean."""
        return others.mass

    def pull_back(
        self, pull: Pull, draw: Any, scale: Float[Tensor, "*sets 1 1"] | Float[Tensor, ""], d: int
    ) -> Float[Tensor, "*sets n d"]:
        """Compute the gradient with respect to the embeddings, times `scale`."""
        return pull.vectors * (scale if pull.scale is None else scale * pull.scale)

    def definition(self, embeddings: Float[Tensor, "*sets n d"], others: Others, draw: Any) -> Float[Tensor, "*sets"]:
        """Compute the objective by operations that are twice differentiable."""
        raise NotImplementedError

    def extra_repr(self) -> str:
        choices = [f"{name}={getattr(self, name)!r}" for name in self.choices]
        return ", ".join(choices if self.gather is False else [*choices, f"gather={shown(self.gather)}"])


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


def is_eager(x: Tensor) -> bool:
    """Whether there is neither a compiler nor a transform of `torch.func`, where tensors may have no address."""
    if torch.compiler.is_compiling():
        return False
    try:
        x.data_ptr(), torch.empty(0).data_ptr()
    except RuntimeError:
        return False
    return True


class _Evaluate(torch.autograd.Function):
    """An objective and its gradient in one node."""

    @staticmethod
    def forward(ctx: Any, _: Tensor, inputs: Inputs, call: Call) -> Tensor:
        value, pull = evaluate(inputs, call)
        save(ctx, inputs, call, pull)
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None) -> tuple[Tensor | None, None, None]:
        return (None if grad is None else gradient_of(ctx, grad)), None, None


_evaluate: Callable[[Tensor, Inputs, Call], Tensor] = _Evaluate.apply


def evaluate(inputs: Inputs, call: Call) -> tuple[Float[Tensor, "*sets"] | Float[Tensor, "*sets n"], Pull | None]:
    """The objective, or its terms, and what `Objective.pull_back` turns into the gradient, where it is needed."""
    embeddings = inputs.embeddings
    if call.reduction == "none":
        return terms_of(inputs, call, None)[0].view(embeddings.shape[:-1]), None
    value, pull = loss_of(inputs, call, needs_grad=call.needs_grad)
    return value if embeddings.ndim <= 3 else value.view(embeddings.shape[:-2]), pull


def save(ctx: Any, inputs: Inputs, call: Call, pull: Pull | None) -> None:
    """Keep what the gradient is made of."""
    ctx.set_materialize_grads(False)
    ctx.call, ctx.shape, ctx.is_evaluated = call, inputs.embeddings.shape, pull is not None
    # What is not needed again is not saved, and may change in place, as a queue does that takes in its batch.
    ctx.sources = () if call.has_definition else (inputs.embeddings,)
    kept = inputs if pull is None or call.has_definition else (None, None, None, inputs.draw)
    ctx.save_for_backward(*kept, *(pull or (None, None)))


def gradient_of(ctx: Any, grad: Tensor) -> Tensor:
    """The gradient by the embeddings, from what was kept, or anew; in a graph only where torch derives it again."""
    embeddings, against, weight, draw, *pull = _saved_tensors(ctx)
    inputs = Inputs(embeddings, against, weight, draw)
    if torch.is_grad_enabled():
        from unclump.objectives._transforms import differentiable_gradient

        return differentiable_gradient(ctx, grad, inputs, Pull(*pull))
    return pulled_back(ctx, grad, inputs, Pull(*pull))


def _saved_tensors(ctx: Any) -> tuple[Any, ...]:
    """What a node saved in its forward pass, unless it was changed in place since."""
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


def pulled_back(ctx: Any, grad: Tensor, inputs: Inputs, pull: Pull | None) -> Tensor:
    """The gradient without a graph."""
    call: Call = ctx.call
    if call.reduction == "none":
        pull, factor = terms_of(inputs, call, grad)[1], grad.new_ones(())
    else:
        if not ctx.is_evaluated:  # a transform that did not say so
            pull = loss_of(inputs, call, needs_grad=True)[1]
        factor = grad if call.scale == 1 else call.scale * grad
        factor = factor if factor.ndim == 0 else factor.reshape(-1, 1, 1)
    assert pull is not None
    gradient: Tensor = call.objective.pull_back(pull, inputs.draw, factor, ctx.shape[-1])
    return gradient if gradient.ndim == len(ctx.shape) else gradient.view(ctx.shape)


def as_one_batch(inputs: Inputs, objective: Objective) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Embeddings, queue and weights with one leading dimension or none; masked rows are zeros."""
    embeddings, against, weight, _ = inputs
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


def loss_of(inputs: Inputs, call: Call, *, needs_grad: bool) -> tuple[Float[Tensor, "*sets"], Pull | None]:
    """The objective, reduced; zero, with a zero gradient, where weights leave too few points for a value."""
    objective, draw, too_few, result = call.objective, inputs.draw, None, None
    x, against, weight = as_one_batch(inputs, objective)
    count: Tensor | float = x.shape[-2]
    if objective.has_fused and against is None and weight is None and call.ranks.size == 1 and native.ENABLED:
        result = objective.fused(x, draw, needs_grad)
        if result is None:
            result, count = fused_without_zeros(objective, x, draw, needs_grad)
    if result is None:
        x, others = among(objective, x, against, weight, call.ranks, is_binary=call.is_binary)
        result = objective.loss(x, others, draw, needs_grad)
        if call.reduction == "sum":
            count = objective.count(others)
        if call.reduction == "sum" or not objective.vanishes:
            too_few = others.too_few
    value, pull = result
    if value.dtype != inputs.embeddings.dtype:  # computed in double precision
        value, pull = value.to(inputs.embeddings.dtype), None if pull is None else pull.to(inputs.embeddings.dtype)
    if call.reduction == "sum":
        value, pull = value * count, None if pull is None else pull.times(count * torch.ones_like(value))
    if too_few is None:
        return value, pull
    return value.masked_fill(too_few, 0), None if pull is None else pull.zero_where(too_few)


def terms_of(inputs: Inputs, call: Call, grad: Tensor | None) -> tuple[Float[Tensor, "*sets n"], Pull | None]:
    """The terms, zero where a row takes no part or there are too few points; and their gradient by this one."""
    objective = call.objective
    x, others = among(objective, *as_one_batch(inputs, objective), call.ranks, is_binary=call.is_binary)
    left = counts = None
    too_few = others.too_few
    if others.mask is not None and too_few is not None:
        counts = others.mask & ~too_few.unsqueeze(-1)
    if grad is not None:
        left = grad.reshape(x.shape[:-1])
        left = left if counts is None else left * counts
    terms, pull = objective.terms(x, others, inputs.draw, left)
    return terms if counts is None else torch.where(counts, terms, 0), pull
