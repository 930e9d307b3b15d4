"""The optimisers: their rules as pure functions, then as torch.optim.Optimizers."""

import copy
import math
import pickle
import subprocess
import sys
from functools import partial

import geoopt
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from unclump.geometry.sphere import angle, exp, retract, tangent, transport
from unclump.ops.project import project
from unclump.ops.put_on_sphere import put_on_sphere
from unclump.ops.row_update import in_place
from unclump.ops.update_rules import adam_update, sgd_update
from unclump.optim.optimizers import SphereAdam, SphereSGD
from unclump.optim.projected import project_after_step, sphere_parametrization

RULES = {
    "sgd": SphereSGD,
    "momentum": partial(SphereSGD, momentum=0.9),
    "adam": SphereAdam,
    "lazy adam": partial(SphereAdam, lazy=True),
}
each_rule = pytest.mark.parametrize("make", RULES.values(), ids=RULES)
each_retraction = pytest.mark.parametrize("retraction", ["exp", "project"])
MOVES = {"exp": exp, "project": retract}


def repulsion(x):
    """Riesz energy: finite gradients, minimal at the simplex for n <= d + 1."""
    return (1 / torch.pdist(x)).sum()


def descend(optimizer, x, steps, loss=repulsion):
    for _ in range(steps):
        optimizer.zero_grad()
        loss(x).backward()
        optimizer.step()


def parameter(x):
    return nn.Parameter(x.clone())


def adam_state(n, d, dtype=torch.float64):
    return torch.zeros(n, d, dtype=dtype), torch.zeros(n, 1, dtype=dtype), torch.zeros(n, 1, dtype=torch.long)


ADAM = {"betas": (0.9, 0.999), "eps": 1e-8}


# The rules


@each_retraction
def test_plain_sgd_is_the_retraction_along_minus_the_tangent_gradient(points, retraction):
    x, grad = points(5, 4), 3 * points(5, 4)
    y, none = sgd_update(x, grad, None, lr=0.3, momentum=0.0, retraction=retraction)
    assert_close(y, MOVES[retraction](x, -0.3 * tangent(x, grad)))
    assert none is None


@each_retraction
def test_momentum_is_transported_along_the_step(points, retraction):
    x, grad = points(5, 4), points(5, 4)
    momentum = tangent(x, points(5, 4))
    y, carried = sgd_update(x, grad, momentum, lr=0.7, momentum=0.9, retraction=retraction)
    v = 0.9 * momentum + tangent(x, grad)
    assert_close(y, MOVES[retraction](x, -0.7 * v))
    assert_close(carried, transport(x, y, v))


@each_retraction
def test_the_first_momentum_step_is_the_plain_step(points, retraction):
    x, grad = points(5, 4), points(5, 4)
    choices = {"lr": 0.3, "momentum": 0.9, "retraction": retraction}
    first, _ = sgd_update(x, grad, torch.zeros_like(x), **choices)
    assert torch.equal(first, sgd_update(x, grad, None, **choices)[0])


def test_a_step_to_the_antipode_keeps_the_momentum_tangent_and_turns_it_round(points):
    x = points(5, 4)
    v = tangent(x, points(5, 4))
    v = math.pi * v / v.norm(dim=-1, keepdim=True)
    y, carried = sgd_update(x, v, torch.zeros_like(x), lr=1.0, momentum=0.9, retraction="exp")
    assert_close(y, -x)
    assert_close(carried, -v)


@each_retraction
def test_adam_is_its_definition(points, retraction):
    x = y = points(4, 3)
    state = adam_state(4, 3)
    m, v = torch.zeros(4, 3, dtype=torch.float64), torch.zeros(4, 1, dtype=torch.float64)
    for t in range(1, 6):
        grad = points(4, 3)
        x, *state = adam_update(x, grad, *state, lr=0.1, betas=(0.8, 0.95), eps=1e-3, retraction=retraction)
        g = tangent(y, grad)
        m = 0.8 * m + 0.2 * g
        v = 0.95 * v + 0.05 * (g * g).sum(-1, keepdim=True)
        y = MOVES[retraction](y, -0.1 * m / (1 - 0.8**t) / (torch.sqrt(v / (1 - 0.95**t)) + 1e-3))
        m = tangent(y, m)
        assert_close((x, state[0], state[1]), (y, m, v))
        assert state[2].tolist() == [[t]] * 4


def test_adam_without_memory_turns_every_row_by_the_step_size(points):
    x = points(4, 3)
    y, *_ = adam_update(x, points(4, 3), *adam_state(4, 3), lr=0.2, betas=(0.0, 0.0), eps=0.0, retraction="exp")
    assert_close(angle(x, y), torch.full((4,), 0.2, dtype=torch.float64))


