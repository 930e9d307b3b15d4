"""Codes among words: isometries, orbits and unions are what they claim, and known codes are found."""

import numpy as np
import pytest

from unclump.codes.search import words as among
from unclump.codes.search.words import cosines, signed_subsets, spaces, subsets, union_of_orbits, words_over

SPACES = [subsets(9, 4), signed_subsets(6, 1, 3), words_over(4, 3)]


@pytest.mark.parametrize("d", range(8, 14))
def test_spaces_are_distinct_unit_points_in_their_dimension(d):
    for words in spaces(d):
        assert words.points.shape == (len(words.letters), d)
        np.testing.assert_allclose(np.linalg.norm(words.points, axis=1), 1, atol=1e-12)
        assert len(np.unique(words.letters, axis=0)) == len(words.letters)


def test_cosines_are_those_of_coding_theory():
    np.testing.assert_allclose(cosines(subsets(12, 6)), [1 / 3, 2 / 3], atol=1e-9)  # six less two or one in common
    np.testing.assert_allclose(cosines(words_over(4, 6)), [1 / 9, 1 / 3, 5 / 9, 7 / 9], atol=1e-9)
    np.testing.assert_allclose(cosines(signed_subsets(9, 3)), [1 / 3, 2 / 3], atol=1e-9)


@pytest.mark.parametrize("words", SPACES, ids=lambda words: words.name)
def test_isometries_map_words_to_words_and_keep_cosines(words):
    generator = np.random.default_rng(0)
    number = {tuple(letters): i for i, letters in enumerate(words.letters.tolist())}
    for _ in range(10):
        positions, change = among._random_isometry(words, generator)
        image = [number[tuple(row)] for row in words.changes[change, words.letters[:, positions]].tolist()]
        assert sorted(image) == list(range(len(image)))
        gram = words.points @ words.points.T
        np.testing.assert_allclose(gram[np.ix_(image, image)], gram, atol=1e-12)
        orbit = among._orbits(words, [(positions, change)])
        np.testing.assert_array_equal(orbit[image], orbit)


@pytest.mark.parametrize("words", SPACES, ids=lambda words: words.name)
def test_no_two_points_of_a_union_are_closer_than_allowed(words):
    generator, unions = np.random.default_rng(0), 0
    for cosine in cosines(words)[:3]:
        for _ in range(10):
            points = union_of_orbits(words, cosine, 4, generator)
            if points is not None and len(points) > 1:
                unions += 1
                assert (points @ points.T - 2 * np.eye(len(points))).max() < cosine + 1e-8
    assert unions > 0


@pytest.mark.parametrize(
    ("words", "cosine", "size"),
    [(subsets(12, 6), 1 / 3, 132), (subsets(11, 5), 4 / 15, 66), (signed_subsets(8, 3), 1 / 3, 64)],
    ids=["hexads of S(5, 6, 12)", "blocks of S(4, 5, 11)", "signed triples of eight"],
)
def test_known_codes_are_found(words, cosine, size):
    generator = np.random.default_rng(0)
    for _ in range(100):
        points = union_of_orbits(words, cosine, size, generator)
        if points is not None and len(points) == size:
            return
    pytest.fail(f"expected {size} points in one of a hundred groups")
