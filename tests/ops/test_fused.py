"""Objectives whose value and gradient come from one pass: the same as by operations of torch."""

import pytest
import torch
from torch.testing import assert_close

import unclump as uc
from unclump.ops import native
from unclump.ops.dispatch import has_native
from unclump.ops.nearest import nearest

pytestmark = [
    pytest.mark.skipif(not native.ENABLED, reason="the library was not compiled"),
    pytest.mark.usefixtures("two_threads"),
]

STEEP = "Energy too steep for loops"
OBJECTIVES = {
    "KoLeo": uc.KoLeo,
    "KoLeo geodesic": lambda: uc.KoLeo(distance="geodesic"),
    "MaxMin": uc.MaxMin,
    "MaxMin chordal": lambda: uc.MaxMin(distance="chordal"),
    "MaxMin squared": lambda: uc.MaxMin(distance="squared"),
    "Lloyd": lambda: uc.Lloyd(50, generator=torch.Generator().manual_seed(3)),
    "Energy": uc.Energy,
    "Energy Gaussian": lambda: uc.Energy(uc.Gaussian()),
    STEEP: lambda: uc.Energy(uc.Gaussian(45.0)),
    "Energy geodesic": lambda: uc.Energy(uc.Laplace()),
    "MMD": uc.MMD,
}
TWICE = [name for name in OBJECTIVES if not name.startswith(("Energy", "MMD"))]