def test_adams_first_step_has_full_precision_in_single(points):
    x, grad = points(4, 3), points(4, 3)
    exact, *_ = adam_update(x, grad, *adam_state(4, 3), lr=0.2, retraction="exp", **ADAM)
    single = (table.float() for table in (x, grad))
    y, *_ = adam_update(*single, *adam_state(4, 3, torch.float32), lr=0.2, retraction="exp", **ADAM)
    assert_close(y, exact.float(), atol=2e-7, rtol=0)  # 1 - 0.999 in float32 is off by 1e-5


@each_retraction
def test_a_zero_gradient_leaves_a_fresh_row_where_it_is(points, retraction):
    x, zero = points(4, 3), torch.zeros(4, 3, dtype=torch.float64)
    assert_close(sgd_update(x, zero, zero, lr=0.3, momentum=0.9, retraction=retraction), (x, zero))
    y, m, *_ = adam_update(x, zero, *adam_state(4, 3), lr=0.3, retraction=retraction, **ADAM)
    assert_close((y, m), (x, zero))


def test_the_rules_change_none_of_their_arguments(points):
    arguments = points(4, 3), points(4, 3), tangent(points(4, 3), points(4, 3))
    before = copy.deepcopy(arguments)
    sgd_update(*arguments, lr=0.3, momentum=0.9, retraction="exp")
    state = adam_state(4, 3)[1:]
    adam_update(*arguments, *state, lr=0.3, retraction="exp", **ADAM)
    assert_close((arguments, state), (before, adam_state(4, 3)[1:]), atol=0, rtol=0)


def test_blocks_of_rows_give_what_the_whole_table_gives(points, monkeypatch):
    x, grad, rows = points(50, 6), points(50, 6), torch.tensor([41, 3, 7, 20, 49])
    update = partial(adam_update, lr=0.1, retraction="exp", **ADAM)
    for chosen in (None, rows):
        results = []
        for block in (6 * 2, 10**6):
            monkeypatch.setattr("unclump.ops.row_update._BLOCK", block)
            table, state = x.clone(), adam_state(50, 6)
            in_place(update, table, grad if chosen is None else grad[chosen], *state, None, rows=chosen)
            results.append((table, *state))
        assert_close(*results, atol=0, rtol=0)
        moved = (results[0][0] != x).any(-1).nonzero()[:, 0].tolist()
        assert moved == (list(range(50)) if chosen is None else sorted(rows.tolist()))


@pytest.mark.parametrize("shapes", [[(50, 6)], [(5, 10, 6), (50, 6)]], ids=["one table", "several"])
def test_points_are_put_on_the_sphere_a_block_at_a_time(shapes, monkeypatch):
    monkeypatch.setattr("unclump.ops.row_update._BLOCK", 6 * 7)
    tables = [3 * torch.randn(shape, generator=torch.Generator().manual_seed(0)) for shape in shapes]
    tables[0].view(-1, 6)[[3, 49]] = torch.tensor([0.6, 0, 0.8, 0, 0, 0])
    expected = [project(table) for table in tables]
    put_on_sphere(tables)
    assert_close(tables, expected)
    assert tables[0].view(-1, 6)[49].tolist() == torch.tensor([0.6, 0, 0.8, 0, 0, 0]).tolist()


def test_a_rule_is_applied_as_it_is_whether_or_not_it_has_a_loop(points):
    def halfway(x, grad, turns, *, share):
        return project((1 - share) * x + share * grad), turns + 1

    x, grad, turns = points(9, 4), points(9, 4), torch.zeros(9, 1, dtype=torch.long)
    table, rows = x.clone(), torch.tensor([7, 0, 3])
    in_place(partial(halfway, share=0.25), table, grad[rows], turns, rows=rows)
    assert_close(table[rows], project(0.75 * x + 0.25 * grad)[rows])
    assert turns[:, 0].tolist() == [1, 0, 0, 1, 0, 0, 0, 1, 0]


@pytest.mark.parametrize("retraction", ["exp", "project"])
def test_any_rule_can_be_lazy(points, retraction):
    x, grad = points(9, 4), points(9, 4)
    grad[[2, 5]] = 0
    update = partial(sgd_update, lr=0.1, momentum=0.9, retraction=retraction)
    table, momentum = x.clone(), tangent(x, points(9, 4))
    expected = sgd_update(x, grad, momentum, **update.keywords)
    before = momentum.clone()
    in_place(update, table, grad, momentum, lazy=True)
    for found, moved, stayed in ((table, expected[0], x), (momentum, expected[1], before)):
        assert torch.equal(found[[2, 5]], stayed[[2, 5]])
        others = [0, 1, 3, 4, 6, 7, 8]
        assert_close(found[others], moved[others])


