"""Does the verdict find faults, and only faults? Real tables as they are, changed without harm, and with faults.

    python experiments/verdict.py [--quick]

The four tables are those of `_owner_tables.py`. Harmless changes are halves of 8,000 rows, a rotation, other norms,
float16, another order; and there are uniform, Gaussian and clustered points. A fault is planted into 4,000 rows of each
real table at five strengths; the file says which faults the verdict named. Writes results/verdict.json, from which
tools/benchmark_pages.py writes docs/verdict.md.
"""

import functools
import math

import torch
from _common import Results, generator, product, where
from _owner_tables import TABLES

import unclump as uc

ROWS = 4000
SYNTHETIC = {
    "uniform": lambda n, d, g: uc.uniform(n, d, generator=g),
    "Gaussian": lambda n, d, g: torch.randn(n, d, generator=g),
    "clustered": lambda n, d, g: torch.randn(n // 20, d, generator=g).repeat(20, 1) + torch.randn(n, d, generator=g),
}
HARMLESS = ("whole", "first half", "random half", "rotated", "other norms", "float16", "shuffled")
STRENGTHS = {
    "directions": ["1 NaN", "2 zero", "1%", "5%", "20%"],
    "duplicates": ["2 rows", "0.1%", "1%", "5%", "20%"],
    "near-duplicates": ["0.01°", "0.1°", "int8", "0.9°", "3°"],
    "rank": ["70%", "45%", "30%", "10%", "3%"],
    "cone": ["0.2", "0.4", "0.6", "0.8", "0.95"],
    "hubs": ["2%", "5%", "10%", "20%", "40%"],
    "dimensions": ["0.5%", "2%", "5%", "20%", "50%"],
    "norms": ["0.3", "0.6", "0.8", "0.9", "1.0"],
}
FULL = {"tables": list(TABLES), "sizes": [[1000, 20], [1000, 300], [4000, 100]], "faults": list(STRENGTHS)}
QUICK = {"tables": [], "sizes": [[300, 10]], "faults": ["duplicates"]}


def number(strength):
    digits = strength.rstrip("%°").split()[0]
    return float(digits) / 100 if strength.endswith("%") else float(digits)


def plant_directions(x, strength, g):
    some = torch.randperm(len(x), generator=g)[: max(1, round(number(strength) * (len(x) if "%" in strength else 1)))]
    x[some] = torch.nan if "NaN" in strength else 0


def plant_duplicates(x, strength, g):
    copies = 1 if strength == "2 rows" else round(number(strength) * len(x))
    to, of = torch.randperm(len(x), generator=g)[: 2 * copies].chunk(2)
    x[to] = x[of]


def plant_near_duplicates(x, strength, g):
    to, of = torch.randperm(len(x), generator=g)[:20].chunk(2)
    if strength == "int8":
        step = x[of].abs().amax(dim=1, keepdim=True) / 127
        x[to] = (x[of] / step).round() * step
        return
    aside = torch.randn(len(of), x.shape[1], generator=g)
    direction = uc.project(x[of])
    aside = uc.project(aside - (aside * direction).sum(dim=1, keepdim=True) * direction)
    turned = math.cos(math.radians(number(strength))) * direction + math.sin(math.radians(number(strength))) * aside
    x[to] = turned * x[of].norm(dim=1, keepdim=True)


def plant_rank(x, strength, g):
    centred = x - x.mean(dim=0)
    axes = torch.linalg.eigh(centred.mT @ centred).eigenvectors
    weight = torch.full((x.shape[1],), 0.02)
    weight[-max(1, round(number(strength) * x.shape[1])) :] = 1
    x.copy_(x.mean(dim=0) + centred @ axes * weight @ axes.mT)


def plant_cone(x, strength, g):
    """Add the multiple of one direction that gives the mean cosine."""
    unit, norms = uc.project(x), x.norm(dim=1, keepdim=True)
    direction, low, high = uc.project(unit.mean(dim=0)), 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        made = uc.project(unit + middle * direction)
        low, high = (middle, high) if uc.mean_cosine(made) < number(strength) else (low, middle)
    x.copy_(made * norms)


def plant_hubs(x, strength, g):
    """Turn a share of the rows towards one direction, up to a cosine of 0.85, and put twelve rows around it."""
    direction, norms = uc.uniform(1, x.shape[1], generator=g), x.norm(dim=1, keepdim=True)
    rows = torch.randperm(len(x), generator=g)
    turned, hubs = rows[: round(number(strength) * len(x))], rows[-12:]
    aside = uc.project(x[turned] - (x[turned] @ direction.mT) * direction)
    x[turned] = (0.85 * direction + math.sqrt(1 - 0.85**2) * aside) * norms[turned]
    x[hubs] = uc.project(direction + 0.05 * uc.uniform(12, x.shape[1], generator=g)) * norms[hubs]


def plant_dimensions(x, strength, g):
    dead = torch.randperm(x.shape[1], generator=g)[: max(1, round(number(strength) * x.shape[1]))]
    x[:, dead] = x[:, dead].mean(dim=0)


def plant_norms(x, strength, g):
    """Norms that fall with the row number, with about this rank correlation."""
    rank = torch.linspace(1.7, -1.7, len(x))
    mixed = number(strength) * rank + math.sqrt(1 - number(strength) ** 2) * torch.randn(len(x), generator=g)
    x.copy_(uc.project(x) * (0.2 * mixed).exp().unsqueeze(1))


PLANT = {name: globals()[f"plant_{name.replace('-', '_')}"] for name in STRENGTHS}


@functools.cache
def real(name):
    return TABLES[name]().float()


def some_rows(x, count):
    """So many rows of a table, evenly spaced."""
    return x[torch.arange(min(count, len(x))) * len(x) // min(count, len(x))].clone()


def base(name):
    """Rows of a real table, with unit norms where its own carry the frequency."""
    return uc.project(some_rows(real(name), ROWS)) if name == "counts" else some_rows(real(name), ROWS)


def rotated(x, g):
    return x @ torch.linalg.qr(torch.randn(x.shape[1], x.shape[1], generator=g)).Q


CHANGES = {
    "first half": lambda x, g: x[: len(x) // 2],
    "random half": lambda x, g: x[torch.randperm(len(x), generator=g)[: len(x) // 2].sort().values],
    "rotated": rotated,
    "other norms": lambda x, g: uc.project(x) * (1 + torch.rand(len(x), 1, generator=g)),
    "shuffled": lambda x, g: x[torch.randperm(len(x), generator=g)],
    "float16": lambda x, g: x.half(),
}


def changed(x, change):
    """The table, or 8,000 rows of it after a change that harms nothing."""
    return x if change == "whole" else CHANGES[change](some_rows(x, 2 * ROWS), generator(5))


def judge(x):
    found = uc.health(x)
    return {
        "findings": list(found.verdict.findings),
        "healthy": found.verdict.is_healthy,
        "text": found.verdict.text,
        "figures": {
            "n": found.n,
            "d": found.d,
            "smallest angle": math.degrees(found.min_angle),
            "rank": found.centred_rank / uc.IsotropicLaw(found.n - 1, found.d).rankme,
            "mean cosine": found.mean_cosine,
            "largest hub": found.largest_hub,
            "constant dimensions": len(found.dead_dimensions) / found.d,
            "norm correlation": found.norm_correlation,
            "norm variation": found.norm_variation,
        },
    }


def run(*, table, change=None, fault=None, strength=None, size=None):
    if size is not None:
        return judge(SYNTHETIC[table](*size, generator(1, *size)))
    if fault is None:
        return judge(changed(real(table), change))
    x = base(table)
    PLANT[fault](x, strength, generator(2, list(STRENGTHS[fault]).index(strength)))
    return judge(x)


def summarise(results, records):
    """Hits of every strength, and alarms on tables without a fault."""
    harmless = [record for record in records if record.get("fault") is None]
    planted = [record for record in records if record.get("fault") is not None]
    hits = {
        fault: {
            strength: [record["table"] for record in where(planted, fault=fault, strength=strength)
                       if fault in record["findings"]]
            for strength in strengths
        }
        for fault, strengths in STRENGTHS.items() if fault in results["faults"]
    }  # fmt: skip
    alarms = [record for record in harmless if not record["healthy"]]
    return {
        "hits": hits,
        "harmless": len(harmless),
        "alarms": [[record["table"], record.get("change"), record["findings"]] for record in alarms],
    }


def main(argv=None):
    results = Results("verdict", __doc__, argv, full=FULL, quick=QUICK)
    settings = product(table=results["tables"], change=list(HARMLESS))
    settings += product(table=list(SYNTHETIC), size=results["sizes"])
    for fault in results["faults"]:
        settings += product(table=results["tables"], fault=[fault], strength=STRENGTHS[fault])
    return results.finish(summarise(results, results.complete(settings, run)))


if __name__ == "__main__":
    main()
