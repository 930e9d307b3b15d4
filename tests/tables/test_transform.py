"""Maps that make a table isotropic: closed forms, queries that follow, files to the same bits, refusals."""

import json
import re

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch.testing import assert_close

import unclump as uc
from tests.small_tables import same, seeded
from unclump.tables.files import FileError
from unclump.tables.transform import METHODS
from unclump.tables.transform_covariance import estimate_covariance

OPTIONS = {"learn": {"steps": 20}}
each_method = pytest.mark.parametrize("method", METHODS)


def made(method, **options):
    return uc.Isotropy(method, **OPTIONS.get(method, {}), **options)


def table(n=400, d=6, dtype=torch.float64, *, mean=3.0):
    """Rows of a Gaussian with variances 1, 4, 9, ... along random axes, away from the origin."""
    draw = torch.randn(n, d, generator=seeded(), dtype=torch.float64) * torch.arange(1, d + 1)
    axes = torch.linalg.qr(torch.randn(d, d, generator=seeded(1), dtype=torch.float64)).Q
    return (draw @ axes + mean).to(dtype)


def covariance(x):
    return torch.cov(x.double().mT, correction=0)


def test_centring_leaves_a_mean_of_zero_and_all_differences():
    x = table()
    y = uc.Isotropy("centre").fit_transform(x)
    assert_close(y.mean(dim=0), torch.zeros(6).double(), atol=1e-12, rtol=0)
    assert_close(y - y[:1], x - x[:1])
    assert_close(uc.Isotropy("centre", strength=0.25).fit_transform(x), x - 0.25 * x.mean(dim=0))


def test_whitening_gives_the_identity_for_a_covariance():
    y = uc.Isotropy("whiten", shrinkage=0.0).fit_transform(table())
    assert_close(covariance(y), torch.eye(6).double(), atol=1e-10, rtol=0)
    assert_close(y.mean(dim=0), torch.zeros(6).double(), atol=1e-10, rtol=0)


def test_whitening_takes_variances_to_a_power():
    x = table()
    y = uc.Isotropy("whiten", strength=0.6, shrinkage=0.0).fit_transform(x)
    variances = torch.linalg.eigvalsh(covariance(x))
    assert_close(torch.linalg.eigvalsh(covariance(y)), variances**0.4)


def test_whitening_does_not_turn_rows_of_independent_coordinates():
    signs = torch.tensor([[a, b, c] for a in (1, -1) for b in (1, -1) for c in (1, -1)]).double()
    assert_close(uc.Isotropy("whiten", shrinkage=0.0).fit_transform(signs * torch.tensor([1, 10, 100])), signs)


def test_all_but_the_top_takes_the_widest_directions_away():
    x = table()
    y = uc.Isotropy("all_but_the_top", directions=2).fit_transform(x)
    before, after = (torch.linalg.eigvalsh(covariance(rows)) for rows in (x, y))
    assert_close(after, torch.cat([torch.zeros(2).double(), before[:-2]]), atol=1e-10, rtol=1e-10)
    half = uc.Isotropy("all_but_the_top", directions=2, strength=0.5).fit_transform(x)
    expected = torch.cat([before[:-2], before[-2:] / 4]).sort().values
    assert_close(torch.linalg.eigvalsh(covariance(half)), expected)


def test_as_many_directions_as_hundreds_of_dimensions():
    x = torch.randn(900, 250, generator=seeded())
    by_rule, by_number = (uc.Isotropy("all_but_the_top", directions=k).fit(x).matrix for k in (None, 2))
    assert torch.equal(by_rule, by_number)


def test_a_learned_map_lowers_its_objective_for_rows_that_it_has_not_seen():
    x = project_cone(3000)
    isotropy = uc.Isotropy("learn", steps=150).fit(x[:2000])
    circles = uc.great_circles(64, 6, generator=seeded(5), dtype=torch.float64)
    before, after = (float(uc.sliced(rows[2000:], circles)) for rows in (x, isotropy.transform(x)))
    assert after < 0.2 * before