# Against geoopt


def on_geoopts_sphere(x):
    return geoopt.ManifoldParameter(x.clone(), manifold=geoopt.SphereExact())


@pytest.mark.parametrize("options", [{}, {"betas": (0.5, 0.9), "eps": 1e-3}], ids=["defaults", "others"])
def test_dense_adam_is_geoopts_on_the_exact_sphere_for_100_steps(points, options):
    start = points(20, 5)
    ours, theirs = parameter(start), on_geoopts_sphere(start)
    optimizer = SphereAdam([ours], lr=0.05, **options)
    other = geoopt.optim.RiemannianAdam([theirs], lr=0.05, **options)
    for _ in range(100):  # given gradients: a loss may amplify rounding, and geoopt would not agree with itself
        grad = points(20, 5) + points(20, 1)
        ours.grad, theirs.grad = grad, grad.clone()
        optimizer.step()
        other.step()
        assert_close(ours.data, theirs.data, atol=1e-13, rtol=0)
    assert (angle(ours.detach(), start) > 0.1).all()  # both have gone somewhere


def test_dense_adam_is_geoopts_on_repelling_points_for_100_steps(points):
    start, target = points(20, 5), points(20, 5)
    ours, theirs = parameter(start), on_geoopts_sphere(start)
    loss = lambda x: repulsion(x) + ((x - target) ** 2).sum()  # noqa: E731
    descend(SphereAdam([ours], lr=0.05), ours, 100, loss)
    descend(geoopt.optim.RiemannianAdam([theirs], lr=0.05), theirs, 100, loss)
    assert_close(ours.data, theirs.data, atol=1e-12, rtol=0)


def test_geoopts_first_momentum_step_is_not_the_plain_step_and_ours_is(points):
    start, target = points(4, 3), points(4, 3)
    loss = lambda x: (x * target).sum()  # noqa: E731
    ours, plain = parameter(start), parameter(start)
    theirs = on_geoopts_sphere(start)
    descend(SphereSGD([ours], lr=0.1, momentum=0.9), ours, 1, loss)
    descend(SphereSGD([plain], lr=0.1), plain, 1, loss)
    descend(geoopt.optim.RiemannianSGD([theirs], lr=0.1, momentum=0.9), theirs, 1, loss)
    assert torch.equal(ours, plain)
    assert (theirs - plain).abs().max() > 0.01


def test_geoopts_weight_decay_rewrites_the_gradient_where_ours_is_refused(points):
    x = on_geoopts_sphere(points(4, 3))
    repulsion(x).backward()
    before = x.grad.clone()
    geoopt.optim.RiemannianAdam([x], lr=0.1, weight_decay=0.1).step()
    assert not torch.equal(x.grad, before)
    for make in (SphereSGD, SphereAdam):
        with pytest.raises(
            ValueError, match=r"weight_decay=0 on the sphere, got 0\.1: .* tangent space .* sphere=False"
        ):
            make([parameter(points(4, 3))], lr=0.1, weight_decay=0.1)


def test_rounding_drives_geoopt_off_the_sphere_and_not_us(points):
    start = points(50, 8).float()
    ours, theirs = parameter(start), on_geoopts_sphere(start)
    optimizer, other = SphereAdam([ours], lr=0.01), geoopt.optim.RiemannianAdam([theirs], lr=0.01)
    for _ in range(1000):
        ours.grad = theirs.grad = points(50, 8).float()
        optimizer.step()
        other.step()
    off = [(x.detach().double().norm(dim=-1) - 1).abs().max() for x in (ours, theirs)]
    assert off[0] <= 2 * torch.finfo(torch.float32).eps
    assert off[1] > 1e-6


# As optimisers


@pytest.mark.parametrize("rule", ["sgd", "momentum", "adam"])
@each_retraction
def test_points_stay_on_the_sphere_and_momentum_tangent_for_1000_steps(rule, retraction, points):
    x = parameter(points(6, 4).float())
    optimizer = RULES[rule]([x], lr=0.01, retraction=retraction)
    for _ in range(1000):
        x.grad = points(6, 4).float()
        optimizer.step()
    eps = torch.finfo(torch.float32).eps
    assert_close(x.detach().norm(dim=-1), torch.ones(6), atol=2 * eps, rtol=0)
    if rule != "sgd":
        momentum = optimizer.state[x]["exp_avg" if rule == "adam" else "momentum_buffer"]
        assert ((x * momentum).sum(-1).abs() <= 10 * eps * momentum.norm(dim=-1)).all()


