"""What the synthetic runs say of the paper's claims."""

from _common import counted, markdown, mean_and_error
from _peer import PEERS
from _verdicts import Case, Claim, Untested, judge, within

PROGRESS = 0.5  # degrees that count as progress
ALIKE, SAME = 0.05, 0.01  # of spherical variance
MEASURES = {"clumped": "variance", "uniform": "min_degrees"}
"""What a start is for: spherical variance is near one for uniform points already."""


def report(summary):
    clumped, even = summary["starts"]["clumped"], summary["starts"]["uniform"]
    return {
        "claim": "clumped start: MHE and Sliced do best, Sliced faster at first, SSW with 13 circles diverges; uniform "
        "start: only MM and KoLeo make progress in the smallest angle; the kernel does not matter",
        "got": f"clumped, spherical variance at the end: {ranked(clumped, 'variance', '', 4)}; uniform, smallest "
        f"angle: {ranked(even, 'min_degrees', '°', 2)}",
        "table": rate_table(summary["best_rates"]),
        "findings": judge([*of_clumped(clumped, summary), *of_uniform(even, summary), *of_peers(clumped)]),
    }


def ranked(rows, key, unit, digits):
    means = {o: row[key]["mean"] for o, row in rows.items() if "lazy" not in o and o not in PEERS}
    return ", ".join(f"{o} {means[o]:.{digits}f}{unit}" for o in sorted(means, key=lambda o: -means[o]))


def over(rows, one, other, key):
    """By how much the first row is above the second, start by start, as far as both were run."""
    pairs = zip(rows[one][key]["values"], rows[other][key]["values"], strict=False)
    return mean_and_error([a - b for a, b in pairs])


def of_clumped(rows, summary):
    judged = {"seconds": summary["seconds"], "digits": 4}
    energies = [o for o in rows if o.startswith("MHE") and "lazy" not in o]
    spreading = [*energies, "Sliced 13 axes"]
    roots = [o for o in ("SSW 13 root", "SSW 1 root") if o in rows]
    others = ["MM geodesic", "KoLeo", "Lloyd 512", *roots]
    lazy = [o for o in rows if "lazy" in o]
    without = "" if roots else " (not over SSW, whose root was not run)"
    yield Claim(
        "From a clumped start MHE and Sliced spread the points best.",
        [Case.of(f"{o} over {other}", over(rows, o, other, "variance")) for o in spreading for other in others],
        evidence=f"Gain in spherical variance over the paper's other rows{without}:",
        headline=True,
        **judged,
    )
    yield Claim(
        "SSW's closed form, without the root and on 13 random circles, spreads them better still.",
        [Case.of(f"over {o}", over(rows, "SSW 13", o, "variance")) for o in spreading],
        new=True,
        evidence=f"It ends at {rows['SSW 13']['variance']['mean']:.4f}. Gain in spherical variance:",
        **judged,
    )
    yield Claim(
        "Of MHE and Sliced, Sliced makes faster progress at first.",
        [Case.of(f"over {o}", over(rows, "Sliced 13 axes", o, "early_variance")) for o in energies],
        evidence=f"Gain in spherical variance after {rows['Sliced 13 axes']['early_step']} steps:",
        headline=True,
        **judged,
    )
    yield divergence(rows, judged)
    first, *rest = energies
    yield Claim(
        f"For MHE the choice of kernel and distance does not matter here: spherical variance differs by less than "
        f"{ALIKE}.",
        [case for o in rest for case in within(over(rows, o, first, "variance"), ALIKE, o)],
        evidence=f"Clumped start; distance to the margin around {first}:",
        **judged,
    )
    yield Claim(
        "Adam with dense updates moves rows by momentum between their batches; lazy Adam does not.",
        [Case.of(o, over(rows, o.removesuffix(" (lazy)"), o, "variance")) for o in lazy],
        new=True,
        evidence="Clumped start, spherical variance of dense over lazy:",
        headline=True,
        **judged,
    )


def divergence(rows, judged):
    claim, root = "SSW with 13 circles is unstable from a clumped start and diverges.", "SSW 13 root"
    if root not in rows:
        ours = rows["SSW 13"]["variance"]
        run = counted(ours["n"], "start")
        return Untested(
            claim,
            "The authors minimise the root that POT's function returns (erratum 14), which was not run. Without it SSW "
            f"ends with a spherical variance of {ours['mean']:.4f} [{run} of another objective].",
        )
    ends = {"ours": rows[root]} | ({"POT and geoopt": rows[f"peer: {root}"]} if f"peer: {root}" in rows else {})
    told = "; ".join(
        f"{name}: NaN or infinity in {row['lost']} of {counted(row['variance']['n'], 'start')}, spherical variance at "
        f"the end {row['variance']['mean']:.4f}"
        for name, row in ends.items()
    )
    return Claim(
        claim,
        [Case.of(root, rows[root]["variance"], least=-0.5, sign=-1)],
        evidence=f"With the root, as the authors minimise it; {told}. Spherical variance at the end below 0.5 by:",
        headline=True,
        **judged,
    )


def of_uniform(rows, summary):
    near = ("MM geodesic", "KoLeo")
    rest = [o for o in rows if o not in near and "lazy" not in o]
    gains = {o: progress(rows[o]) for o in rows}
    yield Claim(
        f"From a uniform start only MM and KoLeo make progress in the smallest angle: the others gain less than "
        f"{PROGRESS}°.",
        [Case.of(f"{o}, above", gains[o], least=PROGRESS) for o in near]
        + [Case.of(f"{o}, below", gains[o], least=-PROGRESS, sign=-1) for o in rest],
        seconds=summary["seconds"],
        unit="°",
        evidence=f"MM gains {gains['MM geodesic']['mean']:+.2f}°, KoLeo {gains['KoLeo']['mean']:+.2f}°; no arrangement "
        f"exceeds {summary['bound']:.2f}°. The gain is above {PROGRESS}°, and that of the others below it, by:",
        headline=True,
    )


def progress(row):
    pairs = zip(row["min_degrees"]["values"], row["start_degrees"]["values"], strict=True)
    return mean_and_error([end - start for end, start in pairs])


def of_peers(rows):
    for peer in PEERS:
        name = peer.removeprefix("peer: ")
        if peer in rows and name in rows:
            yield Claim(
                f"{name} by other libraries ends where ours does, within {SAME} of spherical variance.",
                within(over(rows, name, peer, "variance"), SAME),
                seconds=rows[name]["seconds"] + rows[peer]["seconds"],
                new=True,
                evidence="Clumped start; distance to the margin:",
                digits=4,
            )


def rate_table(best_rates):
    """Each objective at its best rate of the grid."""
    if not best_rates:
        return []
    named = {"variance": "spherical variance", "min_degrees": "smallest angle, degrees"}
    head = ["objective", *(cell for start in best_rates for cell in (f"{start}: {named[MEASURES[start]]}", "rate"))]
    rows = []
    for objective in next(iter(best_rates.values())):
        cells = [objective]
        for start, found in best_rates.items():
            row, digits = found[objective], 4 if MEASURES[start] == "variance" else 2
            edge = "" if row["inside"] else " (edge)"
            tried = ", ".join(row["tried"])
            cells += [
                f"{row['mean']:.{digits}f} ({counted(row['n'], 'start')})",
                f"{row['lr']:g}{edge} (tried: {tried})",
            ]
        rows.append(cells)
    told = "Each objective at its best rate, chosen with the first start among the rates listed"
    return [f"{told}:", "", *markdown(head, rows)]
