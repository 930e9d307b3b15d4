import itertools
import math
from collections import Counter

import numpy as np
import pytest

from unclump.codes.constructions import fields, graphs, lattices
from unclump.codes.constructions.exact import exact_code
from unclump.codes.constructions.kerdock import kerdock, kerdock_set
from unclump.codes.constructions.polytopes import cell_24

GOLDEN = (1 + math.sqrt(5)) / 2
ANTIPRISM = 1 / (1 + 2 * math.sqrt(2))

# (n, d): the cosines that occur between two points, largest first.
SPECTRA = {
    (4, 3): [-1 / 3],
    (6, 3): [0, -1],
    (9, 8): [-1 / 8],
    (16, 8): [0, -1],
    (129, 128): [-1 / 128],
    (256, 128): [0, -1],
    (8, 3): [ANTIPRISM, 2 * ANTIPRISM - 1, -3 * ANTIPRISM],
    (12, 3): [1 / math.sqrt(5), -1 / math.sqrt(5), -1],
    (10, 4): [1 / 6, -2 / 3],
    (24, 4): [1 / 2, 0, -1 / 2, -1],
    (120, 4): [GOLDEN / 2, 1 / 2, 1 / (2 * GOLDEN), 0, -1 / (2 * GOLDEN), -1 / 2, -GOLDEN / 2, -1],
    (16, 5): [1 / 5, -3 / 5],
    (40, 5): [1 / 2, 0, -1 / 2, -1],
    (26, 12): [1 / 14, -5 / 21, -6 / 7],
    (34, 16): [1 / 18, -13 / 72, -8 / 9],
    (50, 24): [1 / 26, -19 / 156, -12 / 13],
    (27, 6): [1 / 4, -1 / 2],
    (72, 6): [1 / 2, 0, -1 / 2, -1],
    (56, 7): [1 / 3, -1 / 3, -1],
    (126, 7): [1 / 2, 0, -1 / 2, -1],
    (240, 8): [1 / 2, 0, -1 / 2, -1],
    (288, 16): [1 / 4, 0, -1 / 4, -1],
    (104, 13): [1 / 4, 0, -1 / 4, -1],
    (512, 16): [1 / 3, 0, -1 / 3, -1],
    (1024, 16): [k / 7 for k in (3, 2, 1, 0, -1, -2, -3, -5)],
    (4320, 16): [1 / 2, 1 / 4, 0, -1 / 4, -1 / 2, -1],
    (336, 21): [1 / 5, -1 / 5, -3 / 5],
    (2112, 32): [1 / 4, 1 / math.sqrt(32), 0, -1 / math.sqrt(32), -1 / 4, -1],
    (56, 20): [1 / 15, -2 / 5],
    (50, 21): [1 / 21, -3 / 7],
    (77, 21): [1 / 12, -3 / 8],
    (112, 21): [1 / 9, -1 / 3],
    (162, 21): [1 / 7, -2 / 7],
    (100, 22): [1 / 11, -4 / 11],
    (275, 22): [1 / 6, -1 / 4],
    (891, 22): [1 / 4, -1 / 8, -1 / 2],
    (552, 23): [1 / 5, -1 / 5, -1],
    (4600, 23): [1 / 3, 0, -1 / 3, -1],
    (325, 52): [1 / 16, -1 / 4],
    (756, 105): [1 / 25, -1 / 5],
    (2752, 301): [1 / 49, -1 / 7],
    (4617, 456): [1 / 64, -1 / 8],
    (4224, 64): [1 / 8, 0, -1 / 8, -1],
}
# The same for codes too large for all pairs.
LARGE = {
    (7300, 657): [1 / 81, -1 / 9],
    (49896, 22): [1 / 2, 1 / 4, 0, -1 / 4, -1 / 2, -1],
    (93150, 23): [1 / 2, 1 / 4, 0, -1 / 4, -1 / 2, -1],
    (66048, 256): [1 / 16, 0, -1 / 16, -1],
    (196560, 24): [1 / 2, 1 / 4, 0, -1 / 4, -1 / 2, -1],
}
# (n, 3): the angle in degrees as published by those who proved it, the pairs at that angle.
POLYHEDRA = {
    7: (77.8695, 12),
    8: (74.8585, 16),
    9: (70.5288, 18),
    10: (66.1468, 19),
    11: (63.4349, 25),
    12: (63.4349, 30),
    13: (57.1367, 24),
    14: (55.6706, 28),
    24: (43.6908, 60),
}
# Seconds each, of the family of (325, 52), (756, 105) and (2752, 301).
DEEP = {(4617, 456), (7300, 657)}
NAMED = [*SPECTRA, *LARGE, *((n, 3) for n in POLYHEDRA)]


