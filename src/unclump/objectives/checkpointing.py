"""Replay of an objective's random draws when activation checkpointing recomputes its forward pass."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType

import torch
from torch import Tensor

from unclump._checks import check_generator

Contexts = tuple[AbstractContextManager[None], AbstractContextManager[None]]


def replay(*generators: torch.Generator) -> Callable[[], Contexts]:
    """A `context_fn` for `torch.utils.checkpoint.checkpoint`, so that the recomputation repeats the random draws.

    Torch replays only its own generator, from which objectives without a `generator` draw. With any other, the
    recomputation would draw different circles, and the gradient would not match the value. No public API of torch tells
    an objective that it is being recomputed, so this has to be passed to `checkpoint`. After the recomputation, the
    generators continue from where the forward pass left them, as they do without checkpointing.

    One `replay` can be used for any number of calls, including nested ones, and for several backward passes through a
    call. It requires ``use_reentrant=False``: otherwise torch does not accept a `context_fn`.

    Args:
        generators: The generators from which the checkpointed function draws.

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
    """Rewinds generators to their states at its creation, and restores them on exit; can be entered repeatedly."""

    def __init__(self, generators: tuple[torch.Generator, ...]) -> None:
        self.generators, self.states = generators, _states(generators)
        self.states_before: list[Tensor] = []

    def __enter__(self) -> None:
        self.states_before = _states(self.generators)
        self._set_states(self.states)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._set_states(self.states_before)

    def _set_states(self, states: list[Tensor]) -> None:
        for generator, state in zip(self.generators, states, strict=True):
            generator.set_state(state)


def _states(generators: tuple[torch.Generator, ...]) -> list[Tensor]:
    return [generator.get_state() for generator in generators]
