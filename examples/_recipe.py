"""What the recipes share: options, results that grow run by run, tables with their errors. Nothing of the training."""

import argparse
import collections
import gzip
import importlib.metadata
import json
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from scipy import stats

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "experiments"))  # whose files and figures look the same
from _common import COLOURS, MARKERS, axes, on_lines  # noqa: E402, F401


@dataclass(frozen=True)
class Measure:
    """A number that every run has: its key in the record, the column of the table, and which way is better."""

    key: str
    name: str
    form: str = ".3f"
    better: str | None = None  # "higher", "lower", or neither

    def __call__(self, value):
        return format(value, self.form)


@dataclass(frozen=True)
class Recipe:
    """A script that trains each variant with each seed, and a page that says what came of it.

    Writes results/NAME.json after every run; runs that it holds already are not run again, and those of another setting
    are not overwritten.
    """

    name: str
    description: str
    full: dict
    quick: dict
    variants: dict  # name -> options of `train`
    measures: list
    train: object  # train(data, seed, setting, **options) -> record
    load: object  # load(path, setting) -> data
    made_up: object  # made_up(setting) -> data
    page: object  # page(result) -> text
    figure: object  # figure(runs) -> what the page shows
    baseline: str = "none"

    def main(self, argv=None):
        parser = argparse.ArgumentParser(description=self.description)
        parser.add_argument("path", type=Path, nargs="?", help="the data")
        parser.add_argument("--quick", action="store_true", help="seconds, on data that are made up")
        parser.add_argument("--page", action="store_true", help="write the documentation's page")
        parser.add_argument("--output", type=Path, default=ROOT / f"results/{self.name}.json")
        parser.add_argument("--steps", type=int, help=f"default {self.full['steps']}")
        parser.add_argument("--seeds", type=int, nargs="+", help=f"default {self.full['seeds']}")
        chosen = parser.parse_args(argv)
        if chosen.page:
            result = self.complete(json.loads(chosen.output.read_text()))
            (ROOT / f"docs/recipe_{self.name}.md").write_text(self.page(result))
            self.figure(result["runs"]).savefig(ROOT / f"results/{self.name}.png", dpi=130)
            return
        if not chosen.quick and chosen.path is None:
            parser.error("expected the path of the data, or --quick")
        setting = dict(self.quick if chosen.quick else self.full)
        setting |= {key: getattr(chosen, key) for key in ("steps", "seeds") if getattr(chosen, key) is not None}
        result = {"setting": setting, "versions": versions(), "runs": []}
        if chosen.output.exists():
            before = json.loads(chosen.output.read_text())
            if before["setting"] | {"seeds": setting["seeds"]} != setting:  # more seeds may follow
                parser.error(f"expected runs of {setting} in {chosen.output}, got {before['setting']}; choose --output")
            result["runs"] = before["runs"]
        torch.set_num_threads(1)  # models this small are faster without a second thread
        data = self.made_up(setting) if chosen.quick else self.load(chosen.path, setting)
        for seed in setting["seeds"]:
            for variant, options in self.variants.items():
                if not any((run["variant"], run["seed"]) == (variant, seed) for run in result["runs"]):
                    run = {"variant": variant, "seed": seed} | self.train(data, seed, setting, **options)
                    result["runs"].append(run)
                    chosen.output.write_text(f"{on_lines(result)}\n")
                    print(variant, f"seed {seed}", *(f"{m.name} {m(run[m.key])}" for m in self.measures), sep=", ")
        print(self.verdict(result["runs"]))

    def complete(self, result):
        """The result without seeds that not all variants have yet, so that all means are over the same seeds."""
        done = collections.Counter(run["seed"] for run in result["runs"])
        return result | {"runs": [run for run in result["runs"] if done[run["seed"]] == len(self.variants)]}

    def values(self, runs, variant, key):
        """The values of a variant, by seed."""
        return {run["seed"]: run[key] for run in runs if run["variant"] == variant}

    def mean(self, runs, variant, key):
        return statistics.fmean(self.values(runs, variant, key).values())

    def table(self, runs):
        """Means over the seeds, and the standard deviation of a run."""
        rows = []
        for variant in self.variants:
            cells = [self.values(runs, variant, measure.key).values() for measure in self.measures]
            deviations = [statistics.stdev(each) if len(each) > 1 else None for each in cells]
            shown = [
                measure(statistics.fmean(each)) + ("" if deviation is None else f" ± {measure(deviation)}")
                for measure, each, deviation in zip(self.measures, cells, deviations, strict=True)
            ]
            rows.append([variant, *shown])
        return markdown(["variant", *(measure.name for measure in self.measures)], rows)

    def differences(self, runs, variant, measure, beside=None):
        """Mean difference beside another variant with the same seed, half its 95 % interval, and what that amounts to.

        The interval is Student's: with three seeds 2.5 standard deviations of the differences, so that what may be
        chance does not pass for a difference.
        """
        before, after = (self.values(runs, v, measure.key) for v in (beside or self.baseline, variant))
        paired = [after[seed] - before[seed] for seed in after if seed in before]
        mean, count = statistics.fmean(paired), len(paired)
        if count == 1:
            return mean, None, "one seed"
        half = float(stats.t.ppf(0.975, count - 1)) * statistics.stdev(paired) / count**0.5
        if abs(mean) <= half:
            return mean, half, "may be chance" if half > 0 else "equal"
        if measure.better is None:
            return mean, half, "differs"
        return mean, half, "better" if (mean > 0) == (measure.better == "higher") else "worse"

    def verdict(self, runs, questions=None):
        """What the numbers say, gains and losses alike: an answer to each question {text: (variant, beside)}."""
        others = [variant for variant in self.variants if variant != self.baseline]
        rows = []
        for question, (variant, beside) in (questions or {v: (v, self.baseline) for v in others}).items():
            cells = []
            for measure in self.measures:
                mean, half, says = self.differences(runs, variant, measure, beside)
                before, after = (measure(self.mean(runs, v, measure.key)) for v in (beside, variant))
                change = f"{mean:+{measure.form}}" + ("" if half is None else f" ± {measure(half)}")
                cells.append(f"{before} → {after} ({change}): {f'**{says}**' if says in ('better', 'worse') else says}")
            rows.append([question, *cells])
        table = markdown(["", *(measure.name for measure in self.measures)], rows)
        if len({run["seed"] for run in runs}) == 1:
            table += "\n\nOne seed does not tell small differences from chance."
        return table

    def how(self, result, data):
        """How the page came to be: commands, seeds, what the numbers after ± are."""
        seeds = len({run["seed"] for run in result["runs"]})
        return f"""`python examples/{self.name}.py PATH`, with the path of {data}, trains every variant
({seeds} seed{"s" * (seeds > 1)}), and `--page` writes this page from `results/{self.name}.json`. The table above has
the mean over seeds ± the standard deviation of a run; the one below has the mean difference between runs with the same
seed ± half of its 95 % interval. Smaller differences may be chance."""


