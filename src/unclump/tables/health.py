r"""The health of an embedding table, compared with uniform points, and what would improve it.

One pass over the rows, then one over their pairs, without storing the n x n matrix; in large tables the neighbours of a
sample of rows are searched for in the pass over the rows. Rows that have no direction (NaN, infinite or zero) are
reported and left out.

* **Exact** in a table of any size are norms, mean, rank and all else that is made of moments, tests, equal rows and
  constant dimensions. **Sampled**, with 95 percent intervals, are nearest angles, the cone angle and hubs. Near
  duplicates of a large table are those that hashes find (`unclump.tables.sign_hashes`), and those of sampled rows.

* **Duplicates** are rows that are equal, number by number.
* **Near duplicates** are rows within `duplicate_angle` of each other: one degree at most. Chains of them form a clump.
* **Hubness** is the skewness of how often a row is among the k = 10 nearest of others, and the fraction of rows that
  never are: hubs are neighbours of very many rows [1]. The largest hub is taken among rows that are in no clump, whose
  rows are neighbours by coincidence.
* **Norms and frequency:** Spearman's correlation of the norms with the frequencies of the rows, or, where none are
  given, with minus the row number: vocabularies are commonly sorted by falling frequency.
* **p-values** are those of `rayleigh_test` and `bingham_test`, simulated for fewer than 20 rows; these two tests need
  no pairs.

References:
    [1] Radovanović, Nanopoulos and Ivanović. Hubs in space. JMLR 2010.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from scipy import stats
from torch import Tensor
from torch.linalg import vector_norm

from unclump._arrays import read_only_tensor
from unclump._checks import check_count, check_generator
from unclump.distributed.ranks import Gather, check_gather
from unclump.geometry.uniform_law import UniformLaw, duplicate_angle
from unclump.measures.angles import rank_of
from unclump.measures.isotropic_law import IsotropicLaw
from unclump.measures.pairs import cosine_of_sum, uniformity
from unclump.measures.uniformity_tests import (
    UniformityTest,
    bingham_of_gram,
    bingham_test,
    rayleigh_of_mean,
    rayleigh_test,
)
from unclump.tables.equal_rows import equal_rows
from unclump.tables.findings import Health, fingerprint
from unclump.tables.gathered import are_parts, gather_frequencies, gather_names, gather_rows
from unclump.tables.groups import Group, extent, not_all_equal
from unclump.tables.health_json import finite_or_none
from unclump.tables.neighbourhood import estimate_from_sample, measure_all_rows
from unclump.tables.plan import make_plan
from unclump.tables.rows import Rows, evenly
from unclump.tables.sources import as_table
from unclump.tables.survey import Survey, survey
from unclump.tables.verdict import Evidence, Verdict, verdict

__all__ = ["Group", "Health", "UniformLaw", "Verdict", "health"]

_NEIGHBOURS = 10
_LIMIT_LAW_ROWS = 20  # with fewer rows, p-values are simulated
_SIMULATIONS = 999
_UNIFORMITY_ROWS = 2048  # whose pairs are measured


def health(
    points: Any,
    *,
    sentences: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    frequencies: Float[Tensor, " n"] | Float[np.ndarray, " n"] | None = None,
    exact: bool = False,
    sample: int | None = None,
    generator: torch.Generator | None = None,
    gather: Gather = False,
    device: torch.device | str | None = None,
    progress: bool = False,
) -> Health:
    """Measure a table: duplicates, clumps, angles, cone, rank, hubness, tests, and a verdict.

    With a sample of m rows it takes O(n d (m + d)) time, and memory for a block of rows, some d x d matrices, the
    sample, and 40 bytes per row; `points` may be a memory map. Without a sample it takes O(n^2 d) time and O(n d)
    memory.

    Args:
        points: Rows of any norm, at least two of them with a direction: a tensor, an array, or anything else that
            `as_table` accepts, such as data frames and models; or a list of tensors or arrays, the consecutive parts
            of one table. They are not modified.
        sentences: The sentences to encode, if `points` is a model that encodes sentences.
        names: The names of the rows, printed next to their numbers; None for those of `points`, if it has any.
        frequencies: How often each row is used, in any unit; None assumes that rows are sorted by falling frequency.
        exact: Search for the neighbours of all rows, however many there are.
        sample: Search for the neighbours of this many random rows. None searches for those of all rows if n^2 d is at
            most 1.5e12, and otherwise of 6e11 / (n d) rows, but at least 2048.
        generator: For the sample, and for p-values simulated for fewer than 20 rows; None for a new one with seed 0.
        gather: True, a process group or `Shards`: `points`, a tensor or an array, names and frequencies are those of
            this rank's rows, perhaps none, of one table, and all ranks return the health of the whole table. They
            communicate through the CPU, as by gloo. A sampled table is not exchanged; without a sample every rank
            gathers all rows.
        device: Where neighbours are searched for; None for the CPU, which does everything else.
        progress: Show a progress bar on stderr.

    Example:
        >>> table = torch.cat([torch.eye(8), -torch.eye(8), torch.eye(8)[:1], torch.zeros(1, 8)])
        >>> result = health(table)
        >>> result.duplicates
        (Group(rows=(0, 16), angle=0.0),)
        >>> print(result.verdict)
        duplicates: 2 rows are equal, in 1 group
    """
    check_gather(gather)
    check_generator(generator)
    parts = [read_only_tensor(part) for part in (points if are_parts(points) else [points])]
    if gather is False and len(parts) == 1:
        table = as_table(parts[0], sentences=sentences)
        parts, names = [table.points], table.names if names is None else names
    if sample is not None:
        check_count("sample", sample, at_least=2)
        if exact:
            raise ValueError("expected exact or a sample, got both; choose one")
    generator = generator or torch.Generator().manual_seed(0)
    rows = gather_rows(parts, gather, exact, sample, generator)
    names, frequencies = gather_names(names, rows), gather_frequencies(frequencies, rows)
    device = None if device is None else torch.device(device)
    n, d = len(rows), rows.d
    if n <= d:  # few, and their moments are kept as rows
        rows = Rows(rows.take(torch.arange(n)))
    k = min(_NEIGHBOURS, n - 1)
    sampled = make_plan(n, d, exact=exact, sample=sample).sample(generator)
    seen = survey(rows, names=names, sampled=sampled, k=k, device=device, progress=progress)
    numbers, bad = seen.numbers, seen.bad
    n = len(numbers)
    if n < 2:
        raise ValueError(
            f"expected at least 2 rows with a direction, got {n} of {len(rows)}; the others are NaN, infinite or zero"
        )
    k = min(k, n - 1)
    uniform, near = UniformLaw(n, d), duplicate_angle(n, d)
    equal = equal_rows(rows, numbers, seen.hashes)
    mean = seen.unit.mean
    if seen.sample is not None and len(seen.sample.numbers) < 2:
        raise ValueError(f"expected 2 sampled rows with a direction, got {len(seen.sample.numbers)}; sample more rows")
    if seen.sample is None:
        around = measure_all_rows(rows, numbers, mean, k=k, within=near, device=device, progress=progress)
    else:
        around = estimate_from_sample(rows, numbers, mean, seen.sample, k=k, within=near, equal=equal)
    duplicates = [Group(group, 0.0) for group in equal]
    resultant = vector_norm(mean).item()
    mean_cosine = cosine_of_sum(n * mean, n).item()
    spectrum = seen.unit.singular_values() / math.sqrt(n)
    centred_rank = rank_of(seen.unit.centred_singular_values()).item()
    tests = _tests(rows, seen, generator)
    median, average = float(np.median(around.nearest_angles)), around.nearest_angles.mean().item()
    norm_correlation, norm_variation = _compare_norms(seen.norms, numbers, frequencies)
    facts = Evidence(
        n=n,
        d=d,
        rayleigh_pvalue=tests["rayleigh"].pvalue,
        least_pvalue=min(test.pvalue for test in tests.values()),
        mean_cosine=mean_cosine,
        resultant=(resultant, uniform.resultant_length),
        rank=(centred_rank, uniform.centred_rank),
        median_nearest=(median, uniform.median_nearest_angle),
        mean_nearest=(average, uniform.mean_nearest_angle),
        # Twice the variance of n independent angles: two points that are each other's nearest share their angle.
        mean_nearest_deviation=math.sqrt(2 / len(around.nearest_angles)) * uniform.std_nearest_angle,
        smallest_survival=uniform.smallest_survival(around.min_angle) if around.sampled is None else 1.0,
        duplicates=extent(duplicates),
        near_duplicates=extent(not_all_equal(around.clumps, duplicates)),
        not_finite=sum(row.fault != "zero" for row in bad),
        zeros=sum(row.fault == "zero" for row in bad),
        largest_hub=around.largest_hub,
        k=k,
        dead_dimensions=seen.dead_dimensions if n >= _LIMIT_LAW_ROWS else (),
        norm_correlation=norm_correlation,
        norm_variation=norm_variation,
        has_frequencies=frequencies is not None,
    )
    return Health(
        n=len(rows),
        d=d,
        dtype=str(rows.dtype).removeprefix("torch."),
        bad_rows=bad,
        duplicates=tuple(duplicates),
        near=near,
        median_nearest_angle=median,
        mean_nearest_angle=average,
        uniform=uniform,
        spherical_variance=1 - resultant,
        resultant_length=resultant,
        effective_rank=rank_of(spectrum).item(),
        centred_rank=centred_rank,
        rankme=rank_of(seen.raw.singular_values()).item(),
        isoscore=seen.raw.isoscore(),
        alpha_req=finite_or_none(seen.raw.alpha_req()),
        mean_cosine=mean_cosine,
        uniformity=_uniformity(rows, numbers),
        isotropic=IsotropicLaw(n, d),
        k=k,
        dead_dimensions=facts.dead_dimensions,
        norm_correlation=norm_correlation,
        norm_variation=norm_variation,
        has_frequencies=frequencies is not None,
        tests=tests,
        verdict=verdict(facts),
        names=names,
        spectrum=spectrum,
        fingerprint=fingerprint(rows),
        **vars(around),
    )


def _uniformity(rows: Rows, numbers: Int[Tensor, " n"]) -> float:
    """Return the uniformity of the rows of these numbers, or of so many of them that their pairs take a moment."""
    value = uniformity(rows.take(numbers[evenly(len(numbers), _UNIFORMITY_ROWS)]))
    assert isinstance(value, float)
    return value


def _compare_norms(
    norms: Float64[Tensor, " n"], numbers: Int[Tensor, " n"], frequencies: Float64[Tensor, " m"] | None
) -> tuple[float, float]:
    """Return the rank correlation of norms and frequencies, or falling row numbers, and their deviation / mean."""
    variation = (norms.std(correction=0) / norms.mean()).item()
    others = -numbers if frequencies is None else frequencies[numbers]
    ranks = [torch.from_numpy(stats.rankdata(values)) for values in (norms, others)]
    centred = [rank - rank.mean() for rank in ranks]
    deviations = math.prod(vector_norm(rank).item() for rank in centred)
    return float(centred[0] @ centred[1]) / deviations if deviations > 0 else 0.0, variation


def _tests(rows: Rows, seen: Survey, generator: torch.Generator) -> dict[str, UniformityTest]:
    """Return the tests of the rows with a direction, by their moments; of few rows by simulation."""
    n, d = len(seen.numbers), rows.d
    if n >= _LIMIT_LAW_ROWS:
        return {"rayleigh": rayleigh_of_mean(seen.unit.mean, n), "bingham": bingham_of_gram(seen.unit.gram(), n, d)}
    x = rows.take(seen.numbers)
    return {
        "rayleigh": rayleigh_test(x, simulations=_SIMULATIONS, generator=generator),
        "bingham": bingham_test(x, simulations=_SIMULATIONS, generator=generator),
    }