def each_code(codes):
    cases = [pytest.param(*code, marks=pytest.mark.deep if code in DEEP else ()) for code in codes]
    return pytest.mark.parametrize(("n", "d"), cases)


def cosines(points, rows):
    """The cosines of `rows` with all points, those of a point with itself left out."""
    product = points[rows] @ points.T
    product[np.arange(len(rows)), rows] = np.nan
    return product


def check_spectrum(points, rows, spectrum):
    found = cosines(points, rows)
    error = np.full_like(found, np.inf)
    for cosine in spectrum:
        np.minimum(error, abs(found - cosine), out=error)
    assert np.nanmax(error) < 5e-15
    assert all(np.nanmin(abs(found - cosine)) < 5e-15 for cosine in spectrum)
    assert abs(np.nanmax(found) - spectrum[0]) < 2e-15


def check_unit(points, n, d):
    assert points.shape == (n, d)
    assert points.dtype == np.float64
    assert abs(np.linalg.norm(points, axis=1) - 1).max() < 1e-15


@each_code(SPECTRA)
def test_all_pairs_have_the_cosines_of_the_code_and_no_other(n, d):
    code = exact_code(n, d)
    assert code.cosine == pytest.approx(SPECTRA[n, d][0], abs=1e-16)
    check_unit(code.points, n, d)
    for start in range(0, n, 1000):
        check_spectrum(code.points, np.arange(start, min(n, start + 1000)), SPECTRA[n, d])


@each_code(LARGE)
def test_large_codes_have_their_cosines_at_sampled_points(n, d):
    code = exact_code(n, d)
    assert code.cosine == LARGE[n, d][0]
    check_unit(code.points, n, d)
    check_spectrum(code.points, np.random.default_rng(n).choice(n, 40, replace=False), LARGE[n, d])


@pytest.mark.parametrize("n", POLYHEDRA)
def test_three_dimensions_have_the_published_angle_and_contacts(n):
    degrees, contacts = POLYHEDRA[n]
    code = exact_code(n, 3)
    check_unit(code.points, n, 3)
    between = cosines(code.points, np.arange(n))[np.triu_indices(n, 1)]
    assert abs(between.max() - code.cosine) < 2e-15
    assert (between > code.cosine - 4e-15).sum() == contacts
    assert (between > code.cosine - 1e-4).sum() == contacts
    assert abs(math.degrees(math.acos(code.cosine)) - degrees) < 5.1e-5


@pytest.mark.parametrize("n", POLYHEDRA)
def test_three_dimensions_are_in_equilibrium(n):
    """Forces along the contacts, none of them pulling, that hold every point in its place."""
    from scipy.optimize import nnls

    code = exact_code(n, 3)
    x = code.points
    touching = [(i, j) for i, j in itertools.combinations(range(n), 2) if x[i] @ x[j] > code.cosine - 1e-9]
    force = np.zeros((n, 3, len(touching)))
    for column, (i, j) in enumerate(touching):
        force[i, :, column] = x[j] - code.cosine * x[i]
        force[j, :, column] = x[i] - code.cosine * x[j]
    system = np.vstack([force.reshape(3 * n, -1), np.ones(len(touching))])
    residual = nnls(system, np.append(np.zeros(3 * n), 1))[1]
    assert residual < 1e-14


@pytest.mark.parametrize(("n", "polynomial"), [(7, [3, -9, -3, 1]), (8, [7, 2, -1]), (14, [4, -2, 3, 0, -1])])
def test_cosines_are_roots_of_their_polynomials(n, polynomial):
    assert abs(np.polyval(polynomial, exact_code(n, 3).cosine)) < 2e-15


def test_the_snub_cube_has_the_edge_of_the_tribonacci_constant():
    t = (1 + np.cbrt(19 + 3 * math.sqrt(33)) + np.cbrt(19 - 3 * math.sqrt(33))) / 3
    circumradius = math.sqrt((3 - t) / (4 * (2 - t)))  # of edges of length one
    assert exact_code(24, 3).cosine == pytest.approx(1 - 1 / (2 * circumradius**2), abs=1e-15)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 17, 1000])
