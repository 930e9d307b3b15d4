"""Hugging Face model folders: the input embedding, with the tokenizer's tokens as names."""

import json
import os
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from unclump._atomic_write import replace_file, replace_folder
from unclump._text import FileError, escape_unprintable, sanitise
from unclump.tables.files import safetensors_files, torch_files
from unclump.tables.files._table import Table, make_source
from unclump.tables.files._tokenizers import token_names
from unclump.tables.files._validation import Entry, list_entries, some_tensor, wrap_errors

FORMAT = "huggingface"
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")  # the first that is there is read
# Names of the input embedding in various model families; the one shared by encoder and decoder comes first.
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
    """Memory-map the embedding; the rest of the model is not read."""
    shards = _shards(path)
    key = tensor if tensor is not None else _find_embedding(path, shards)
    if key not in shards:
        raise FileError(f"holds no tensor '{sanitise(key)}'; candidates are {_list_candidates(shards)}")
    table: Table = _files_of(shards[key]).read(shards[key], key)
    names = token_names(path, len(table.points))
    layout = Layout(shards[key].absolute())
    source = make_source(path, FORMAT, table.points, tensor=key, layout=layout, files=_all_files(path), names_path=path)
    return replace(table, names=names, source=source)


def _all_files(folder: Path) -> list[Path]:
    """List the files of the model, except in hidden folders such as .git, which may contain a second copy."""
    folders = {file: file.relative_to(folder).parent.parts for file in sorted(folder.rglob("*")) if file.is_file()}
    return [file for file, parts in folders.items() if not any(part.startswith(".") for part in parts)]


def _shards(folder: Path) -> dict[str, Path]:
    """Map the name of each tensor to the file that holds it."""
    for weights in _WEIGHTS:
        if (folder / weights).is_file():
            return dict.fromkeys(_entries(folder / weights), folder / weights)
    index = next((folder / f"{w}.index.json" for w in _WEIGHTS if (folder / f"{w}.index.json").is_file()), None)
    if index is None:
        raise FileError(f"is a folder without {' or '.join(_WEIGHTS)}; {_advise(folder)}")
    weight_map = _read_json(index).get("weight_map")
    if not isinstance(weight_map, dict):
        raise FileError(f"{index.name} has no weight_map")
    for name in weight_map.values():
        if not isinstance(name, str) or Path(name).name != name:
            raise FileError(f"{index.name} points outside the folder: '{sanitise(name)}'")
        if not (folder / name).is_file():
            raise FileError(f"{index.name} lists '{sanitise(name)}', which is missing; download it again")
    return {key: folder / name for key, name in weight_map.items()}


def _files_of(shard: Path) -> ModuleType:
    """The format of a file with weights."""
    return torch_files if shard.suffix == ".bin" else safetensors_files


def _entries(shard: Path) -> dict[str, Entry]:
    entries: dict[str, Entry] = _files_of(shard).entries(shard)
    return entries


def _advise(folder: Path) -> str:
    """What to do with a folder that is no model: name its files, if they may be shards of a table."""
    counts = Counter(
        entry.suffix for entry in folder.iterdir() if entry.suffix in {".parquet", ".arrow", ".safetensors"}
    )
    if counts:
        suffix, count = counts.most_common(1)[0]
        files = f"1 {suffix} file: name it" if count == 1 else f"{count} {suffix} files: name them"
        return f"it holds {files}, {escape_unprintable(str(folder / '*'))}{suffix}"
    return "name the file that holds the table"


def _find_embedding(folder: Path, shards: Mapping[str, Path]) -> str:
    """Find the tensor that is named like an input embedding and, if possible, has `vocab_size` rows."""
    config = _read_json(folder / "config.json") if (folder / "config.json").is_file() else {}
    vocab_sizes = [part.get("vocab_size") for part in (config, config.get("text_config")) if isinstance(part, dict)]
    for ending in _EMBEDDINGS:
        candidates: dict[str, Entry] = {}
        for key in shards:
            if key == ending or key.endswith("." + ending):
                entry = _entries(shards[key]).get(key)
                if entry is not None and entry.is_table:
                    candidates[key] = entry
        matching = {key: entry for key, entry in candidates.items() if entry.shape[0] in vocab_sizes}
        candidates = matching or candidates
        if len(candidates) == 1:
            return next(iter(candidates))
        if candidates:
            raise FileError(f"holds several embeddings; pick one with {some_tensor()}: {list_entries(candidates)}")
    listed = _list_candidates(shards)
    raise FileError(f"holds no tensor that is named like an input embedding; pick one with {some_tensor()}: {listed}")


def _list_candidates(shards: Mapping[str, Path]) -> str:
    """List the first tensors that are named like embeddings, or else the first of all."""
    candidates = [key for key in shards if "emb" in key or "wte" in key] or list(shards)
    return ", ".join(f"'{sanitise(key)}'" for key in candidates[:8]) or "none"


def _read_json(path: Path) -> dict[str, Any]:
    with wrap_errors(f"{path.name} is not valid JSON"):
        content = json.loads(path.read_bytes())
    if not isinstance(content, dict):
        raise FileError(f"{path.name} is not a JSON object")
    return content


def check(table: Table, *, in_place: bool) -> None:
    """Raise unless the table was read from a model folder, has the same number of rows, and no file is linked."""
    source = table.source_in_format(FORMAT)
    if source is None:
        raise FileError("only a table that was read from a model folder can be written as one; give OUT a suffix")
    if len(table.points) != source.rows:
        raise FileError(
            f"the model has {source.rows} rows, the table {len(table.points)}; its tokenizer and head would not fit: "
            "write the table to a .safetensors or .npz file, and resize the model with its own library"
        )
    linked = None if in_place else next((file for file in source.files if _links_outside(file, source.path)), None)
    if linked is not None:
        raise FileError(
            f"the model's '{sanitise(linked.relative_to(source.path))}' is a link to a file outside of its folder, "
            "which a copy would make public; replace the link by the file, or write the table to a .safetensors file"
        )


def _links_outside(file: Path, folder: Path) -> bool:
    """Whether a file is a link out of the folder, other than into the cache that downloads are linked to."""
    target, root = file.resolve(), folder.resolve()
    is_cached = root.parent.name == "snapshots" and target.parent == root.parent.parent / "blobs"
    return not (target.is_relative_to(root) or is_cached)


def write(path: Path, table: Table) -> None:
    """Copy the folder with the table replaced; if `path` is the folder itself, replace only the table's file."""
    source = table.source_in_format(FORMAT)
    assert source is not None
    assert source.tensor is not None
    shard = source.layout_as(Layout).shard
    source.check_unchanged()
    if path.exists():
        # Do not follow links: downloaded folders link to files that other folders share.
        with replace_file(shard, follow_links=False) as file:
            _files_of(shard).write_with_tensor_replaced(file, shard, source.tensor, table)
        return
    with replace_folder(path) as temporary:
        for old in source.files:
            new = temporary / old.relative_to(source.path)
            new.parent.mkdir(parents=True, exist_ok=True)
            with open(new, "xb") as file:
                if old == shard:
                    _files_of(shard).write_with_tensor_replaced(file, old, source.tensor, table)
                else:
                    with open(old, "rb") as original:
                        shutil.copyfileobj(original, file)
                file.flush()
                os.fsync(file.fileno())