@pytest.mark.parametrize(
    "make",
    [partial(SphereSGD, lr=0.1), partial(SphereSGD, lr=0.03, momentum=0.8), partial(SphereAdam, lr=0.05)],
    ids=["sgd", "momentum", "adam"],
)
@each_retraction
def test_four_points_that_repel_each_other_become_a_tetrahedron(make, retraction, points):
    x = parameter(points(4, 3))
    descend(make([x], retraction=retraction), x, 400)
    cosines = (x @ x.mT).detach()[~torch.eye(4, dtype=torch.bool)]
    assert_close(cosines, torch.full((12,), -1 / 3, dtype=torch.float64), atol=1e-6, rtol=0)


@each_rule
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_step_leaves_the_gradient_as_it_was_to_the_bit(make, sparse, points):
    table = nn.Embedding(10, 4, sparse=sparse, _weight=points(10, 4))
    other = parameter(points(3, 2))
    optimizer = make([{"params": table.weight}, {"params": other, "sphere": False, "weight_decay": 0.1}], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (table(torch.tensor([1, 5, 1, 7])).sum() + other.square().sum()).backward()
        grads = [table.weight.grad, other.grad]
        before = [grad.clone() for grad in grads]
        coalesced = sparse and table.weight.grad.is_coalesced()
        optimizer.step()
        assert table.weight.grad is grads[0]
        if sparse:
            assert table.weight.grad.is_coalesced() == coalesced
            assert torch.equal(grads[0]._indices(), before[0]._indices())
            assert torch.equal(grads[0]._values(), before[0]._values())
        else:
            assert torch.equal(grads[0], before[0])
        assert torch.equal(grads[1], before[1])


def test_euclidean_groups_are_torchs_sgd_to_the_bit(points):
    check_euclidean(
        points, partial(SphereSGD, momentum=0.9), partial(torch.optim.SGD, momentum=0.9), {"weight_decay": 0.1}
    )
    check_euclidean(points, SphereSGD, torch.optim.SGD, {"maximize": True})


def test_euclidean_groups_are_torchs_adam_to_the_bit(points):
    check_euclidean(points, SphereAdam, torch.optim.Adam, {"weight_decay": 0.1})
    check_euclidean(points, SphereAdam, torch.optim.Adam, {"betas": (0.5, 0.9), "eps": 1e-3, "maximize": True})


def check_euclidean(points, ours, torchs, options):
    on_sphere = parameter(points(5, 3))
    weights = [parameter(points(5, 3).float()), parameter(points(1, 3).float()[0]), parameter(torch.tensor(2.0))]
    same = copy.deepcopy(weights)
    mixed = ours([{"params": on_sphere}, {"params": weights, "sphere": False, **options}], lr=0.01)
    plain = torchs(same, lr=0.01, **options)
    loss = lambda a, b, c: (a @ b - c).square().sum() + a.pow(4).sum()  # noqa: E731
    for _ in range(20):
        descend(mixed, on_sphere, 1, lambda x: repulsion(x) + loss(*weights))
        descend(plain, None, 1, lambda _: loss(*same))
        assert all(torch.equal(a, b) for a, b in zip(weights, same, strict=True))


def test_sparse_gradients_in_a_euclidean_group_are_what_they_are_in_torch(points):
    table, same = (nn.Embedding(9, 3, sparse=True, _weight=points(9, 3)) for _ in range(2))
    same.load_state_dict(table.state_dict())
    ours = SphereSGD([{"params": table.parameters(), "sphere": False}], lr=0.1)
    theirs = torch.optim.SGD(same.parameters(), lr=0.1)
    for optimizer, x in ((ours, table), (theirs, same)):
        x(torch.tensor([3, 3, 4])).pow(2).sum().backward()
        optimizer.step()
    assert torch.equal(table.weight, same.weight)
    adam = SphereAdam([{"params": table.parameters(), "sphere": False}], lr=0.1)
    with pytest.raises(ValueError, match=r"expected dense gradients .*SparseAdam"):
        adam.step()


# Rows


@pytest.mark.parametrize("make", [partial(SphereSGD, momentum=0.9), SphereAdam], ids=["sgd", "adam"])
def test_sparse_gradients_touch_their_rows_only_and_count_each_rows_steps(make, points):
    table = nn.Embedding(30, 4, sparse=True, _weight=points(30, 4))
    optimizer = make(table.parameters(), lr=0.1)
    for batch in ([3, 8, 8], [8, 21]):
        before = table.weight.detach().clone()
        optimizer.zero_grad()
        table(torch.tensor(batch)).sum().backward()
        optimizer.step()
        touched = (table.weight != before).any(-1).nonzero()[:, 0]
        assert touched.tolist() == sorted(set(batch))
    state = optimizer.state[table.weight]
    if "steps" in state:
        assert {row: count for row, count in enumerate(state["steps"][:, 0].tolist()) if count} == {3: 1, 8: 2, 21: 1}
    moment = state.get("exp_avg", state.get("momentum_buffer"))
    assert moment.any(-1).nonzero()[:, 0].tolist() == [3, 8, 21]


def test_lazy_touches_only_the_rows_with_a_gradient_and_dense_adam_moves_the_others_on(points):
    start = points(30, 4)
    for lazy in (True, False):
        x = parameter(start)
        optimizer = SphereAdam([x], lr=0.1, lazy=lazy)
        descend(optimizer, x, 1, lambda x: x[3].sum() - x[8].sum())
        before = x.detach().clone()
        descend(optimizer, x, 1, lambda x: x[8, 0] - x[21, 1])
        touched = (x != before).any(-1).nonzero()[:, 0].tolist()
        assert touched == ([8, 21] if lazy else [3, 8, 21])
        assert torch.equal(x[[0, 29]], start[[0, 29]])


def test_sparse_lazy_and_dense_agree_where_every_row_has_a_gradient(points):
    start, weight, batch = points(7, 4), points(9, 4), torch.tensor([0, 1, 2, 3, 3, 3, 4, 5, 6])
    results = []
    for lazy, sparse in ((False, False), (True, False), (False, True)):
        table = nn.Embedding(7, 4, sparse=sparse, _weight=start.clone())
        optimizer = SphereAdam(table.parameters(), lr=0.1, lazy=lazy)
        for _ in range(20):
            optimizer.zero_grad()
            (table(batch) * weight).sum().backward()
            optimizer.step()
        results.append(table.weight.detach())
    assert_close(results[1], results[0], atol=1e-15, rtol=0)
    assert_close(results[2], results[0], atol=1e-15, rtol=0)


def test_a_late_row_starts_as_an_early_one_did(points):
    x = parameter(points(1, 4).expand(2, 4))  # the same point twice
    optimizer = SphereAdam([x], lr=0.1, lazy=True)
    descend(optimizer, x, 1, lambda x: x[0].sum())
    for _ in range(4):
        descend(optimizer, x, 1, lambda x: x[1].sum())
        if optimizer.state[x]["steps"][1] == 1:
            assert torch.equal(x[0], x[1])
    assert optimizer.state[x]["steps"][:, 0].tolist() == [1, 4]


def test_lazy_does_not_hide_nan(points):
    x = parameter(points(3, 4))
    x.grad = torch.zeros_like(x)
    x.grad[1] = torch.nan
    SphereAdam([x], lr=0.1, lazy=True).step()
    assert x.isnan().all(-1).tolist() == [False, True, False]


def test_a_batch_of_no_rows_moves_nothing(points):
    table = nn.Embedding(5, 3, sparse=True, _weight=points(5, 3))
    before = table.weight.detach().clone()
    for optimizer in (SphereAdam(table.parameters(), lr=0.1), SphereSGD(table.parameters(), lr=0.1, momentum=0.9)):
        table(torch.tensor([], dtype=torch.long)).sum().backward()
        optimizer.step()
    assert torch.equal(table.weight, before)


@each_rule
def test_any_leading_dimensions_are_rows(make, points):
    start, weight = points(12, 4), points(12, 4)
    flat = parameter(start)
    descend(make([flat], lr=0.1), flat, 5, lambda x: (x * weight).sum())
    for x in (parameter(start.view(2, 3, 2, 4)), nn.Parameter(start.mT.contiguous().mT)):
        descend(make([x], lr=0.1), x, 5, lambda x: (x * weight.view(x.shape)).sum())
        assert_close(x.data.reshape(12, 4), flat.data, atol=1e-15, rtol=0)


# First sight


@each_rule
def test_rows_off_the_sphere_are_put_there_and_the_others_keep_every_bit(make, points):
    on = points(4, 3)
    x = parameter(torch.cat([on, 5 * on, 1e-200 * on]))
    x.grad = torch.zeros_like(x)
    make([x], lr=0.1).step()
    assert_close(x.data, on.repeat(3, 1), atol=1e-15, rtol=0)
    sparse = nn.Embedding(8, 3, sparse=True, _weight=torch.cat([on, 5 * on]))
    optimizer = make(sparse.parameters(), lr=0.1)
    sparse(torch.tensor([1])).sum().backward()
    optimizer.step()
    assert torch.equal(sparse.weight[[0, 2, 3]], on[[0, 2, 3]])
    assert_close(sparse.weight.data[4:], on, atol=1e-15, rtol=0)


@each_rule
@pytest.mark.parametrize(("value", "what"), [(math.nan, "NaN"), (math.inf, "infinite")])
def test_rows_that_are_not_finite_are_refused_by_number_before_anything_moves(make, value, what, points):
    good, bad = parameter(points(4, 3)), parameter(points(6, 3))
    bad.data[[2, 5]] = value
    good.grad, bad.grad = torch.ones_like(good), torch.ones_like(bad)
    before = good.detach().clone()
    with pytest.raises(ValueError, match=rf"{what}.* in 2 rows \(2, 5\)"):
        make([good, bad], lr=0.1).step()
    assert torch.equal(good, before)


def test_data_are_read_at_first_sight_and_not_again(points, monkeypatch):
    seen = []
    monkeypatch.setattr("unclump.optim.base.find_zeros", lambda tables, names: seen.append(tables) or [])
    x = parameter(points(4, 3))
    optimizer = SphereAdam([x], lr=0.1)
    descend(optimizer, x, 5)
    again = SphereAdam([x], lr=0.1)
    again.load_state_dict(optimizer.state_dict())
    descend(again, x, 5)
    assert len(seen) == 1


# What torch's optimisers can do


@each_rule
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_state_dict_round_trip_continues_to_the_bit(make, dtype, points, tmp_path):
    def resumed(optimizer, values):
        values = [parameter(value) for value in values]
        other = build(values)
        torch.save(optimizer.state_dict(), tmp_path / "state")
        other.load_state_dict(torch.load(tmp_path / "state"))
        return other, values

    def build(values):
        return make([{"params": values[:1]}, {"params": values[1:], "sphere": False}], lr=0.1)

    def run(optimizer, values):
        descend(
            optimizer, values, 7, lambda values: (1 / torch.pdist(values[0].float())).sum() + values[1].pow(2).sum()
        )

    through = [parameter(points(6, 3).to(dtype)), parameter(points(2, 3).to(dtype))]
    optimizer = build(through)
    run(optimizer, through)
    other, values = resumed(optimizer, [x.detach() for x in through])
    run(optimizer, through)
    run(other, values)
    assert all(torch.equal(a, b) for a, b in zip(through, values, strict=True))


def test_a_loaded_state_is_not_shared_with_the_optimiser_it_came_from(points):
    x = parameter(points(6, 3))
    optimizer = SphereAdam([x], lr=0.1)
    descend(optimizer, x, 3)
    y = parameter(x.detach())
    other = SphereAdam([y], lr=0.1)
    other.load_state_dict(optimizer.state_dict())
    descend(optimizer, x, 3)
    descend(other, y, 3)
    assert torch.equal(x, y)


@each_rule
@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))], ids=["copy", "pickle"]
)
def test_copies_and_pickles_continue_to_the_bit(make, copied, points):
    x = parameter(points(6, 3))
    optimizer = make([x], lr=0.1)
    descend(optimizer, x, 3)
    other, y = copied((optimizer, x))
    descend(optimizer, x, 3)
    assert not torch.equal(x, y)
    descend(other, y, 3)
    assert torch.equal(x, y)
    assert "retraction: exp" in repr(other)