def test_polygons_in_two_dimensions(n):
    code = exact_code(n, 2)
    assert code.cosine == pytest.approx(math.cos(2 * math.pi / n), abs=1e-15)
    check_unit(code.points, n, 2)
    gaps = np.diff(np.sort(np.arctan2(*code.points.T)), append=np.nan)[:-1]
    np.testing.assert_allclose(gaps, 2 * math.pi / n, atol=2e-15)


@pytest.mark.parametrize(("n", "d"), [(n, d) for d in (2, 3, 4, 5, 8, 13) for n in range(2, 2 * d + 1)] + [(300, 200)])
def test_up_to_two_points_a_dimension_it_is_rankins_bound(n, d):
    code = exact_code(n, d)
    check_unit(code.points, n, d)
    rankin = max(-1 / (n - 1), 0 if n > d + 1 else -1)
    assert code.cosine == pytest.approx(rankin, abs=1e-16)
    assert abs(np.nanmax(cosines(code.points, np.arange(n))) - rankin) < 1e-15
    np.testing.assert_allclose(code.points.sum(axis=0), 0, atol=1e-14)
    assert np.linalg.matrix_rank(code.points) == min(n - 1, d)


def harmonic_means(points, y, degrees):
    """For k = 1 .. degrees, the mean over the points of the zonal polynomial of degree k around y, one at y itself."""
    d = points.shape[1]
    t = points @ y
    lower, value = np.ones_like(t), t
    means = []
    for k in range(1, degrees + 1):
        means.append(value.mean())
        lower, value = value, ((2 * k + d - 2) * t * value - k * lower) / (k + d - 2)
    return np.array(means)


# The largest t such that the mean over the points of every polynomial of degree t is that over the sphere.
STRENGTHS = {
    **{(7, 2): 6, (4, 3): 2, (6, 3): 3, (12, 3): 5, (24, 3): 3, (10, 4): 2, (24, 4): 5, (120, 4): 11, (16, 5): 3},
    **{(40, 5): 3, (27, 6): 4, (72, 6): 5, (56, 7): 5, (126, 7): 5, (240, 8): 7, (288, 16): 5, (4320, 16): 7},
    **{(50, 21): 2, (56, 20): 2, (77, 21): 2, (112, 21): 3, (162, 21): 3, (100, 22): 3, (275, 22): 4, (891, 22): 5},
    **{(552, 23): 5, (4600, 23): 7, (196560, 24): 11, (325, 52): 3, (756, 105): 3, (2752, 301): 3, (4224, 64): 5},
}


@pytest.mark.parametrize(("n", "d"), STRENGTHS)
def test_designs_have_their_strength_and_no_more(n, d):
    points, strength = exact_code(n, d).points, STRENGTHS[n, d]
    generator = np.random.default_rng(n)
    for _ in range(3):
        y = generator.standard_normal(d)
        means = harmonic_means(points, y / np.linalg.norm(y), strength)
        assert abs(means).max() < 1e-14
    assert harmonic_means(points, points[0], strength + 1)[-1] > 1e-7


@pytest.mark.parametrize(("n", "d"), [key for key in SPECTRA if "Levenshtein" in exact_code(*key).proof])
def test_what_levenshtein_proved_is_sharp(n, d):
    assert STRENGTHS.get((n, d), 3) >= 2 * len(SPECTRA[n, d]) - 1


@pytest.mark.parametrize(("n", "d"), NAMED)
def test_only_kissing_configurations_signs_and_pairs_of_conference_matrices_lack_a_proof(n, d):
    kissing = {(40, 5), (72, 6), (126, 7), (4320, 16), (49896, 22), (93150, 23)}
    signs = {(104, 13), (512, 16), (1024, 16), (336, 21), (2112, 32)}
    pairs = {(26, 12), (34, 16), (50, 24)}
    assert (exact_code(n, d).proof == "") is ((n, d) in kissing | signs | pairs)


@pytest.mark.parametrize(("n", "d"), [(15, 3), (25, 4), (9, 4), (241, 8), (239, 8), (196559, 24), (1025, 16)])
def test_what_is_not_known_is_not_claimed(n, d):
    assert exact_code(n, d) is None


def test_recognising_builds_nothing():
    code = exact_code(196560, 24)
    assert "points" not in vars(code)
    assert code.points is code.points
    assert exact_code(196560, 24) == code


