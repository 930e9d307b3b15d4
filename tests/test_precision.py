"""Products of float32 points do not depend on torch's switches for TF32 and bfloat16."""

import pytest
import torch

import unclump as uc
from unclump._precision import exact_products
from unclump.ops import native

has_switch = pytest.mark.skipif(not hasattr(torch.backends.mkldnn, "matmul"), reason="torch before 2.9 has no switch")


@pytest.fixture(params=["high", "medium"])
def rounded(request):
    """Products on a CPU may round their factors to TF32 or bfloat16."""
    torch.set_float32_matmul_precision(request.param)
    yield torch.backends.mkldnn.matmul.fp32_precision
    torch.set_float32_matmul_precision("highest")


@has_switch
def test_the_switch_of_a_cpu_is_off_within_and_as_it_was_after(rounded):
    assert rounded in ("tf32", "bf16")
    with exact_products(torch.device("cpu")):
        assert torch.backends.mkldnn.matmul.fp32_precision == "ieee"
        with exact_products(torch.device("cpu")):
            pass
        assert torch.backends.mkldnn.matmul.fp32_precision == "ieee"
    assert torch.backends.mkldnn.matmul.fp32_precision == rounded
    with pytest.raises(ZeroDivisionError), exact_products(torch.device("cpu")):
        _ = 1 / 0
    assert torch.backends.mkldnn.matmul.fp32_precision == rounded


@has_switch
def test_a_switch_that_inherits_its_setting_goes_on_to():
    switch = torch.backends.mkldnn
    switch.matmul.fp32_precision, switch.fp32_precision = "none", "bf16"
    try:
        with exact_products(torch.device("cpu")):
            assert switch.matmul.fp32_precision == "ieee"
        assert switch.matmul.fp32_precision == "bf16"
    finally:
        switch.fp32_precision = "none"
    assert switch.matmul.fp32_precision == "none"


@has_switch
@pytest.mark.usefixtures("rounded")
@pytest.mark.parametrize("objective", [uc.KoLeo(), uc.Uniformity(), uc.Lloyd(1000), uc.Sliced(13)], ids=repr)
def test_objectives_have_the_same_bits(objective, monkeypatch):
    """Of rows with so many coordinates the products themselves differ, where the processor has bfloat16."""
    monkeypatch.setattr(native, "ENABLED", False)
    x, found = torch.randn(1024, 768, generator=torch.Generator().manual_seed(0)).requires_grad_(), []
    for precision in (torch.get_float32_matmul_precision(), "highest"):
        torch.set_float32_matmul_precision(precision)
        torch.manual_seed(1)
        value = objective(x)
        found.append([value, *torch.autograd.grad(value, x)])
    assert all(map(torch.equal, *found))
