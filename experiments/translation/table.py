"""Both tables of the paper: five discrete rows and eight continuous ones, their rates chosen by equal numbers of tries.

    python experiments/translation table [--quick] [--config experiments/translation/paper.json]

The rate of the decoder's table decides more than anything else, and on the sphere it is another quantity than off it.
So every row has as many tries (rates, and the weight of the regulariser) of a short training each, and the validation
loss chooses. Beside these stands every row with its first try, where all weights have one rate: untuned.
"""

from _common import Results, tell

from translation.claims import FULL_UPDATES
from translation.comparison import report, summarise
from translation.figures import draw
from translation.rows import CONTINUOUS, DISCRETE, ROWS
from translation.runs import Workshop, digest
from translation.setting import Setting

__all__ = ["FULL", "QUICK", "main", "report"]

# Rate of the table and weight of the regulariser. The first is the untuned one, at the rate of all other weights.
TRIES = {
    "Euclidean": [[2e-3, 0], [5e-3, 0], [1e-2, 0], [2e-2, 0], [5e-2, 0]],
    "spherical": [[2e-3, 0], [2e-2, 0], [5e-2, 0], [1e-1, 0], [2e-1, 0]],
    "spherical + MHE": [[2e-3, 1], [5e-2, 1], [1e-1, 1], [2e-1, 1], [1e-1, 10]],
    "spherical + Lloyd": [[2e-3, 0.1], [5e-2, 0.1], [1e-1, 0.1], [2e-1, 0.1], [1e-1, 1]],
    "spherical + Sliced": [[2e-3, 1e-4], [5e-2, 1e-4], [1e-1, 1e-4], [2e-1, 1e-4], [1e-1, 1e-3]],
}
FULL = {
    "data": "multi30k",
    "languages": ["de", "en"],
    "files": None,
    "vocabulary": 4000,
    "discrete": list(DISCRETE),
    "continuous": list(CONTINUOUS),
    "seeds": 3,
    "seeds_untuned": 1,
    "seeds_continuous": 3,
    "updates": FULL_UPDATES,
    "updates_continuous": 4500,
    "updates_pilot": 1500,
    "tries": TRIES,
    "tries_continuous": [2e-3, 1e-3],
    "bootstrap": 1000,
    "comet": None,
    "tensorboard": False,
    **Setting(precision="bfloat16").as_dict(),
}
QUICK = {
    "data": "generated",
    "languages": ["en", "la"],
    "vocabulary": 54,
    "continuous": ["continuous, Euclidean", "continuous, spherical + Sliced"],
    "seeds": 1,
    "seeds_untuned": 0,
    "seeds_continuous": 1,
    "updates": 180,
    "updates_continuous": 180,
    "tries": {row: [[1e-2 if row == "Euclidean" else 5e-2, tries[0][1]]] for row, tries in TRIES.items()},
    "tries_continuous": [1e-2],
    "bootstrap": 100,
    "d": 32,
    "layers": 1,
    "heads": 2,
    "feed_forward": 64,
    "dropout": 0.0,
    "batch_tokens": 500,
    "lr": 1e-2,
    "beam": 2,
    "watch": [0.0, 0.5, 1.0],
    "precision": "float32",
}
PILOT_SEED = 1000  # none of the rows'


def tried(workshop, tries, updates, origins):
    """A short training for every try of every row, where there is more than one: {row: records}."""
    counts = {row: len(own) for row, own in tries.items()}
    if len(set(counts.values())) > 1:
        raise ValueError(f"expected as many tries for every row, got {counts}: more tries alone would favour a row")
    if not counts or max(counts.values()) == 1:
        return {}
    choice = {"updates": updates, "pilot": True}
    asked = [
        workshop.asked(row, PILOT_SEED, trial, origin=origins.get((row, 0)), **choice)
        for row, own in tries.items()
        for trial in own
    ]
    records = workshop.complete(asked, by_digest(asked, origins, 0))
    return {row: [record for record in records if record["row"] == row] for row in tries}


