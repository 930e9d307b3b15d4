"""The command line: train one row, translate with it, or make both tables."""

import argparse
import json
import sys
from dataclasses import fields
from pathlib import Path

from translation import table
from translation.data import load_corpus
from translation.rows import ROWS, frozen_table, row_named
from translation.runs import tensorboard
from translation.saved import load_model, save_model
from translation.scores import judge_model
from translation.search import translate
from translation.setting import Setting
from translation.text import encoded
from translation.training import Training
from translation.vocabulary import load_vocabulary, train_vocabulary

DESCRIPTION = """Machine translation with embeddings on the sphere.

  train FOLDER       train one row on text, into a folder
  translate FOLDER   translate sentences with it
  table              both tables of the paper, in results/translation.json
"""


def main(argv=None):
    """Run the command; on a mistake of its user one line, exit code 2 and nothing written."""
    argv = sys.argv[1:] if argv is None else list(argv)
    commands = {"train": train, "translate": speak, "table": make_tables}
    if not argv or argv[0] not in commands:
        print(DESCRIPTION, file=sys.stdout if argv[:1] in (["-h"], ["--help"]) else sys.stderr)
        return 0 if argv[:1] in (["-h"], ["--help"]) else 2
    try:
        commands[argv[0]](argv[1:])
    except (ValueError, FileNotFoundError) as error:
        print(f"{argv[0]}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{argv[0]}: stopped; the same command goes on", file=sys.stderr)
        return 130
    return 0


def parser_with_files(**choices):
    """With the options for a user's own text, and for a file of settings."""
    # No abbreviations: --data is an option of its own, of the experiment's, and not short for --data-folder.
    parser = argparse.ArgumentParser(
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **choices
    )
    pair = {"nargs": 2, "metavar": ("SOURCE", "TARGET")}
    parser.add_argument(
        "--train", action="append", help="files to learn from, a sentence a line; more than once", **pair
    )
    parser.add_argument("--validation", help="files to choose by", **pair)
    parser.add_argument("--test", action="append", help="files to be judged by; more than once", **pair)
    parser.add_argument(
        "--data-folder", type=Path, help="where public data sets lie; default UNCLUMP_DATA, or else data"
    )
    parser.add_argument("--config", type=Path, help="a JSON file of settings, such as paper.json")
    return parser


def files_of(chosen):
    """The user's own files, or None; as absolute paths, since they are part of what a run is."""
    given = [chosen.train, chosen.validation, chosen.test]
    if not any(given):
        return None
    if not all(given):
        raise ValueError("expected --train, --validation and --test together, got only some of them")
    train, validation, tests = json.loads(json.dumps(given))

    def absolute(pair):
        return [str(Path(path).resolve()) for path in pair]

    return {
        "train": [absolute(p) for p in train],
        "validation": absolute(validation),
        "tests": [absolute(p) for p in tests],
    }


def configured(path, known):
    """The settings of a file."""
    if path is None:
        return {}
    try:
        settings = json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise ValueError(f"expected JSON in {path}, got {error}") from None
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise ValueError(f"expected settings of {', '.join(known)} in {path}, got {', '.join(unknown)}")
    return settings


def make_tables(argv):
    """The options of the experiment, and ours before them: what is said last on the line wins over the file."""
    chosen, rest = parser_with_files(add_help=False).parse_known_args(argv)
    settings = configured(chosen.config, table.FULL)
    if files := files_of(chosen):
        settings |= {"files": files, "data": "own"}
    options = [part for name, value in settings.items() for part in (f"--{name.replace('_', '-')}", json.dumps(value))]
    table.main([*options, *rest], data_folder=chosen.data_folder)


