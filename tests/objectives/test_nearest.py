import math

import pytest
import torch
from torch.testing import assert_close

import unclump as uc
from unclump import angle, chord, koleo, max_min
from unclump.geometry.sphere import tangent
from unclump.ops import native

DISTANCES = {"geodesic": angle, "chordal": chord, "squared": lambda x, y: chord(x, y) ** 2}


def nearest_distances(x, distance):
    """By definition: for every point, the smallest distance to another."""
    return torch.stack([min(DISTANCES[distance](x[i], x[j]) for j in range(len(x)) if j != i) for i in range(len(x))])


@pytest.mark.parametrize("distance", DISTANCES)
def test_max_min_is_minus_the_mean_nearest_distance(distance, points):
    x = points(9, 3)
    assert_close(max_min(x, distance=distance), -nearest_distances(x, distance).mean(), rtol=1e-12, atol=0)
    single = x.float()
    assert_close(max_min(single, distance=distance), -nearest_distances(single, distance).mean(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("distance", ["chordal", "geodesic"])
def test_koleo_is_minus_the_mean_log_nearest_distance(distance, points):
    x = points(9, 3)
    assert_close(koleo(x, distance=distance), -nearest_distances(x, distance).log().mean(), rtol=1e-12, atol=0)


def test_closed_forms_of_regular_configurations(icosahedron, simplex):
    edge = math.atan(2)  # of the icosahedron, seen from its centre
    assert_close(max_min(icosahedron).item(), -edge)
    assert_close(koleo(icosahedron, distance="geodesic").item(), -math.log(edge))
    assert_close(max_min(simplex(5), distance="squared").item(), -2 * (1 + 1 / 5))


def test_two_antipodes_are_as_far_apart_as_can_be():
    poles = torch.tensor([[0.0, 1.0], [0.0, -1.0]], dtype=torch.float64)
    assert_close(max_min(poles).item(), -math.pi)
    assert_close(koleo(poles).item(), -math.log(2))


def test_only_the_nearest_pairs_have_a_gradient(points):
    x = torch.eye(4, dtype=torch.float64)
    x[0] = torch.tensor([0.0, 1.0, 0.1, 0.0])
    x[3] = torch.tensor([0.0, 0.0, -0.1, -1.0])
    x = (x / x.norm(dim=-1, keepdim=True)).requires_grad_()
    weights = torch.zeros(4, dtype=torch.float64)
    (gradient,) = torch.autograd.grad(max_min(x, distance="chordal"), x)
    for i in range(4):
        for j in [min((k for k in range(4) if k != i), key=lambda k: chord(x[i], x[k]))]:
            weights[i] += 1
            weights[j] += 1
    assert ((gradient.norm(dim=-1) > 0) == (weights > 0)).all()


@pytest.mark.parametrize("distance", DISTANCES)
def test_max_min_at_coinciding_rows_pushes_along_the_sphere(distance):
    x = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], requires_grad=True)
    (gradient,) = torch.autograd.grad(max_min(x, distance=distance), x)
    assert (gradient[0, 1:] - gradient[1, 1:]).norm() > 1e-4


@pytest.mark.parametrize("make", [uc.KoLeo, uc.MaxMin], ids=lambda make: make.__name__)
@pytest.mark.parametrize("distance", ["chordal", "geodesic"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_two_coinciding_rows_are_pushed_in_opposite_directions(make, distance, dtype):
    """Pushed to the same side, the two terms of each row would cancel, and only the other rows would part them."""
    x = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [-1.0, 0.1, 0.0]], dtype=dtype)
    x.requires_grad_()
    make(distance=distance)(x).backward()
    first, second = tangent(uc.project(x.detach()), x.grad)[:2]
    assert first.norm() > 0.1
    assert_close(first, -second)


def test_squared_distances_beside_a_queue_keep_the_digits_of_float64(points):
    x, queue = points(6, 4).requires_grad_(), points(9, 4)

    def definition(x):
        unit = torch.nn.functional.normalize(x, dim=-1)
        r2 = (unit.unsqueeze(1) - torch.cat([unit, queue])).square().sum(dim=-1)
        return -(r2 + 9 * torch.eye(6, 15, dtype=x.dtype)).amin(dim=1).mean()

    (expected,) = torch.autograd.grad(definition(x), x)
    (gradient,) = torch.autograd.grad(uc.MaxMin(distance="squared")(x, against=queue), x)
    assert_close(gradient, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("objective", [uc.KoLeo(), uc.KoLeo(distance="geodesic"), uc.MaxMin()], ids=repr)
@pytest.mark.parametrize("other", [1, 3])
def test_the_definition_pushes_coinciding_rows_as_the_gradient_does(objective, other, points):
    """Which transforms and second derivatives use."""
    x = points(6, 4)
    a, b, c, d = (row for row in range(1, 6) if row != other)
    x[other], x[b], x[d] = x[0], uc.project(x[a] + 0.01), uc.project(x[c] + 0.01)  # no third row is near the first two
    gradient = torch.autograd.grad(objective(x.requires_grad_()), x, create_graph=True)[0]
    assert_close(gradient.detach(), torch.autograd.grad(objective(x), x)[0], rtol=1e-6, atol=0)


@pytest.mark.parametrize("compiled", [True, False], ids=["native", "reference"])
@pytest.mark.parametrize("objective", [uc.KoLeo(), uc.KoLeo(k=2), uc.MaxMin(), uc.Energy()], ids=repr)
def test_a_whole_clump_comes_apart_within_two_steps(objective, compiled, monkeypatch):
    if compiled and not native.ENABLED:
        pytest.skip("the library was not compiled")
    monkeypatch.setattr(native, "ENABLED", compiled and native.ENABLED)
    x = torch.nn.Parameter(torch.ones(40, 3))
    optimizer = uc.SphereSGD([x], lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        objective(x).backward()
        optimizer.step()
    assert len(x.unique(dim=0)) == 40
