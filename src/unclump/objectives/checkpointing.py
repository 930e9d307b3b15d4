"""Random draws of an objective that are the same again where activation checkpointing runs its forward pass twice."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType

import torch
from torch import Tensor

from unclump._checks import check_generator

Contexts = tuple[AbstractContextManager[None], AbstractContextManager[None]]


def replay(*generators: torch.Generator) -> Callable[[], Contexts]:
    """A `context_fn` for `torch.utils.checkpoint.checkpoint`: its recomputation draws what the forward pass drew.

    Torch replays its own generator, which objectives without a `generator` draw from, but no other: with one, the
    recomputation would draw other circles, and the gradient would not be that of the value. Nothing that is public in
    torch tells an objective that it is being recomputed, so that the call of `checkpoint` has to say so. The generators
    go on afterwards from where the forward pass left them, as they do without checkpointing.

    One `replay` serves any number of calls, nested ones too, and several backward passes through one of them. It needs
    ``use_reentrant=False``: torch refuses a `context_fn` otherwise.

    Args:
        generators: Those that the checkpointed function draws from.

    Example:
        >>> from torch.utils.checkpoint import checkpoint
        >>> generator = torch.Generator().manual_seed(0)
        >>> disperse, x = uc.Sliced(13, generator=generator), torch.randn(100, 8, requires_grad=True)
        >>> loss = checkpoint(lambda x: disperse(x.tanh()), x, use_reentrant=False, context_fn=uc.replay(generator))
        >>> loss.backward()
    """
    for generator in generators:
        check_generator(generator)
    if not generators or None in generators:
        raise TypeError("expected generators to replay, got none: torch replays its own without `context_fn`")
    return lambda: (nullcontext(), _Recomputation(generators))


class _Recomputation(AbstractContextManager[None]):
    """Sets generators back to their states at its making, and at its end to where they were; may be entered again."""

    def __init__(self, generators: tuple[torch.Generator, ...]) -> None:
        self.generators, self.states = generators, _states(generators)
        self.later: list[Tensor] = []

    def __enter__(self) -> None:
        self.later = _states(self.generators)
        self._set_states(self.states)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._set_states(self.later)

    def _set_states(self, states: list[Tensor]) -> None:
        for generator, state in zip(self.generators, states, strict=True):
            generator.set_state(state)


def _states(generators: tuple[torch.Generator, ...]) -> list[Tensor]:
    return [generator.get_state() for generator in generators]
