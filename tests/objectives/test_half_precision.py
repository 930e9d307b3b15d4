"""Half precision in training: what is finite stays finite, and near the result of single precision.

That every objective is finite in float16, bfloat16 and under autocast is in `test_every_objective`; FSDP2's mixed
precision, which takes two processes, in `tests/sharded.py`.
"""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import unclump as uc
from tests.cases import FEW, OBJECTIVES, value_and_gradient

HALVES = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
EPS = {dtype: torch.finfo(dtype).eps for dtype in (torch.float16, torch.bfloat16)}


@HALVES
@pytest.mark.parametrize("name", FEW)
def test_an_objective_is_that_of_single_precision(name, dtype, points):
    """Of the same rounded points: the value to the last digits, the gradient to its own rounding."""
    x = points(12, 4).to(dtype)
    value, gradient = value_and_gradient(OBJECTIVES[name](), x)
    expected, whole = value_and_gradient(OBJECTIVES[name](), x.float())
    assert value.dtype == torch.float32
    assert gradient.dtype == dtype
    assert_close(value, expected)
    assert_close(gradient.float(), whole, rtol=EPS[dtype], atol=EPS[dtype] * whole.abs().max().item())


def clumped(dtype=torch.float32):
    draw = torch.Generator().manual_seed(0)
    return nn.Parameter((torch.randn(40, 6, generator=draw) + 2).to(dtype))


@HALVES
@pytest.mark.parametrize(
    ("name", "lr"), [("KoLeo(chordal)", 10.0), ("Sliced(13)", 8.0), ("Uniformity(Gaussian)", 30.0)]
)
def test_parameters_of_half_precision_go_where_those_of_single_precision_go(name, lr, dtype):
    """Plain descent of a clumped table: it opens up as far."""
    ends = []
    for table in (clumped(), clumped(dtype)):
        objective, optimizer = OBJECTIVES[name](), torch.optim.SGD([table], lr=lr)
        for _ in range(40):
            optimizer.zero_grad()
            objective(table).backward()
            optimizer.step()
        assert table.isfinite().all()
        ends.append(uc.spherical_variance(table))
    start = uc.spherical_variance(clumped())
    assert ends[0] > start + 0.1
    assert ends[1] == pytest.approx(ends[0], abs=0.02 + 0.1 * (ends[0] - start))


def trained(dtype, scaler, steps=20):
    """Two layers under autocast, whose outputs are to be apart."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4))
    inputs = torch.randn(32, 6) + 1
    objectives = uc.Energy(), uc.Uniformity(), uc.LogDet(uc.Laplace())
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            outputs = model(inputs)
            assert outputs.dtype == (dtype or torch.float32)
            loss = sum(objective(outputs) for objective in objectives)
        assert loss.dtype == torch.float32
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return model, losses


@HALVES
def test_autocast_and_a_scaled_loss_train_as_single_precision_does(dtype):
    plain, expected = trained(None, torch.amp.GradScaler("cpu", enabled=False))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    model, losses = trained(dtype, scaler)
    assert scaler.get_scale() == 2.0**12  # no gradient overflowed
    assert expected[-1] < expected[0] - 0.5
    assert_close(losses, expected, atol=0.06 * (expected[0] - expected[-1]), rtol=0)
    for found, wanted in zip(model.parameters(), plain.parameters(), strict=True):
        assert_close(found, wanted, atol=0.05, rtol=0.05)


def test_a_scale_too_large_is_backed_off_from_and_harms_nothing():
    """Gradients that overflow in float16 are seen by the scaler, which leaves the step out and halves the scale."""
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)
    model, losses = trained(torch.float16, scaler, steps=40)
    assert scaler.get_scale() < 2.0**40
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    assert losses[-1] < losses[0] - 0.3