def train(argv):
    parser = parser_with_files(description="Train one row, into a folder that `translate` reads; killed, it goes on.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--row", default="spherical + Sliced", help=f"one of: {'; '.join(ROWS)}")
    parser.add_argument("--data", help="instead of files: multi30k, roen, tatoeba, wmt16 or generated")
    parser.add_argument("--languages", type=json.loads, help='of the data: from, to; such as \'["de", "en"]\'')
    parser.add_argument("--vocabulary", help="how many pieces to train, or the file of a SentencePiece model")
    parser.add_argument("--table", type=Path, help="for continuous rows: the folder whose embeddings are taken")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--updates", type=int)
    parser.add_argument("--table-lr", type=float, help="rate of the decoder's table; default 0.02 on the sphere")
    parser.add_argument("--weight", type=float, help="of the regulariser")
    parser.add_argument("--tensorboard", action="store_true", help="log into the folder for TensorBoard")
    for one in fields(Setting):
        parser.add_argument(f"--{one.name.replace('_', '-')}", type=json.loads, metavar="VALUE")
    chosen = parser.parse_args(argv)
    settings = {"data": "multi30k", "languages": ["de", "en"], "vocabulary": 4000, "updates": 4000}
    settings |= configured(chosen.config, table.FULL)
    settings |= {name: value for name, value in vars(chosen).items() if value is not None}
    train_row(settings, files_of(chosen), chosen)


def train_row(settings, files, chosen):
    row, folder = row_named(chosen.row), chosen.folder
    if (row.origin is None) != (chosen.table is None):
        raise ValueError(
            f"expected --table FOLDER with continuous rows, and with no others, got the row {chosen.row!r}"
        )
    corpus = load_corpus(settings["data"], settings["languages"], files, data_folder=chosen.data_folder)
    setting, seed = Setting.of(settings), chosen.seed
    frozen = vocabulary = None
    if chosen.table is not None:
        origin, vocabulary, _ = load_model(chosen.table)
        offline = {"epochs": setting.offline_epochs, "lr": setting.offline_lr}
        frozen = frozen_table(row, origin.table, seed=seed, **offline)
    text = encoded(corpus, vocabulary or vocabulary_of(settings["vocabulary"], corpus, folder / "vocabulary.model"))
    folder.mkdir(parents=True, exist_ok=True)
    text.vocabulary.save(folder / "vocabulary.model")
    first = table.TRIES.get(chosen.row, [[0, 0]])[0]
    training = Training(
        text,
        row,
        setting,
        seed=seed,
        updates=settings["updates"],
        table_lr=settings.get("table_lr", 0.02 if row.sphere else setting.lr),
        weight=settings.get("weight", first[1]),
        table=frozen,
    )
    training.run(checkpoint=folder / "state.pt", log=tensorboard(folder) if chosen.tensorboard else None)
    about = {"row": chosen.row, "source": corpus.source, "target": corpus.target}
    save_model(folder, training.model, text.vocabulary, sizes=setting.sizes(), about=about)
    for name, pairs in {"validation": corpus.validation, **corpus.tests}.items():
        _, judged = judge_model(training.model, text.vocabulary, pairs, beam=setting.beam)
        print(f"{name}: BLEU {judged['bleu']:.1f} ({judged['signature']}), chrF {judged['chrf']:.1f}")


def vocabulary_of(asked, corpus, there):
    """That of a file, or one trained on the text, which may have been done before."""
    if not str(asked).isdigit():
        return load_vocabulary(asked)
    if not there.exists():
        return train_vocabulary(corpus.train, int(asked))
    found = load_vocabulary(there)
    if len(found) != int(asked):
        raise ValueError(f"expected {asked} pieces in {there}, got {len(found)} from before; name another folder")
    return found


def speak(argv):
    parser = argparse.ArgumentParser(description="Translate sentences: those on the line, or those on standard input.")
    parser.add_argument("folder", type=Path, help="where `train` or `table` left a model")
    parser.add_argument("sentences", nargs="*")
    parser.add_argument("--beam", type=int, default=5)
    chosen = parser.parse_args(argv)
    if chosen.beam < 1:
        raise ValueError(f"expected --beam >= 1, got {chosen.beam}")
    model, vocabulary, _ = load_model(chosen.folder)
    sentences = chosen.sentences or [line.rstrip("\n") for line in sys.stdin]
    empty = [number for number, sentence in enumerate(sentences, 1) if not sentence.strip()]
    if empty or not sentences:
        raise ValueError(f"expected sentences to translate, got {f'an empty line {empty[0]}' if empty else 'none'}")
    numbers = vocabulary.encode_known(sentences, "what was typed")
    for said in translate(model, vocabulary, numbers, beam=chosen.beam):
        print(said)
