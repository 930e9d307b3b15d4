"""A Hugging Face model folder: its input embedding, with the tokenizer's names."""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from unclump._atomic_write import replacing, replacing_folder
from unclump._text import FileError, shown
from unclump.tables.files import safetensors_files
from unclump.tables.files._refusals import Entry, listed, parsing
from unclump.tables.files._table import Table, source_of
from unclump.tables.files._tokenizers import token_names

FORMAT = "huggingface"
# What the families call the table their tokens are looked up in, the shared one of encoder and decoder first.
_EMBEDDINGS = (
    "shared.weight",  # T5, BART
    "embed_tokens.weight",  # Llama, Mistral, Qwen, Gemma, OPT, Whisper
    "word_embeddings.weight",  # BERT, RoBERTa, DeBERTa, BLOOM, Falcon
    "wte.weight",  # GPT-2, GPT-J, MPT
    "embed_in.weight",  # GPT-NeoX, Pythia
    "tok_embeddings.weight",  # ModernBERT, InternLM
    "token_embedding.weight",  # CLIP
    "word_embedding.weight",  # XLNet
    "embeddings.weight",  # Mamba, RWKV, XLM
    "embedding.weight",  # static embeddings
)


@dataclass(frozen=True)
class Layout:
    """The file in the folder that holds the table."""

    shard: Path


def read(path: Path, tensor: str | None) -> Table:
    """Map the embedding out of its file; the rest of the model is not read."""
    shards = _shards(path)
    key = tensor if tensor is not None else _find(path, shards)
    if key not in shards:
        raise FileError(f"holds no tensor '{shown(key)}'; its embeddings may be {_likely(shards)}")
    table = safetensors_files.read(shards[key], key)
    names = token_names(path, len(table.points))
    layout = Layout(shards[key].absolute())
    source = source_of(path, FORMAT, table.points, tensor=key, layout=layout, files=_files(path), names_path=path)
    return replace(table, names=names, source=source)


def _files(folder: Path) -> list[Path]:
    """All that makes the model, without hidden folders such as .git, which may hold it a second time."""
    inside = {file: file.relative_to(folder).parent.parts for file in sorted(folder.rglob("*")) if file.is_file()}
    return [file for file, folders in inside.items() if not any(name.startswith(".") for name in folders)]


def _shards(folder: Path) -> dict[str, Path]:
    """Which file of the folder holds which tensor."""
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if single.is_file():
        return dict.fromkeys(safetensors_files.entries(single), single)
    if not index.is_file():
        raise FileError("is a folder without model.safetensors; name the file that holds the table")
    weight_map = _json(index).get("weight_map")
    if not isinstance(weight_map, dict):
        raise FileError(f"{index.name} has no weight_map")
    for name in weight_map.values():
        if not isinstance(name, str) or Path(name).name != name:
            raise FileError(f"{index.name} points out of the folder: '{shown(name)}'")
        if not (folder / name).is_file():
            raise FileError(f"{index.name} names '{shown(name)}', which is not there; download it again")
    return {key: folder / name for key, name in weight_map.items()}


def _find(folder: Path, shards: Mapping[str, Path]) -> str:
    """The tensor that is called like an input embedding, and has a row for each word where the configuration counts."""
    config = _json(folder / "config.json") if (folder / "config.json").is_file() else {}
    counts = [part.get("vocab_size") for part in (config, config.get("text_config")) if isinstance(part, dict)]
    for ending in _EMBEDDINGS:
        found: dict[str, Entry] = {}
        for key in shards:
            if key == ending or key.endswith("." + ending):
                entry = safetensors_files.entries(shards[key]).get(key)
                if entry is not None and entry.is_table:
                    found[key] = entry
        counted = {key: entry for key, entry in found.items() if entry.shape[0] in counts}
        found = counted or found
        if len(found) == 1:
            return next(iter(found))
        if found:
            raise FileError(f"holds several embeddings; pick one with tensor=...: {listed(found)}")
    raise FileError(
        f"holds no tensor that is called like an input embedding; pick one with tensor=...: {_likely(shards)}"
    )


def _likely(shards: Mapping[str, Path]) -> str:
    """The first tensors that speak of embeddings, or else the first."""
    likely = [key for key in shards if "emb" in key or "wte" in key] or list(shards)
    return ", ".join(f"'{shown(key)}'" for key in likely[:8]) or "none"


def _json(path: Path) -> dict[str, Any]:
    with parsing(f"{path.name} is no whole JSON"):
        found = json.loads(path.read_bytes())
    if not isinstance(found, dict):
        raise FileError(f"{path.name} holds no settings")
    return found


def check(table: Table) -> None:
    """Refuse rows that the tokenizer and the rest of the model would not know of."""
    source = table.kept(FORMAT)
    if source is None:
        raise FileError("only a table that was read from a model folder can be written as one; give a suffix to OUT")
    if len(table.points) != source.rows:
        raise FileError(
            f"the model has {source.rows} rows, the table {len(table.points)}; its tokenizer and head would not fit: "
            "write the table to a .safetensors or .npz file, and resize the model with its own library"
        )


def write(path: Path, table: Table) -> None:
    """A copy of the folder with the table replaced; where `path` is the folder itself, only the table's file."""
    source = table.kept(FORMAT)
    assert source is not None
    assert source.tensor is not None
    shard = source.remembered(Layout).shard
    source.check_unchanged()
    if path.exists():
        # Not through a link: downloaded folders link to files that other folders share.
        with replacing(shard, follow=False) as file:
            safetensors_files.write_like(file, shard, source.tensor, table.points)
        return
    with replacing_folder(path) as beside:
        for old in source.files:
            new = beside / old.relative_to(source.path)
            new.parent.mkdir(parents=True, exist_ok=True)
            with open(new, "xb") as file:
                if old == shard:
                    safetensors_files.write_like(file, old, source.tensor, table.points)
                else:
                    with open(old, "rb") as origin:
                        shutil.copyfileobj(origin, file)
                file.flush()
                os.fsync(file.fileno())