@each_rule
def test_a_closure_is_evaluated_with_gradients_and_its_loss_returned(make, points):
    x, y = parameter(points(6, 3)), parameter(points(6, 3))
    y.data.copy_(x)
    optimizer, other = make([x], lr=0.1), make([y], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = repulsion(x)
        loss.backward()
        return loss

    expected = repulsion(x).detach()
    assert_close(optimizer.step(closure).detach(), expected)
    descend(other, y, 1)
    assert torch.equal(x, y)
    assert other.step() is None


@each_rule
def test_maximize_is_minimising_the_opposite(make, points):
    x = parameter(points(6, 3))
    y = parameter(x)
    weight = points(6, 3)
    descend(make([x], lr=0.1, maximize=True), x, 10, lambda x: (x * weight).sum())
    descend(make([y], lr=0.1), y, 10, lambda y: -(y * weight).sum())
    assert torch.equal(x, y)


@each_rule
def test_schedulers_set_the_step(make, points):
    x = parameter(points(6, 3))
    optimizer = make([x], lr=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 if step < 2 else 0.0)
    moved = []
    for _ in range(4):
        before = x.detach().clone()
        descend(optimizer, x, 1)
        scheduler.step()
        moved.append(bool((angle(x.detach(), before) > 1e-6).any()))
    assert moved == [True, True, False, False]


def test_momentum_that_a_schedule_switches_on_starts_from_nothing(points):
    x = parameter(points(6, 3))
    optimizer = SphereSGD([x], lr=0.1)
    descend(optimizer, x, 2)
    optimizer.param_groups[0]["momentum"] = 0.9
    y = parameter(x.detach())
    descend(optimizer, x, 3)
    descend(SphereSGD([y], lr=0.1, momentum=0.9), y, 3)
    assert torch.equal(x, y)


@each_rule
def test_grad_scaler_unscales_and_skips_overflow(make, points):
    start = points(6, 3).float()
    x, y = parameter(start), parameter(start)
    scaled, plain = make([x], lr=0.1), make([y], lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for _ in range(3):
        scaled.zero_grad()
        scaler.scale(repulsion(x)).backward()
        scaler.step(scaled)
        scaler.update()
        descend(plain, y, 1)
    assert_close(x.data, y.data)
    before = x.detach().clone()
    x.grad = torch.full_like(x, torch.inf)
    scaler.scale(torch.zeros(()))
    scaler.step(scaled)
    assert torch.equal(x, before)


@each_rule
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_follows_single_up_to_rounding(make, dtype, points):
    start, pull = points(6, 4).to(dtype), points(6, 4).to(dtype)
    half, single = parameter(start), parameter(project(start))
    optimizer, other = make([half], lr=0.1), make([single], lr=0.1)
    for _ in range(20):
        half.grad, single.grad = pull, pull.float()
        optimizer.step()
        other.step()
    assert half.dtype == dtype
    eps = torch.finfo(dtype).eps
    assert_close(half.float().norm(dim=-1), torch.ones(6), atol=eps, rtol=0)
    assert_close(half.detach().float(), single.detach(), atol=20 * eps, rtol=0)
    tables = [table for table in optimizer.state[half].values() if table is not None and table.is_floating_point()]
    assert all(table.dtype == torch.float32 for table in tables)


DISTRIBUTED = """
import copy, sys, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from unclump.optim.optimizers import SphereAdam

rank, store = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
torch.manual_seed(0)
alone = torch.nn.Sequential(torch.nn.Embedding(6, 4), torch.nn.Linear(4, 1)).double()
shared = DistributedDataParallel(copy.deepcopy(alone))
batch = torch.tensor([[0, 1, 2], [3, 4, 4]])
for model, inner, rows in ((alone, alone, batch), (shared, shared.module, batch[rank])):
    optimizer = SphereAdam([{"params": inner[0].weight}, {"params": inner[1].parameters(), "sphere": False}], lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        model(rows).pow(2).mean().backward()
        optimizer.step()
for a, b in zip(alone.parameters(), shared.parameters()):
    torch.testing.assert_close(a, b, atol=1e-12, rtol=0)
dist.destroy_process_group()
"""


def test_two_ddp_processes_take_the_steps_of_one(tmp_path):
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", DISTRIBUTED, str(rank), str(tmp_path / "store")], stderr=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    errors = [process.communicate(timeout=60)[1] for process in ranks]
    assert [process.returncode for process in ranks] == [0, 0], errors


# Refusals


@pytest.mark.usefixtures("at_the_door")
@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (SphereSGD, {"lr": -0.1}, r"expected lr >= 0 and finite, got -0\.1"),
        (SphereSGD, {"lr": torch.tensor(-0.1)}, r"expected lr >= 0 and finite, got tensor\(-0\.1"),
        (SphereSGD, {"lr": torch.ones(2)}, r"expected lr to be a number, got Tensor"),
        (SphereSGD, {"momentum": -0.5}, r"expected momentum >= 0"),
        (SphereAdam, {"betas": (0.9, 1.0)}, r"expected betas in \[0, 1\), got \(0\.9, 1\.0\)"),
        (SphereAdam, {"eps": math.nan}, r"expected eps to be a number, got NaN"),
        (SphereAdam, {"retraction": "cayley"}, r"retraction to be one of 'exp', 'project', got 'cayley'"),
        (SphereAdam, {"weight_decay": 0.1}, r"weight_decay=0 on the sphere"),
        (SphereSGD, {"dampening": -1.0}, r"expected dampening >= 0"),
        (SphereSGD, {"nesterov": True}, r"momentum > 0 and dampening=0 with nesterov=True, got momentum=0\.0"),
        (SphereSGD, {"nesterov": True, "momentum": 0.9, "dampening": 0.1}, r"nesterov=True, got .* dampening=0\.1"),
    ],
)
def test_wrong_options_are_refused_in_the_constructor_and_in_a_group(make, options, message, points):
    if options.keys() <= make([parameter(points(4, 3))], lr=0.1).defaults.keys():
        with pytest.raises((TypeError, ValueError), match=message):
            make([parameter(points(4, 3))], **{"lr": 0.1, **options})
    optimizer = make([parameter(points(4, 3))], lr=0.1)
    with pytest.raises((TypeError, ValueError), match=message):
        optimizer.add_param_group({"params": [parameter(points(4, 3))], **options})
    assert len(optimizer.param_groups) == 1


