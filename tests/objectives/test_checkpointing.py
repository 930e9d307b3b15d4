"""Under activation checkpointing the forward pass runs twice, and must draw the same circles and samples."""

import re
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

import unclump as uc
from tests.cases import value_and_gradient

RANDOM = {
    "Sliced": partial(uc.Sliced, 3),
    "Sliced(axis-aligned)": partial(uc.Sliced, 3, axis_aligned=True),
    "SSW": partial(uc.SSW, 3),
    "Lloyd": partial(uc.Lloyd, 16),
    "Polarization": partial(uc.Polarization, samples=16, steps=2),
    "SIGReg": partial(uc.SIGReg, 3),
    "VISReg": partial(uc.VISReg, 3),
}


@pytest.mark.parametrize("use_reentrant", [True, False])
@pytest.mark.parametrize("name", RANDOM)
def test_torchs_own_generator_is_replayed(name, use_reentrant, points):
    """Several calls in a row, each with draws of its own, as in layers that are checkpointed one by one."""
    x = points(12, 8)

    def total(run):
        def value(x):
            torch.manual_seed(0)
            return sum(run(lambda x: RANDOM[name]()(x.tanh()), x * factor) for factor in (1, 2, 3))

        return value_and_gradient(value, x)

    plain = total(lambda objective, x: objective(x))
    replayed = total(lambda objective, x: checkpoint(objective, x, use_reentrant=use_reentrant))
    for found, expected in zip(replayed, plain, strict=True):
        assert_close(found, expected, rtol=1e-12, atol=1e-14)


def replayed(block, x, *, generator):
    return checkpoint(block, x, use_reentrant=False, context_fn=uc.replay(generator))


def plain(block, x, *, generator):
    return block(x)


def outcome(name, run, x, *, backward_passes=1):
    """Value and gradient of three blocks in a row, and the state in which they leave the generator.

    A block draws twice, and its gradient depends on the value of both.
    """
    generator = torch.Generator().manual_seed(7)
    objective = RANDOM[name](generator=generator)
    x = x.clone().requires_grad_()

    def block(x):
        return x * objective(x.tanh()) * objective(x.sin())

    value = x
    for _ in range(3):
        value = run(block, value, generator=generator)
    for _ in range(backward_passes):
        value.sum().backward(retain_graph=True)
    return value.detach(), x.grad, generator.get_state()


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", RANDOM)
def test_a_generator_is_replayed(name, points):
    """What is computed, and what the generator draws afterwards, is as without checkpointing."""
    x = points(12, 8)
    assert_same(outcome(name, replayed, x), outcome(name, plain, x))


def test_a_generator_is_replayed_by_every_backward_pass(points):
    x = points(12, 8)
    assert_same(outcome("Sliced", replayed, x, backward_passes=2), outcome("Sliced", plain, x, backward_passes=2))


def test_a_generator_is_replayed_where_checkpoints_are_nested(points):
    def nested(block, x, *, generator):
        inner = partial(replayed, block, generator=generator)
        return replayed(lambda x: block(inner(x.cos())), x, generator=generator)

    def plain_twice(block, x, *, generator):
        return block(block(x.cos()))

    x = points(12, 8)
    assert_same(outcome("Sliced", nested, x), outcome("Sliced", plain_twice, x))


def test_several_generators_are_replayed(points):
    def gradient(run):
        circles, samples = (torch.Generator().manual_seed(seed) for seed in (1, 2))
        sliced, lloyd = uc.Sliced(3, generator=circles), uc.Lloyd(16, generator=samples)
        options = {"use_reentrant": False, "context_fn": uc.replay(circles, samples)}
        found = value_and_gradient(lambda x: run(lambda x: sliced(x.tanh()) * lloyd(x.sin()), x, **options), points)
        return (*found, circles.get_state(), samples.get_state())

    points = points(12, 8)
    assert_same(gradient(checkpoint), gradient(lambda block, x, **_: block(x)))


def test_the_balanced_gradient_is_replayed(points):
    """Which is computed in the forward pass, and kept for the backward pass."""

    def gradient(run):
        generator = torch.Generator().manual_seed(7)
        balanced = uc.Balanced(uc.Sliced(3, generator=generator), share=0.5)
        options = {"use_reentrant": False, "context_fn": uc.replay(generator)}
        return value_and_gradient(lambda x: run(lambda x: balanced(x.tanh()).square().sum(), x, **options), points)

    points = points(12, 8)
    assert_same(gradient(checkpoint), gradient(lambda block, x, **_: block(x)))


def test_reentrant_checkpointing_refuses_to_replay(points):
    """By torch itself, which has no `context_fn` there: no gradient of other circles comes out in silence."""
    generator = torch.Generator()
    with pytest.raises(ValueError, match="context_fn"):
        checkpoint(uc.Sliced(generator=generator), points(4, 3), use_reentrant=True, context_fn=uc.replay(generator))


@pytest.mark.parametrize(("generators", "got"), [((), "got none"), ((None,), "got none"), ((0,), "got int; make one")])
def test_replay_refuses_what_is_no_generator(generators, got, at_the_door):
    with pytest.raises(TypeError, match=got):
        uc.replay(*generators)


def test_the_example_of_the_page_runs():
    page = (Path(__file__).parents[2] / "docs/choosing.md").read_text()
    example = re.search(r"```python\n(.*?)```", page[page.index("## Activation checkpointing") :], flags=re.DOTALL)[1]
    names = {}
    exec(compile(example, "choosing.md", "exec"), names)
    before = names["generator"].get_state()
    (names["x"].sum() + names["term"]).backward()
    assert names["layer"].weight.grad is not None
    assert torch.equal(names["generator"].get_state(), before)
