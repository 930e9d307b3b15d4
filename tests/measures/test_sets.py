"""Every measure: of separate sets, of NumPy arrays, and what is refused."""

import re

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import unclump as uc
from tests.small_tables import clump, seeded
from unclump.measures import angles
from unclump.measures.pairs import uniformity

PER_SET = {
    "nearest_angles": uc.nearest_angles,
    "min_angle": uc.min_angle,
    "mean_angle": uc.mean_angle,
    "median_angle": uc.median_angle,
    "spherical_variance": uc.spherical_variance,
    "effective_rank": uc.effective_rank,
    "mean_cosine": uc.mean_cosine,
    "uniformity": uniformity,
    "rankme": uc.rankme,
    "isoscore": uc.isoscore,
    "alpha_req": lambda x: uc.alpha_req(x, ranks=(1, 100)),
    "covering_radius": lambda x: uc.covering_radius(x, samples=600, generator=seeded()),
    "mmd_variance": lambda x: uc.mmd_variance(x, uc.Laplace()),
    "neighbour_overlap": lambda x: uc.neighbour_overlap(
        x, x * x, neighbours=3, samples=x.shape[-2] - 2, generator=seeded()
    ),
}
RAW = {"rankme", "isoscore", "alpha_req"}  # where a row of zeros is a row
ONE_TABLE = {
    "summary": uc.summary,
    "rayleigh_test": uc.rayleigh_test,
    "bingham_test": uc.bingham_test,
    "ajne_test": uc.ajne_test,
    "gine_test": uc.gine_test,
    "mmd_test": lambda x: uc.mmd_test(x, uc.Laplace()),
    "health": uc.health,
}
per_set = pytest.mark.parametrize("name", PER_SET)
one_table = pytest.mark.parametrize("name", ONE_TABLE)
gathers = pytest.mark.parametrize(
    "measure", [m for name, m in PER_SET.items() if m in (getattr(uc, name), uniformity)], ids=lambda f: f.__name__
)


def sets(*shape):
    """Sets that differ in all measures: from a narrow cone to nearly uniform."""
    x = torch.randn(*shape, generator=seeded(3), dtype=torch.float64)
    x[..., 0] += torch.linspace(4, 0, x[..., 0, 0].numel()).view(x.shape[:-2]).unsqueeze(-1)
    return x * torch.linspace(0.5, 8, shape[-2], dtype=torch.float64).unsqueeze(-1)


