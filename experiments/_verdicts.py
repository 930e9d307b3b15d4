"""The one rule by which the claims of every experiment are judged."""

import math
from dataclasses import dataclass
from itertools import accumulate

from scipy.stats import t

RULE = (
    "**The rule.** A claim of the paper is *confirmed* or *refuted* only by at least three independent starts (five "
    "where a start takes under a minute), paired where possible. Their 95 % interval (Student's t) has to exclude "
    "zero after Holm's correction over the claims of the experiment, at the paper's setting or at one that the verdict "
    "names as ours. Otherwise the claim is *open*. A claim about several cases is confirmed by all of them together, "
    "and refuted by one, at a level divided by their number; a claim that a case exists is confirmed by one, and "
    "refuted by all. A statement that the paper does not make is judged by the same test, and is *new*, *not borne "
    "out* or open, never refuted. A statement that involves no randomness (a closed form, an identity, a bound, a "
    "counterexample) needs no starts: it is *proved* or *disproved*, with the reason."
)
LEVEL = 0.05
MINUTE = 60.0
LISTED = 8  # cases; of more, only the lowest are shown


@dataclass(frozen=True)
class Case:
    """A difference on which a claim rests, above zero where the claim is right: its mean over n starts."""

    name: str
    mean: float
    error: float = 0.0
    n: int = 1

    @classmethod
    def of(cls, name, gained, *, least=0.0, sign=1):
        """Of a `mean_and_error`: by how much it (or, with sign -1, its negative) exceeds `least`."""
        return cls(name, sign * gained["mean"] - least, gained["error"], gained["n"])

    @property
    def interval(self):
        reach = t.ppf(1 - LEVEL / 2, self.n - 1) * self.error if self.n > 1 else math.inf
        return self.mean - reach, self.mean + reach

    def p(self, sign):
        """Of a two-sided test that counts only where the difference has this sign."""
        if self.error == 0:
            return 0.0 if sign * self.mean > 0 else 1.0
        return min(1.0, 2 * float(t.sf(sign * self.mean / self.error, self.n - 1)))

    def text(self, unit, digits):
        if self.n == 1:
            return f"{self.name} {self.mean:+.{digits}f}{unit}"
        low, high = self.interval
        return f"{self.name} {self.mean:+.{digits}f}{unit} ({low:+.{digits}f} to {high:+.{digits}f})"


def within(gained, margin, name=""):
    """Both cases of a difference that is claimed to be less than the margin, either way."""
    sides = (("not below", 1), ("not above", -1))
    return [Case.of(f"{name}, {side}".lstrip(", "), gained, least=-margin, sign=sign) for side, sign in sides]


@dataclass(frozen=True)
class Claim:
    """What is claimed, and the cases that decide it.

    Args:
        seconds: What a start takes: one seed, in all runs that are compared on it.
        setting: Empty for the paper's; otherwise what is ours about it.
        existential: That one of the cases is above zero, not all of them.
        new: The paper does not claim it.
        evidence: What is said before the cases.
        brief: The number on the page of findings; if empty, the case that decides.
        headline: Whether it is on that page.
    """

    text: str
    cases: tuple[Case, ...] | list[Case]
    seconds: float
    setting: str = ""
    existential: bool = False
    new: bool = False
    evidence: str = ""
    unit: str = ""
    digits: int = 2
    brief: str = ""
    headline: bool = False

    @property
    def is_tested(self):
        needed = 5 if self.seconds < MINUTE else 3
        return bool(self.cases) and all(case.n >= needed for case in self.cases)

    def p(self, sign):
        """Of a test that the claim is right (1), or wrong (-1)."""
        each = [case.p(sign) for case in self.cases]
        needs_all = self.existential == (sign < 0)
        return max(each) if needs_all else min(1.0, len(each) * min(each))


@dataclass(frozen=True)
class Exact:
    """A statement without chance in it, whether it holds, and why."""

    text: str
    holds: bool
    reason: str
    headline: bool = False


