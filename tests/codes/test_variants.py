"""The best variant of a code is found from others, and never is worse."""

import numpy as np
import pytest

import unclump._library as library
from unclump.codes import catalogue
from unclump.codes.search.loops import minimise_overlap, polish, smallest_squared_chord
from unclump.codes.search.moves import shake_cap
from unclump.codes.search.variants import best_variant

GO = np.zeros(1, np.uint8)

pytestmark = pytest.mark.skipif(library.choose()[0] is None, reason="without compiled loops there are no variants")


def another_variant(x, generator):
    """Slightly worse, by at most 1e-4 of the squared chord."""
    best = smallest_squared_chord(x)
    for _ in range(200):
        y = shake_cap(x, generator)
        minimise_overlap(y, 1.002 * best, 300, 1e-10, GO)
        if (1 - 1e-4) * best < polish(y, 1.25, 100, GO) < (1 - 1e-7) * best:
            return y
    raise AssertionError("expected a code with variants")


@pytest.mark.parametrize("n", [97, 110])
def test_the_best_variant_is_found_from_another(n):
    generator = np.random.default_rng(0)
    best = catalogue.read(catalogue.SHIPPED, n, 3).points
    other = another_variant(best, generator)
    before = other.copy()
    found = [best_variant(other, 200, generator, GO) for _ in range(3)]  # one alone may miss it
    assert max(map(smallest_squared_chord, found)) == pytest.approx(smallest_squared_chord(best), rel=1e-9)
    np.testing.assert_array_equal(other, before)


def test_a_variant_is_never_worse():
    generator = np.random.default_rng(1)
    x = generator.standard_normal((40, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    before = polish(x, 1.25, 100, GO)
    assert smallest_squared_chord(best_variant(x, 0, generator, GO)) == before
    assert smallest_squared_chord(best_variant(x, 5, generator, GO)) >= before
