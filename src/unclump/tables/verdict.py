"""The verdict on a table: simple rules, a sentence in plain words, and the objective that helps."""

from dataclasses import dataclass

OBJECTIVES = {
    "cone": "sliced",
    "few dimensions": "sliced",
    "duplicates": "koleo",
    "clumps": "koleo",
    "uniform": None,
    "better than uniform": None,
}
"""The possible verdicts, worst first, and the name of the objective that helps; None if none is needed."""

SIGNIFICANCE = 0.001  # largest p-value that counts as evidence
_CONE_EXCESS = 0.1  # least excess of the mean's length over that of uniform points in a cone
_LOW_RANK = 0.5  # fraction of uniform points' effective rank below which the table has few dimensions
_CLUMPED, _DISPERSED = 0.9, 1.01  # thresholds for nearest angles, relative to those of uniform points
_SIGNIFICANT = 3  # standard deviations by which a mean nearest angle must differ from that of uniform points


@dataclass(frozen=True)
class Verdict:
    """What is wrong with a table, and what helps.

    Attributes:
        kind: The worst finding: "cone", "few dimensions", "duplicates", "clumps", "uniform", "better than uniform".
        findings: All findings that apply, worst first.
        text: The verdict in one line.
        objective: The name of the objective to spread with, as `objective` accepts it; None if none is needed.
    """

    kind: str
    findings: tuple[str, ...]
    text: str
    objective: str | None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Evidence:
    """The numbers that the rules use; pairs are of the table and of uniform points."""

    rayleigh_pvalue: float
    resultant: tuple[float, float]  # the length of the mean
    rank: tuple[float, float]  # the effective rank after subtracting the mean
    median_nearest: tuple[float, float]
    mean_nearest: tuple[float, float]
    mean_nearest_deviation: float  # of the mean nearest angle of uniform points
    smallest_survival: float  # the probability that uniform points have a larger smallest angle
    duplicates: tuple[int, int]  # rows, groups
    clumps: tuple[int, int]
    rows_without_direction: int
    least_pvalue: float
    d: int


def verdict(facts: Evidence) -> Verdict:
    """Judge a table by these rules.

    ===================  ==============================================================================================
    cone                 the mean is at least 0.1 longer than that of uniform points, and Rayleigh's test has p <= 0.001
    few dimensions       the effective rank after subtracting the mean is less than half that of uniform points
    duplicates           some rows are equal
    clumps               some rows that are not equal are near duplicates; or the median nearest angle is less than 0.9
                         times that of uniform points, and the mean nearest angle 3 standard deviations less
    better than uniform  none of the above, and at most one of 1000 uniform tables has such a large smallest angle, or
                         the mean nearest angle exceeds that of uniform points by 1 percent and 3 standard deviations
    uniform              none of the above
    ===================  ==============================================================================================
    """
    faults = _find_faults(facts)
    if faults:
        kind, description = next(iter(faults)), "; ".join(faults.values())
        text = f"{description}; spread it with the objective {OBJECTIVES[kind]}"
    else:
        faults = {"better than uniform": ""} if _is_better(facts) else {"uniform": ""}
        kind = next(iter(faults))
        text = {
            "better than uniform": "better than uniform: the points keep more distance than random ones",
            "uniform": "as good as uniform",
        }[kind]
        if kind == "uniform" and facts.least_pvalue <= SIGNIFICANCE:
            text += f", though a test can tell them apart (p = {facts.least_pvalue:.2g})"
    if facts.rows_without_direction:
        text += f"; drop {count(facts.rows_without_direction, 'row')} without a direction"
    return Verdict(kind, tuple(faults), text, OBJECTIVES[kind])


def _find_faults(facts: Evidence) -> dict[str, str]:
    """Return all faults that apply, worst first, with their descriptions."""
    faults = {}
    if facts.resultant[0] > facts.resultant[1] + _CONE_EXCESS and facts.rayleigh_pvalue <= SIGNIFICANCE:
        faults["cone"] = (
            f"a cone: the rows lean to one direction (the length of their mean is {facts.resultant[0]:.2f})"
        )
    if facts.rank[0] < _LOW_RANK * facts.rank[1]:
        faults["few dimensions"] = f"collapsed to few dimensions: about {facts.rank[0]:.1f} of {facts.d} are used"
    rows, groups = facts.duplicates
    if rows:
        faults["duplicates"] = f"duplicates: {rows} rows are equal, in {count(groups, 'group')}"
    rows, groups = facts.clumps
    if rows:
        faults["clumps"] = f"clumps: {rows} rows nearly coincide, in {count(groups, 'group')}"
    elif facts.median_nearest[0] < _CLUMPED * facts.median_nearest[1] and _z_score(facts) < -_SIGNIFICANT:
        share = facts.median_nearest[0] / facts.median_nearest[1]
        faults["clumps"] = f"clumps: nearest neighbours are at {share:.0%} of the angle of uniform points"
    return faults


def _is_better(facts: Evidence) -> bool:
    is_farther = facts.mean_nearest[0] > _DISPERSED * facts.mean_nearest[1] and _z_score(facts) > _SIGNIFICANT
    return is_farther or facts.smallest_survival <= SIGNIFICANCE


def _z_score(facts: Evidence) -> float:
    return (facts.mean_nearest[0] - facts.mean_nearest[1]) / facts.mean_nearest_deviation


def count(number: int, noun: str) -> str:
    """Format a number with its noun, in the plural unless the number is one."""
    return f"{number} {noun}{'s' if number != 1 else ''}"
