"""The tables and figures of the experiment with prototypes."""

from _common import BLACK, BLUE, MARKERS, ORANGE, PINK, axes, family_colour, markdown
from _prototype_sets import PAPER_ROWS, PROJECTED, RIEMANNIAN, SOFTMAX, TRAINED


def plus_minus(value, digits=1, sign=""):
    return f"{value['mean']:{sign}.{digits}f} ± {value['error']:.{digits}f}"


def head(dimensions, first, *others):
    """Prototypes, and the same columns for each dimension, of which the first names it."""
    return ["prototypes", *(column for d in dimensions for column in (f"{d}{first}", *others))]


def angle_table(summary):
    dimensions = [str(d) for d in summary["dimensions"]]
    yield "Smallest angles of the prototypes in radians, those of the paper beside ours; the largest that any rate"
    yield "leads to, of those tried, from one start; and our spherical variance:"
    yield ""
    rows = []
    for name, row in summary["rows"].items():
        if name == SOFTMAX:
            continue
        entries = []
        for d in dimensions:
            found, best = row[d], tuned_angle(summary, name, d)
            entries += [f"{found['paper'][2]:.2f}" if found["paper"] else "", f"{found['min_angle']['mean']:.3f}"]
            entries += [f"{best:.3f}" if best else "", f"{found['variance']['mean']:.3f}"]
        rows.append([name, *entries])
    yield from markdown(head(dimensions, ": paper", "here", "tuned", "variance"), rows)
    yield ""


def tuned_angle(summary, row, d):
    if row not in PAPER_ROWS:
        return None
    way = PROJECTED if PAPER_ROWS[row][1] == PROJECTED else RIEMANNIAN
    return summary["tuned"][f"{PAPER_ROWS[row][0]}, {way}"][d]["min_angle"]


def accuracy_table(summary):
    dimensions = [str(d) for d in summary["dimensions"]]
    runs = max(found["runs"] for row in summary["rows"].values() for found in row.values())
    yield f"**Frozen backbone.** Accuracy in percent of heads on frozen features, {settings(summary)};"
    yield f"mean and standard error over {runs} runs (backbones: {len(summary['backbones'])}), and the gain over random"
    yield "prototypes in the same run. The paper's, beside it, are of networks trained end to end:"
    yield ""
    rows = []
    for name, row in summary["rows"].items():
        entries = []
        for d in dimensions:
            found = row.get(d)
            if found is None:
                entries += ["", "", ""]
                continue
            entries += ["{} ± {}".format(*found["paper"][:2]) if found["paper"] else ""]
            entries += [plus_minus(found["accuracy"], 2)]
            entries += [plus_minus(found["over_random"], 2, "+") if "over_random" in found else ""]
        rows.append([name, *entries])
    yield from markdown(head(dimensions, ": paper", "here", "over random"), rows)
    yield ""


def end_table(summary):
    if not summary["end"]:
        return
    chosen, dimensions = summary["settings"], sorted({int(d) for row in summary["end"].values() for d in row})
    yield f"**End to end**, as in the paper, but {chosen['end_epochs']} epochs of a network with"
    yield f"{'-'.join(map(str, chosen['end_channels']))} channels, runs of each: {chosen['end_seeds']}; percent:"
    yield ""
    rows = [[name, *(end_entry(row.get(str(d))) for d in dimensions)] for name, row in summary["end"].items()]
    yield from markdown(head(dimensions, ""), rows)
    yield ""


def end_entry(found):
    if found is None:
        return ""
    return plus_minus(found["accuracy"], 2) if found["runs"] > 1 else f"{found['accuracy']['mean']:.2f}"


def settings(summary):
    train, val = summary["images"]
    skipped = f", {summary['skipped']} of them damaged and left out" if summary["skipped"] else ""
    return f"{train:,} images for training and {val:,} for validation of {summary['settings']['px']} pixels{skipped}"


def draw(results, summary):
    dimensions = [str(d) for d in summary["dimensions"]]
    fixed = [name for name in summary["rows"] if name not in (SOFTMAX, TRAINED)]
    figure, panels = axes(1, len(dimensions), width=4 * len(dimensions), height=4.6, squeeze=False)
    for ax, d in zip(panels[0], dimensions, strict=True):
        for name, marker in zip(fixed, MARKERS * 2, strict=False):
            found = summary["rows"][name][d]
            ax.errorbar(
                found["min_angle"]["mean"],
                found["accuracy"]["mean"],
                found["accuracy"]["error"],
                fmt=marker,
                color=family_colour(name),
                capsize=2,
                label=name,
            )
        ax.set(xlabel="smallest angle of the prototypes, radians", title=f"{d} dimensions")
    panels[0][0].set_ylabel("accuracy on a frozen backbone, %")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    results.figure(figure)
    figure, ax = axes(width=9, height=4.5)
    for d, colour, shift in zip(dimensions, (BLUE, ORANGE, PINK), (-0.2, 0.0, 0.2), strict=False):
        for place, name in enumerate(fixed):
            found = summary["rows"][name][d]
            label = f"{d} dimensions" if place == 0 else None
            angle = found["min_angle"]
            ax.plot([place + shift] * 2, [angle["low"], angle["high"]], color=colour, linewidth=1)
            ax.plot(place + shift, angle["mean"], "o", color=colour, label=label)
            if found["paper"]:
                ax.plot(place + shift, found["paper"][2], "_", color=BLACK, markersize=12)
    ax.plot([], [], "_", color=BLACK, markersize=12, label="the paper")
    ax.set_xticks(range(len(fixed)), fixed, rotation=35, ha="right")
    ax.set(ylabel="smallest angle, radians", title="mean and range over the starts")
    ax.legend(fontsize=8)
    results.figure(figure, "_angles")
