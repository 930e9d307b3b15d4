"""`KoLeo` and `MaxMin` of several nearest neighbours, and within groups of a batch."""

import pytest
import torch
from torch.testing import assert_close

import unclump as uc
from tests.cases import value_and_gradient
from tests.objectives.test_nearest import DISTANCES
from unclump.geometry.sphere import tangent
from unclump.ops import native

CHOICES = [{"k": 1}, {"k": 3}, {"group_size": 4}, {"k": 3, "group_size": 4}, {"k": 2, "group_size": 6}]
each_choice = pytest.mark.parametrize("choices", CHOICES, ids=str)


def term(distances, logarithm):
    return -(distances.log() if logarithm else distances).mean()


def by_definition(x, distance, logarithm, *, k=1, group_size=None, against=None, present=None):
    """For every point, by a loop: the mean over its k nearest others, or as many as there are, in its group."""
    group_size, terms = group_size or len(x), []
    for i in range(len(x)):
        first = i // group_size * group_size
        others = [x[j] for j in range(first, first + group_size) if j != i and (present is None or present[j])]
        others += [] if against is None else list(against)
        distances = torch.stack([DISTANCES[distance](x[i], y) for y in others]).sort().values[:k]
        terms.append(term(distances, logarithm))
    return torch.stack(terms)


@each_choice
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(
    "kind", [(uc.KoLeo, "chordal"), (uc.KoLeo, "geodesic"), *((uc.MaxMin, name) for name in DISTANCES)]
)
def test_value_and_terms_are_those_of_a_loop(kind, choices, compiled, points, monkeypatch):
    make, distance = kind
    monkeypatch.setattr(native, "ENABLED", compiled and native.ENABLED)
    x = points(12, 3)
    expected = by_definition(x, distance, make is uc.KoLeo, **choices)
    objective = make(distance=distance, **choices)
    assert_close(objective(x), expected.mean(), rtol=1e-12, atol=0)
    assert_close(objective(x, reduction="none"), expected, rtol=1e-12, atol=0)
    assert_close(objective(torch.stack([x, -x.flip(0)]))[0], expected.mean(), rtol=1e-12, atol=0)
    single = by_definition(x.float(), distance, make is uc.KoLeo, **choices).mean()
    assert_close(objective(x.float()), single, rtol=1e-6, atol=1e-6)


def test_functions_take_the_same_choices(points):
    x = points(12, 3)
    assert_close(uc.koleo(x, k=2, group_size=6), uc.KoLeo(k=2, group_size=6)(x), rtol=0, atol=0)
    assert_close(uc.max_min(x, k=2, group_size=6), uc.MaxMin(k=2, group_size=6)(x), rtol=0, atol=0)


@each_choice
@pytest.mark.parametrize("make", [uc.KoLeo, uc.MaxMin])
def test_derivatives_are_those_of_finite_differences(make, choices, points):
    x, objective = points(12, 3).requires_grad_(), make(**choices)
    assert torch.autograd.gradcheck(objective, (x,))
    assert torch.autograd.gradcheck(lambda x: objective(x, reduction="none"), (x,))


@pytest.mark.parametrize(
    "choices",
    [pytest.param(one, marks=() if len(one) > 1 and one["k"] == 3 else pytest.mark.deep) for one in CHOICES],
    ids=str,
)
@pytest.mark.parametrize("make", [uc.KoLeo, uc.MaxMin])
def test_second_derivatives_are_those_of_finite_differences(make, choices, points):
    assert torch.autograd.gradgradcheck(make(**choices), (points(12, 3).requires_grad_(),))


@pytest.mark.parametrize("make", [uc.KoLeo, uc.MaxMin])
def test_one_group_of_all_rows_is_no_group(make, points):
    x = points(12, 3)
    for k in (1, 3):
        for found, expected in zip(
            value_and_gradient(make(k=k, group_size=12), x), value_and_gradient(make(k=k), x), strict=True
        ):
            assert_close(found, expected, rtol=1e-12, atol=1e-14)


def test_groups_are_the_mean_of_an_objective_each(points):
    x = points(12, 3)
    whole, gradient = value_and_gradient(uc.KoLeo(k=2, group_size=4), x)
    each = [value_and_gradient(uc.KoLeo(k=2), part) for part in x.split(4)]
    assert_close(whole, sum(value for value, _ in each) / 3)
    assert_close(gradient, torch.cat([gradient for _, gradient in each]) / 3)


def dinov3(x, k, group_size):
    """DINOv3's loss: neighbours by inner products of a group's unit rows, 1e-8 added to differences and distances.

    For k = 1 and one group it is DINOv2's.
    """
    terms = []
    for group in torch.nn.functional.normalize(x, eps=1e-8).split(group_size):
        products = (group @ group.T).fill_diagonal_(-1)
        near = group[products.topk(k).indices]
        difference = group.unsqueeze(1) - near + 1e-8
        terms.append(-(difference.norm(dim=-1) + 1e-8).log().mean())
    return torch.stack(terms).mean()