@pytest.mark.usefixtures("at_the_door")
@pytest.mark.parametrize(
    ("values", "message"),
    [
        (torch.tensor(1.0), r"shape \(\.\.\., n, d\) with d >= 2, got .* of shape \(\); .* sphere=False"),
        (
            torch.ones(5),
            r"shape \(\.\.\., n, d\) with d >= 2, got .* of shape \(5,\); put biases, norms .* sphere=False",
        ),
        (torch.ones(5, 1), r"shape \(\.\.\., n, d\) with d >= 2, got .* of shape \(5, 1\)"),
        (torch.ones(2, dtype=torch.complex64), r"floating-point points, got .* torch\.complex64"),
        (torch.ones(2, 3, 4).transpose(0, 1), r"contiguous points, got .* strides"),
    ],
    ids=["scalar", "bias", "one dimension", "complex", "strided"],
)
def test_what_cannot_be_a_point_is_refused_and_leaves_no_group_behind(values, message, points):
    optimizer = SphereAdam([parameter(points(4, 3))], lr=0.1)
    with pytest.raises((TypeError, ValueError), match=message):
        optimizer.add_param_group({"params": [nn.Parameter(values)]})
    assert len(optimizer.param_groups) == 1
    with pytest.raises((TypeError, ValueError), match=message):
        project_after_step(optimizer, [nn.Parameter(values)])


