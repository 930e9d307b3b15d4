"""The names of a tokenizer's rows, read from its files without the tokenizer's library."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unclump._text import FileError
from unclump.tables.files._refusals import parsing


def token_names(folder: Path, rows: int) -> list[str] | None:
    """The token of every row, empty for rows that have none; None where the folder holds no tokenizer we can read."""
    tokens = _tokens(folder)
    if tokens is None:
        return None
    names = [""] * rows
    for token, row in tokens:
        if not isinstance(token, str) or isinstance(row, bool) or not isinstance(row, int):
            raise FileError("its tokenizer gives a token that is no text, or a row that is no number")
        if 0 <= row < rows:  # a tokenizer may know more tokens than the table has rows
            names[row] = token
    return names


def _tokens(folder: Path) -> list[tuple[Any, Any]] | None:
    """Pairs of token and row; added ones last, as they take the place of others."""
    whole, table, plain = folder / "tokenizer.json", folder / "vocab.json", folder / "vocab.txt"
    added = folder / "added_tokens.json"
    if whole.is_file():
        with parsing("tokenizer.json is not one that can be read"):
            found = json.loads(whole.read_bytes())
            vocabulary = found["model"]["vocab"]
            pairs = list(vocabulary.items()) if isinstance(vocabulary, dict) else _numbered(vocabulary)
            return pairs + [(token["content"], token["id"]) for token in found.get("added_tokens", ())]
    pieces = next((folder / name for name in ("tokenizer.model", "spiece.model") if (folder / name).is_file()), None)
    with parsing("its vocabulary cannot be read"):
        extra = list(json.loads(added.read_bytes()).items()) if added.is_file() else []
        if table.is_file():
            return list(json.loads(table.read_bytes()).items()) + extra
        if plain.is_file():
            lines = plain.read_text("utf-8", "surrogateescape").removesuffix("\n").split("\n")
            return [(line.removesuffix("\r"), row) for row, line in enumerate(lines)] + extra
        if pieces is not None:
            return [(piece, row) for row, piece in enumerate(_pieces(pieces.read_bytes()))] + extra
    return None


def _numbered(vocabulary: list[Any]) -> list[tuple[Any, Any]]:
    """The pieces of a unigram model: lists of a piece and its score, in the order of their rows."""
    return [(piece, row) for row, (piece, _) in enumerate(vocabulary)]


def _pieces(data: bytes) -> Iterator[str]:
    """The pieces of a SentencePiece model: field 1 of its protocol buffer repeats, and in it field 1 is the text."""
    for field, value in _fields(data):
        if field == 1 and isinstance(value, bytes):
            yield next((v.decode() for f, v in _fields(value) if f == 1 and isinstance(v, bytes)), "")


def _fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """The fields of a protocol buffer, in order."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        field, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield field, value
            continue
        length, at = _varint(data, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
        if at + length > len(data):
            raise FileError("its SentencePiece model is cut short")
        yield field, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
