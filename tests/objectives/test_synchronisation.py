"""Objectives do not make the host wait for a device: nothing in them reads a value."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.cases import FEW, OBJECTIVES
from unclump.ops import native

# `linalg.inv` and the like wait for the verdict of `_linalg_check_errors`; a Boolean index, for its `nonzero`.
WAITING = {"_local_scalar_dense", "_linalg_check_errors", "nonzero", "masked_select", "equal", "_unique2"}


class Names(TorchDispatchMode):
    """The names of all operations that run while it is active."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.add(function.overloadpacket.__name__)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("with_others", [False, True], ids=["alone", "queue and mask"])
@pytest.mark.parametrize("name", FEW)
def test_value_and_gradient_read_nothing(name, with_others, points, monkeypatch):
    monkeypatch.setattr(native, "ENABLED", False)
    x = points(8, 4).float().requires_grad_()
    others = {"against": points(5, 4), "weight": torch.arange(8) > 1} if with_others else {}
    objective = OBJECTIVES[name]()
    with Names() as names:
        objective(x, **others).backward()
    assert len(names.seen) > 5
    assert not names.seen & WAITING
