"""The recommendation that follows from a comparison: only a repair that measurably helps is recommended."""

from collections.abc import Iterator, Mapping, Sequence

from jaxtyping import Float
from torch import Tensor

from unclump._text import escape_unprintable
from unclump.geometry.uniform_law import UniformLaw
from unclump.measures.angles import rank_of
from unclump.measures.pairs import mean_cosine
from unclump.ops.project import project
from unclump.tables.comparison import AS_IT_IS, Compared, Recommendation
from unclump.tables.comparison_figures import Figure
from unclump.tables.moments import Moments
from unclump.tables.verdict import CONE, LOW_RANK

_KEPT = 0.7  # the share of old neighbours that a repair must keep, where nothing but neighbours and hubs is known
_HUBNESS = 1.0  # below which there are no hubs to remove
_REMOVED = 0.25  # the share of the hubness that it must remove then

Changes = Mapping[str, tuple[float, float, float]]


def verdict(changes: Changes, figure: Figure | None) -> str:
    """Better or worse by the owner's figure, or by hubs where there is none; only where the interval says so."""
    better, worse = ("better", "worse") if figure is not None else ("fewer hubs", "more hubs")
    _, low, high = changes["hubness"] if figure is None else changes["figure"]
    if figure is None:
        low, high = -high, -low
    return better if low > 0 else worse if high < 0 else "no clear change"


def recommend(methods: Sequence[Compared], figure: Figure | None, *, by_index: bool) -> Recommendation:
    """The method with the best figure of those that are better; without a figure, with the fewest hubs.

    Without a figure there must be hubs, a hubness of 1 or more, and the method must remove a quarter of it and keep
    70 % of the neighbours. Rows moved one by one are
    recommended only for a table that is looked up by index. Where nothing helps, the table should stay as it is.
    """
    start, *others = methods
    allowed = [method for method in others if by_index or method.kind == "map"]
    if figure is not None:
        helpful = [method for method in allowed if method.verdict == "better"]
        best = max(helpful, key=lambda method: method.values["figure"], default=None)
        nothing = f"no method clearly raises {figure.name}"
        what = f"{figure.name} {{before:.3f}} to {{after:.3f}}"
        key = "figure"
    else:
        most = (1 - _REMOVED) * start.values["hubness"]
        helpful = [m for m in allowed if m.verdict == "fewer hubs" and m.values["hubness"] <= most]
        helpful = [m for m in helpful if m.values["overlap"] >= _KEPT]
        best = min(helpful, key=lambda method: method.values["hubness"], default=None)
        has_hubs = start.values["hubness"] >= _HUBNESS
        best = best if has_hubs else None
        kind = "method" if by_index else "map"
        nothing = f"no {kind} removes {_REMOVED:.0%} of the hubness and keeps {_KEPT:.0%} of the neighbours"
        nothing = nothing if has_hubs else f"it has no hubs to remove (hubness {start.values['hubness']:.2f})"
        what = "hubness {before:.2f} to {after:.2f}, {kept:.0%} of neighbours kept; judge it by your own task"
        key = "hubness"
    if best is None:
        return Recommendation(AS_IT_IS, "", nothing)
    numbers = {"before": start.values[key], "after": best.values[key], "kept": best.values["overlap"]}
    return Recommendation(best.name, best.command, what.format(**numbers))


def explain_faults(x: Float[Tensor, "n d"], figure: Figure | None, centre: str) -> Iterator[str]:
    """For each fault that `unclump measure` names, explain why the table may stay as it is nevertheless.

    Args:
        x: The table, whose rows are not zero.
        figure: What the owner measures the table by.
        centre: The command that subtracts the mean.
    """
    unit = project(x.double())
    moments = Moments(unit.mean(dim=0), at_most=len(x))
    moments.add(unit)
    by = "that neighbours and hubs show" if figure is None else f"that {figure.name} shows"
    cosine = mean_cosine(x)
    if cosine > CONE:
        yield (
            f"a cone (mean cosine {cosine:.2f}) raises all cosines alike, and does no harm {by}; where cosines are "
            f"compared with a threshold, subtract the mean: {escape_unprintable(centre)}"
        )
    rank = rank_of(moments.centred_singular_values()).item()
    if rank < LOW_RANK * UniformLaw(*x.shape).centred_rank:
        yield (
            f"a collapsed rank (about {rank:.1f} of {x.shape[1]} dimensions) is not repaired here: maps that raise it "
            f"do no good {by}; what the rows have lost, training them anew may restore"
        )