def test_sparse_gradients_that_are_not_of_whole_rows_are_refused(points):
    x = parameter(points(4, 3))
    x.grad = torch.eye(4, 3, dtype=torch.float64).to_sparse()
    with pytest.raises(ValueError, match=r"sparse gradient of whole rows.* got 2 sparse dimensions .* \(4, 3\)"):
        SphereAdam([x], lr=0.1).step()


# Other people's optimisers


def test_projecting_after_each_step_is_the_euclidean_baseline(points):
    start, pull = points(5, 3), points(5, 3)
    x, free = parameter(4 * start), parameter(start)
    optimizer = torch.optim.SGD([x], lr=0.3)
    handle = project_after_step(optimizer, [x])
    assert_close(x.data, start)
    for _ in range(3):
        x.grad = pull
        optimizer.step()
        free.data = project(free.data - 0.3 * pull)
        assert_close(x.data, free.data)
    handle.remove()
    optimizer.step()
    assert (x.norm(dim=-1) - 1).abs().min() > 1e-3


def test_projected_adam_comes_near_the_tetrahedron(points):
    x = parameter(points(4, 3))
    optimizer = torch.optim.Adam([x], lr=0.05)
    project_after_step(optimizer, [x])
    descend(optimizer, x, 800)
    assert_close(x.detach().norm(dim=-1), torch.ones(4, dtype=torch.float64))
    assert 1 <= repulsion(x) / (6 / math.sqrt(8 / 3)) < 1.001  # six edges of length sqrt(8/3)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_a_parametrised_weight_is_unit_and_can_be_assigned_and_trained(dtype, points):
    layer = nn.Linear(3, 4, bias=False, dtype=dtype)
    direction = project(layer.weight.detach()).to(dtype)
    assert sphere_parametrization(layer) is layer
    assert_close(layer.weight, direction)
    direction = points(4, 3)
    layer.weight = (5 * direction).to(dtype)
    assert_close(layer.weight, direction.to(dtype))
    assert_close(layer.parametrizations.weight.original, direction.to(dtype))
    before = repulsion(layer.weight.detach().double())
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(20):
        optimizer.zero_grad()
        repulsion(layer.weight.double()).backward()
        optimizer.step()
    assert repulsion(layer.weight.detach().double()) < before
    assert_close(layer.weight.norm(dim=-1), torch.ones(4, dtype=dtype))


@each_rule
def test_a_step_on_named_rows_is_that_of_a_sparse_gradient(make):
    start, rows = project(torch.randn(30, 5)), torch.tensor([3, 7, 21])
    sparse, named = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    optimizers = make([sparse], lr=0.1), make([named], lr=0.1)
    for _ in range(3):
        gradient = torch.randn(3, 5)
        sparse.grad = torch.sparse_coo_tensor(rows[None], gradient, start.shape, check_invariants=True)
        optimizers[0].step()
        optimizers[1].step_rows(named, gradient, rows)
        assert torch.equal(sparse, named)
    assert not torch.equal(named, start)
