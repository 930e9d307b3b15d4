"""The verdict on a table in plain words, by simple rules, and the objective that helps."""

from dataclasses import dataclass

OBJECTIVES = {
    "cone": "sliced",
    "few dimensions": "sliced",
    "duplicates": "koleo",
    "clumps": "koleo",
    "uniform": None,
    "better than uniform": None,
}
"""What a table may be, the gravest first, and the name of the objective that helps; None where nothing needs to."""

UNLIKELY = 0.001  # a p-value that speaks against chance
_LONGER = 0.1  # by how much the mean of a cone is longer than that of uniform points
_FEWER = 0.5  # the part of uniform points' effective rank below which there are few dimensions
_NEARER, _FARTHER = 0.9, 1.01  # of uniform points' nearest angles
_DEVIATIONS = 3  # beyond which a mean nearest angle is no chance


@dataclass(frozen=True)
class Verdict:
    """What a table is, and what helps.

    Attributes:
        kind: The gravest finding: "cone", "few dimensions", "duplicates", "clumps", "uniform", "better than uniform".
        findings: All that hold, the gravest first.
        text: One line for a person.
        objective: The name of the objective to spread with, as `objective` understands it; None where none is needed.
    """

    kind: str
    findings: tuple[str, ...]
    text: str
    objective: str | None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Evidence:
    """The numbers that the rules look at; those of uniform points beside those of the table."""

    rayleigh_pvalue: float
    resultant: tuple[float, float]  # the length of the mean
    rank: tuple[float, float]  # the effective rank about the mean
    median_nearest: tuple[float, float]
    mean_nearest: tuple[float, float]
    mean_nearest_deviation: float  # of the mean nearest angle of uniform points
    smallest_survival: float  # the probability that uniform points have a larger smallest angle
    duplicates: tuple[int, int]  # rows, groups
    clumps: tuple[int, int]
    rows_without_direction: int
    least_pvalue: float
    d: int


def verdict(seen: Evidence) -> Verdict:
    """The rules, each a line of `_findings`.

    ===================  ==============================================================================================
    cone                 the mean is longer than uniform points' by 0.1 at least, and Rayleigh's test has p <= 0.001
    few dimensions       the effective rank about the mean is less than half of uniform points'
    duplicates           some rows are equal
    clumps               some rows that are not equal are near duplicates; or the median nearest angle is less than 0.9
                         of uniform points', and the mean nearest angle 3 standard deviations less
    better than uniform  none of these, and the smallest angle is that of one of 1000 uniform tables at most; or the
                         mean nearest angle is larger than uniform points' by 1 percent and by 3 standard deviations
    uniform              none of these
    ===================  ==============================================================================================
    """
    faults = _faults(seen)
    if faults:
        kind, said = next(iter(faults)), "; ".join(faults.values())
        text = f"{said}; spread it with the objective {OBJECTIVES[kind]}"
    else:
        faults = {"better than uniform": ""} if _is_better(seen) else {"uniform": ""}
        kind = next(iter(faults))
        text = {
            "better than uniform": "better than uniform: the points keep more distance than random ones",
            "uniform": "as good as uniform",
        }[kind]
        if kind == "uniform" and seen.least_pvalue <= UNLIKELY:
            text += f", though a test can tell them apart (p = {seen.least_pvalue:.2g})"
    if seen.rows_without_direction:
        text += f"; drop {count(seen.rows_without_direction, 'row')} without a direction"
    return Verdict(kind, tuple(faults), text, OBJECTIVES[kind])


def _faults(seen: Evidence) -> dict[str, str]:
    """All faults that hold, and how to say them."""
    faults = {}
    if seen.resultant[0] > seen.resultant[1] + _LONGER and seen.rayleigh_pvalue <= UNLIKELY:
        faults["cone"] = f"a cone: the rows lean to one direction (the length of their mean is {seen.resultant[0]:.2f})"
    if seen.rank[0] < _FEWER * seen.rank[1]:
        faults["few dimensions"] = f"collapsed to few dimensions: about {seen.rank[0]:.1f} of {seen.d} are used"
    rows, groups = seen.duplicates
    if rows:
        faults["duplicates"] = f"duplicates: {rows} rows are equal, in {count(groups, 'group')}"
    rows, groups = seen.clumps
    if rows:
        faults["clumps"] = f"clumps: {rows} rows nearly coincide, in {count(groups, 'group')}"
    elif seen.median_nearest[0] < _NEARER * seen.median_nearest[1] and _deviations(seen) < -_DEVIATIONS:
        share = seen.median_nearest[0] / seen.median_nearest[1]
        faults["clumps"] = f"clumps: nearest neighbours are at {share:.0%} of the angle of uniform points"
    return faults


def _is_better(seen: Evidence) -> bool:
    farther = seen.mean_nearest[0] > _FARTHER * seen.mean_nearest[1] and _deviations(seen) > _DEVIATIONS
    return farther or seen.smallest_survival <= UNLIKELY


def _deviations(seen: Evidence) -> float:
    return (seen.mean_nearest[0] - seen.mean_nearest[1]) / seen.mean_nearest_deviation


def count(number: int, what: str) -> str:
    """So many of these, in English."""
    return f"{number} {what}{'s' if number != 1 else ''}"
