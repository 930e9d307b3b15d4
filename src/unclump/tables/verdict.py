"""The verdict on a table: faults, apart from structure that a good table has, and what to do about the faults.

Uniform points are the reference for measures, not for health: rows with a meaning lie nearer to rows with a similar
meaning than uniform points do, and lean towards common directions. A fault is what makes rows indistinguishable or
unusable. The thresholds separate good tables from tables with planted faults; `experiments/verdict.py` measures both.
"""

import shlex
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from unclump._text import counted
from unclump.tables.commands import Paths

SIGNIFICANCE = 0.001  # largest p-value that counts as evidence
CONE = 0.5  # mean cosine above which the direction that all rows share outweighs what tells them apart
LOW_RANK = 0.5  # fraction of uniform points' effective rank below which the rank has collapsed
_HUB_SHARE, _HUB_MULTIPLE = 0.05, 10  # a hub is a neighbour of so many of the rows, and of so many times an even share
_DEAD_SHARE = 0.01  # fraction of the dimensions that may be constant
_NORM_CORRELATION, _NORM_VARIATION = 0.7, 0.1  # rank correlation with the frequency; deviation over mean
_PADDING_ROWS = 1  # rows of zeros that are taken to be padding
_FEW_ROWS = 20  # of fewer rows, constant dimensions and correlations are chance
_LEAN, _FEWER_DIMENSIONS = 0.1, 0.9  # excess of the mean's length, share of the effective rank: structure
_NEARER, _FARTHER = 0.9, 1.01  # of nearest angles, relative to those of uniform points
_SIGNIFICANT = 3  # standard deviations by which a mean nearest angle must differ from that of uniform points

_SEPARATE = "unclump spread FILE --duplicates-only -o OUT"
_COMPARE = "unclump repair FILE -o OUT"  # compares repairs, and writes the one that helps, if any
FAULTS = {
    "directions": None,
    "duplicates": _SEPARATE,
    "near-duplicates": _SEPARATE,
    "rank": _COMPARE,
    "cone": _COMPARE,
    "hubs": _COMPARE,
    "dimensions": None,
    "norms": None,
}
"""The names of the faults, worst first, and the command that helps, or None where it takes a decision instead."""

HEALTHY = ("structured", "uniform", "better than uniform")
"""The kinds of tables without faults."""


@dataclass(frozen=True)
class Verdict:
    """What is wrong with a table, and what helps.

    Attributes:
        kind: The worst fault, by its name in `FAULTS`; without faults "structured", "uniform" or "better than uniform".
        findings: The names of all faults, worst first; without faults, `kind` alone.
        text: The verdict in one line.
        structure: How the table differs from uniform points without being at fault, in words.
        commands: The commands that help, with FILE and OUT for the table and the result.
    """

    kind: str
    findings: tuple[str, ...]
    text: str
    structure: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()

    @property
    def is_healthy(self) -> bool:
        """Whether there are no faults."""
        return self.kind in HEALTHY

    def commands_for(self, paths: Paths) -> list[str]:
        """The commands that help, to copy into a shell; each reads what the one before it wrote."""
        lines = []
        for command in self.commands:
            words = {"FILE": str(paths.file), "OUT": str(paths.out)}
            lines.append(shlex.join([*(words.get(word, word) for word in command.split()), *paths.options]))
            paths = paths.following()
        return lines

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Evidence:
    """The numbers that the rules use; pairs are of the table and of uniform points.

    Attributes:
        n: The number of rows with a direction.
        d: The number of dimensions.
        rayleigh_pvalue: Of Rayleigh's test.
        least_pvalue: The least of all tests.
        mean_cosine: Over all pairs.
        resultant: The length of the mean.
        rank: The centred effective rank.
        median_nearest: The median nearest angle.
        mean_nearest: The mean nearest angle.
        mean_nearest_deviation: The standard deviation of the mean nearest angle of uniform points.
        smallest_survival: The probability that uniform points have a larger smallest angle.
        duplicates: How many rows are equal, and in how many groups.
        near_duplicates: How many rows nearly coincide with rows they do not equal, and in how many groups.
        not_finite: The number of rows that are NaN or infinite.
        zeros: The number of rows that are zero.
        largest_hub: The share of the rows that have the same row among their k nearest.
        k: How many neighbours of each row count.
        dead_dimensions: The dimensions that are constant, by number.
        norm_correlation: Spearman's rank correlation of the norms with the frequency, or with minus the row number.
        norm_variation: The standard deviation of the norms, divided by their mean.
        has_frequencies: Whether the frequencies were given.
    """

    n: int
    d: int
    rayleigh_pvalue: float
    least_pvalue: float
    mean_cosine: float
    resultant: tuple[float, float]
    rank: tuple[float, float]
    median_nearest: tuple[float, float]
    mean_nearest: tuple[float, float]
    mean_nearest_deviation: float
    smallest_survival: float
    duplicates: tuple[int, int]
    near_duplicates: tuple[int, int]
    not_finite: int
    zeros: int
    largest_hub: float
    k: int
    dead_dimensions: tuple[int, ...]
    norm_correlation: float
    norm_variation: float
    has_frequencies: bool


