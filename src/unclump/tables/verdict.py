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


def verdict(evidence: Evidence) -> Verdict:
    """Judge a table by these rules.

    ===================  ==============================================================================================
    cone                 the mean is longer than that of uniform points by at least 0.1, and Rayleigh's test gives
                         p <= 0.001
    few dimensions       the effective rank after subtracting the mean is less than half that of uniform points
    duplicates           some rows are equal
    clumps               some rows that are not equal are near duplicates; or the median nearest angle is less than 0.9
                         times that of uniform points, and the mean nearest angle 3 standard deviations less
    better than uniform  none of the above, and at most one of 1000 uniform tables has such a large smallest angle, or
                         the mean nearest angle exceeds that of uniform points by 1 percent and 3 standard deviations
    uniform              none of the above
    ===================  ==============================================================================================
    """
    faults = _find_faults(evidence)
    if faults:
        kind, description = next(iter(faults)), "; ".join(faults.values())
        text = f"{description}; spread it with the objective {OBJECTIVES[kind]}"
    else:
        faults = {"better than uniform": ""} if _is_better(evidence) else {"uniform": ""}
        kind = next(iter(faults))
        text = {
            "better than uniform": "better than uniform: the points keep more distance than random ones",
            "uniform": "as good as uniform",
        }[kind]
        if kind == "uniform" and evidence.least_pvalue <= SIGNIFICANCE:
            text += f", though a test can tell them apart (p = {evidence.least_pvalue:.2g})"
    if evidence.rows_without_direction:
        text += f"; drop {count(evidence.rows_without_direction, 'row')} without a direction"
    return Verdict(kind, tuple(faults), text, OBJECTIVES[kind])


def _find_faults(evidence: Evidence) -> dict[str, str]:
    """Return all faults that apply, worst first, with their descriptions."""
    faults = {}
    if evidence.resultant[0] > evidence.resultant[1] + _CONE_EXCESS and evidence.rayleigh_pvalue <= SIGNIFICANCE:
        faults["cone"] = (
            f"a cone: the rows lean to one direction (the length of their mean is {evidence.resultant[0]:.2f})"
        )
    if evidence.rank[0] < _LOW_RANK * evidence.rank[1]:
        faults["few dimensions"] = f"collapsed to few dimensions: about {evidence.rank[0]:.1f} of {evidence.d} are used"
    rows, groups = evidence.duplicates
    if rows:
        faults["duplicates"] = f"duplicates: {rows} rows are equal, in {count(groups, 'group')}"
    rows, groups = evidence.clumps
    if rows:
        faults["clumps"] = f"clumps: {rows} rows nearly coincide, in {count(groups, 'group')}"
    elif (
        evidence.median_nearest[0] < _CLUMPED * evidence.median_nearest[1] and _standard_score(evidence) < -_SIGNIFICANT
    ):
        share = evidence.median_nearest[0] / evidence.median_nearest[1]
        faults["clumps"] = f"clumps: nearest neighbours are at {share:.0%} of the angle of uniform points"
    return faults


def _is_better(evidence: Evidence) -> bool:
    farther = (
        evidence.mean_nearest[0] > _DISPERSED * evidence.mean_nearest[1] and _standard_score(evidence) > _SIGNIFICANT
    )
    return farther or evidence.smallest_survival <= SIGNIFICANCE


def _standard_score(evidence: Evidence) -> float:
    return (evidence.mean_nearest[0] - evidence.mean_nearest[1]) / evidence.mean_nearest_deviation


def count(number: int, noun: str) -> str:
    """Format a number with its noun, in the plural unless the number is one."""
    return f"{number} {noun}{'s' if number != 1 else ''}"
