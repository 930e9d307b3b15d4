"""Approximate neighbours: near, never the row itself, and with a recall that is true and told."""

import logging
import subprocess
import sys

import pytest
import torch
from torch.testing import assert_close

import unclump as uc
from tests.cases import value_and_gradient
from tests.small_tables import seeded
from unclump.ops import faiss_search
from unclump.ops.nearest import nearest

faiss = pytest.importorskip("faiss", reason="needs the extra [faiss]")


def clusters(n, d=16, dtype=torch.float32):
    """Fifty points around each of some centres: what an inverted file finds."""
    centres = uc.uniform(n // 50, d, generator=seeded(1), dtype=dtype).repeat_interleave(50, 0)
    return uc.project(centres + 0.05 * torch.randn(n, d, generator=seeded(2), dtype=dtype))


@pytest.mark.parametrize(("n", "d"), [(2, 2), (3, 5), (63, 3), (1000, 2), (1500, 24)])
def test_the_recall_is_the_part_of_the_rows_whose_nearest_was_found(n, d, monkeypatch):
    monkeypatch.setattr(faiss_search, "_SAMPLE", n)
    x = uc.uniform(n, d, generator=seeded(), dtype=torch.float64)
    found, recall = faiss_search.nearest(x)
    chords = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist").fill_diagonal_(torch.inf)
    stretch = chords[torch.arange(n), found] / chords.amin(dim=1)
    assert stretch.isfinite().all()
    assert recall == (stretch <= 1 + 1e-6).double().mean().item()
    if n < 64:
        assert recall == 1
    if d == 24:  # uniform in many dimensions is the hardest case, which must not be called easy
        assert 0.2 < recall < 0.9
        assert stretch.mean() < 1.1


def test_a_sample_of_rows_tells_about_all():
    x = uc.uniform(4000, 24, generator=seeded())
    found, recall = faiss_search.nearest(x)
    true = (uc.angle(x, x[found]) <= uc.angle(x, x[nearest(x)[0][:, 0]]) * (1 + 1e-6)).double().mean().item()
    assert abs(recall - true) < 4 * (true * (1 - true) / 256) ** 0.5


def test_no_more_centres_are_asked_than_the_recall_needs(monkeypatch):
    asked = []
    search = faiss_search._search
    monkeypatch.setattr(
        faiss_search, "_search", lambda index, *rest: asked.append(index.nprobe) or search(index, *rest)
    )
    assert faiss_search.nearest(clusters(20_000))[1] > 0.99
    assert asked == [2, 2]
    asked.clear()
    faiss_search.nearest(uc.uniform(20_000, 64, generator=seeded()))
    assert asked == [2, 4, 8, 16, 17]  # of 566


@pytest.mark.parametrize("times", [2, 3, 700])
def test_coinciding_rows_find_each_other(times):
    x = torch.cat([clusters(50).repeat_interleave(times, 0), -clusters(50)[:1]])
    found, recall = faiss_search.nearest(x)
    assert torch.equal(x[found[:-1]], x[:-1])
    assert (found != torch.arange(len(x))).all()
    assert recall > 0.99


def test_a_row_of_nan_has_some_neighbour_and_spoils_no_other():
    x = clusters(1000)
    x[7] = torch.nan
    found, _ = faiss_search.nearest(x)
    assert 0 <= found[7] < 1000
    assert x[found[:7]].isfinite().all()


@pytest.mark.parametrize(
    "make",
    [uc.KoLeo, lambda **options: uc.KoLeo(distance="geodesic", **options), uc.MaxMin,
     lambda **options: uc.MaxMin(distance="squared", **options)],
    ids=["KoLeo", "KoLeo(geodesic)", "MaxMin", "MaxMin(squared)"],
)  # fmt: skip
def test_where_all_are_found_the_objectives_are_the_exact_ones(make):
    x = 3 * clusters(2000)
    approximate = make(neighbours="faiss")
    assert_close(value_and_gradient(approximate, x), value_and_gradient(make(), x))
    assert approximate.recall == 1
    approximate(uc.uniform(3000, 24, generator=seeded()))
    assert approximate.recall < 0.9
    assert "neighbours='faiss'" in repr(approximate)


def test_the_functions_take_it_too():
    x = clusters(2000)
    assert_close(uc.koleo(x, neighbours="faiss"), uc.koleo(x))
    assert_close(uc.max_min(x, neighbours="faiss"), uc.max_min(x))


def test_where_all_are_found_the_measures_are_the_exact_ones():
    x = clusters(2000, dtype=torch.float64)
    x[1] = uc.project(x[0] + 1e-6 * x[2])
    assert_close(uc.nearest_angles(x, neighbours="faiss"), uc.nearest_angles(x), rtol=1e-9, atol=0)
    assert_close(uc.min_angle(x, neighbours="faiss"), uc.min_angle(x), rtol=1e-9, atol=0)


def test_what_is_missed_makes_angles_larger():
    x = uc.uniform(3000, 24, generator=seeded())
    assert (uc.nearest_angles(x, neighbours="faiss") >= uc.nearest_angles(x) - 1e-12).all()


def test_the_recall_is_printed(capsys):
    uc.min_angle(clusters(2000), neighbours="faiss")
    assert capsys.readouterr() == ("", "nearest neighbours by faiss: recall 1.000 (of 256 rows of 2000)\n")
    uc.min_angle(clusters(100))
    assert capsys.readouterr() == ("", "")


def test_the_recall_is_logged_where_logging_shows_it(capsys, caplog):
    caplog.set_level(logging.INFO, "unclump")
    uc.min_angle(clusters(100), neighbours="faiss")
    assert caplog.messages == ["nearest neighbours by faiss: recall 1.000 (of 100 rows of 100)"]
    assert capsys.readouterr().err == ""


def test_the_recall_can_be_silenced(capsys, caplog):
    caplog.set_level(logging.WARNING, "unclump")
    uc.min_angle(clusters(100), neighbours="faiss")
    assert (caplog.messages, capsys.readouterr().err) == ([], "")


def test_without_faiss_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match=r"pip install 'unclump\[faiss\]', or choose neighbours='exact'"):
        uc.KoLeo(neighbours="faiss")(clusters(100))