def test_a_learned_map_moves_with_the_mean_and_scales_with_the_table():
    x = table(300, 6)
    isotropy, scaled = (made("learn").fit(rows) for rows in (x, 100 * x))
    assert torch.dot(isotropy.shift, x.mean(dim=0)) > 0.1 * x.mean(dim=0).norm()
    assert_close(scaled.shift, 100 * isotropy.shift)
    assert_close(scaled.matrix, isotropy.matrix)


def project_cone(n):
    return uc.project(table(n, mean=6.0))


@pytest.mark.parametrize("objective", [uc.MMD(), uc.Energy(uc.Gaussian()), uc.Sliced(circles=8)], ids=str)
def test_other_objectives_can_be_learned(objective):
    x = project_cone(500)
    y = uc.Isotropy("learn", objective=objective, steps=60).fit_transform(x)
    assert uc.spherical_variance(y) > uc.spherical_variance(x) + 0.2


def test_a_learned_map_of_huge_rows_is_finite():
    x = torch.randn(100, 4, generator=seeded()) + 1
    small, huge = (uc.Isotropy("learn", steps=5, generator=seeded(3)).fit(rows) for rows in (x, 2.0**67 * x))
    torch.testing.assert_close(huge.matrix, small.matrix)
    torch.testing.assert_close(huge.shift, 2.0**67 * small.shift)


def test_learning_is_reproducible():
    x = project_cone(300)
    first, second = (uc.Isotropy("learn", steps=5, generator=seeded(3)).fit(x).matrix for _ in range(2))
    other = uc.Isotropy("learn", steps=5, generator=seeded(4)).fit(x).matrix
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


@each_method
def test_no_strength_is_the_identity(method):
    x = table(dtype=torch.float32)
    assert same(made(method, strength=0.0).fit_transform(x), x)


@each_method
def test_queries_follow(method):
    """The map of a row does not depend on the others it is mapped with."""
    x = table()
    isotropy = made(method).fit(x)
    assert_close(isotropy.transform(x[[5, 17]]), isotropy.transform(x)[[5, 17]])
    assert_close(
        isotropy.transform(x + 1) - isotropy.transform(x), (torch.ones(6).double() @ isotropy.matrix).expand_as(x)
    )


@each_method
def test_files_give_the_same_bits(method, tmp_path):
    x = table()
    isotropy = made(method, strength=0.7).fit(x)
    isotropy.save(tmp_path / "map.safetensors")
    again = uc.Isotropy.load(tmp_path / "map.safetensors")
    assert same(again.matrix, isotropy.matrix)
    assert same(again.transform(x), isotropy.transform(x))
    assert (again.method, again.strength) == (method, 0.7)
    isotropy.save(tmp_path / "map.safetensors")  # a map may replace a map
    assert [path.name for path in tmp_path.iterdir()] == ["map.safetensors"]


@each_method
def test_padding_stays_zero_and_does_not_count(method):
    x = table()
    padded = torch.cat([torch.zeros(2, 6).double(), x, torch.zeros(1, 6).double()])
    isotropy = made(method).fit(padded)
    assert_close(isotropy.matrix, made(method).fit(x).matrix, rtol=1e-9, atol=1e-12)
    y = isotropy.transform(padded)
    assert (y[[0, 1, -1]] == 0).all()
    assert (y[2:-1] != 0).any(dim=1).all()


def test_a_table_in_many_blocks_is_as_in_one(monkeypatch):
    x = table(1000, 5, mean=1e4)
    one = estimate_covariance(x)
    monkeypatch.setattr("unclump.tables.transform_covariance.BLOCK", 35)
    many = estimate_covariance(x)
    assert_close(many.mean, one.mean)
    assert_close(many.matrix, covariance(x), rtol=1e-9, atol=1e-9)
    assert many.shrinkage == pytest.approx(one.shrinkage, rel=1e-9)
    isotropy = uc.Isotropy("whiten", shrinkage=0.0)
    assert_close(covariance(isotropy.fit_transform(x)), torch.eye(5).double(), atol=1e-8, rtol=0)