def best_tries(tries, pilots):
    """Of every row the try with the lowest validation loss."""
    best = {}
    for row, own in tries.items():
        losses = [record["validation_loss"] for record in pilots.get(row, [])] or [0.0]
        best[row] = own[losses.index(min(losses))]
    return best


def rows(workshop, tries, seeds, updates, origins=None):
    """Every row with every seed, seed by seed: what was asked, and its record."""
    origins = origins or {}
    asked = [
        workshop.asked(row, seed, trial, updates=updates, origin=origins.get((row, seed)))
        for seed in range(seeds)
        for row, trial in tries.items()
    ]
    return list(zip(asked, workshop.complete(asked, by_digest(asked, origins)), strict=True))


def by_digest(asked, origins, seed=None):
    """The origin of each run: that with the run's own seed, or with this one."""
    return {digest(run): origins.get((run["row"], run["seed"] if seed is None else seed)) for run in asked}


def compared(workshop, found, samples):
    """The records of the runs, each with the paired bootstrap beside the first row with the same seed.

    The comparisons are kept in the file as runs of their own: the translations need not be there for ever.
    """
    first = {asked["seed"]: asked for asked, _ in reversed(found)}
    pairs = {digest(asked): (asked, first[asked["seed"]]) for asked, _ in found if asked is not first[asked["seed"]]}
    keys = [
        {"compared": asked["row"], "seed": asked["seed"], "run": run, "with": digest(baseline), "samples": samples}
        for run, (asked, baseline) in pairs.items()
    ]
    made = workshop.results.complete(keys, lambda run, **_: workshop.compare(*pairs[run], samples))
    beside = {comparison["run"]: comparison for comparison in made}
    return [record | {"against_first": beside.get(digest(asked))} for asked, record in found]


def discrete_tries(results):
    names = ("table_lr", "weight")
    return {
        row: [{"lr": results["lr"], **dict(zip(names, trial, strict=True))} for trial in results["tries"][row]]
        for row in results["discrete"]
    }


def origins_of(rows, discrete):
    """{(row, seed): the discrete run whose table it takes}."""
    runs = {(asked["row"], asked["seed"]): asked for asked, _ in discrete}
    missing = sorted({ROWS[row].origin for row in rows} - {row for row, _ in runs})
    if missing:
        raise ValueError(f"expected the discrete rows whose tables continuous ones take, got none for {missing}")
    return {(row, seed): asked for row in rows for (name, seed), asked in runs.items() if name == ROWS[row].origin}


def main(argv=None, *, data_folder=None):
    """Both tables. Where the data lies makes no difference to them, and is no part of what the file says was asked."""
    results = Results("translation", __doc__.splitlines()[0], argv, full=FULL, quick=QUICK)
    workshop = Workshop(results, data_folder=data_folder)
    updates, samples = results["updates"], results["bootstrap"]
    tries = discrete_tries(results)
    pilots = tried(workshop, tries, results["updates_pilot"], {})
    found = {"discrete": rows(workshop, best_tries(tries, pilots), results["seeds"], updates)}
    found["untuned"] = rows(workshop, {row: own[0] for row, own in tries.items()}, results["seeds_untuned"], updates)

    origins = origins_of(results["continuous"], found["discrete"])
    if results["seeds_continuous"] > results["seeds"]:
        raise ValueError(f"expected seeds_continuous <= seeds, got {results['seeds_continuous']} > {results['seeds']}")
    trials = [{"lr": lr, "table_lr": 0, "weight": 0} for lr in results["tries_continuous"]]
    tries = dict.fromkeys(results["continuous"], trials)
    pilots |= tried(workshop, tries, results["updates_pilot"], origins)
    found["continuous"] = rows(
        workshop, best_tries(tries, pilots), results["seeds_continuous"], results["updates_continuous"], origins
    )
    records = {name: compared(workshop, part, samples) for name, part in found.items()}
    draw(results, records["discrete"])
    summary = results.finish(summarise(records, pilots))
    tell(report(summary))
    return summary
