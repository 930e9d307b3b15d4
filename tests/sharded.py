"""What two processes do with the adapters and with FSDP2, in the launch of `tests/ranks.py`."""

import torch
import torch.distributed as dist
from torch import nn
from torch.testing import assert_close

import unclump as uc
from unclump.integrations._monitor import TableMonitor
from unclump.integrations._penalty import Penalty

STEPS, WORDS = 6, 13


class Words(nn.Module):
    """A table, one row of which is padding, and a head that tells words from their neighbours."""

    def __init__(self, dtype):
        super().__init__()
        torch.manual_seed(0)
        self.tokens = nn.Embedding(WORDS, 8, padding_idx=0, dtype=dtype)
        self.head = nn.Linear(8, WORDS, dtype=dtype)

    def forward(self, words):
        return self.head(self.tokens(words))


def trained(dtype, wrap, penalty, words, *, table_first=True):
    """A few steps on the words, each to be followed by the next number; the term is in the same backward pass."""
    model = Words(dtype)
    wrapped = wrap(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(STEPS):
        optimizer.zero_grad()
        apart = penalty(model.tokens.weight, 0) if table_first else 0
        task = nn.functional.cross_entropy(wrapped(words).to(dtype), (words + 1) % WORDS)
        (task + apart if table_first else task + penalty(model.tokens.weight, 0)).backward()
        optimizer.step()
    return model


def whole(parameter):
    return (parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter).detach()


def compare(found, expected, tolerance):
    for mine, other in zip(found.parameters(), expected.parameters(), strict=True):
        assert_close(whole(mine), whole(other), rtol=tolerance, atol=tolerance)


def halves(words):
    return words.chunk(dist.get_world_size())[dist.get_rank()]


def check_fsdp():
    """A sharded model with an objective on its sharded table learns what one process learns, in mixed precision too."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    words = torch.randint(1, WORDS, (24,), generator=torch.Generator().manual_seed(0))
    mixed = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)

    def wrap(model, policy, parts=("tokens", "head")):
        for name in parts:
            fully_shard(getattr(model, name), mp_policy=policy)
        return fully_shard(model, mp_policy=policy)

    exact, seen_in_forward = MixedPrecisionPolicy(), ()
    for objective, dtype, policy, parts, first, tolerance in (
        (uc.KoLeo(), torch.float64, exact, ("tokens", "head"), True, 1e-12),
        (uc.KoLeo(), torch.float64, exact, ("tokens", "head"), False, 1e-12),
        (uc.KoLeo(), torch.float64, exact, seen_in_forward, False, 1e-12),
        (uc.Energy(), torch.float32, exact, ("tokens", "head"), True, 2e-6),
        (uc.KoLeo(), torch.float32, mixed, ("tokens", "head"), True, 0.02),
        (uc.KoLeo(), torch.float32, mixed, seen_in_forward, False, 0.02),
    ):
        penalty = Penalty(objective, 0.3)
        expected = trained(dtype, lambda model: model, penalty, words)
        made = lambda model, policy=policy, parts=parts: wrap(model, policy, parts)  # noqa: E731
        found = trained(dtype, made, penalty, halves(words), table_first=first)
        found.reshard()
        assert hasattr(found.tokens.weight, "device_mesh")
        compare(found, expected, tolerance)
        assert not whole(found.tokens.weight)[0].any()  # padding stayed where it was
    seen, alone = (TableMonitor(rows=None).measure(model.tokens.weight, 0) for model in (found, Words(torch.float32)))
    expected = TableMonitor(rows=None).measure(whole(found.tokens.weight), 0)
    assert_close(seen.measures, expected.measures)
    assert_close(seen.nearest, expected.nearest)
    assert seen.measures != alone.measures
    seen = torch.zeros(WORDS, dtype=torch.bool)
    draws = torch.Generator().manual_seed(dist.get_rank())
    for step in range(40):
        rows = 2 + step % 4
        found.zero_grad()
        Penalty(uc.KoLeo(), 1.0, rows=rows, generator=draws)(found.tokens.weight, 0).backward()
        moved = whole(found.tokens.weight.grad).any(dim=-1)
        assert int(moved.sum()) == rows  # on all ranks together
        seen |= moved
    assert seen.tolist() == [False] + [True] * (WORDS - 1)


def check_replicas():
    """Under DDP the table is the same everywhere: its term needs no gather, and counts once."""
    words = torch.randint(1, WORDS, (24,), generator=torch.Generator().manual_seed(0))
    penalty = Penalty(uc.KoLeo(), 0.3)
    found = trained(torch.float64, nn.parallel.DistributedDataParallel, penalty, halves(words))
    compare(found, trained(torch.float64, lambda model: model, penalty, words), 1e-12)


def check_metric():
    """Rows of all ranks make one table, though one rank may have none."""
    from unclump.integrations.torchmetrics import Dispersion

    x = torch.randn(30, 5, generator=torch.Generator().manual_seed(0))
    for counts in ((15, 15), (21, 9), (0, 30), (30, 0)):
        metric, alone = Dispersion(), Dispersion(sync_on_compute=False)
        alone.update(x)
        mine = x.split(list(counts))[dist.get_rank()]
        for batch in mine.split(7) if len(mine) else ():
            metric.update(batch)
        assert_close(metric.compute(), alone.compute())
        assert len(torch.cat([mine.new_zeros(0), *metric.values])) == mine.numel()  # each has its own again