def embeddings(n=70, d=5, *, dtype=torch.float32):
    """Of many norms, three of one direction among them, of which one is almost the last."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(n, d, generator=draw) * torch.logspace(-3, 3, n).unsqueeze(1)
    x[1], x[n - 30] = x[0], 2 * x[0]
    return x.to(dtype).requires_grad_()


def value_and_gradient(name, x):
    value = OBJECTIVES[name]()(x)
    return value.detach(), torch.autograd.grad(3 * value, x)[0]


@pytest.fixture
def by_torch(monkeypatch):
    """by_torch(name, x): the same without the loops."""

    def plain(name, x):
        with monkeypatch.context() as context:
            context.setattr(native, "ENABLED", False)
            assert not has_native(x)
            return value_and_gradient(name, x)

    return plain


@pytest.mark.parametrize("name", [name for name in OBJECTIVES if name != STEEP])  # which is torch's on both sides
@pytest.mark.parametrize("n", [70, 700])  # on one thread, and several
def test_value_and_gradient_are_those_of_torch(n, name, by_torch):
    x = embeddings(n)
    assert has_native(x)
    (value, gradient), (plain, plain_gradient) = value_and_gradient(name, x), by_torch(name, x)
    norms = x.detach().norm(dim=1, keepdim=True)
    if not name.startswith("Energy"):
        assert_close(value, plain, rtol=1e-5, atol=1e-6)
        assert_close(norms * gradient, norms * plain_gradient, rtol=1e-3, atol=1e-5)
        return
    # Of three rows that coincide the reference takes the nearest pairs apart, the loops all: the others feel no more.
    alone = [i for i in range(n) if i not in (0, 1, n - 30)]
    assert_close(value, plain, rtol=0.1, atol=0)
    assert_close((norms * gradient)[alone], (norms * plain_gradient)[alone], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_gradient_is_tangent(name):
    x = embeddings()
    gradient = value_and_gradient(name, x)[1]
    cosines = torch.cosine_similarity(x.detach(), gradient)
    assert_close(cosines, torch.zeros_like(cosines), rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_without_a_gradient_the_value_is_the_same(name):
    x = embeddings()
    with torch.no_grad():
        alone = OBJECTIVES[name]()(x)
    assert not alone.requires_grad
    assert alone == value_and_gradient(name, x)[0]
    assert OBJECTIVES[name]()(x.detach()) == alone


@pytest.mark.parametrize("name", OBJECTIVES)
def test_autocast_makes_no_difference(name):
    x = embeddings()
    expected = value_and_gradient(name, x)
    with torch.autocast("cpu", torch.bfloat16):
        value = OBJECTIVES[name]()(x)
    assert value == expected[0]
    assert_close(torch.autograd.grad(3 * value, x)[0], expected[1], rtol=0, atol=0)


@pytest.mark.parametrize("name", TWICE)
def test_second_derivatives_are_those_of_double_precision(name):
    x = torch.randn(12, 4, generator=torch.Generator().manual_seed(1))

    def twice(objective, x):
        (gradient,) = torch.autograd.grad(objective(x.requires_grad_()), x, create_graph=True)
        return torch.autograd.grad(gradient.square().sum(), x)[0]

    wide = OBJECTIVES[name]()
    if name == "Lloyd":  # which draws others in another precision
        samples = OBJECTIVES[name]().draw(x).double()
        wide = lambda x: uc.lloyd(uc.project(x), samples)  # noqa: E731
    assert_close(twice(OBJECTIVES[name](), x).double(), twice(wide, x.detach().double()), rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_forward_mode_is_refused(name):
    with torch.autograd.forward_ad.dual_level(), pytest.raises(NotImplementedError, match="forward mode AD"):
        OBJECTIVES[name]()(torch.autograd.forward_ad.make_dual(embeddings().detach(), torch.ones(70, 5)))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_training_after_inference(name):
    """Nothing is kept from one call to the next that belongs to inference mode."""
    with torch.inference_mode():
        validated = OBJECTIVES[name]()(torch.cat([embeddings(), embeddings(700)]).detach().clone())
    value, gradient = value_and_gradient(name, embeddings())
    assert validated.isfinite()
    assert value.isfinite()
    assert gradient.isfinite().all()


def test_a_subclass_with_a_loss_of_its_own_is_heard():
    class Louder(uc.KoLeo):
        def loss(self, *given):
            return 2 * super().loss(*given)[0], None

    assert_close(Louder()(embeddings().detach()), 2 * uc.KoLeo()(embeddings().detach()))


@pytest.mark.parametrize(
    ("objective", "norm"), [(uc.Energy(uc.Riesz(s=4.0)), 1e-20), (uc.MMD(), 1e-38), (uc.KoLeo(), 1e-30)], ids=str
)
def test_one_direction_over_and_over_has_a_finite_gradient(objective, norm):
    x = (norm * torch.eye(4)[:1].repeat(512, 1)).requires_grad_()
    assert torch.autograd.grad(objective(x), x)[0].isfinite().all()


def test_lloyd_of_one_point_in_a_domain_of_its_own():
    k_means = uc.Lloyd(5, sampler=lambda count: torch.ones(count, 2), distance=lambda y, x: (y - x).norm(dim=-1))
    assert_close(k_means(torch.zeros(1, 2)), torch.tensor(1.0))


@pytest.mark.parametrize("n", [2, 7, 8, 9, 31, 129, 512, 513, 700])
def test_the_nearest_are_found_whatever_is_left_over(n):
    """By eights and by lanes, in one block and in several, with what remains."""
    x = uc.uniform(n, 6, generator=torch.Generator().manual_seed(n))
    chords = torch.cdist(x.double(), x.double()).fill_diagonal_(torch.inf)
    assert_close(uc.MaxMin(distance="chordal")(x).double(), -chords.amin(dim=1).mean(), rtol=1e-6, atol=0)
    samples = uc.uniform(40, 6, generator=torch.Generator().manual_seed(0))
    lloyd = uc.Lloyd(40, generator=torch.Generator().manual_seed(0))(x)
    assert_close(lloyd, uc.angle(samples.unsqueeze(1), x).amin(dim=1).square().mean() / 2, rtol=1e-5, atol=0)


@pytest.mark.parametrize(("n", "bad"), [(6, 2), (40, 13), (700, 699), (1024, 1023), (1300, 600)])
def test_nan_is_nobodys_neighbour(n, bad):
    x = uc.uniform(n, 6, generator=torch.Generator().manual_seed(n))
    x[bad] = torch.nan
    others = torch.arange(n) != bad
    expected = torch.cdist(x[others], x[others]).fill_diagonal_(torch.inf).argmin(dim=1)
    found = nearest(x)[0][:, 0]
    assert_close(found[others], torch.arange(n)[others][expected])
    assert uc.KoLeo()(x).isnan()
    samples = uc.uniform(50, 6, generator=torch.Generator().manual_seed(1))
    assert not (nearest(samples, x)[0] == bad).any()
