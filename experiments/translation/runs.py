"""One run of the tables: a row trained with one seed, one rate and one weight, translated and judged.

What a run is asked for is a dictionary, which is also the name of its folder: there lie its state while it is trained,
then the model that `translate` reads, and its translations.
"""

import hashlib
import json
import re

from translation.data import load_corpus
from translation.rows import ROWS, frozen_table, row_named
from translation.saved import load_model, save_model
from translation.scores import bootstrap, judge_model
from translation.setting import Setting
from translation.text import encoded
from translation.tokens import dispersion
from translation.training import Training
from translation.vocabulary import load_vocabulary, train_vocabulary

# Settings that make no difference to the other runs.
CONTINUOUS_ONLY, DISCRETE_ONLY = ("continuous_loss", "offline_epochs", "offline_lr"), ("smoothing",)
JUDGED_ONLY = ("beam", "watch", "validations")
# A pilot keeps its last weights: what it is compared by is the loss, after as many updates in every row.
PILOT = {"validations": 1}
# What a setting does not name, since it was so when there was no choice.
IMPLIED = {"precision": "float32"}


class Workshop:
    """The text, the setting that all runs have in common, and the folders of the runs."""

    def __init__(self, results, *, data_folder=None):
        self.results, self.folder = results, results.folder / "translation"
        self.setting = Setting.of(results.configuration)
        self.common = {name: results[name] for name in ("data", "languages", "files", "vocabulary")}
        data = (self.common[name] for name in ("data", "languages", "files"))
        self.corpus = load_corpus(*data, data_folder=data_folder)
        self.text = encoded(self.corpus, self._vocabulary())

    def _vocabulary(self):
        size, path = self.common["vocabulary"], self.folder / f"vocabulary-{digest(self.common)}.model"
        if isinstance(size, str):
            return load_vocabulary(size)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            train_vocabulary(self.corpus.train, size).save(path)
        return load_vocabulary(path)

    def asked(self, row, seed, trial, *, updates, pilot=False, origin=None):
        """For a run: everything that makes a difference to it."""
        without = {
            "lr",
            *(CONTINUOUS_ONLY if ROWS[row].origin is None else DISCRETE_ONLY),
            *(JUDGED_ONLY if pilot else ()),
        }
        setting = {
            name: value
            for name, value in self.setting.as_dict().items()
            if name not in without and value is not None and IMPLIED.get(name) != value
        }
        run = {"row": row, "seed": seed, **trial, "updates": updates, "pilot": pilot, **self.common, "setting": setting}
        judge = self.results["comet"]
        run |= {"comet": judge} if judge and not pilot else {}
        return run | ({"origin": digest(origin)} if origin else {})

    def place(self, asked):
        name = re.sub(r"[^a-z]+", "-", asked["row"].lower())
        return self.folder / f"{name}-{asked['seed']}-{digest(asked)}"

    def complete(self, runs, origins=None):
        """The records of these runs; those that are there already are not run again."""
        records = self.results.complete(runs, lambda **run: self.run(run, (origins or {}).get(digest(run))))
        for asked in runs:
            (self.place(asked) / "state.pt").unlink(missing_ok=True)
        return records

    def run(self, asked, origin=None):
        """Train from the start, or from the state in the run's folder, and judge.

        Args:
            asked: The run.
            origin: For continuous output, the run whose table is frozen.
        """
        row, folder = row_named(asked["row"]), self.place(asked)
        folder.mkdir(parents=True, exist_ok=True)
        table = None
        if origin is not None:
            setting = {"seed": asked["seed"], "epochs": self.setting.offline_epochs, "lr": self.setting.offline_lr}
            table = frozen_table(row, load_model(self.place(origin))[0].table, **setting)
        training = Training(
            self.text,
            row,
            Setting.of({**self.setting.as_dict(), "lr": asked["lr"], **(PILOT if asked["pilot"] else {})}),
            seed=asked["seed"],
            updates=asked["updates"],
            table_lr=asked["table_lr"],
            weight=asked["weight"],
            table=table,
            watched=not asked["pilot"] and row in (ROWS["Euclidean"], ROWS["spherical"]),
        )
        training.run(checkpoint=folder / "state.pt", log=tensorboard(folder) if self.results["tensorboard"] else None)
        found = {"epochs": round(training.epochs, 2), "validation_loss": round(training.validation_loss(), 5)}
        if asked["pilot"]:
            return found | {"validation_bleu": round(training.validation_bleu(), 3)}
        about = {"row": asked["row"], "source": self.corpus.source, "target": self.corpus.target}
        save_model(folder, training.model, self.text.vocabulary, sizes=self.setting.sizes(), about=about)
        found["best_update"] = training.best["update"] if training.best else training.updates
        found["dispersion"] = dispersion(training.model.table, training.counts)
        found["history"] = training.history
        splits = {"validation": self.corpus.validation, **self.corpus.tests}
        found["scores"] = {}
        for name, pairs in splits.items():
            said, found["scores"][name] = judge_model(
                training.model, self.text.vocabulary, pairs, beam=self.setting.beam, comet=self.results["comet"]
            )
            (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in said))
        return found

    def compare(self, asked, baseline, samples):
        """Whether the BLEU of a run differs from a baseline's, on the first of the tests."""
        name, pairs = next(iter(self.corpus.tests.items()))
        said = [(self.place(run) / f"{name}.txt").read_text().split("\n")[: len(pairs)] for run in (asked, baseline)]
        return bootstrap(*said, [target for _, target in pairs], samples=samples)


def digest(thing):
    return hashlib.sha256(json.dumps(thing, sort_keys=True).encode()).hexdigest()[:8]


def tensorboard(folder):
    """A function that logs numbers for TensorBoard in the folder."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ValueError("expected the package tensorboard for logging, got none; pip install tensorboard") from None
    writer = SummaryWriter(str(folder))

    def log(update, numbers):
        for name, value in numbers.items():
            writer.add_scalar(name, value, update)
        writer.flush()

    return log