@pytest.mark.usefixtures("at_the_door")
@pytest.mark.parametrize(
    "make",
    [
        lambda: uc.KoLeo(neighbours="hnsw"),
        lambda: uc.MaxMin(neighbours="hnsw"),
        lambda: uc.koleo(torch.eye(3), neighbours="hnsw"),
        lambda: uc.max_min(torch.eye(3), neighbours="hnsw"),
        lambda: uc.min_angle(torch.eye(3), neighbours="hnsw"),
        lambda: uc.nearest_angles(torch.eye(3), neighbours="hnsw"),
    ],
)
def test_other_searches_are_refused(make):
    with pytest.raises(ValueError, match="neighbours to be one of 'exact', 'faiss', got 'hnsw'"):
        make()


def test_threads_are_those_of_torch_and_the_users_own_number_comes_back():
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(3)
    try:
        with faiss_search._faiss_on_our_threads() as module:
            assert module.omp_get_max_threads() == torch.get_num_threads()
        assert faiss.omp_get_max_threads() == 3
    finally:
        faiss.omp_set_num_threads(before)


FORKED = """
import os, signal, torch, unclump as uc
torch.set_num_threads(2)
x = uc.uniform(5000, 8, generator=torch.Generator().manual_seed(0))
expected = uc.KoLeo(neighbours="faiss")(x)
child = os.fork()
if child == 0:
    signal.alarm(30)  # a child that waits for threads it does not have would never end
    torch.set_num_threads(1)  # as a data loader's worker does
    os._exit(0 if torch.isclose(uc.KoLeo(neighbours="faiss")(x), expected) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork here")
def test_a_forked_child_can_search_after_its_parent():
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=120)
