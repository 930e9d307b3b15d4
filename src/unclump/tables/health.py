r"""The health of an embedding table, compared with uniform points, and what would improve it.

A table is measured in one pass over its pairs, without storing the n x n matrix. Rows that have no direction (NaN,
infinite or zero) are reported and left out.

* **Duplicates** are rows that are equal, number by number.
* **Near duplicates** are rows within `duplicate_angle` of each other: a tenth of the median smallest angle of n uniform
  points, or less on the circle, so that fewer than one of a hundred uniform tables has such a pair; never more than 9
  degrees. Chains of near duplicates form a clump.
* **Hubness** is the skewness of how often a row is among the k = 10 nearest of others, and the fraction of rows that
  never are: hubs are neighbours of very many rows [1].
* **p-values** are those of `rayleigh_test` and `bingham_test`, simulated for fewer than 20 rows; these two tests are
  affordable for tens of thousands of rows.

References:
    [1] Radovanović, Nanopoulos and Ivanović. Hubs in space. JMLR 2010.
"""

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.linalg import vector_norm

from unclump._arrays import as_tensor
from unclump._checks import check_generator, check_table
from unclump.geometry.sphere import angle
from unclump.geometry.uniform_law import UniformLaw, duplicate_angle
from unclump.measures.angles import rank_of, singular_values
from unclump.measures.isotropic_law import IsotropicLaw
from unclump.measures.pairs import cosine_of_sum
from unclump.measures.rows import directions
from unclump.measures.spectrum import isoscore, rankme
from unclump.measures.uniformity_tests import UniformityTest, bingham_test, rayleigh_test
from unclump.tables.files import Table, bad_rows
from unclump.tables.findings import Group, Health
from unclump.tables.neighbours import neighbours
from unclump.tables.verdict import Evidence, Verdict, verdict

__all__ = ["Group", "Health", "UniformLaw", "Verdict", "health"]

_NEIGHBOURS = 10
_LIMIT_LAW_ROWS = 20  # with fewer rows, p-values are simulated
_SIMULATIONS = 999


def health(
    points: Float[Tensor, "n d"] | Float[np.ndarray, "n d"],
    *,
    names: Sequence[str] | None = None,
    generator: torch.Generator | None = None,
    progress: bool = False,
) -> Health:
    """Measure a table: duplicates, clumps, angles, cone, rank, hubness, tests, and a verdict.

    Memory is O(n d), time O(n^2 d).

    Args:
        points: Rows of any norm, torch or NumPy, at least two of them with a direction. They are not modified.
        names: The names of the rows, printed beside their numbers.
        generator: For p-values simulated for fewer than 20 rows; None for a new one with seed 0.
        progress: Show a progress bar on stderr.

    Example:
        >>> table = torch.cat([torch.eye(8), -torch.eye(8), torch.eye(8)[:1], torch.zeros(1, 8)])
        >>> result = health(table)
        >>> result.duplicates
        (Group(rows=(0, 16), angle=0.0),)
        >>> print(result.verdict)
        duplicates: 2 rows are equal, in 1 group; spread it with the objective koleo; drop 1 row without a direction
    """
    points = as_tensor(points)
    check_table(points, at_least=2)
    check_generator(generator)
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
    kept = points if not bad else points[numbers]
    duplicates = _equal_rows(kept)
    x = directions(kept)
    n, d = x.shape
    uniform = UniformLaw(n, d)
    near, k = duplicate_angle(n, d), min(_NEIGHBOURS, n - 1)
    found = neighbours(x, k=k, within=near, progress=progress)
    clumps = _groups(found.clump, found.nearest_angle)
    mean = x.mean(dim=0)
    resultant = vector_norm(mean).item()
    spectrum = singular_values(x) / math.sqrt(n)
    centred_rank = rank_of(singular_values(x - mean)).item()
    occurrences = torch.bincount(found.index.flatten(), minlength=n).double()
    tests = _tests(x, generator)
    least = found.nearest_angle.min().item()
    median, average = float(np.median(found.nearest_angle)), found.nearest_angle.mean().item()
    facts = Evidence(
        rayleigh_pvalue=tests["rayleigh"].pvalue,
        resultant=(resultant, uniform.resultant_length),
        rank=(centred_rank, UniformLaw(n - 1, d).effective_rank),
        median_nearest=(median, uniform.median_nearest_angle),
        mean_nearest=(average, uniform.mean_nearest_angle),
        # Twice the variance of n independent angles: two points that are each other's nearest share their angle.
        mean_nearest_deviation=math.sqrt(2 / n) * uniform.std_nearest_angle,
        smallest_survival=uniform.smallest_survival(least),
        duplicates=_extent(duplicates),
        clumps=_extent(_not_all_equal(clumps, duplicates)),
        rows_without_direction=len(bad),
        least_pvalue=min(test.pvalue for test in tests.values()),
        d=d,
    )
    return Health(
        n=len(points),
        d=d,
        dtype=str(points.dtype).removeprefix("torch."),
        bad_rows=tuple(bad),
        duplicates=_renumber(duplicates, numbers),
        clumps=_renumber(clumps, numbers),
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
        rankme=rankme(kept),
        isoscore=isoscore(kept),
        mean_cosine=cosine_of_sum(n * mean, n).item(),
        isotropic=IsotropicLaw(n, d),
        k=k,
        hubness=_skewness(occurrences),
        orphans=(occurrences == 0).double().mean().item(),
        tests=tests,
        verdict=verdict(facts),
        names=names,
        nearest_angles=found.nearest_angle,
        occurrences=occurrences,
        spectrum=spectrum,
    )


