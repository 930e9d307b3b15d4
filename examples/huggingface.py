"""A small BERT, trained to fill in masked words with and without a dispersed input embedding.

    python examples/huggingface.py PATH    # a folder with train.en.gz and val.en.gz of Multi30k
    python examples/huggingface.py --page  # writes docs/huggingface_results.md from what was found

Writes results/huggingface.json after every run; runs that it holds already are not run again, and those of
another setting are not overwritten. `--quick` takes seconds, on sentences that it makes up.
"""

import argparse
import gzip
import importlib.metadata
import json
import random
import tempfile
import time
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import BertConfig, BertForMaskedLM, Trainer, TrainingArguments, set_seed

import unclump as uc
from unclump.integrations.transformers import DispersionCallback, dispersion_loss

ROOT = Path(__file__).parents[1]
RESULT, PAGE = ROOT / "results/huggingface.json", ROOT / "docs/huggingface_results.md"
PAD, UNKNOWN, MASK = range(3)
HIDDEN = 0.15  # the part of the words that is masked
REGULARISERS = {
    "none": lambda generator: None,
    "Sliced(13)": lambda generator: {
        "objective": uc.Sliced(13, generator=generator), "weight": 4.0,
    },
    "KoLeo, 1024 rows": lambda generator: {
        "objective": uc.KoLeo(), "weight": 0.1, "rows": 1024, "generator": generator,
    },
}  # fmt: skip
FULL = {"vocabulary": 4000, "hidden": 128, "layers": 2, "steps": 300, "batch": 64, "lr": 2e-3, "seeds": [0]}
QUICK = {"vocabulary": 60, "hidden": 16, "layers": 1, "steps": 20, "batch": 16, "lr": 5e-3, "seeds": [0]}


def sentences(path, split):
    with gzip.open(path / f"{split}.en.gz", "rt", encoding="utf-8") as file:
        return file.read().splitlines()


def made_up(seed, count):
    draw = random.Random(seed)
    words = [a + b for a in ("ba", "ke", "li", "mo", "tu") for b in ("d", "f", "g", "n", "r", "s", "t", "z")]
    return [" ".join(draw.choices(words, weights=range(1, 41), k=draw.randint(4, 9))) for _ in range(count)]


def tokenizer_of(lines, vocabulary):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[MASK]"]
    tokenizer.train_from_iterator(
        lines, trainers.WordPieceTrainer(vocab_size=vocabulary, special_tokens=special, show_progress=False)
    )
    tokenizer.enable_truncation(32)
    return tokenizer


def masked(batch, generator):
    """Sentences padded to one length, of which some words are hidden: what the model sees, and what it is to find."""
    tokens = torch.nn.utils.rnn.pad_sequence(batch, batch_first=True, padding_value=PAD)
    hidden = (torch.rand(tokens.shape, generator=generator) < HIDDEN) & (tokens != PAD)
    return {
        "input_ids": tokens.masked_fill(hidden, MASK),
        "attention_mask": (tokens != PAD).long(),
        "labels": tokens.masked_fill(~hidden, -100),
    }


@torch.no_grad()
def filled_in(model, lines):
    """The mean loss over masked words of sentences it has not seen, and the part of these words it finds."""
    model.eval()
    generator, loss, right, count = torch.Generator().manual_seed(0), 0.0, 0, 0
    for batch in (lines[start : start + 128] for start in range(0, len(lines), 128)):
        inputs = masked(batch, generator)
        labels = inputs.pop("labels")
        logits = model(**inputs).logits[labels != -100]
        wanted = labels[labels != -100]
        loss += torch.nn.functional.cross_entropy(logits, wanted, reduction="sum").item()
        right, count = right + int((logits.argmax(dim=-1) == wanted).sum()), count + len(wanted)
    return {"validation_loss": loss / count, "accuracy": right / count}


def measured(model):
    """The measures of all rows but the padding."""
    table = model.get_input_embeddings().weight.detach()[PAD + 1 :]
    found = uc.summary(table, samples=1000, generator=torch.Generator().manual_seed(0))
    names = ("min_angle", "median_nearest_angle", "mean_angle", "spherical_variance", "effective_rank")
    return {name: getattr(found, name) for name in names}


