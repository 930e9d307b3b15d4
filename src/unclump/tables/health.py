r"""The health of an embedding table, compared with uniform points, and what would improve it.

One pass over the rows, then one over their pairs, without storing the n x n matrix. Rows that have no direction (NaN,
infinite or zero) are reported and left out.

* **Duplicates** are rows that are equal, number by number.
* **Near duplicates** are rows within `duplicate_angle` of each other: one degree at most. Chains of them form a clump.
* **Hubness** is the skewness of how often a row is among the k = 10 nearest of others, and the fraction of rows that
  never are: hubs are neighbours of very many rows [1]. The largest hub is taken among rows that are in no clump, whose
  rows are neighbours by coincidence.
* **Norms and frequency:** Spearman's correlation of the norms with the frequencies of the rows, or with minus the row
  number: vocabularies are commonly sorted by falling frequency.
* **p-values** are those of `rayleigh_test` and `bingham_test`, simulated for fewer than 20 rows; these two tests need
  no pairs.

References:
    [1] Radovanović, Nanopoulos and Ivanović. Hubs in space. JMLR 2010.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from scipy import stats
from torch import Tensor
from torch.linalg import vector_norm

from unclump._arrays import as_tensor
from unclump._checks import check_generator, check_table
from unclump.geometry.sphere import angle
from unclump.geometry.uniform_law import UniformLaw, duplicate_angle
from unclump.measures.angles import rank_of
from unclump.measures.isotropic_law import IsotropicLaw
from unclump.measures.pairs import cosine_of_sum
from unclump.measures.rows import directions
from unclump.measures.uniformity_tests import (
    UniformityTest,
    bingham_of_gram,
    bingham_test,
    rayleigh_of_mean,
    rayleigh_test,
)
from unclump.tables.equal_rows import equal_rows
from unclump.tables.files import Table, bad_rows
from unclump.tables.findings import Health, fingerprint
from unclump.tables.groups import Group, extent, groups_of_labels, not_all_equal, renumber
from unclump.tables.moments import Moments
from unclump.tables.neighbours import neighbours
from unclump.tables.survey import survey
from unclump.tables.verdict import Evidence, Verdict, verdict

__all__ = ["Group", "Health", "UniformLaw", "Verdict", "health"]

_NEIGHBOURS = 10
_LIMIT_LAW_ROWS = 20  # with fewer rows, p-values are simulated
_SIMULATIONS = 999


def health(
    points: Float[Tensor, "n d"] | Float[np.ndarray, "n d"],
    *,
    names: Sequence[str] | None = None,
    frequencies: Float[Tensor, " n"] | Float[np.ndarray, " n"] | None = None,
    generator: torch.Generator | None = None,
    progress: bool = False,
) -> Health:
    """Measure a table: duplicates, clumps, angles, cone, rank, hubness, tests, and a verdict.

    Memory is O(n d), time O(n^2 d).

    Args:
        points: Rows of any norm, torch or NumPy, at least two of them with a direction. They are not modified.
        names: The names of the rows, printed beside their numbers.
        frequencies: How often each row is used, in any unit; None takes the rows to be sorted by falling frequency.
        generator: For p-values simulated for fewer than 20 rows; None for a new one with seed 0.
        progress: Show a progress bar on stderr.

    Example:
        >>> table = torch.cat([torch.eye(8), -torch.eye(8), torch.eye(8)[:1], torch.zeros(1, 8)])
        >>> result = health(table)
        >>> result.duplicates
        (Group(rows=(0, 16), angle=0.0),)
        >>> print(result.verdict)
        duplicates: 2 rows are equal, in 1 group
    """
    points = as_tensor(points)
    check_table(points, at_least=2)
    check_generator(generator)
    frequencies = _check_frequencies(frequencies, len(points))
    points = points.detach().cpu()
    bad = bad_rows(Table(points, names))
    good = torch.ones(len(points), dtype=torch.bool)
    good[[row.row for row in bad]] = False
    numbers = good.nonzero().flatten()
    if len(numbers) < 2:
        raise ValueError(
            f"expected at least 2 rows with a direction, got {len(numbers)} of {len(points)}; "
            "the others are NaN, infinite or zero"
        )
    seen = survey(points, numbers, progress=progress)
    duplicates = [Group(rows, 0.0) for rows in equal_rows(points if not bad else points[numbers], seen.hashes)]
    x = directions(points if not bad else points[numbers])
    n, d = x.shape
    uniform = UniformLaw(n, d)
    near, k = duplicate_angle(n, d), min(_NEIGHBOURS, n - 1)
    found = neighbours(x, k=k, within=near, progress=progress)
    clumps = groups_of_labels(found.clump, found.nearest_angle)
    mean = seen.unit.mean
    resultant = vector_norm(mean).item()
    mean_cosine = cosine_of_sum(n * mean, n).item()
    spectrum = seen.unit.singular_values() / math.sqrt(n)
    centred_rank = rank_of(seen.unit.centred_singular_values()).item()
    occurrences = torch.bincount(found.index.flatten(), minlength=n).double()
    largest_hub = _largest_outside(occurrences, clumps) / n
    tests = _tests(x, seen.unit, generator)
    least = found.nearest_angle.min().item()
    median, average = float(np.median(found.nearest_angle)), found.nearest_angle.mean().item()
    norm_correlation, norm_variation = _compare_norms(seen.norms, numbers, frequencies)
    facts = Evidence(
        n=n,
        d=d,
        rayleigh_pvalue=tests["rayleigh"].pvalue,
        least_pvalue=min(test.pvalue for test in tests.values()),
        mean_cosine=mean_cosine,
        resultant=(resultant, uniform.resultant_length),
        rank=(centred_rank, UniformLaw(n - 1, d).effective_rank),
        median_nearest=(median, uniform.median_nearest_angle),
        mean_nearest=(average, uniform.mean_nearest_angle),
        # Twice the variance of n independent angles: two points that are each other's nearest share their angle.
        mean_nearest_deviation=math.sqrt(2 / n) * uniform.std_nearest_angle,
        smallest_survival=uniform.smallest_survival(least),
        duplicates=extent(duplicates),
        near_duplicates=extent(not_all_equal(clumps, duplicates)),
        not_finite=sum(row.fault != "zero" for row in bad),
        zeros=sum(row.fault == "zero" for row in bad),
        largest_hub=largest_hub,
        k=k,
        dead_dimensions=seen.dead_dimensions if n >= _LIMIT_LAW_ROWS else (),
        norm_correlation=norm_correlation,
        norm_variation=norm_variation,
    )
    return Health(
        n=len(points),
        d=d,
        dtype=str(points.dtype).removeprefix("torch."),
        bad_rows=tuple(bad),
        duplicates=renumber(duplicates, numbers),
        clumps=renumber(clumps, numbers),
        near=near,
        min_angle=least,
        median_nearest_angle=median,
        mean_nearest_angle=average,
        uniform=uniform,
        spherical_variance=1 - resultant,
        resultant_length=resultant,
        cone_angle=angle(x, mean / resultant).mean().item() if resultant > 0 else math.pi / 2,
        effective_rank=rank_of(spectrum).item(),
        centred_rank=centred_rank,
        rankme=rank_of(seen.raw.singular_values()).item(),
        isoscore=seen.raw.isoscore(),
        mean_cosine=mean_cosine,
        isotropic=IsotropicLaw(n, d),
        k=k,
        hubness=_skewness(occurrences),
        largest_hub=largest_hub,
        orphans=(occurrences == 0).double().mean().item(),
        dead_dimensions=facts.dead_dimensions,
        norm_correlation=norm_correlation,
        norm_variation=norm_variation,
        tests=tests,
        verdict=verdict(facts),
        names=names,
        nearest_angles=found.nearest_angle,
        occurrences=occurrences,
        spectrum=spectrum,
        sampled=None,
        intervals={},
        fingerprint=fingerprint(points),
    )


def _skewness(counts: Float[Tensor, " n"]) -> float:
    centred = counts - counts.mean()
    deviation = centred.square().mean().sqrt()
    return float((centred**3).mean() / deviation**3) if deviation > 0 else 0.0


def _largest_outside(occurrences: Float64[Tensor, " n"], clumps: list[Group]) -> float:
    """Return the largest count of a row that is in no clump."""
    counts = occurrences.clone()
    counts[[row for group in clumps for row in group.rows]] = 0
    return counts.max().item()


def _check_frequencies(
    frequencies: Float[Tensor, " n"] | Float[np.ndarray, " n"] | None, n: int
) -> Float64[Tensor, " n"]:
    """Return the frequencies, or numbers that fall with the row where none are given."""
    if frequencies is None:
        return -torch.arange(n, dtype=torch.float64)
    frequencies = torch.as_tensor(frequencies).double()
    if frequencies.shape != (n,) or not bool(frequencies.isfinite().all()):
        raise ValueError(f"expected {n} finite frequencies, one for each row, got shape {tuple(frequencies.shape)}")
    return frequencies


def _compare_norms(
    norms: Float64[Tensor, " n"], numbers: Int[Tensor, " n"], frequencies: Float64[Tensor, " m"]
) -> tuple[float, float]:
    """Return the rank correlation of the norms with the frequencies, and the norms' deviation over their mean."""
    variation = (norms.std(correction=0) / norms.mean()).item()
    ranks = [torch.from_numpy(stats.rankdata(values)) for values in (norms, frequencies[numbers])]
    centred = [rank - rank.mean() for rank in ranks]
    deviations = math.prod(vector_norm(rank).item() for rank in centred)
    return float(centred[0] @ centred[1]) / deviations if deviations > 0 else 0.0, variation


def _tests(x: Tensor, moments: Moments, generator: torch.Generator | None) -> dict[str, UniformityTest]:
    """Return the tests of points with these moments."""
    n, d = x.shape
    if n >= _LIMIT_LAW_ROWS:
        return {"rayleigh": rayleigh_of_mean(moments.mean, n), "bingham": bingham_of_gram(moments.gram(), n, d)}
    generator = generator or torch.Generator().manual_seed(0)
    return {
        "rayleigh": rayleigh_test(x, simulations=_SIMULATIONS, generator=generator),
        "bingham": bingham_test(x, simulations=_SIMULATIONS, generator=generator),
    }
