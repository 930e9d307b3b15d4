"""When a claim about prototypes counts as confirmed, as refuted, or as open."""

from scipy.stats import t

CLOSE = 0.03  # radians within which a smallest angle counts as the paper's, which has two digits
APART = 0.01  # radians by which prototypes must be further apart to count as better separated
NARROWER = 0.1  # radians by which a smallest angle must be smaller for better accuracy to speak against angles
DEGRADED = 1.0  # points of accuracy that a set must lose to count as degraded
HARDLY = 0.02  # radians above all random sets that are hardly above them
RULE = (
    "A difference between runs, or between starts, counts where its 95% interval (Student's t) has nothing of the "
    "other side: then a claim is confirmed or refuted, and otherwise open, as it is where nothing was run twice. A "
    "claim about several cases is refuted by one of them, and confirmed by all; that there is a case at all is "
    "confirmed by one, without a correction for how many were tried, and refuted by all. Angles from one start, and "
    "those in print, are compared as they are."
)


def clear(gained, least=0.0):
    """Whether a mean is above `least`, or below, by its 95% interval; None where that cannot be said."""
    if gained is None or gained["n"] < 2:
        return None
    away = gained["mean"] - least
    return away > 0 if abs(away) > t.ppf(0.975, gained["n"] - 1) * gained["error"] else None


def every(judged):
    """Of a claim about several cases: one refutes it, only all of them confirm it."""
    judged = list(judged)
    if False in judged:
        return False
    return True if judged and None not in judged else None


def some(judged):
    """Of a claim that there is a case: one confirms it, only all of them refute it."""
    judged = list(judged)
    if True in judged:
        return True
    return False if judged and None not in judged else None


def lost(gained):
    return gained and gained | {"mean": -gained["mean"]}