def markdown(head, rows):
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def versions():
    return {name: importlib.metadata.version(name) for name in ("unclump", "torch")}


def sentences(path):
    """The lines of a file that is packed by gzip, as those of Multi30k are."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read().splitlines()


def omniglot(path):
    """Drawings (n, 1, 28, 28) with ink 1 on paper 0, their characters, and their drawers.

    From the folder images_evaluation that a user unpacks, or from an archive with arrays `img28`, `labels`, `drawer`.
    """
    if path.is_dir():
        from PIL import Image

        files = sorted(path.glob("*/*/*.png"))  # alphabet / character / 0965_07.png: the seventh drawer's
        pixels = np.stack([np.asarray(Image.open(file).convert("L").resize((28, 28))) for file in files])
        characters = {name: number for number, name in enumerate(sorted({file.parent for file in files}))}
        labels = np.array([characters[file.parent] for file in files])
        drawers = np.array([int(file.stem.split("_")[1]) for file in files])
    else:
        with np.load(path) as arrays:
            pixels, labels, drawers = (arrays[name] for name in ("img28", "labels", "drawer"))
    images = 1 - torch.from_numpy(pixels).float().unsqueeze(1) / 255
    return images, torch.from_numpy(labels).long(), torch.from_numpy(drawers).long()


def scribbles(characters, drawers, generator):
    """Made-up drawings in the shape of `omniglot`: patterns of their characters, each moved a little by its drawer."""
    patterns = torch.rand(characters, 1, 7, 7, generator=generator).round()
    large = torch.nn.functional.interpolate(patterns, scale_factor=4)
    images = [
        torch.roll(large, shifts=torch.randint(-2, 3, (2,), generator=generator).tolist(), dims=(2, 3))
        for _ in range(drawers)
    ]
    labels = torch.arange(characters).repeat(drawers)
    return torch.cat(images), labels, torch.arange(1, drawers + 1).repeat_interleave(characters)
