"""Parallel text: pairs of sentences, from the public files of the data sets that we know, or from a user's own.

A file has a sentence a line, plain or gzipped, or is one of WMT's `.sgm`. Lines of both files of a pair belong
together: where their numbers differ, or a line is empty, nothing is guessed.
"""

import gzip
import html
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from _common import data_place

Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Corpus:
    """Sentences to learn from, to choose by, and to be judged by."""

    name: str
    source: str
    target: str
    train: Pairs
    validation: Pairs
    tests: dict[str, Pairs]


def lines_of(path):
    """The sentences of a file."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"expected sentences in {path}, got no such file")
    data = path.read_bytes()
    data = gzip.decompress(data) if path.suffix == ".gz" else data
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"expected text in UTF-8 in {path}, got byte {data[error.start]:#x} at {error.start}"
        ) from None
    if path.name.removesuffix(".gz").endswith(".sgm"):
        return [html.unescape(found) for found in re.findall(r"<seg[^>]*>(.*?)</seg>", text, re.DOTALL)]
    # Only the line feed ends a line: text has other separators inside sentences, which str.splitlines would cut.
    return [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def read_pairs(source, target):
    """The pairs of two files whose lines belong together."""
    first, second = lines_of(source), lines_of(target)
    if len(first) != len(second):
        raise ValueError(
            f"expected as many lines in {source} as in {target}, got {len(first)} and {len(second)}: "
            "line i of one is the translation of line i of the other"
        )
    pairs = [(one.strip(), other.strip()) for one, other in zip(first, second, strict=True)]
    return checked(pairs, source, target)


def read_table(path, first, second):
    """The pairs in two columns of a tab-separated file."""
    pairs = []
    for number, line in enumerate(lines_of(path), 1):
        cells = line.split("\t")
        if len(cells) <= max(first, second):
            raise ValueError(f"expected {max(first, second) + 1} columns in {path}, got {len(cells)} in line {number}")
        pairs.append((cells[first].strip(), cells[second].strip()))
    return checked(pairs, path, path)


def checked(pairs, source, target):
    """The pairs, if there are any and none has an empty side."""
    if not pairs:
        raise ValueError(f"expected pairs of sentences in {source} and {target}, got none")
    for side, path in ((0, source), (1, target)):
        empty = [number for number, pair in enumerate(pairs, 1) if not pair[side]]
        if empty:
            shown = ", ".join(map(str, empty[:5])) + (", ..." if len(empty) > 5 else "")
            raise ValueError(
                f"expected a sentence in every line of {path}, got {len(empty)} empty: {shown}; "
                "delete these lines from both files"
            )
    return pairs


def folder_of(inside, data_folder=None):
    """Where a data set lies among the others."""
    folder = data_place(data_folder) / inside
    if not folder.is_dir():
        raise FileNotFoundError(f"expected its files in {folder}, got no such folder")
    return folder


def _there(folder, name):
    """The file, plain or gzipped."""
    plain, packed = folder / name, folder / f"{name}.gz"
    return packed if packed.exists() and not plain.exists() else plain


def multi30k(folder, source, target):
    def split(name):
        return read_pairs(*(_there(folder, f"{name}.{language}") for language in (source, target)))

    tests = {"test2016": split("test_2016_flickr")}
    return Corpus("multi30k", source, target, split("train"), split("val"), tests)


def roen(folder, source, target):
    columns = {"en": 0, "ro": 1}
    first, second = columns[source], columns[target]

    def split(name):
        return read_table(_there(folder, f"{name}.en-ro.tsv"), first, second)

    train = read_table(_there(folder, "train.src-en-ro.tsv"), first + 1, second + 1)
    tests = {name: split(name) for name in ("rosts_test", "tatoeba_test", "newstest2016")}
    return Corpus("roen", source, target, train, split("rosts_dev"), tests)


def tatoeba(folder, source, target):
    columns = {"en": 0, "de": 1}

    def split(name):
        path = _there(folder, f"tatoeba_manythings2018.{name}.en-de.tsv")
        return read_table(path, columns[source], columns[target])

    return Corpus("tatoeba", source, target, split("train"), split("val"), {"test": split("test")})


def wmt16(folder, source, target):
    """Romanian-English as WMT 2016 packs it: NAME.ro-en.ro and .en to learn from, newsdev2016 and newstest2016."""
    names = [f"{{}}.{pair}.{{}}" for pair in ("ro-en", "en-ro")]
    found = [path for form in names for path in sorted(folder.rglob(form.format("*", source)))]
    train = [pair for path in found for pair in read_pairs(path, path.with_suffix(f".{target}"))]
    if not train:
        raise FileNotFoundError(f"expected files such as europarl-v8.ro-en.ro in {folder}, got none")

    def split(name):
        form = f"{name}-{source}{target}"
        paths = [next(folder.rglob(f"{form}-{end}.sgm"), folder / f"{form}-{end}.sgm") for end in (
            f"src.{source}", f"ref.{target}",
        )]  # fmt: skip
        return read_pairs(*paths)

    return Corpus("wmt16", source, target, train, split("newsdev2016"), {"newstest2016": split("newstest2016")})


def own_files(train, validation, tests):
    """A user's own: each a list of pairs of files."""
    languages = [Path(path).name.removesuffix(".gz").removesuffix(".sgm").rpartition(".")[2] for path in train[0]]
    pairs = [pair for files in train for pair in read_pairs(*files)]
    names = [Path(first).name.split(".")[0] for first, _ in tests]
    if len({"validation", *names}) <= len(names):
        raise ValueError(f"expected tests with names of their own, got {', '.join(names)}; rename a file")
    named = {name: read_pairs(*files) for name, files in zip(names, tests, strict=True)}
    return Corpus("own", *languages, pairs, read_pairs(*validation), named)


MANYTHINGS = "https://www.manythings.org/anki"
WMT16 = "https://www.statmt.org/wmt16/translation-task.html"


@dataclass(frozen=True)
class Public:
    """A data set that anybody can have: its languages, its folder, how it is read, and where it is to be had."""

    languages: tuple[str, str]
    folder: str
    read: Callable[[Path, str, str], Corpus]
    at: str


CORPORA = {
    "multi30k": Public(("de", "en"), "multi30k", multi30k, "https://github.com/multi30k/dataset"),
    "roen": Public(("ro", "en"), "roen", roen, f"https://github.com/dumitrescustefan/RO-STS, {MANYTHINGS} and {WMT16}"),
    "tatoeba": Public(("de", "en"), "ende", tatoeba, MANYTHINGS),
    "wmt16": Public(("ro", "en"), "wmt16", wmt16, WMT16),
}


def load_corpus(name, direction, files=None, *, data_folder=None):
    """A data set by its name, from the first language to the second; or a user's own files, where there are some."""
    if files:
        return own_files(files["train"], files["validation"], files["tests"])
    if name == "generated":
        from translation.generated import generated

        return generated()
    if name not in CORPORA:
        raise ValueError(f"expected data to be generated, {', '.join(CORPORA)}, got {name!r}")
    public = CORPORA[name]
    if sorted(direction) != sorted(public.languages):
        raise ValueError(f"expected a direction between {' and '.join(public.languages)} for {name}, got {direction!r}")
    try:
        return public.read(folder_of(public.folder, data_folder), *direction)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{name}: {error}; the text is at {public.at}, and --data-folder or UNCLUMP_DATA names the folder "
            f"that has {public.folder}/ in it"
        ) from None