@per_set
@pytest.mark.parametrize("shape", [(3, 11, 4), (2, 3, 9, 5), (1, 6, 3), (2, 5, 12), (2, 700, 3)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_stack_of_sets_has_the_measures_of_the_sets(name, shape, dtype):
    measure, x = PER_SET[name], sets(*shape).to(dtype)
    found = measure(x)
    expected = torch.stack([torch.as_tensor(measure(one), dtype=torch.float64) for one in x.flatten(0, -3)])
    assert found.dtype == torch.float64
    assert found.shape == shape[:-2] + ((shape[-2],) if name == "nearest_angles" else ())
    assert_close(found.flatten(), expected.flatten(), rtol=1e-9, atol=1e-12)
    if len(expected) > 1:
        assert not torch.allclose(expected[0], expected[1])  # so that sets that are mixed up are seen


@per_set
def test_no_sets_have_no_measures(name):
    assert PER_SET[name](torch.ones(2, 0, 9, 4)).numel() == 0


@per_set
def test_one_table_has_a_float_and_gradients_are_dropped(name):
    x = sets(1, 9, 4)[0].requires_grad_()
    found = PER_SET[name](x)
    assert isinstance(found, torch.Tensor if name == "nearest_angles" else float)
    assert not getattr(found, "requires_grad", False)


@pytest.mark.parametrize("name", PER_SET | ONE_TABLE)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_numpy_is_as_torch(name, dtype):
    measure, x = (PER_SET | ONE_TABLE)[name], sets(1, 30, 4)[0].numpy().astype(dtype)
    if name == "summary":
        found, expected = (uc.summary(table, generator=seeded()) for table in (x, torch.from_numpy(x)))
        assert found == expected
    elif name == "health":
        assert str(measure(x)) == str(measure(torch.from_numpy(x)))
    else:
        assert_close(measure(x), measure(torch.from_numpy(x)), rtol=0, atol=0)


@per_set
@pytest.mark.usefixtures("at_the_door")
def test_numpy_takes_any_layout_byte_order_and_sets(name):
    x = sets(2, 9, 4)
    expected = PER_SET[name](x)
    for same in (x.numpy(), np.asfortranarray(x.numpy()), x.numpy().astype(">f8"), x.numpy()[::-1]):
        found = PER_SET[name](same)
        assert_close(found, expected.flip(0) if same.strides[0] < 0 else expected, rtol=1e-12, atol=0)


def test_faiss_searches_every_set(capsys):
    pytest.importorskip("faiss")
    x = sets(2, 3, 80, 4)
    assert_close(uc.nearest_angles(x, neighbours="faiss"), uc.nearest_angles(x))
    assert_close(uc.min_angle(x, neighbours="faiss"), uc.min_angle(x))


def test_all_sets_are_measured_from_the_same_places():
    x = sets(1, 12, 3).expand(4, 12, 3)
    assert uc.covering_radius(x, samples=50, generator=seeded()).unique().numel() == 1


def test_the_covering_radius_is_its_definition(points, monkeypatch):
    x, places = sets(3, 6, 3), points(1100, 3)
    expected = uc.angle(places.unsqueeze(1), uc.project(x).unsqueeze(1)).amin(dim=2).amax(dim=1)
    for order in (places, places.flip(0)):  # the farthest place comes in the first block, and in the last
        remaining = iter(order.split(angles.BLOCK))
        monkeypatch.setattr(angles, "uniform", lambda *_, remaining=remaining, **__: next(remaining))
        assert_close(uc.covering_radius(x, samples=1100), expected, rtol=1e-12, atol=0)


def test_the_covering_radius_of_one_point_is_exact_near_its_antipode(monkeypatch):
    antipode = torch.tensor([[-1.0, 1e-9]], dtype=torch.float64)
    monkeypatch.setattr(angles, "uniform", lambda *_, **__: antipode)
    radius = uc.covering_radius(torch.tensor([[1.0, 0.0]], dtype=torch.float64), samples=1)
    assert torch.pi - radius == pytest.approx(1e-9, rel=1e-6)


# Refusals


@one_table
@pytest.mark.usefixtures("at_the_door")
def test_what_takes_one_table_says_so(name):
    for x in (sets(2, 9, 4), sets(2, 9, 4).numpy()):
        with pytest.raises(ValueError, match=r"shape \(n, d\) with n >= \d and d >= 2, got \(2, 9, 4\): .*loop over"):
            ONE_TABLE[name](x)


@gathers
@pytest.mark.usefixtures("at_the_door")
def test_ranks_share_one_table(measure):
    with pytest.raises(ValueError, match=r"shape \(n, d\) .*got \(2, 9, 4\)"):
        measure(sets(2, 9, 4), gather=uc.Shards())


@pytest.mark.parametrize("name", sorted(PER_SET.keys() - RAW))
def test_rows_without_direction_are_named_by_set_and_row(name):
    x = sets(2, 3, 9, 4)
    x[1, 0, 7] = 0
    x[1, 2, 8] = 0
    for bad in (x, x.numpy()):
        with pytest.raises(ValueError, match=re.escape("zeros in 2 rows ([1, 0, 7], [1, 2, 8]); a zero vector")):
            PER_SET[name](bad)


@pytest.mark.usefixtures("at_the_door")
def test_numbers_that_are_no_floats_are_refused():
    with pytest.raises(TypeError, match=r"floating-point points, got torch\.int64"):
        uc.min_angle(np.ones((5, 3), dtype=int))


def test_different_sets_do_not_overlap():
    with pytest.raises(ValueError, match="the same rows in both tables, got 2 x 9 and 3 x 9 rows"):
        uc.neighbour_overlap(sets(2, 9, 4), sets(3, 9, 4))


def test_faiss_is_refused_with_ranks_in_both(monkeypatch):
    monkeypatch.setattr(angles, "directions_on_ranks", lambda x, gather: (x, angles.Alone([9], size=2)))
    for measure in (uc.nearest_angles, uc.min_angle):
        with pytest.raises(ValueError, match="expected neighbours='exact' with gather, got 'faiss'"):
            measure(clump(9, 4), neighbours="faiss", gather=True)