@pytest.mark.parametrize(("k", "group_size"), [(1, 12), (3, 12), (1, 4), (2, 6)])
def test_koleo_is_that_of_dinov2_and_dinov3(k, group_size, points):
    x = points(12, 5) * torch.linspace(0.5, 3, 12, dtype=torch.float64).unsqueeze(1)
    found = value_and_gradient(uc.KoLeo(k=k, group_size=group_size), x)
    for ours, theirs in zip(found, value_and_gradient(lambda x: dinov3(x, k, group_size), x), strict=True):
        assert_close(ours, theirs, rtol=1e-6, atol=1e-6)  # the epsilons


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("make", [uc.KoLeo, uc.MaxMin])
def test_queues_masks_and_weights_are_those_of_a_loop(make, compiled, points, monkeypatch):
    """Also where a mask leaves fewer others than k: as many as there are count."""
    monkeypatch.setattr(native, "ENABLED", compiled and native.ENABLED)
    rows = points(16, 3)
    x, queue, distance, logarithm = rows[:9], rows[9:], "chordal", make is uc.KoLeo
    objective = make(k=3, distance=distance)
    weight = torch.tensor([0.5, 1.0, 2.0, 1.0, 0.0, 3.0, 0.0, 1.0, 0.25], dtype=torch.float64)
    for against in (None, queue):
        for counted in (weight, weight * (torch.arange(9) < 3)):
            present, shares = counted > 0, counted / counted.sum()
            terms = by_definition(x, distance, logarithm, k=3, against=against, present=present)
            for given, expected in ((present, terms[present].mean()), (counted, (terms * shares).sum())):
                company, moving = {"against": against, "weight": given}, x.clone().requires_grad_()
                assert_close(objective(x, **company), expected, rtol=1e-12, atol=0)
                assert torch.autograd.gradcheck(lambda x, c=company: objective(x, **c), (moving,), fast_mode=True)
            assert torch.autograd.gradgradcheck(lambda x, c=company: objective(x, **c), (moving,), fast_mode=True)
        expected = by_definition(x, distance, logarithm, k=3, against=against).mean()
        assert_close(objective(x, against=against), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("choices", [{"k": 2}, {"k": 3, "group_size": 8}], ids=str)
@pytest.mark.parametrize("make", [uc.KoLeo, uc.MaxMin])
def test_duplicates_stay_finite_and_come_apart(make, choices, dtype):
    half = torch.randn(8, 4, generator=torch.Generator().manual_seed(3), dtype=dtype)
    x = torch.stack([half, half], dim=1).flatten(0, 1)  # twins are in one group
    value, gradient = value_and_gradient(make(**choices), x)
    assert value.isfinite()
    assert gradient.isfinite().all()
    first, second = tangent(uc.project(x), gradient).view(8, 2, 4).unbind(1)
    assert ((first - second).norm(dim=1) > 1e-3).all()
    table = torch.nn.Parameter(uc.project(x))
    optimizer = uc.SphereAdam([table], lr=0.1)
    for _ in range(20):
        optimizer.zero_grad()
        make(**choices)(table).backward()
        optimizer.step()
    assert uc.angle(table[::2], table[1::2]).min() > 0.1


def test_a_nan_is_one_of_the_value(points):
    x = points(12, 3)
    x[5, 1] = torch.nan
    assert uc.KoLeo(k=2)(x).isnan()
    assert uc.KoLeo(k=2, group_size=4)(x).isnan()


REFUSALS = {
    "no neighbours": ({"k": 0}, r"expected k >= 1, got 0"),
    "groups of one": ({"group_size": 1}, r"expected group_size >= 2, got 1"),
    "small groups": ({"k": 4, "group_size": 4}, r"expected group_size > k.*3 others; choose a smaller k"),
    "faiss": ({"k": 2, "neighbours": "faiss"}, r"expected neighbours='exact' with k > 1 or group_size, got 'faiss'"),
}


@pytest.mark.usefixtures("at_the_door")
@pytest.mark.parametrize("case", REFUSALS)
def test_choices_that_do_not_go_together_are_refused(case):
    choices, expected = REFUSALS[case]
    for make in (uc.KoLeo, uc.MaxMin):
        with pytest.raises(ValueError, match=expected):
            make(**choices)


@pytest.mark.usefixtures("at_the_door")
def test_shapes_that_do_not_fit_are_refused(points):
    x = points(9, 3)
    with pytest.raises(ValueError, match=r"expected more than k=9 points, got 9.*8 others; choose a smaller k"):
        uc.KoLeo(k=9)(x)
    assert uc.KoLeo(k=9)(x, against=x[:1] + 1).isfinite()
    with pytest.raises(ValueError, match=r"expected a multiple of group_size=4 rows, got 9; drop the last batch"):
        uc.KoLeo(group_size=4)(x)
    for name, value in (("against", x), ("weight", torch.ones(9))):
        with pytest.raises(ValueError, match=f"expected neither against nor weight with group_size, got {name}"):
            uc.KoLeo(group_size=3)(x, **{name: value})


@pytest.mark.parametrize("objective", [uc.KoLeo(), uc.MaxMin()], ids=repr)
def test_a_clump_comes_apart_beside_a_large_queue_of_the_same_row(objective):
    x = torch.ones(8, 4, requires_grad=True)
    objective(x, against=torch.ones(65_536, 4)).backward()
    assert len(x.grad.unique(dim=0)) == 8