@pytest.mark.usefixtures("at_the_door")
@pytest.mark.parametrize(
    ("n", "d", "error", "message"),
    [
        (0, 3, ValueError, "expected n >= 2, got 0"),
        (1, 3, ValueError, "expected n >= 2, got 1"),
        (4, 1, ValueError, "expected d >= 2, got 1"),
        (4.0, 3, TypeError, "expected n to be an int"),
        (4, True, TypeError, "expected d to be an int"),
    ],
)
def test_bad_numbers_are_refused(n, d, error, message):
    with pytest.raises(error, match=message):
        exact_code(n, d)


@pytest.mark.parametrize(("p", "k"), [(2, 1), (2, 2), (2, 3), (2, 5), (3, 1), (3, 2), (5, 1), (7, 1)])
def test_fields_obey_their_laws(p, k):
    field = fields.Field(p, k)
    add, times, q = field.sum, field.product, p**k
    a, b, c = np.indices((q, q, q))
    np.testing.assert_array_equal(times[a, add[b, c]], add[times[a, b], times[a, c]])
    np.testing.assert_array_equal(times[a, times[b, c]], times[times[a, b], c])
    np.testing.assert_array_equal(add[a, add[b, c]], add[add[a, b], c])
    for table, neutral, elements in ((add, 0, range(q)), (times, 1, range(1, q))):
        np.testing.assert_array_equal(table, table.T)
        np.testing.assert_array_equal(table[neutral], np.arange(q))
        assert all(sorted(table[x, elements]) == list(elements) for x in elements)
    np.testing.assert_array_equal(field.trace[add], (field.trace[:, None] + field.trace) % p)
    assert sorted(set(field.trace)) == list(range(p))


def test_the_golay_code_has_its_weights():
    words = lattices.golay()
    assert Counter(words.sum(axis=1).tolist()) == {0: 1, 8: 759, 12: 2576, 16: 759, 24: 1}
    assert len(np.unique(words, axis=0)) == 4096


def test_every_leech_vector_sees_the_others_alike():
    vectors = lattices.leech().astype(np.int64)
    seen = {32: 1, 16: 4600, 8: 47104, 0: 93150, -8: 47104, -16: 4600, -32: 1}
    for index in (0, 50_000, 150_000):
        assert Counter((vectors @ vectors[index]).tolist()) == seen


@pytest.mark.parametrize("k", [1, 2, 3])
def test_sums_of_two_kerdock_forms_are_bent(k):
    d = 4**k
    forms = kerdock_set(k)
    characters = 1 - 2 * np.array([[(u & v).bit_count() % 2 for u in range(d)] for v in range(d)])
    for first, second in itertools.combinations(forms, 2):
        assert set(abs((1 - 2 * (first ^ second)) @ characters).tolist()) == {2**k}


def test_the_smallest_kerdock_code_is_the_24_cell():
    np.testing.assert_allclose(np.unique(kerdock(1), axis=0), np.unique(cell_24(), axis=0))


@pytest.mark.parametrize(("p", "k"), [(2, 1), (3, 1), (2, 2), (5, 1), (3, 2)])
def test_quadrics_are_strongly_regular(p, k):
    q = p**k
    collinear = graphs.quadric(p, k)
    assert collinear.shape == ((q + 1) * (q**3 + 1),) * 2
    some = np.random.default_rng(q).permutation(len(collinear))[:200]
    common = collinear[some].astype(np.float32) @ collinear[:, some].astype(np.float32)
    np.testing.assert_array_equal(common[collinear[np.ix_(some, some)]], q - 1)
    np.testing.assert_array_equal(np.diag(common), q * (q**2 + 1))
    apart = ~collinear[np.ix_(some, some)] & ~np.eye(len(some), dtype=bool)
    np.testing.assert_array_equal(common[apart], q**2 + 1)


def test_the_smallest_isotropic_code_is_schlaeflis():
    points = graphs.embed(graphs.quadric(2, 1), 6, near=1 / 4, far=-1 / 2)
    check_spectrum(points, np.arange(27), SPECTRA[27, 6])


def test_hoffman_and_singletons_graph_has_diameter_two_and_no_short_cycle():
    a = graphs.hoffman_singleton().astype(int)
    np.testing.assert_array_equal(a @ a + a - 6 * np.eye(50), 1)
