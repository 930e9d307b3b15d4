"""A row of zeros, as `padding_idx` makes one, has no direction: it takes no part, by loops and by the reference."""

import pytest
import torch
from torch.testing import assert_close

import unclump as uc
from tests.cases import FEW, OBJECTIVES, value_and_gradient
from tests.raw_cases import RAW_OBJECTIVES
from unclump.ops import native

each_objective = pytest.mark.parametrize("name", OBJECTIVES)
few_objectives = pytest.mark.parametrize("name", FEW)


@pytest.fixture(params=["loops", "reference"], autouse=True)
def road(request, monkeypatch):
    if request.param == "reference":
        monkeypatch.setattr(native, "ENABLED", False)
    elif not native.ENABLED:
        pytest.skip("no compiled loops here")


def padded(x, *places):
    """The table with rows of zeros that then have these numbers, and the mask of the other rows."""
    table, there = list(x), [True] * len(x)
    for place in places:
        table.insert(place, torch.zeros_like(x[0]))
        there.insert(place, False)
    return torch.stack(table), torch.tensor(there)


def is_that_without(found, expected, there):
    value, gradient = found
    assert_close(value, expected[0])
    assert_close(gradient[there], expected[1])
    assert not gradient[~there].any()


@each_objective
def test_a_table_is_worth_what_it_is_without_them(name, points):
    x = points(11, 4)
    table, there = padded(x, 0, 5, 12)
    found = value_and_gradient(OBJECTIVES[name](), table)
    is_that_without(found, value_and_gradient(OBJECTIVES[name](), x), there)


@few_objectives
def test_sets_may_have_different_numbers_of_them(name, points):
    whole, one, three = points(9, 4), padded(points(8, 4), 2)[0], padded(points(6, 4), 0, 1, 7)[0]
    sets = torch.stack([whole, one, three])
    value, gradient = value_and_gradient(lambda x: OBJECTIVES[name]()(x).sum(), sets)
    each = [value_and_gradient(OBJECTIVES[name](), x[x.any(dim=-1)]) for x in (whole, one, three)]
    assert_close(value, sum(part for part, _ in each))
    for here, of_set, (_, expected) in zip(sets, gradient, each, strict=True):
        assert_close(of_set[here.any(dim=-1)], expected)
        assert not of_set[~here.any(dim=-1)].any()


@few_objectives
def test_they_do_not_count_in_a_queue(name, points):
    x, queue = points(8, 4), points(5, 4)
    expected = value_and_gradient(lambda x: OBJECTIVES[name]()(x, against=queue), x)
    padded_queue = padded(queue, 0, 3, 7)[0]
    assert_close(value_and_gradient(lambda x: OBJECTIVES[name]()(x, against=padded_queue), x), expected)
    table, there = padded(x, 4)
    is_that_without(value_and_gradient(lambda x: OBJECTIVES[name]()(x, against=padded_queue), table), expected, there)
    empty = torch.zeros_like(queue)  # a queue that nothing has been put into
    alone = value_and_gradient(OBJECTIVES[name](), x)
    assert_close(value_and_gradient(lambda x: OBJECTIVES[name]()(x, against=empty), x), alone)


@few_objectives
def test_a_mask_and_weights_go_with_them(name, points):
    x = points(9, 4)
    mask = torch.tensor([1, 1, 0, 1, 1, 1, 0, 1, 1], dtype=torch.bool)
    table, there = padded(x, 3)
    longer = torch.ones(10, dtype=torch.bool).masked_scatter(there, mask)
    expected = value_and_gradient(lambda x: OBJECTIVES[name]()(x, weight=mask), x)
    is_that_without(value_and_gradient(lambda x: OBJECTIVES[name]()(x, weight=longer), table), expected, there)
    if OBJECTIVES[name]().supports_weights:
        weight = torch.rand(9, dtype=torch.float64) + 0.1
        longer = torch.full((10,), 7.0, dtype=torch.float64).masked_scatter(there, weight)
        expected = value_and_gradient(lambda x: OBJECTIVES[name]()(x, weight=weight), x)
        is_that_without(value_and_gradient(lambda x: OBJECTIVES[name]()(x, weight=longer), table), expected, there)


@pytest.mark.parametrize("name", [name for name in FEW if name.startswith(("MaxMin", "KoLeo", "Energy", "MMD", "Sli"))])
def test_their_terms_are_zero_and_count_in_no_sum(name, points):
    x = points(7, 4)
    table, there = padded(x, 2, 3)
    terms = OBJECTIVES[name]()(table, reduction="none")
    assert_close(terms[there], OBJECTIVES[name]()(x, reduction="none"))
    assert not terms[~there].any()
    expected = value_and_gradient(lambda x: OBJECTIVES[name]()(x, reduction="sum"), x)
    is_that_without(value_and_gradient(lambda x: OBJECTIVES[name]()(x, reduction="sum"), table), expected, there)