def _equal_rows(points: Tensor) -> list[Group]:
    """Group equal rows by a digest of their bytes, which needs no second copy of the table."""
    rows_by_digest: defaultdict[bytes, list[int]] = defaultdict(list)
    for row, content in enumerate(_row_bytes(points)):
        rows_by_digest[hashlib.blake2b(content, digest_size=16).digest()].append(row)
    groups = [Group(tuple(rows), 0.0) for rows in rows_by_digest.values() if len(rows) > 1]
    return sorted(groups, key=lambda group: -len(group.rows))


def _row_bytes(points: Tensor) -> Iterator[bytes]:
    """Yield the bytes of every row, with minus zero as zero."""
    for rows in torch.split(points, max(1, 2**20 // points.shape[1])):
        yield from map(bytes, (rows + 0.0).contiguous().view(torch.uint8).numpy())  # NumPy lacks bfloat16


def _groups(labels: Int[Tensor, " n"], nearest: Float[Tensor, " n"]) -> list[Group]:
    """Group the rows with the same label; largest group first, then the smallest angle; single rows are left out."""
    order = labels.argsort(stable=True)
    groups = [
        Group(tuple(rows.tolist()), nearest[rows].min().item())
        for rows in torch.split(order, labels.bincount().tolist())
        if len(rows) > 1
    ]
    return sorted(groups, key=lambda group: (-len(group.rows), group.angle))


def _not_all_equal(clumps: list[Group], duplicates: list[Group]) -> list[Group]:
    """Return the clumps that are not just a group of equal rows."""
    equal = {frozenset(group.rows) for group in duplicates}
    return [group for group in clumps if frozenset(group.rows) not in equal]


def _extent(groups: list[Group]) -> tuple[int, int]:
    """Return the number of rows and of groups."""
    return sum(len(group.rows) for group in groups), len(groups)


def _renumber(groups: list[Group], numbers: Int[Tensor, " n"]) -> tuple[Group, ...]:
    """Map the row numbers of groups to those of the whole table."""
    return tuple(Group(tuple(numbers[list(group.rows)].tolist()), group.angle) for group in groups)


def _skewness(counts: Float[Tensor, " n"]) -> float:
    centred = counts - counts.mean()
    deviation = centred.square().mean().sqrt()
    return float((centred**3).mean() / deviation**3) if deviation > 0 else 0.0


def _tests(x: Tensor, generator: torch.Generator | None) -> dict[str, UniformityTest]:
    simulations = _SIMULATIONS if len(x) < _LIMIT_LAW_ROWS else None
    generator = generator or torch.Generator().manual_seed(0)
    return {
        "rayleigh": rayleigh_test(x, simulations=simulations, generator=generator),
        "bingham": bingham_test(x, simulations=simulations, generator=generator),
    }
