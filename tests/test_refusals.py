"""Bad input is refused at the door: what was expected, what came, what to do."""

import re

import numpy as np
import pytest
import torch

import unclump as uc
from tests.cases import OBJECTIVES

pytestmark = pytest.mark.usefixtures("at_the_door")

each_objective = pytest.mark.parametrize("name", OBJECTIVES)
MEASURES = [uc.min_angle, uc.nearest_angles, uc.mean_angle, uc.median_angle, uc.summary, uc.mean_cosine]
each_measure = pytest.mark.parametrize("measure", MEASURES, ids=lambda f: f.__name__)

BAD_POINTS = {
    "one point": (torch.ones(1, 3), ValueError, r"n >= 2 and d >= 2, got (1, 3)", "pass more rows"),
    "one dimension": (torch.ones(5, 1), ValueError, r"d >= 2, got (5, 1)", "use at least two"),
    "a vector": (torch.ones(5), ValueError, r"d >= 2, got (5,)", "one row per point"),
    "integers": (torch.ones(5, 3, dtype=torch.long), TypeError, "floating-point points, got torch.int64", ".float()"),
    "complex": (torch.ones(5, 3, dtype=torch.complex64), TypeError, "got torch.complex64", "pass real numbers"),
    "sparse": (torch.eye(5, 3).to_sparse(), TypeError, "dense tensor of points, got torch.sparse_coo", ".to_dense()"),
    "a module": (torch.nn.Embedding(5, 3), TypeError, "got the module Embedding", "pass its .weight"),
    "another module": (torch.nn.GRU(5, 3), TypeError, "got the module GRU", "pass one of its parameters"),
    "lists": ([[1.0, 2.0]] * 5, TypeError, "a torch.Tensor, got list", "torch.as_tensor"),
}


@each_objective
@pytest.mark.parametrize("bad", [bad for bad in BAD_POINTS if bad != "one point"])
def test_objectives_refuse_bad_points(name, bad):
    x, error, expected, advice = BAD_POINTS[bad]
    with pytest.raises(error, match=re.escape(expected) + ".*" + re.escape(advice)):
        OBJECTIVES[name]()(x)


@each_objective
def test_objectives_refuse_numpy(name):
    with pytest.raises(TypeError, match=r"a torch\.Tensor, got ndarray; convert with torch\.as_tensor"):
        OBJECTIVES[name]()(np.ones((5, 3)))
    with pytest.raises(TypeError, match=r"a torch\.Tensor, got ndarray; convert with torch\.as_tensor"):
        OBJECTIVES[name]()(torch.ones(5, 3), against=np.ones((5, 3)))


def test_a_queue_of_another_dimension_is_named_and_one_of_columns_is_to_be_transposed():
    x = torch.randn(5, 3)
    with pytest.raises(ValueError, match=r"against in the 3 dimensions .* got shape \(3, 8\); pass its \.mT"):
        uc.KoLeo()(x, against=torch.randn(3, 8))
    with pytest.raises(ValueError, match=r"got shape \(8, 4\); their last dimension must be 3"):
        uc.KoLeo()(x, against=torch.randn(8, 4))


@pytest.mark.parametrize("bad", ["integers", "complex", "a module", "lists"])
def test_project_refuses_what_is_no_tensor_of_floats(bad):
    x, error, expected, advice = BAD_POINTS[bad]
    with pytest.raises(error, match=re.escape(expected) + ".*" + re.escape(advice)):
        uc.project(x)


def test_arrays_of_integers_are_to_be_converted_as_numpy_does_it():
    with pytest.raises(TypeError, match=r"got torch\.int64; convert with .*\.astype\('float32'\) in NumPy"):
        uc.min_angle(np.ones((5, 3), dtype=np.int64))


def test_no_rows_are_not_called_a_single_point():
    with pytest.raises(ValueError, match=r"got \(0, 3\): there are no rows"):
        uc.min_angle(torch.ones(0, 3))


@each_measure
@pytest.mark.parametrize("bad", BAD_POINTS)
def test_measures_refuse_bad_points(measure, bad):
    x, error, expected, advice = BAD_POINTS[bad]
    with pytest.raises(error, match=re.escape(expected) + ".*" + re.escape(advice)):
        measure(x)


@each_measure
def test_measures_name_the_rows_that_have_no_direction(measure):
    x = torch.ones(40, 3)
    for value, expected in ((float("nan"), "got NaN in 2 rows (3, 17)"), (float("inf"), "an infinite value in 2 rows")):
        bad = x.clone()
        bad[3, 1] = bad[17, 0] = value
        with pytest.raises(ValueError, match=re.escape(expected)):
            measure(bad)
    x[20:30] = 0
    with pytest.raises(ValueError, match=re.escape("nothing but zeros in 10 rows (20, 21, 22, 23, 24, ...)")):
        measure(x)