@each_objective
def test_of_two_rows_one_of_them_zeros_is_too_few_points(name, points):
    for table in (padded(points(1, 4), 0)[0], padded(points(1, 4), 1, 1, 1)[0], torch.zeros(3, 4)):
        value, gradient = value_and_gradient(OBJECTIVES[name](), table)
        assert value == 0
        assert not gradient.any()


@pytest.mark.parametrize("make", [uc.KoLeo, uc.MaxMin])
def test_points_more_than_sixty_degrees_apart_are_still_pushed(make, points):
    """A zero is at distance one of every unit vector, as are two of them at sixty degrees."""
    x = torch.eye(4, dtype=torch.float64)[:3] + 0.1 * points(3, 4)
    _, gradient = value_and_gradient(make(), padded(x, 0)[0])
    assert gradient[1:].norm(dim=-1).min() > 0.05


@pytest.mark.parametrize("choices", [{"k": 2}, {"k": 2, "group_size": 4}, {"group_size": 3}])
@pytest.mark.parametrize("make", [uc.KoLeo, uc.MaxMin])
def test_none_is_among_the_nearest_of_several_or_of_a_group(make, choices, points):
    x = points(12, 4)
    x[[2, 7]] = 0
    value, gradient = value_and_gradient(make(**choices), x)
    size = choices.get("group_size", 12)
    groups = [group[group.any(dim=-1)] for group in x.split(size)]
    k = choices.get("k", 1)
    parts = [value_and_gradient(make(k=min(k, len(group) - 1)), group) for group in groups]
    assert_close(value, sum(len(group) * part for group, (part, _) in zip(groups, parts, strict=True)) / 10)
    expected = torch.cat([len(group) * part for group, (_, part) in zip(groups, parts, strict=True)]) / 10
    assert_close(gradient[x.any(dim=-1)], expected)


@pytest.mark.parametrize("make", [uc.KoLeo, uc.MaxMin])
def test_a_point_that_is_alone_in_its_group_has_a_term_of_zero(make, points):
    x = points(6, 4)
    x[[0, 1]] = 0
    terms = make(group_size=3)(x, reduction="none")
    assert not terms[:3].any()
    assert_close(terms[3:], make()(x[3:], reduction="none"))
    assert value_and_gradient(make(group_size=3), x)[1].isfinite().all()


@pytest.mark.parametrize("choices", [{"k": 2}, {"group_size": 2}, {"group_size": 3, "k": 2}])
@pytest.mark.parametrize("make", [uc.KoLeo, uc.MaxMin])
@pytest.mark.parametrize("distance", ["chordal", "geodesic"])
def test_neighbours_that_do_not_exist_leave_value_and_gradient_finite(make, choices, distance):
    x = torch.eye(6)
    x[[1, 2, 4, 5]] = 0
    x.requires_grad_()
    value = make(distance=distance, **choices)(x)
    value.backward()
    assert value.isfinite()
    assert x.grad.isfinite().all()


def test_an_approximate_search_leaves_them_out(points):
    pytest.importorskip("faiss")
    x = points(400, 4)
    table, there = padded(x, 0, 200)
    found = value_and_gradient(uc.KoLeo(neighbours="faiss"), table)
    is_that_without(found, value_and_gradient(uc.KoLeo(neighbours="faiss"), x), there)


def test_what_balances_does_not_amplify_them(points):
    x = torch.nn.functional.one_hot(torch.arange(4), 6).double() + 0.1 * points(4, 6)
    table, there = padded(x, 0)

    def gradient(rows):
        rows = rows.clone().requires_grad_()
        (uc.Balanced(uc.KoLeo(), share=0.5)(rows) * torch.ones_like(rows)[:, :1]).square().sum().backward()
        return rows.grad

    assert_close(gradient(table)[there], gradient(x))


@pytest.mark.parametrize("name", RAW_OBJECTIVES)
def test_objectives_of_raw_rows_have_a_place_for_them(name, points):
    x = points(9, 4)
    with_zero, _ = value_and_gradient(RAW_OBJECTIVES[name](), padded(x, 4)[0])
    without, _ = value_and_gradient(RAW_OBJECTIVES[name](), x)
    assert (with_zero - without).abs() > 1e-4


@few_objectives
def test_a_row_of_nan_is_not_one_of_them(name, points):
    table, _ = padded(points(6, 4), 2)
    table[4] = torch.nan
    assert OBJECTIVES[name]()(table).isnan()


@pytest.mark.parametrize("make", [uc.KoLeo, uc.SphericalVariance])
def test_second_derivatives_leave_them_out_too(make, points):
    x = points(5, 4)
    table, there = padded(x, 2)

    def squared_gradient(rows):
        rows = rows.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(make()(rows), rows, create_graph=True)
        return torch.autograd.grad(gradient.square().sum(), rows)[0]

    assert_close(squared_gradient(table)[there], squared_gradient(x))
