"""Figures: what they draw is what the table holds, beside the exact curve of uniform directions."""

import math

import matplotlib
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import unclump as uc
from unclump.figures.data import pair_angles, principal_axes, sample_rows, spectrum_shares, uniform_spectrum
from unclump.figures.plots import (
    angle_histogram,
    direction_map,
    globe,
    nearest_angle_histogram,
    save_figure,
    spectrum,
    uniform_density,
)

matplotlib.use("agg")


def bars(axes):
    """The steps' heights and edges, as drawn."""
    return axes.patches[0].get_data().values, axes.patches[0].get_data().edges


def curve(axes):
    return axes.lines[0].get_data()


@pytest.mark.parametrize("d", [2, 3, 8, 300])
def test_the_uniform_density_has_mass_one(d):
    grid = np.linspace(0, math.pi, 20001)
    assert np.trapezoid(uniform_density(grid, d), grid) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("draw", [angle_histogram, nearest_angle_histogram])
@pytest.mark.parametrize("d", [3, 12])
def test_uniform_points_fill_the_area_under_the_curve(draw, d, points):
    axes = draw(points(1500, d), bins=30)
    heights, edges = bars(axes)
    assert (heights * np.diff(edges)).sum() == pytest.approx(1)
    middles, density = curve(axes)
    assert_allclose(middles, (edges[1:] + edges[:-1]) / 2)
    assert np.abs(heights - density).sum() * (edges[1] - edges[0]) < 0.12  # twice the distance in total variation


def test_a_clump_piles_up_at_zero(points):
    x = points(400, 6)
    x[:200] = x[0]
    heights, edges = bars(nearest_angle_histogram(x))
    assert heights[0] * (edges[1] - edges[0]) == pytest.approx(0.5)


def test_all_pairs_are_counted(points):
    x = points(30, 4)
    heights, edges = bars(angle_histogram(x, bins=18))
    angles = [math.degrees(float(uc.angle(x[i], x[j]))) for i in range(30) for j in range(i)]
    assert_allclose(heights * 10 * len(angles), np.histogram(angles, edges)[0])


def test_few_pairs_are_all_taken_and_many_are_sampled(points, generator):
    x = points(40, 5)
    everything = pair_angles(x.__getitem__, *x.shape, limit=780, generator=generator)
    assert len(everything) == 780
    assert everything.mean() == pytest.approx(uc.mean_angle(x))
    some = pair_angles(x.__getitem__, *x.shape, limit=779, generator=generator)
    assert len(some) == 779
    assert some.min() > 0  # no row is paired with itself
    assert some.mean() == pytest.approx(uc.mean_angle(x), abs=0.05)


@pytest.mark.parametrize(("n", "d"), [(400, 3), (300, 40), (30, 60)])
def test_the_spectrum_of_uniform_points_is_that_of_marchenko_and_pastur(n, d, generator):
    tables = [uc.uniform(n, d, generator=generator, dtype=torch.float64) for _ in range(30)]
    simulated = np.mean([spectrum_shares(x) for x in tables], axis=0)
    expected = uniform_spectrum(n, d)
    assert expected.sum() == pytest.approx(1)
    assert np.abs(simulated - expected).max() * d < 0.03 * expected[0] * d
    assert (expected[min(n, d) :] == 0).all()


def test_spectrum_shares_are_squared_singular_values(points):
    for x in (points(9, 5), points(5, 9)):
        squares = np.zeros(x.shape[1])
        found = torch.linalg.svdvals(x).square().numpy()
        squares[: len(found)] = found / found.sum()
        assert_allclose(spectrum_shares(x), squares, atol=1e-14)


def test_the_spectrum_is_drawn_as_multiples_of_an_even_share():
    drawn = spectrum(torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])).lines[0].get_ydata()
    assert_allclose(drawn, [1.5, 0.5])


def test_the_plane_is_that_of_the_largest_variance(points):
    x = points(50, 6)
    mean, plane = principal_axes(x, 2)
    values = torch.linalg.svdvals(x - x.mean(dim=0))
    assert_allclose(mean, x.mean(dim=0))
    assert_allclose(torch.linalg.vector_norm((x - mean) @ plane, dim=0), values[:2])
    assert_allclose(plane.mT @ plane, torch.eye(2), atol=1e-12)


def test_marked_rows_are_never_left_out_of_a_sample(generator):
    rows = sample_rows(1000, 10, torch.tensor([3, 999]), generator)
    assert {3, 999} <= set(rows.tolist())
    assert len(rows) <= 12
    assert sample_rows(10, 10, torch.tensor([3]), generator).tolist() == list(range(10))


def test_a_map_names_its_marked_rows_as_text(points, tmp_path):
    axes = direction_map(points(30, 4), names=["$x^2", *map(str, range(29))], marked=[0, 7])
    save_figure(axes, tmp_path / "map.png")  # a name with half a formula in it is drawn nonetheless
    assert [text.get_text() for text in axes.texts] == [r"\$x^2", "6"]
    assert len(axes.collections[0].get_offsets()) == 30


def test_figures_go_into_axes_of_the_caller(points):
    from matplotlib.figure import Figure

    own = Figure().subplots()
    for draw in (angle_histogram, nearest_angle_histogram, spectrum, direction_map):
        assert draw(points(10, 3), axes=own) is own


def test_only_three_dimensions_have_a_globe(points, at_the_door):
    assert len(globe(points(12, 3)).collections[1].get_offsets()) == 12
    with pytest.raises(ValueError, match="3 dimensions, got 4"):
        globe(points(12, 4))


def test_rows_without_a_direction_are_refused():
    for draw in (angle_histogram, nearest_angle_histogram, spectrum, direction_map):
        with pytest.raises(ValueError, match=r"1 row \(1\)"):
            draw(torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]))