def trained(name, seed, setting, texts, folder):
    """One run: the measures before and after, and how well the words are filled in."""
    set_seed(seed)
    config = BertConfig(
        vocab_size=setting["vocabulary"], hidden_size=setting["hidden"], num_hidden_layers=setting["layers"],
        num_attention_heads=4, intermediate_size=2 * setting["hidden"], max_position_embeddings=32,
        pad_token_id=PAD, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model, generator = BertForMaskedLM(config), torch.Generator().manual_seed(seed)
    options = REGULARISERS[name](generator)
    before = measured(model)
    masks = torch.Generator().manual_seed(seed)
    arguments = TrainingArguments(
        folder, max_steps=setting["steps"], per_device_train_batch_size=setting["batch"],
        learning_rate=setting["lr"], warmup_steps=setting["steps"] // 10, logging_steps=setting["steps"] // 10,
        seed=seed, report_to="none", save_strategy="no", use_cpu=True, disable_tqdm=True, remove_unused_columns=False,
    )  # fmt: skip
    trainer = Trainer(
        model,
        arguments,
        train_dataset=texts[0],
        data_collator=lambda batch: masked(batch, masks),
        compute_loss_func=None if options is None else dispersion_loss(model, **options),
    )
    trainer.add_callback(DispersionCallback(trainer, every=setting["steps"] // 4, rows=1024))
    begin = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - begin
    course = [
        {"step": log["step"], "spherical_variance": log["embedding/spherical_variance"]}
        for log in trainer.state.log_history
        if "embedding/min_angle" in log
    ]
    found = {"regulariser": name, "seed": seed, "before": before, "after": measured(model)}
    return found | filled_in(model, texts[1]) | {"course": course, "seconds": round(seconds, 1)}


def page(result):
    """The documentation's page, every number of which is in the file."""
    setting, runs = result["setting"], result["runs"]
    columns = {
        "smallest angle": lambda r, when: f"{_degrees(r[when]['min_angle']):.1f}°",
        "median nearest angle": lambda r, when: f"{_degrees(r[when]['median_nearest_angle']):.1f}°",
        "mean angle": lambda r, when: f"{_degrees(r[when]['mean_angle']):.1f}°",
        "spherical variance": lambda r, when: f"{r[when]['spherical_variance']:.3f}",
        "effective rank": lambda r, when: f"{r[when]['effective_rank']:.1f}",
    }
    head = ["regulariser", "seed", *columns, "validation loss", "words found"]
    rows = [["before, all runs", str(r["seed"]), *(f(r, "before") for f in columns.values()), "", ""] for r in runs
            if r["regulariser"] == "none"]  # fmt: skip
    rows += [
        [r["regulariser"], str(r["seed"]), *(f(r, "after") for f in columns.values()),
         f"{r['validation_loss']:.3f}", f"{r['accuracy']:.1%}"]
        for r in runs
    ]  # fmt: skip
    table = "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * 2 + ["---:"] * (len(head) - 2), *rows])
    return f"""# A small BERT, with and without

A BERT of {setting["layers"]} layers and {setting["hidden"]} dimensions, built from a configuration, learns to fill in
masked words of the English sentences of Multi30k: {setting["steps"]} steps of {setting["batch"]} sentences, a
vocabulary of {setting["vocabulary"]:,} word pieces, with and without [`dispersion_loss`](huggingface.md) on its input
embedding. `python examples/huggingface.py PATH` runs it and `--page` writes this page from `results/huggingface.json`.

{table}

{_verdict(runs)}
"""


def _verdict(runs):
    """What the numbers say, in words that follow from them."""

    def mean(name, value):
        found = [value(run) for run in runs if run["regulariser"] == name]
        return sum(found) / len(found)

    variance = {name: mean(name, lambda r: r["after"]["spherical_variance"]) for name in REGULARISERS}
    nearest = {name: mean(name, lambda r: _degrees(r["after"]["median_nearest_angle"])) for name in REGULARISERS}
    loss = {name: mean(name, lambda r: r["validation_loss"]) for name in REGULARISERS}
    lines = [
        f"- `{name}` instead of none: spherical variance {variance['none']:.3f} → {variance[name]:.3f}, median nearest "
        f"angle {nearest['none']:.1f}° → {nearest[name]:.1f}°, validation loss {loss['none']:.3f} → {loss[name]:.3f}."
        for name in list(REGULARISERS)[1:]
    ]
    seeds = len({run["seed"] for run in runs})
    if seeds == 1:
        lines.append("\nOne seed does not tell small differences of the loss from chance.")
    return f"At the end{f', means over {seeds} seeds' if seeds > 1 else ''}:\n\n" + "\n".join(lines)


def _degrees(radians):
    return radians * 180 / torch.pi


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path, nargs="?", help="folder of Multi30k")
    parser.add_argument("--quick", action="store_true", help="seconds, on made-up sentences")
    parser.add_argument("--page", action="store_true", help="write the documentation's page")
    parser.add_argument("--output", type=Path, default=RESULT)
    for name in ("steps", "lr"):
        parser.add_argument(f"--{name}", type=type(FULL[name]), help=f"default {FULL[name]}")
    chosen = parser.parse_args(argv)
    if chosen.page:
        PAGE.write_text(page(json.loads(chosen.output.read_text())))
        return
    if not chosen.quick and chosen.path is None:
        parser.error("expected the folder of Multi30k, or --quick")
    torch.set_num_threads(1)
    setting = dict(QUICK if chosen.quick else FULL)
    setting |= {name: getattr(chosen, name) for name in ("steps", "lr") if getattr(chosen, name) is not None}
    texts = (made_up(0, 400), made_up(1, 50)) if chosen.quick else [sentences(chosen.path, s) for s in ("train", "val")]
    tokenizer = tokenizer_of(texts[0], setting["vocabulary"])
    setting["vocabulary"] = tokenizer.get_vocab_size()
    texts = [[torch.tensor(line.ids) for line in tokenizer.encode_batch(text)] for text in texts]
    versions = {name: importlib.metadata.version(name) for name in ("unclump", "torch", "transformers")}
    result = {"setting": setting, "versions": versions, "runs": []}
    if chosen.output.exists():
        before = json.loads(chosen.output.read_text())
        if before["setting"] | {"seeds": setting["seeds"]} != setting:  # more seeds may follow
            parser.error(f"expected runs of {setting} in {chosen.output}, got {before['setting']}; choose --output")
        result["runs"] = before["runs"]
    for seed in setting["seeds"]:
        for name in REGULARISERS:
            if not any((run["regulariser"], run["seed"]) == (name, seed) for run in result["runs"]):
                with tempfile.TemporaryDirectory() as folder:
                    run = trained(name, seed, setting, texts, folder)
                result["runs"].append(run)
                chosen.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