@pytest.mark.parametrize("n", [8, 60, 5000])
def test_shrinkage_is_that_of_ledoit_and_wolf(n):
    """By its definition, the sum over rows of the distance of their products from the covariance."""
    x = table(n)
    z = x - x.mean(dim=0)
    s = z.mT @ z / n
    mu = s.trace() / 6
    error = sum((torch.outer(row, row) - s).square().sum() for row in z) / n**2
    expected = min(1.0, float(error / (s - mu * torch.eye(6).double()).square().sum()))
    assert estimate_covariance(x).shrinkage == pytest.approx(expected, rel=1e-9)
    assert 0 < expected <= 1


def test_few_rows_in_many_dimensions_are_whitened_without_explosion():
    x = torch.randn(20, 50, generator=seeded()).double() + 2
    for options in ({}, {"shrinkage": 0.0}):
        isotropy = uc.Isotropy("whiten", **options).fit(x)
        other = isotropy.transform(torch.randn(100, 50, generator=seeded(2)).double() + 2)
        assert other.norm(dim=1).max() < 100 * isotropy.transform(x).norm(dim=1).max()


def test_a_direction_without_variance_is_scaled_like_the_least():
    x = torch.cat([table(d=4), torch.full((400, 1), 7.0).double()], dim=1)
    matrix = uc.Isotropy("whiten", shrinkage=0.0).fit(x).matrix
    least = torch.linalg.eigvalsh(covariance(x[:, :4]))[0] ** -0.5
    assert_close(matrix[4], torch.tensor([0, 0, 0, 0, float(least)]).double(), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_the_dtype_is_kept(dtype):
    x = table(dtype=dtype)
    y = uc.Isotropy("whiten", shrinkage=0.0).fit_transform(x)
    assert y.dtype == dtype
    assert_close(covariance(y), torch.eye(6).double(), atol=0.05, rtol=0)


def test_numpy_gives_numpy_also_memory_mapped_and_in_the_other_byte_order(tmp_path):
    x = table(dtype=torch.float32)
    np.save(tmp_path / "x.npy", x.numpy())
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    expected = uc.Isotropy("whiten").fit_transform(x)
    for array in (mapped, x.numpy().astype(">f4")):
        y = uc.Isotropy("whiten").fit_transform(array)
        assert isinstance(y, np.ndarray)
        assert y.dtype == array.dtype
        assert_close(torch.from_numpy(y.astype("f4")), expected)


@pytest.mark.usefixtures("at_the_door")
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: uc.Isotropy("whitening"), ValueError, r"'whiten', .*got 'whitening'; did you mean 'whiten'\?"),
        (lambda x: uc.Isotropy(strength=1.5), ValueError, r"strength from 0 to 1, got 1\.5"),
        (lambda x: uc.Isotropy(shrinkage=-1), ValueError, r"shrinkage from 0 to 1, got -1"),
        (lambda x: uc.Isotropy(directions=2), ValueError, r"only with the method 'all_but_the_top', got 'whiten'"),
        (lambda x: uc.Isotropy("learn", objective="sliced"), TypeError, r"unclump\.Sliced\(\), got str"),
        (lambda x: uc.Isotropy().transform(x), ValueError, r"a fitted map, .* call fit\(table\)"),
        (lambda x: uc.Isotropy().save("m.safetensors"), ValueError, r"a fitted map"),
        (lambda x: uc.Isotropy().fit(x).transform(x[:, :4]), ValueError, r"6 dimensions, .* got shape \(400, 4\)"),
        (lambda x: uc.Isotropy().fit(x[:1]), ValueError, r"n >= 2 and d >= 2, got \(1, 6\)"),
        (lambda x: uc.Isotropy().fit(x.numpy()[0]), ValueError, r"got \(6,\)"),
        (lambda x: uc.Isotropy().fit(x.long()), TypeError, r"floating-point"),
        (lambda x: uc.Isotropy().fit(x.tolist()), TypeError, r"got list"),
        (lambda x: uc.Isotropy().fit(0 * x), ValueError, r"2 rows that are not zero, got 0 of 400"),
        (lambda x: uc.Isotropy().fit(x[:1].expand(9, 6)), ValueError, r"rows that differ, .*leave them as they are"),
        (lambda x: uc.Isotropy("all_but_the_top", directions=3).fit(x[:4]), ValueError, r"than the 3 .* got 3"),
        (lambda x: uc.Isotropy("learn").fit(0 * x), ValueError, r"2 rows that are not zero, got 0 of 400"),
    ],
)  # fmt: skip
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(table())


