"""What processes do with optimisers on the parameters of FSDP2, in the launches of `tests/ranks.py`."""

import warnings

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor

import unclump as uc
from tests.sharded import Words, compare, halves, whole

OPTIMISERS = {
    "adam": lambda groups: uc.SphereAdam(groups, lr=0.1, amsgrad=True),
    "lazy adam": lambda groups: uc.SphereAdam(groups, lr=0.1, lazy=True),
    "sgd": lambda groups: uc.SphereSGD(groups, lr=0.3, momentum=0.9, nesterov=True),
    "plain sgd": lambda groups: uc.SphereSGD(groups, lr=0.3),
}
WORDS = torch.randint(1, 13, (24,), generator=torch.Generator().manual_seed(0))


def sharded(model):
    for part in (model.tokens, model.head):
        fully_shard(part)
    return fully_shard(model)


def optimiser(name, model):
    """One for both kinds of groups."""
    groups = [{"params": [model.tokens.weight]}, {"params": model.head.parameters(), "sphere": False}]
    return OPTIMISERS[name](groups)


def train(model, optimizer, words, steps):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the padding row
        for _ in range(steps):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(words), (words + 1) % 13).backward()
            optimizer.step()


def alone(name, steps):
    model = Words(torch.float64)
    train(model, optimiser(name, model), WORDS, steps)
    return model


def check_sphere_fsdp():
    """A sharded model with its table on the sphere learns what one process learns; so it does from the meta device."""
    for name in OPTIMISERS:
        model = sharded(Words(torch.float64))
        train(model, optimiser(name, model), halves(WORDS), 6)
        compare(model, alone(name, 6), 1e-12)
        assert not whole(model.tokens.weight)[0].any()  # padding stayed

    with torch.device("meta"):
        late = sharded(Words(torch.float64))
    optimizer = optimiser("adam", late)
    late.to_empty(device="cpu")
    set_model_state_dict(late, Words(torch.float64).state_dict(), options=StateDictOptions(full_state_dict=True))
    train(late, optimizer, halves(WORDS), 6)
    expected = Words(torch.float64)
    optimizer = optimiser("adam", expected)
    expected.load_state_dict(Words(torch.float64).state_dict())  # rows that the first step puts on the sphere, too
    train(expected, optimizer, WORDS, 6)
    compare(late, expected, 1e-12)


def check_sphere_shards():
    """Ranks without rows take part; NaN is refused by the rank that has it; rows must be whole."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    few = torch.randn(2, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for name, make in OPTIMISERS.items():
        x = nn.Parameter(distribute_tensor(few, mesh, [Shard(0)]))
        expected = nn.Parameter(few.clone())
        for parameter in (x, expected):
            optimizer = make([parameter])
            for _ in range(3):
                optimizer.zero_grad()
                parameter.pow(3).sum().backward()
                optimizer.step()
        torch.testing.assert_close(whole(x), whole(expected), msg=lambda text, name=name: f"{name}: {text}")
    bad = few.clone()
    bad[-1] = torch.nan
    x = nn.Parameter(distribute_tensor(bad, mesh, [Shard(0)]))
    optimizer = uc.SphereAdam([("prototypes", x)], lr=0.1)
    x.grad = torch.zeros_like(x)
    if dist.get_rank() == 1:
        with pytest.raises(ValueError, match=r"got NaN in 1 row \(0\)") as error:
            optimizer.step()
        assert "parameter 'prototypes' of shape (2, 4), on rank 1" in str(error.value)
    x = nn.Parameter(distribute_tensor(few, mesh, [Shard(1)]))
    with pytest.raises(ValueError, match=r"whole rows on every rank, got .* redistribute it to \[Shard\(0\)\]"):
        uc.SphereAdam([x], lr=0.1)


def check_sphere_checkpoint(folder):
    """Three ranks begin, two go on, and what they save is for one."""
    size = dist.get_world_size()
    for name in OPTIMISERS:
        model = sharded(Words(torch.float64))
        optimizer = optimiser(name, model)
        if size < 3:
            load(folder / f"{name} of 3", model, optimizer)
        train(model, optimizer, halves(WORDS), 4)
        compare(model, alone(name, 4 if size == 3 else 8), 1e-12)
        states, optimiser_states = get_state_dict(model, optimizer)
        dcp.save({"model": states, "optimizer": optimiser_states}, checkpoint_id=folder / f"{name} of {size}")


def load(folder, model, optimizer):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch takes a step to make the state, and meets the padding
        states, optimiser_states = get_state_dict(model, optimizer)
        dcp.load({"model": states, "optimizer": optimiser_states}, checkpoint_id=folder)
        set_state_dict(model, optimizer, model_state_dict=states, optim_state_dict=optimiser_states)
