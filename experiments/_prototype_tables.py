"""The tables and figures of the experiment with prototypes."""

from _common import BLACK, BLUE, MARKERS, ORANGE, PINK, axes, family_colour, markdown
from _prototype_sets import PAPER_ROWS, PROJECTED, RIEMANNIAN, TRAINED


def plus_minus(value, digits=1, sign=""):
    """Mean and standard error; the mean alone where one value has none."""
    mean = f"{value['mean']:{sign}.{digits}f}"
    return f"{mean} ± {value['error']:.{digits}f}" if value["n"] > 1 else mean


def head(dimensions, *columns):
    """Prototypes, and the same columns for each dimension, of which the first names it."""
    first, *others = columns
    return ["prototypes", *(column for d in dimensions for column in (f"{d}{first}", *others))]


def comparable(summary):
    """Whether the paper has numbers for these images."""
    return any(found["paper"] for row in summary["rows"].values() for found in row.values())


def angle_table(summary):
    dimensions = [str(d) for d in summary["dimensions"]]
    known = comparable(summary)
    beside = ", those of the paper beside ours" if known else ""
    yield f"Smallest angles of {summary['classes']} prototypes in radians{beside}; the largest that any rate leads to,"
    yield "of those tried, on average over starts; and their spherical variance:"
    yield ""
    rows = []
    for name, row in summary["rows"].items():
        entries = []
        for d in dimensions:
            found, best = row[d], tuned_angle(summary, name, d)
            printed = f"{found['paper'][2]:.2f}" if found["paper"] else ""
            ours = [f"{found['min_angle']['mean']:.3f}", f"{best:.3f}" if best else ""]
            entries += [*([printed] if known else []), *ours, f"{found['variance']['mean']:.3f}"]
        rows.append([name, *entries])
    columns = (": paper", "here") if known else (": angle",)
    yield from markdown(head(dimensions, *columns, "tuned", "variance"), rows)
    yield ""


def tuned_angle(summary, row, d):
    if row not in PAPER_ROWS:
        return None
    way = PROJECTED if PAPER_ROWS[row][1] == PROJECTED else RIEMANNIAN
    return summary["tuned"][f"{PAPER_ROWS[row][0]}, {way}"][d]["min_angle"]


def accuracy_table(summary):
    dimensions = [str(d) for d in summary["dimensions"]]
    known = comparable(summary)
    yield f"**Frozen backbone.** Accuracy in percent of heads on frozen features, {settings(summary)};"
    yield f"{errors(summary)}. Beside it the gain over random prototypes in the same runs."
    if known:
        yield "The paper's are of networks that were trained end to end."
    yield ""
    rows = []
    for name, row in summary["rows"].items():
        entries = []
        for found in (row[d] for d in dimensions):
            printed = "{} ± {}".format(*found["paper"][:2]) if found["paper"] else ""
            gained = plus_minus(found["over_random"], 2, "+") if "over_random" in found else ""
            entries += [*([printed] if known else []), plus_minus(found["accuracy"], 2), gained]
        rows.append([name, *entries])
    columns = (": paper", "here") if known else (": accuracy",)
    yield from markdown(head(dimensions, *columns, "over random"), rows)
    yield ""
    if summary["softmax"]["frozen"]:
        yield f"Softmax on the same features: {plus_minus(summary['softmax']['frozen']['accuracy'], 2)}."
        yield ""


def errors(summary):
    """What the standard errors of heads on frozen features are those of."""
    backbones, seeds = len(summary["backbones"]), summary["settings"]["seeds"]
    if backbones > 1:
        return (
            f"mean and standard error over {backbones} backbones, on each the mean over the same {seeds} seeds of "
            "prototypes and heads"
        )
    if seeds > 1:
        return (
            f"mean and standard error over {seeds} seeds of prototypes and heads on a single backbone: the error says "
            "nothing of other backbones"
        )
    return "one run, without an error"


def end_table(summary):
    if not summary["end"]:
        return
    chosen, dimensions = summary["settings"], next(iter(summary["end"].values()))
    runs = chosen["end_seeds"]
    over = f"mean and standard error over {runs} networks" if runs > 1 else "one network each"
    yield f"**End to end**{', as in the paper, but' if comparable(summary) else ':'} {chosen['end_epochs']} epochs of a"
    yield f"network with {'-'.join(map(str, chosen['end_channels']))} channels; percent, {over}:"
    yield ""
    rows = [[name, *(plus_minus(f["accuracy"], 2) for f in row.values())] for name, row in summary["end"].items()]
    yield from markdown(head(dimensions, ""), rows)
    yield ""
    if summary["softmax"]["end"]:
        yield f"The same with softmax: {plus_minus(summary['softmax']['end']['accuracy'], 2)}."
        yield ""


def settings(summary):
    train, val = summary["images"]
    skipped = f", {summary['skipped']} more being damaged and left out" if summary["skipped"] else ""
    return f"{train:,} images for training and {val:,} for validation of {summary['settings']['px']} pixels{skipped}"


def draw(results, summary):
    dimensions = [str(d) for d in summary["dimensions"]]
    fixed = [name for name in summary["rows"] if name != TRAINED]
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
                fillstyle="none",
                label=name,
            )
        ax.set(xlabel="smallest angle of the prototypes, radians", title=f"{d} dimensions")
    panels[0][0].set_ylabel("accuracy on a frozen backbone, %")
    shown = panels[0][0].get_legend_handles_labels()
    bars = f"backbones: {len(summary['backbones'])}; bars: standard error"
    figure.legend(*shown, loc="outside lower center", ncols=4, fontsize=8, title=bars)
    results.figure(figure)
    figure, ax = axes(width=9, height=4.5)
    looks = zip(dimensions, (BLUE, ORANGE, PINK), "os^", (-0.2, 0.0, 0.2), strict=False)
    for d, colour, marker, shift in looks:
        for place, name in enumerate(fixed):
            found = summary["rows"][name][d]
            label = f"{d} dimensions" if place == 0 else None
            angle = found["min_angle"]
            ax.plot([place + shift] * 2, [angle["low"], angle["high"]], color=colour, linewidth=1)
            ax.plot(place + shift, angle["mean"], marker, color=colour, label=label)
            if found["paper"]:
                ax.plot(place + shift, found["paper"][2], "_", color=BLACK, markersize=12)
    if comparable(summary):
        ax.plot([], [], "_", color=BLACK, markersize=12, label="the paper")
    ax.set_xticks(range(len(fixed)), fixed, rotation=35, ha="right")
    ax.set(ylabel="smallest angle, radians", title="mean and range over the starts")
    figure.legend(loc="outside lower center", ncols=4, fontsize=8)
    results.figure(figure, "_angles")
