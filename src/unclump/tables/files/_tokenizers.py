"""Token names of embedding rows, read from a tokenizer's files without the tokenizer's library."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unclump._text import FileError
from unclump.tables.files._validation import wrap_errors

_MAX_VARINT = 10  # bytes of an integer in a protocol buffer
_MAX_SIZE = 2**28  # bytes of a tokenizer's file; the largest known are a tenth of it


def token_names(folder: Path, rows: int) -> list[str] | None:
    """Return the token of every row, "" for rows without one; None if the folder has no readable tokenizer."""
    tokens = _tokens(folder)
    if tokens is None:
        return None
    names = [""] * rows
    for token, row in tokens:
        if not isinstance(token, str) or isinstance(row, bool) or not isinstance(row, int):
            raise FileError("its tokenizer has a token that is not text, or an id that is not an integer")
        if 0 <= row < rows:  # a tokenizer may have more tokens than the table has rows
            names[row] = token
    return names


def _tokens(folder: Path) -> list[tuple[Any, Any]] | None:
    """Return pairs of token and row; added tokens come last, since they replace others."""
    tokenizer, vocab_json, vocab_txt = folder / "tokenizer.json", folder / "vocab.json", folder / "vocab.txt"
    added_tokens = folder / "added_tokens.json"
    if tokenizer.is_file():
        with wrap_errors("tokenizer.json cannot be parsed"):
            content = json.loads(_read(tokenizer))
            vocabulary = content["model"]["vocab"]
            pairs = list(vocabulary.items()) if isinstance(vocabulary, dict) else _unigram_tokens(vocabulary)
            return pairs + [(token["content"], token["id"]) for token in content.get("added_tokens", ())]
    model = next((folder / name for name in ("tokenizer.model", "spiece.model") if (folder / name).is_file()), None)
    with wrap_errors("its vocabulary cannot be parsed"):
        added = list(json.loads(_read(added_tokens)).items()) if added_tokens.is_file() else []
        if vocab_json.is_file():
            return list(json.loads(_read(vocab_json)).items()) + added
        if vocab_txt.is_file():
            lines = _read(vocab_txt).decode("utf-8", "surrogateescape").removesuffix("\n").split("\n")
            return [(line.removesuffix("\r"), row) for row, line in enumerate(lines)] + added
        if model is not None:
            return [(piece, row) for row, piece in enumerate(_sentence_pieces(_read(model)))] + added
    return None


def _read(path: Path) -> bytes:
    with open(path, "rb") as file:
        content = file.read(_MAX_SIZE + 1)
    if len(content) > _MAX_SIZE:
        raise FileError(f"{path.name} is larger than {_MAX_SIZE} bytes: it is no tokenizer")
    return content


def _unigram_tokens(vocabulary: list[Any]) -> list[tuple[Any, Any]]:
    """Return the tokens of a unigram model, whose vocabulary lists (piece, score) in the order of rows."""
    return [(piece, row) for row, (piece, _) in enumerate(vocabulary)]


def _sentence_pieces(data: bytes) -> Iterator[str]:
    """Yield the pieces of a SentencePiece model: repeated field 1 of its protocol buffer, whose field 1 is the text."""
    for field, value in _protobuf_fields(data):
        if field == 1 and isinstance(value, bytes):
            yield next((v.decode() for f, v in _protobuf_fields(value) if f == 1 and isinstance(v, bytes)), "")


def _protobuf_fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Yield the fields of a protocol buffer, in order."""
    position = 0
    while position < len(data):
        tag, position = _read_varint(data, position)
        field, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            value, position = _read_varint(data, position)
            yield field, value
            continue
        length, position = _read_varint(data, position) if wire_type == 2 else ({1: 8, 5: 4}[wire_type], position)
        if position + length > len(data):
            raise FileError("its SentencePiece model is truncated")
        yield field, data[position : position + length]
        position += length


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Read an integer of up to 64 bits, seven bits a byte; a longer one is an error, not a large number."""
    value = 0
    for index, byte in enumerate(data[position : position + _MAX_VARINT]):
        value |= (byte & 127) << 7 * index
        if byte < 128:
            return value, position + index + 1
    raise FileError("its SentencePiece model is damaged: an integer in it does not end")
