"""The verdict: faults at and beside their thresholds, structure that is none, good tables that pass."""

import dataclasses
import json
import math
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import unclump as uc
from unclump.geometry.uniform_law import UniformLaw
from unclump.tables.commands import Paths, better_path
from unclump.tables.verdict import FAULTS, Evidence, verdict

DATA = Path(os.environ.get("UNCLUMP_DATA", Path(__file__).parents[3] / "shared" / "data"))
GLOVE = DATA / "glove6B_100d_top50k.npz"


@pytest.fixture(autouse=True)
def few_simulations(monkeypatch):
    """Tables below 20 rows are compared with 19 uniform ones, which is quicker."""
    monkeypatch.setattr(sys.modules["unclump.tables.health"], "_SIMULATIONS", 19)


def clusters(points):
    """Ten clusters whose centres balance."""
    centres = torch.cat([torch.eye(5), -torch.eye(5)]).double()
    return uc.project(centres.repeat(30, 1) + 0.3 * points(300, 5))


def hub(points):
    """Rows around a centre, and one at it: it is nearer to them than they are to each other."""
    centre = points(1, 60)
    around = uc.project(centre + 0.9 * points(200, 60))
    return torch.cat([around, points(200, 60), centre])


def frequency_norms(points):
    return points(300, 20) * torch.linspace(2, 1, 300).unsqueeze(1)


TABLES = {
    "directions": lambda points: torch.cat([points(300, 20), torch.zeros(2, 20)]),
    "duplicates": lambda points: torch.cat([points(300, 20), points(1, 20).repeat(2, 1)]),
    "near-duplicates": lambda points: torch.cat([x := points(300, 20), uc.project(x[:1] + 1e-3 * points(1, 20))]),
    "rank": lambda points: points(300, 20) * torch.tensor([1.0] * 4 + [0.02] * 16),
    "cone": lambda points: points(300, 20) + 0.35,
    "hubs": hub,
    "dimensions": lambda points: points(300, 20) * torch.tensor([1.0] * 19 + [1e-3]),
    "norms": frequency_norms,
    "structured": clusters,
    "uniform": lambda points: points(300, 20),
    "better than uniform": lambda points: uc.spherical_code(24, 3).points,
}
HEALTHY = {"structured", "uniform", "better than uniform"}


@pytest.mark.parametrize("kind", TABLES)
def test_the_verdict_names_what_is_wrong_and_nothing_else(kind, points):
    found = uc.health(TABLES[kind](points)).verdict
    assert found.findings == (kind,)
    assert found.kind == kind
    assert "\n" not in found.text
    assert found.is_healthy == (kind in HEALTHY)
    assert found.text.startswith("healthy") == found.is_healthy
    assert found.commands == (() if kind in HEALTHY or FAULTS[kind] is None else (FAULTS[kind],))


def test_every_fault_has_a_planted_table():
    assert TABLES.keys() - HEALTHY == FAULTS.keys()


def evidence(**changed):
    """A table of 1000 rows like uniform points, but for what is changed."""
    plain = Evidence(
        n=1000, d=200, rayleigh_pvalue=0.0, least_pvalue=0.5, mean_cosine=0.0, resultant=(0.0, 0.0),
        rank=(100.0, 100.0), median_nearest=(1.0, 1.0), mean_nearest=(1.0, 1.0), mean_nearest_deviation=0.01,
        smallest_survival=0.5, duplicates=(0, 0), near_duplicates=(0, 0), not_finite=0, zeros=0, largest_hub=0.0, k=10,
        dead_dimensions=(), norm_correlation=0.0, norm_variation=0.0, has_frequencies=False,
    )  # fmt: skip
    return dataclasses.replace(plain, **changed)