def verdict(facts: Evidence) -> Verdict:
    """Judge a table by these rules.

    ================  =================================================================================================
    directions        some rows are NaN or infinite, or more than one is zero (one is taken to be padding)
    duplicates        some rows are equal
    near-duplicates   some rows that are not equal are within `duplicate_angle`
    rank              the centred effective rank is less than half that of uniform points
    cone              the mean cosine over all pairs exceeds 0.5, and Rayleigh's test has p <= 0.001
    hubs              one row is among the k nearest of 5 percent of the rows, and of ten times its even share
    dimensions        more than 1 percent of the dimensions are constant: a hundredth of the median deviation or less
    norms             the norms vary by a tenth of their mean or more, and go with the frequency (or fall with the row
                      number) with a rank correlation of 0.7 or more
    structured        none of these; rows are nearer to their neighbours than uniform points, lean towards one
                      direction, or use dimensions unevenly
    better than       none of these; at most one of 1000 uniform tables has such a large smallest angle, or the mean
    uniform           nearest angle exceeds that of uniform points by 1 percent and 3 standard deviations
    uniform           none of these
    ================  =================================================================================================
    """
    faults = dict(_find_faults(facts))
    structure = tuple(_find_structure(facts, faults))
    if faults:
        commands = dict.fromkeys(command for name in faults if (command := FAULTS[name]) is not None)
        return Verdict(next(iter(faults)), tuple(faults), "; ".join(faults.values()), structure, tuple(commands))
    kind = "better than uniform" if _is_better(facts) else "structured" if structure else "uniform"
    return Verdict(kind, (kind,), _describe_healthy(kind, facts, structure), structure)


def _find_faults(facts: Evidence) -> Iterator[tuple[str, str]]:
    """Yield the name and the description of each fault, in the order of `FAULTS`."""
    bad = facts.not_finite + facts.zeros
    if facts.not_finite or facts.zeros > _PADDING_ROWS:
        yield (
            "directions",
            f"{_with_verb(bad, 'row')} no direction (NaN, infinite or zero): first drop or replace {_pronoun(bad)}",
        )
    rows, groups = facts.duplicates
    if rows:
        yield "duplicates", f"duplicates: {rows} rows are equal, in {counted(groups, 'group')}"
    rows, groups = facts.near_duplicates
    if rows:
        yield "near-duplicates", f"near duplicates: {rows} rows nearly coincide, in {counted(groups, 'group')}"
    if facts.rank[0] < LOW_RANK * facts.rank[1]:
        yield "rank", f"collapsed rank: about {facts.rank[0]:.1f} of {facts.d} dimensions are used"
    if facts.mean_cosine > CONE and facts.rayleigh_pvalue <= SIGNIFICANCE:
        yield "cone", f"a cone: the rows share one direction (mean cosine {facts.mean_cosine:.2f})"
    if is_hub(facts.largest_hub, facts.k, facts.n):
        yield "hubs", f"hubs: one row is among the {facts.k} nearest of {facts.largest_hub:.0%} of the rows"
    dead = facts.dead_dimensions
    if len(dead) > _DEAD_SHARE * facts.d:
        are = "is" if len(dead) == 1 else "are"
        yield (
            "dimensions",
            f"dead dimensions: {len(dead)} of {facts.d} {are} constant ({_list(dead)}): drop {_pronoun(len(dead))}",
        )
    if _norms_carry_frequency(facts):
        carry = "carry the frequency" if facts.has_frequencies else "fall from row to row, as the frequency may"
        advice = "compare by cosine, or normalise the rows"
        yield "norms", f"norms {carry} (rank correlation {facts.norm_correlation:.2f}): {advice}"