@each_method
@pytest.mark.parametrize(("value", "fault"), [(float("nan"), "NaN"), (float("inf"), "an infinite value")])
def test_rows_that_are_not_finite_are_refused_by_number(method, value, fault, monkeypatch):
    x = table()
    x[250, 3] = value
    monkeypatch.setattr("unclump.tables.transform_covariance.BLOCK", 600)
    with pytest.raises(ValueError, match=rf"{fault} in 1 row \(250\)"):
        made(method).fit(x)
    with pytest.raises(ValueError, match=rf"{fault} in 1 row \(250\)"):
        made(method).fit(x[:200]).transform(x)


def test_images_beyond_half_precision_are_refused():
    x = table(dtype=torch.float32) * 1e-8
    isotropy = uc.Isotropy().fit(x)
    with pytest.raises(ValueError, match="float32"):
        isotropy.transform(torch.full((1, 6), 10.0, dtype=torch.float16))


def other_file(path, kind):
    isotropy = uc.Isotropy().fit(table())
    isotropy.save(path)
    if kind == "text":
        path.write_text("not safetensors")
    elif kind == "truncated":
        path.write_bytes(path.read_bytes()[:-8])
    elif kind == "a table":
        save_file({"points": table()}, path)
    elif kind == "a folder":
        path.unlink()
        path.mkdir()
    else:
        header = {"format": "unclump isotropy 1", "method": "whiten", "strength": 1.0}
        tensors = {"shift": isotropy.shift, "matrix": isotropy.matrix}
        changes = {
            "another tensor": ({}, {"extra": torch.zeros(1)}),
            "not square": ({}, {"matrix": isotropy.matrix[:4].clone()}),
            "single precision": ({}, {"shift": isotropy.shift.float()}),
            "NaN": ({}, {"shift": isotropy.shift * float("nan")}),
            "another format": ({"format": "unclump isotropy 2"}, {}),
            "another method": ({"method": "\x1b[31mrotate"}, {}),
            "a strength in words": ({"strength": "full"}, {}),
        }
        other_header, other_tensors = changes[kind]
        save_file(tensors | other_tensors, path, metadata={"isotropy": json.dumps(header | other_header)})


KINDS = ["text", "truncated", "a table", "a folder", "another tensor", "not square", "single precision", "NaN",
         "another format", "another method", "a strength in words"]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_any_other_file_is_refused(kind, tmp_path):
    path = tmp_path / "map.safetensors"
    other_file(path, kind)
    with pytest.raises(FileError, match=re.escape(str(path))) as error:
        uc.Isotropy.load(path)
    assert len(str(error.value).splitlines()) == 1
    assert "\x1b" not in str(error.value)


def test_a_table_is_not_overwritten_by_a_map(tmp_path):
    path = tmp_path / "words.safetensors"
    save_file({"points": table()}, path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="is not a map that unclump wrote"):
        uc.Isotropy("centre").fit(table()).save(path)
    with pytest.raises(ValueError, match=r"name a file that ends in \.safetensors"):
        uc.Isotropy("centre").fit(table()).save(tmp_path / "map.npz")
    assert path.read_bytes() == before


def test_it_prints_itself():
    isotropy = uc.Isotropy("all_but_the_top", strength=0.5, directions=3)
    assert repr(isotropy) == "Isotropy('all_but_the_top', strength=0.5, directions=3; not fitted)"
    assert "fitted in 6 dimensions" in repr(isotropy.fit(table()))
