"""Gradient norm and nearest angle of each token along its frequency, on the sphere and off it, as training goes on."""

from _common import BLUE, ORANGE, axes

from translation.comparison import late

KINDS = {"gradient": "norm of the gradient", "nearest": "angle to the nearest, radians"}
STYLES = {"Euclidean": (BLUE, "o"), "spherical": (ORANGE, "s")}


def draw(results, records):
    """The paper's figure, late in training, and the appendix's, a row of panels for every time that was looked at."""
    watched = {
        record["row"]: record["history"]
        for record in records
        if record["row"] in STYLES and record["seed"] == 0 and "gradient" in record["history"][0]
    }
    if not watched:
        return
    times = [seen["update"] for seen in next(iter(watched.values()))]
    place = late(next(iter(watched.values())))
    figure, made = axes(1, 2, width=10)
    _panels(made, watched, place)
    made[0].set_title(f"after {times[place]} updates, one seed; bands: 10 to 90 %", loc="left", fontsize=9)
    results.figure(figure, "_frequency")
    figure, made = axes(len(times), 2, width=10, height=2.4 * len(times), sharex=True, squeeze=False)
    for place, update in enumerate(times):
        _panels(made[place], watched, place, legend=place == 0)
        told = ", one seed; bands: 10 to 90 %" if place == 0 else ""
        made[place][0].set_title(f"after {update} updates{told}", loc="left", fontsize=9)
    results.figure(figure, "_dynamics")


def _panels(panels, watched, place, *, legend=True):
    for ax, (kind, name) in zip(panels, KINDS.items(), strict=True):
        for row, history in watched.items():
            colour, marker = STYLES[row]
            seen = history[place][kind]
            ax.fill_between(seen["rank"], seen["low"], seen["high"], color=colour, alpha=0.15, linewidth=0)
            ax.plot(seen["rank"], seen["middle"], color=colour, marker=marker, markersize=3, linewidth=1, label=row)
        ax.set(xscale="log", xlabel="frequency rank of the token", ylabel=name)
        if kind == "gradient":
            ax.set_yscale("log")
    if legend:
        panels[0].legend(fontsize=8)
