"""What the runs with prototypes say, in a line, in tables, and in verdicts."""

from _prototype_accuracy_claims import accuracy_claims, end_claims
from _prototype_angle_claims import CLOSE, angle_claims, off_the_paper, printed
from _prototype_sets import EQUAL, RANDOM, TRAINED
from _prototype_tables import accuracy_table, angle_table, comparable, end_table
from _verdicts import judge

CLAIM = (
    "Riemannian optimisation separates prototypes better than projected, and so classifies better; the smallest angle "
    "alone does not predict accuracy; MHE degrades where the dimension is the number of classes"
)


def report(summary):
    other = f"no numbers for these images; its claims are put to {summary['classes']} classes"
    return {
        "claim": CLAIM if comparable(summary) else other,
        "got": "; ".join(got(summary)),
        "table": [*angle_table(summary), *accuracy_table(summary), *end_table(summary)],
        "findings": judge([*angle_claims(summary), *accuracy_claims(summary), *end_claims(summary)]),
    }


def got(summary):
    rows = summary["rows"]
    found = printed(summary)
    if found:
        close = len(found) - len(off_the_paper(summary))
        yield f"{close} of {len(found)} smallest angles within {CLOSE} of the paper's"
    equal = summary["gains"].get(f"MM squared over {EQUAL}")
    if equal:
        apart = max(gained["largest"] for gained in equal.values())
        yield f"projected at the rate of Riemannian: smallest angles at most {apart:.4f} apart"
    fixed = {(name, d): f["accuracy"]["mean"] for name, row in rows.items() if name != TRAINED for d, f in row.items()}
    if fixed:
        name, d = max(fixed, key=fixed.get)
        random = f", random prototypes {fixed[RANDOM, d]:.1f}%" if RANDOM in rows else ""
        yield f"heads on a frozen backbone: best {name} in {d} dimensions, {fixed[name, d]:.1f}%{random}"
    if summary["softmax"]["frozen"]:
        yield f"softmax {summary['softmax']['frozen']['accuracy']['mean']:.1f}%"