@pytest.mark.parametrize(
    ("fault", "within", "beyond"),
    [
        ("directions", {"zeros": 1}, {"zeros": 2}),
        ("directions", {}, {"not_finite": 1}),
        ("duplicates", {}, {"duplicates": (2, 1)}),
        ("near-duplicates", {}, {"near_duplicates": (2, 1)}),
        ("rank", {"rank": (51.0, 100.0)}, {"rank": (49.0, 100.0)}),
        ("cone", {"mean_cosine": 0.49, "resultant": (0.7, 0.03)}, {"mean_cosine": 0.51}),
        ("cone", {"mean_cosine": 0.51, "rayleigh_pvalue": 0.01}, {"mean_cosine": 0.51, "rayleigh_pvalue": 0.0005}),
        ("hubs", {"largest_hub": 0.09}, {"largest_hub": 0.11}),  # ten times an even share
        ("hubs", {"largest_hub": 0.04, "n": 10**6}, {"largest_hub": 0.06, "n": 10**6}),
        ("dimensions", {"dead_dimensions": (3, 4)}, {"dead_dimensions": (3, 4, 5)}),
        ("norms", {"norm_correlation": 0.69, "norm_variation": 0.11}, {"norm_correlation": 0.7, "norm_variation": 0.1}),
        ("norms", {"norm_correlation": 1.0, "norm_variation": 0.09}, {"norm_correlation": 1.0, "norm_variation": 0.1}),
        ("norms", {"norm_correlation": -1.0, "norm_variation": 1.0}, {"norm_correlation": 0.8, "norm_variation": 1.0}),
    ],
)  # fmt: skip
def test_a_fault_begins_at_its_threshold(fault, within, beyond):
    assert verdict(evidence(**within)).is_healthy
    assert verdict(evidence(**beyond)).findings == (fault,)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"median_nearest": (0.6, 1.0), "mean_nearest": (0.6, 1.0)}, "nearest neighbours are at 60% of the angle"),
        ({"resultant": (0.5, 0.03), "mean_cosine": 0.25}, "lean to one direction (mean cosine 0.25)"),
        ({"rank": (70.0, 100.0)}, "centred effective rank is 70% of uniform points'"),
        ({"dead_dimensions": (7,)}, "1 constant dimension of 200"),
        ({"zeros": 1}, "one row of zeros, as padding is"),
    ],
)
def test_structure_is_said_and_is_no_fault(changed, says):
    found = verdict(evidence(**changed))
    assert (found.kind, found.commands) == ("structured", ())
    assert found.text.startswith("healthy, structured; ")
    assert says in found.text
    assert [says in said for said in found.structure] == [True]
    faulty = verdict(evidence(duplicates=(2, 1), **changed))
    assert faulty.structure == found.structure
    assert says not in faulty.text


def test_commands_are_for_the_shell():
    found = verdict(evidence(duplicates=(2, 1), near_duplicates=(4, 2), mean_cosine=0.9))
    assert found.findings == ("duplicates", "near-duplicates", "cone")
    paths = Paths(Path("my words.npz"), Path("better.npz"), "a b", Path("names.txt"))
    assert found.commands_for(paths) == [
        "unclump spread 'my words.npz' --duplicates-only -o better.npz --tensor 'a b' --names names.txt",
        "unclump repair better.npz -o better-2.npz --tensor 'a b' --names names.txt",
    ]


@pytest.mark.parametrize(
    ("file", "format_name", "out", "second"),
    [
        ("a/words.v2.npz", "npz", "a/words.v2-better.npz", "--tensor x"),
        ("a/words.h5", "hdf5", "a/words-better.npz", ""),
        ("words.txt.gz", "gzip", "words-better.npz", ""),
        ("a.b/words", "text", "a.b/words-better", "--tensor x"),
        ("data", "dataset", "data-better.npz", ""),
    ],
)
def test_the_result_goes_where_it_can_be_written(file, format_name, out, second):
    assert better_path(Path(file), format_name) == Path(out)
    following = Paths(Path(file), Path(out), "x").following()
    assert (following.file, " ".join(following.options)) == (Path(out), second)


def test_a_folder_without_a_name_has_one(tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path / "model")
    assert better_path(Path(), "huggingface") == tmp_path / "model-better"
    assert Paths(Path(), Path("out")).without_folders().file == Path("model")


def test_a_fault_is_not_structure_too():
    cone = verdict(evidence(mean_cosine=0.9, resultant=(0.95, 0.03)))
    assert (cone.findings, cone.structure) == (("cone",), ())
    rank = verdict(evidence(rank=(20.0, 100.0)))
    assert (rank.findings, rank.structure) == (("rank",), ())


def test_equal_rows_only():
    found = uc.health(torch.ones(30, 4))
    assert found.verdict.findings == ("duplicates", "rank", "cone", "dimensions")
    assert found.duplicates[0].rows == tuple(range(30))
    assert (found.min_angle, found.cone_angle, found.centred_rank) == pytest.approx((0, 0, 0), abs=1e-7)
    json.dumps(found.to_dict(), allow_nan=False)


