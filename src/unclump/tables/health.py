r"""The health of an embedding table: what it is like, beside what uniform points would be, and what would help.

A table is measured in one pass over its pairs, without the matrix of them. Rows that have no direction, NaN, infinite
or zero, are reported and left out.

* **Duplicates** are rows that are equal, number by number.
* **Near duplicates** are joined in clumps by steps of at most a tenth of the smallest angle that as many uniform points
  would have (its median), and on the circle less, so that fewer than one of a hundred uniform tables has such a pair.
  The angle never exceeds 9 degrees.
* **Hubness** is the skewness of how often a row is among the k = 10 nearest of others, and the share of rows that never
  are: hubs are neighbours of everybody [1].
* **p-values** are those of `rayleigh_test` and `bingham_test`, from simulations below 20 rows; a table of tens of
  thousands of rows can afford these two.

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

from unclump._checks import check_generator, check_table
from unclump.geometry.sphere import angle
from unclump.geometry.uniform_law import UniformLaw, duplicate_angle
from unclump.measures.rows import directions
from unclump.measures.uniformity_tests import UniformityTest, bingham_test, rayleigh_test
from unclump.tables.files import Table, bad_rows
from unclump.tables.findings import Group, Health
from unclump.tables.neighbours import neighbours
from unclump.tables.verdict import Evidence, Verdict, verdict

__all__ = ["Group", "Health", "UniformLaw", "Verdict", "health"]

_NEIGHBOURS = 10
_FEW = 20  # rows, below which p-values are simulated
_SIMULATIONS = 999


def health(
    points: Float[Tensor, "n d"],
    *,
    names: Sequence[str] | None = None,
    generator: torch.Generator | None = None,
    progress: bool = False,
) -> Health:
    """Measure a table: duplicates, clumps, angles, cone, rank, hubness, tests, and a verdict.

    Memory is O(n d), time O(n^2 d).

    Args:
        points: Rows of any norm, at least two of them with a direction. They stay as they are.
        names: Of the rows, to be shown instead of their numbers.
        generator: For simulated p-values, below 20 rows; None for one of its own with seed 0.
        progress: Show a progress bar on stderr.

    Example:
        >>> table = torch.cat([torch.eye(8), -torch.eye(8), torch.eye(8)[:1], torch.zeros(1, 8)])
        >>> found = health(table)
        >>> found.duplicates
        (Group(rows=(0, 16), angle=0.0),)
        >>> print(found.verdict)
        duplicates: 2 rows are equal, in 1 group; spread it with the objective koleo; drop 1 row without a direction
    """
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
    spectrum = _singular_values(x)
    centred_rank = _effective_rank(_singular_values(x - mean))
    occurrences = torch.bincount(found.index.flatten(), minlength=n).double()
    tests = _tests(x, generator)
    least = found.nearest_angle.min().item()
    median, average = float(np.median(found.nearest_angle)), found.nearest_angle.mean().item()
    evidence = Evidence(
        rayleigh_pvalue=tests["rayleigh"].pvalue,
        resultant=(resultant, uniform.resultant_length),
        rank=(centred_rank, UniformLaw(n - 1, d).effective_rank),
        median_nearest=(median, uniform.median_nearest_angle),
        mean_nearest=(average, uniform.mean_nearest_angle),
        # Twice the variance of as many independent ones: two points that are each other's nearest share their angle.
        mean_nearest_deviation=math.sqrt(2 / n) * uniform.deviation_of_nearest_angle,
        smallest_survival=uniform.smallest_survival(least),
        duplicates=_extent(duplicates),
        clumps=_extent(_beside(clumps, duplicates)),
        rows_without_direction=len(bad),
        least_pvalue=min(test.pvalue for test in tests.values()),
        d=d,
    )
    return Health(
        n=len(points),
        d=d,
        dtype=str(points.dtype).removeprefix("torch."),
        bad_rows=tuple(bad),
        duplicates=_renumbered(duplicates, numbers),
        clumps=_renumbered(clumps, numbers),
        near=near,
        min_angle=least,
        median_nearest_angle=median,
        mean_nearest_angle=average,
        uniform=uniform,
        spherical_variance=1 - resultant,
        resultant_length=resultant,
        cone_angle=angle(x, mean / resultant).mean().item() if resultant > 0 else math.pi / 2,
        effective_rank=_effective_rank(spectrum),
        centred_rank=centred_rank,
        k=k,
        hubness=_skewness(occurrences),
        orphans=(occurrences == 0).double().mean().item(),
        tests=tests,
        verdict=verdict(evidence),
        names=names,
        nearest_angles=found.nearest_angle,
        occurrences=occurrences,
        spectrum=spectrum,
    )


def _equal_rows(points: Tensor) -> list[Group]:
    """Groups of rows with the same numbers, by their digests: memory for the table twice is not needed."""
    places: defaultdict[bytes, list[int]] = defaultdict(list)
    for row, content in enumerate(_contents(points)):
        places[hashlib.blake2b(content, digest_size=16).digest()].append(row)
    groups = [Group(tuple(rows), 0.0) for rows in places.values() if len(rows) > 1]
    return sorted(groups, key=lambda group: -len(group.rows))


def _contents(points: Tensor) -> Iterator[bytes]:
    """The bytes of every row; minus zero is zero."""
    for rows in torch.split(points, max(1, 2**20 // points.shape[1])):
        plain = (rows + 0.0).contiguous().view(torch.uint8).numpy()  # bfloat16 is no dtype of NumPy
        yield from map(bytes, plain)


def _groups(labels: Int[Tensor, " n"], nearest: Float[Tensor, " n"]) -> list[Group]:
    """Points of the same label, where there are several; the largest group first, of equal ones the narrowest."""
    order = labels.argsort(stable=True)
    groups = [
        Group(tuple(rows.tolist()), nearest[rows].min().item())
        for rows in torch.split(order, labels.bincount().tolist())
        if len(rows) > 1
    ]
    return sorted(groups, key=lambda group: (-len(group.rows), group.angle))


def _beside(clumps: list[Group], duplicates: list[Group]) -> list[Group]:
    """The clumps that are more than a group of equal rows."""
    equal = {frozenset(group.rows) for group in duplicates}
    return [group for group in clumps if frozenset(group.rows) not in equal]


def _extent(groups: list[Group]) -> tuple[int, int]:
    return sum(len(group.rows) for group in groups), len(groups)


def _renumbered(groups: list[Group], numbers: Int[Tensor, " n"]) -> tuple[Group, ...]:
    """Groups by the rows of the whole table."""
    return tuple(Group(tuple(numbers[list(group.rows)].tolist()), group.angle) for group in groups)


def _singular_values(x: Float[Tensor, "n d"]) -> Float[Tensor, " m"]:
    """The singular values over the root of n, falling."""
    gram = x.mT @ x if x.shape[0] >= x.shape[1] else x @ x.mT
    squares: Tensor = torch.linalg.eigvalsh(gram).clamp_min(0) / len(x)
    return squares.sqrt().flip(0)


def _effective_rank(singular: Float[Tensor, " m"]) -> float:
    if singular.sum() == 0:
        return 0.0
    return float(torch.special.entr(singular / singular.sum()).sum().exp())


def _skewness(counts: Float[Tensor, " n"]) -> float:
    centred = counts - counts.mean()
    deviation = centred.square().mean().sqrt()
    return float((centred**3).mean() / deviation**3) if deviation > 0 else 0.0


def _tests(x: Tensor, generator: torch.Generator | None) -> dict[str, UniformityTest]:
    simulations = _SIMULATIONS if len(x) < _FEW else None
    generator = generator or torch.Generator().manual_seed(0)
    return {
        "rayleigh": rayleigh_test(x, simulations=simulations, generator=generator),
        "bingham": bingham_test(x, simulations=simulations, generator=generator),
    }