def is_hub(share: float, k: int, n: int) -> bool:
    """Whether a row is a fault that is among the k nearest of this share of n rows."""
    return share >= max(_HUB_SHARE, _HUB_MULTIPLE * k / n)


def _find_structure(facts: Evidence, faults: Collection[str]) -> Iterator[str]:
    """Yield in words what differs from uniform points without being one of the faults."""
    share = facts.median_nearest[0] / facts.median_nearest[1]
    if share < _NEARER and _z_score(facts) < -_SIGNIFICANT:
        yield f"nearest neighbours are at {share:.0%} of the angle of uniform points"
    leans = facts.resultant[0] > facts.resultant[1] + _LEAN and facts.rayleigh_pvalue <= SIGNIFICANCE
    if leans and "cone" not in faults:
        yield f"the rows lean to one direction (mean cosine {facts.mean_cosine:.2f})"
    used = facts.rank[0] / facts.rank[1]
    if facts.n >= _FEW_ROWS and used < _FEWER_DIMENSIONS and "rank" not in faults:
        yield f"the centred effective rank is {used:.0%} of uniform points'"
    if 0 < len(facts.dead_dimensions) <= _DEAD_SHARE * facts.d:
        yield f"{counted(len(facts.dead_dimensions), 'constant dimension')} of {facts.d}"
    if 0 < facts.zeros <= _PADDING_ROWS and not facts.not_finite:
        yield "one row of zeros, as padding is"


def _describe_healthy(kind: str, facts: Evidence, structure: tuple[str, ...]) -> str:
    text = {
        "structured": "healthy, structured",
        "better than uniform": "healthy, better than uniform: the points keep more distance than random ones",
        "uniform": "healthy, as good as uniform",
    }[kind]
    if kind == "uniform" and facts.least_pvalue <= SIGNIFICANCE:
        text += f", though a test can tell them apart (p = {facts.least_pvalue:.2g})"
    return "; ".join([text, *structure])


def _norms_carry_frequency(facts: Evidence) -> bool:
    varies, follows = facts.norm_variation >= _NORM_VARIATION, facts.norm_correlation >= _NORM_CORRELATION
    return varies and follows and facts.n >= _FEW_ROWS


def _is_better(facts: Evidence) -> bool:
    is_farther = facts.mean_nearest[0] > _FARTHER * facts.mean_nearest[1] and _z_score(facts) > _SIGNIFICANT
    return is_farther or facts.smallest_survival <= SIGNIFICANCE


def _z_score(facts: Evidence) -> float:
    return (facts.mean_nearest[0] - facts.mean_nearest[1]) / facts.mean_nearest_deviation


def _list(numbers: tuple[int, ...], most: int = 5) -> str:
    return ", ".join(map(str, numbers[:most])) + (", ..." if len(numbers) > most else "")


def _with_verb(number: int, noun: str) -> str:
    return f"{counted(number, noun)} {'has' if number == 1 else 'have'}"


def _pronoun(number: int) -> str:
    return "it" if number == 1 else "them"