FUNCTIONS = {
    "sliced": lambda x: uc.sliced(x, uc.great_circles(2, 3)),
    "ssw": lambda x: uc.ssw(x, uc.axis_circles(2, 3)),
    "polarization": lambda x: uc.polarization(x, uc.Riesz(), torch.eye(3)),
    "sigreg": lambda x: uc.sigreg(x, torch.eye(3)),
    "visreg": lambda x: uc.visreg(x, torch.eye(3)),
    "Balanced": uc.Balanced(uc.KoLeo()),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize("bad", [bad for bad in BAD_POINTS if bad != "one point"])
def test_functions_with_a_draw_refuse_bad_points_first(function, bad):
    x, error, expected, advice = BAD_POINTS[bad]
    with pytest.raises(error, match=re.escape(expected) + ".*" + re.escape(advice)):
        function(x)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: uc.KoLeo()(torch.eye(3), against=torch.ones(2, 4, 3)),
            ValueError,
            r"\(m, 3\), .*got \(2, 4, 3\)",
        ),
        (lambda: uc.KoLeo()(torch.ones(2, 5, 3), against=torch.ones(4, 6, 3)), ValueError, r"got \(4, 6, 3\)$"),
        (lambda: uc.duplicate_angle(1, 3), ValueError, r"n >= 2, got 1"),
        (lambda: uc.duplicate_angle(10, 1), ValueError, r"d >= 2, got 1"),
        (lambda: uc.codebook_usage(torch.ones(3, 0).long(), codes=4), ValueError, r"got none; pass some indices"),
        (lambda: uc.Sliced(circles=0), ValueError, r"circles >= 1, got 0"),
        (lambda: uc.Sliced(circles=1.5), TypeError, r"circles to be an int, got float; pass a whole number"),
        (lambda: uc.SSW(circles=True), TypeError, r"circles to be an int, got bool"),
        (lambda: uc.Lloyd(samples=0), ValueError, r"samples >= 1, got 0"),
        (lambda: uc.MaxMin(distance="cosine"), ValueError, r"'geodesic', 'chordal', 'squared', got 'cosine'"),
        (lambda: uc.KoLeo(distance="squared"), ValueError, r"'chordal', 'geodesic', got 'squared'"),
        (lambda: uc.Energy("riesz"), TypeError, r"a kernel such as .*, got 'riesz'"),
        (lambda: uc.Polarization(uc.Riesz), TypeError, r"a kernel such as"),
        (lambda: uc.Polarization(steps=-1), ValueError, r"steps >= 0, got -1"),
        (lambda: uc.Lloyd(generator=3), TypeError, r"a torch.Generator, got int; make one with"),
        (lambda: uc.objective("coleo"), ValueError, r"'max_min', 'koleo', .*, got 'coleo'; did you mean 'koleo'\?$"),
        (lambda: uc.objective("MaxMin"), ValueError, r"got 'MaxMin'; did you mean 'max_min'\?$"),
        (lambda: uc.objective("voronoi"), ValueError, r"got 'voronoi'$"),
        (lambda: uc.objective(3), ValueError, r"got 3$"),
        (
            lambda: uc.objective("koleo", circles=3),
            TypeError,
            r"'koleo' does not take these options: circles; .*distance",
        ),
        (lambda: uc.objective("spherical_variance", d=3), TypeError, r"these options: d; it takes gather$"),
        (lambda: uc.objective("sliced", circles="3"), TypeError, r"^expected circles to be an int, got str"),
        (
            lambda: uc.objective("energy", kernel={"gamma": 2.0}),
            ValueError,
            r"^expected a mapping with the name of a kernel, such as .*, got \{'gamma': 2\.0\}$",
        ),
        (
            lambda: uc.objective("energy", kernel={"name": "riesz", "gamma": 2.0}),
            TypeError,
            r"kernel 'riesz' does not take these options: gamma; it takes s, distance",
        ),
        (
            lambda: uc.objective("energy", kernel={"name": "riesz", "s": "2"}),
            TypeError,
            r"^expected s to be a number, got str",
        ),
        (lambda: uc.objective("energy", kernel="gauss"), ValueError, r"'riesz', 'frame_potential', got 'gauss'"),
        (lambda: uc.great_circles(0, 3), ValueError, r"circles >= 1, got 0"),
        (lambda: uc.axis_circles(2, 1), ValueError, r"d >= 2, got 1"),
        (lambda: uc.covering_radius(torch.eye(3), samples=0), ValueError, r"samples >= 1, got 0"),
        (
            lambda: uc.lloyd(torch.eye(3), torch.eye(4)),
            ValueError,
            r"samples in the 3 dimensions of the points, got shape \(4, 4\)",
        ),
        (
            lambda: uc.sliced(torch.eye(3), torch.tensor([[0, 3]])),
            (ValueError, IndexError),
            r"axes from 0 to 2|out of bounds",
        ),
        (lambda: uc.kernel_mean("gaussian", 3), TypeError, r"a kernel such as"),
        (lambda: uc.mmd_test(torch.eye(3), "gaussian"), TypeError, r"a kernel such as"),
        (lambda: uc.mmd_variance(torch.eye(5), "gaussian"), TypeError, r"a kernel such as"),
        (lambda: uc.mmd_deviation(9, "gaussian", 0.1), TypeError, r"a kernel such as"),
        (lambda: uc.sliced(torch.eye(3), uc.great_circles(2, 5)), ValueError, r"circles in the 3 dimensions"),
    ],
)
def test_bad_choices_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