@dataclass(frozen=True)
class Untested:
    """A claim that no run here tests, and why."""

    text: str
    reason: str
    headline: bool = False


def holm(ps):
    """Holm's corrected p-values, in the order of `ps`."""
    order = sorted(range(len(ps)), key=ps.__getitem__)
    rising = accumulate((min(1.0, (len(ps) - k) * ps[i]) for k, i in enumerate(order)), max)
    return [p for _, p in sorted(zip(order, rising, strict=True))]


def judge(claims):
    """The findings of one experiment: a verdict on each claim, with intervals and numbers of starts in its evidence."""
    claims = list(claims)
    tested = [claim for claim in claims if isinstance(claim, Claim) and claim.is_tested]
    corrected = holm([min(claim.p(1), claim.p(-1)) for claim in tested])
    ps = {id(claim): p for claim, p in zip(tested, corrected, strict=True)}
    return [_finding(claim, ps.get(id(claim))) for claim in claims]


def _finding(claim, p):
    if isinstance(claim, Exact):
        name, evidence = "proved" if claim.holds else "disproved", claim.reason
        brief = f"{claim.reason.split('. ')[0].rstrip('.')}."
    elif isinstance(claim, Untested):
        name, evidence, brief = "open", claim.reason, ""
    else:
        name, evidence, brief = _verdict(claim, p), _evidence(claim, p), _brief(claim)
    return {"verdict": name, "claim": claim.text, "evidence": evidence, "brief": brief, "headline": claim.headline}


def _verdict(claim, p):
    if p is None or p >= LEVEL:
        return "open"
    right = claim.p(1) < claim.p(-1)
    return {(True, False): "confirmed", (False, False): "refuted", (True, True): "new", (False, True): "not borne out"}[
        right, claim.new
    ]


def _evidence(claim, p):
    lowest = sorted(claim.cases, key=_statistic)[: LISTED // 2]
    many = len(claim.cases) > LISTED
    shown = "; ".join(case.text(claim.unit, claim.digits) for case in (lowest if many else claim.cases))
    if many:
        shown = f"the lowest of {len(claim.cases)} cases: {shown}"
    if not claim.evidence.endswith(":"):
        shown = shown[:1].upper() + shown[1:]
    starts = sorted({case.n for case in claim.cases})
    counted = " or ".join(str(n) for n in starts) + (" start" if starts == [1] else " starts")
    if p is not None:
        told = f"95 % intervals, {counted}; p {'< 0.0001' if p < 0.0001 else f'= {p:.2g}'} after Holm's correction"
    elif starts and starts[-1] > 1:
        told = f"95 % intervals, {counted}: too few"
    else:
        told = f"no interval, {counted}: too few" if starts else "no runs"
    ours = f" Our setting: {claim.setting}." if claim.setting else ""
    return f"{claim.evidence} {shown} [{told}].{ours}".strip()


def _brief(claim):
    """The case that decides: the lowest, or the highest where one suffices."""
    decisive = (max if claim.existential else min)(claim.cases, key=_statistic, default=None)
    if decisive is None:
        return ""
    starts = f"{decisive.n} start{'s' if decisive.n > 1 else ''}"
    ours = f"; our setting: {claim.setting}" if claim.setting else ""
    if claim.brief:
        return f"{claim.brief} ({starts}{ours})."
    what = claim.evidence.rpartition(". ")[2].rstrip(":") if claim.evidence.endswith(":") else ""
    if len(claim.cases) > 1:
        extreme = f"{'most' if claim.existential else 'least'} of {len(claim.cases)} cases"
        what = f"{what}, {extreme}" if what else extreme
    what = f"{what}: " if what else ""
    return f"{what}{decisive.text(claim.unit, claim.digits)}, {starts}{ours}."


def _statistic(case):
    if case.mean == 0:
        return 0.0
    return case.mean / case.error if case.error else math.copysign(math.inf, case.mean)
