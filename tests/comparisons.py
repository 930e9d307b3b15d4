"""A comparison of repairs, as `unclump repair` makes them."""

from unclump.tables.comparison import AS_IT_IS, Column, Compared, Comparison, OwnFigure, Recommendation


def _method(name, figure, change, verdict):
    low, high = figure - 0.05, figure + 0.05
    changes = {} if change is None else {"figure": change}
    values = {"figure": figure, "overlap": 0.75, "rank": 87.25}
    return Compared(name, "map", f"unclump fit {name}", values, {"figure": (low, high)}, changes, verdict)


EXAMPLE = Comparison(
    file="words.npz",
    rows=30,
    dimensions=4,
    compared_rows=20,
    figure=OwnFigure("Spearman", "judged.tsv", 300, 1),
    columns=(
        Column("figure", "Spearman", "more"),
        Column("overlap", "overlap@10", "more"),
        Column("rank", "rank", "more"),
    ),
    methods=(
        _method(AS_IT_IS, 0.55, None, ""),
        _method("whiten 1", 0.654, (0.104, 0.08, 0.13), "better"),
        _method("spread", 0.5, (-0.05, -0.09, -0.01), "worse"),
        _method("centre", 0.56, (0.01, -0.02, 0.04), "no difference"),
    ),
    recommendation=Recommendation("whiten 1", "unclump fit whiten", "it raises Spearman"),
    notes=("A note.",),
)