def test_a_narrow_cone_is_a_cone_and_keeps_its_dimensions(points):
    found = uc.health(points(1, 20) + 0.1 * points(300, 20))
    assert found.verdict.findings == ("cone",)
    assert found.effective_rank < 18
    assert found.centred_rank > 18


def test_a_crowd_of_equal_rows_is_no_hub(points):
    """Which of 200 equal rows are the ten nearest of the others is chance."""
    found = uc.health(torch.cat([points(200, 20), points(1, 20).repeat(200, 1)]))
    assert found.occurrences.max() > 0.25 * 400  # the threshold
    assert "hubs" not in found.verdict.findings


def test_norms_are_compared_with_frequencies_where_they_are_given(points):
    x = frequency_norms(points)
    order = torch.randperm(300, generator=torch.Generator().manual_seed(0))
    assert uc.health(x[order]).verdict.is_healthy
    assert "frequency" not in uc.health(x).verdict.text.replace("as the frequency may", "")
    counts = torch.arange(300, 0, -1.0)
    found = uc.health(torch.cat([torch.zeros(1, 20), x[order]]), frequencies=torch.cat([counts[:1], counts[order]]))
    assert found.verdict.findings == ("norms",)
    assert "norms carry the frequency" in found.verdict.text
    assert "rank correlation of norm and frequency" in str(found)
    assert found.norm_correlation == pytest.approx(1)
    assert uc.health(x, frequencies=-counts.numpy()).norm_correlation == pytest.approx(-1)


def test_frequencies_are_one_for_each_row(points, at_the_door):
    x, counts = points(300, 20), torch.arange(300, 0, -1.0)
    with pytest.raises(ValueError, match=r"expected 300 finite frequencies, one for each row, got shape \(299,\)"):
        uc.health(x, frequencies=counts[1:])


def test_equal_rows_are_not_called_near_duplicates_as_well(points):
    x = points(40, 10)
    x[3] = x[9]
    assert uc.health(x).verdict.findings == ("duplicates",)


@pytest.mark.parametrize("n", [2, 3, 5, 8, 60])
@pytest.mark.parametrize("d", [2, 3, 300])
def test_few_uniform_points_are_rarely_called_anything_else(n, d, points):
    kinds = [uc.health(points(n, d)).verdict.kind for _ in range(10)]
    assert kinds.count("uniform") >= 9


@pytest.mark.parametrize(
    "best",
    [
        lambda: torch.tensor([[1.0, 0.0], [-1.0, 0.0]]),
        lambda: torch.tensor([[1.0, 0.0], [-0.5, 0.75**0.5], [-0.5, -(0.75**0.5)]]),
        lambda: torch.cat([torch.eye(50), -torch.eye(50)]),
    ],
)
def test_the_best_there_is_is_better_than_uniform(best):
    assert uc.health(best()).verdict.kind == "better than uniform"


def test_points_that_keep_more_distance_on_the_whole_are_better_than_uniform():
    turn, height = np.arange(200) * math.pi * (3 - math.sqrt(5)), (2 * np.arange(200) + 1) / 200 - 1  # a spiral
    flat = np.sqrt(1 - height**2)
    x = torch.from_numpy(np.stack([flat * np.cos(turn), flat * np.sin(turn), height], axis=1))
    law = UniformLaw(201, 3)
    found = uc.health(torch.cat([x, uc.project(x[:1] + torch.tensor([0.0, 0.015, 0.0]))]))
    assert law.smallest_survival(found.min_angle) > 0.2  # one pair is not
    assert found.verdict.kind == "better than uniform"


@pytest.mark.skipif(not GLOVE.exists(), reason="no GloVe table in ../shared/data or $UNCLUMP_DATA")
def test_glove_is_healthy_and_structured():
    table = uc.load(GLOVE)
    found = uc.health(table.points[:5000], names=table.names[:5000])
    assert found.verdict.kind == "structured"
    assert found.verdict.commands == ()
    assert len(found.verdict.structure) >= 2
    assert found.min_angle == pytest.approx(uc.nearest_angles(table.points[:5000]).min().item(), rel=1e-9)
