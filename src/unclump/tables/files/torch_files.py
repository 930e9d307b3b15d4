"""PyTorch's `.pt`: loaded with `weights_only=True`, memory-mapped."""

import copy
import pickle
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from unclump._text import FileError, reword, sanitise
from unclump.tables.files._table import Table, check_row_counts, make_source
from unclump.tables.files._validation import Entry, check_shape, choose_names, choose_table, wrap_errors

FORMAT = "torch"
_BARE_TENSOR = "tensor"  # the key of a tensor that was saved alone
_MAX_DEPTH = 100  # levels of nested containers
KeyPath = tuple[Any, ...]  # the keys that lead to an object inside nested containers


@dataclass(frozen=True)
class Layout:
    """Where the table and its names are in the saved object; the lengths of everything else."""

    key_path: KeyPath
    names_key_path: KeyPath | None
    lengths: Mapping[str, int]


def entries(path: Path) -> dict[str, Entry]:
    """List the tensors of a file, by the dotted paths to them."""
    return _entries(_leaves_by_key(_load(path)))


def _leaves_by_key(saved: Any) -> dict[str, tuple[KeyPath, Any]]:
    return {".".join(map(str, key_path)) or _BARE_TENSOR: (key_path, leaf) for key_path, leaf in _leaves(saved)}


def _entries(leaves: Mapping[str, tuple[KeyPath, Any]]) -> dict[str, Entry]:
    tensors = {key: leaf for key, (_, leaf) in leaves.items() if isinstance(leaf, Tensor)}
    return {key: Entry(tuple(t.shape), str(t.dtype).removeprefix("torch.")) for key, t in tensors.items()}


def read(path: Path, tensor: str | None) -> Table:
    """Read the table, whose key is the dotted path to it."""
    leaves = _leaves_by_key(_load(path))
    key = choose_table(_entries(leaves), tensor)
    points = leaves[key][1].detach()
    _check_storage(points, path.stat().st_size)
    check_shape(*points.shape)
    rows = len(points)
    lists = {k: leaf for k, (_, leaf) in leaves.items() if _is_names(leaf) and len(leaf) == rows}
    by_last_key = {k.rpartition(".")[2]: k for k in lists}
    last_key = choose_names(list(by_last_key))
    names_key = None if last_key is None else by_last_key[last_key]
    lengths = {
        k: len(leaf)
        for k, (_, leaf) in leaves.items()
        if k not in {key, names_key}
        and not _is_same_tensor(leaf, points)
        and not (isinstance(leaf, Tensor) and leaf.ndim == 0)
    }
    layout = Layout(leaves[key][0], None if names_key is None else leaves[names_key][0], lengths)
    names = None if names_key is None else list(lists[names_key])
    return Table(points, names, make_source(path, FORMAT, points, tensor=key, layout=layout))


def _load(path: Path) -> Any:
    """Load the saved object; `weights_only` admits nothing but tensors and plain containers."""
    with open(path, "rb") as file:
        is_archive = file.read(4) == b"PK\x03\x04"
    if not is_archive:
        raise FileError("was not saved by torch.save of version 1.6 or later; load it with torch and save it again")
    with wrap_errors("is not a valid torch.save file"), zipfile.ZipFile(path) as archive:
        if any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist()):
            raise FileError("is compressed, which torch.save never does; it could decompress to any size")
    with wrap_errors("is not a valid torch.save file"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return torch.load(path, weights_only=True, mmap=True, map_location="cpu")
        except pickle.UnpicklingError as error:
            match = re.search(r"GLOBAL (\S+)", str(error))
            raise FileError(
                f"holds {match[1] if match else 'more than tensors'}, and loading that could run code; "
                "if you trust it, load it yourself and save the tensor alone with torch.save(tensor, path)"
            ) from error


def _leaves(saved: Any) -> Iterator[tuple[KeyPath, Any]]:
    """Yield every tensor, list of names and other container of scalars, with the keys that lead to it.

    Each container is visited once, since a file may nest containers in each other.
    """
    stack: list[tuple[KeyPath, Any]] = [((), saved)]
    visited: set[int] = set()
    while stack:
        key_path, node = stack.pop()
        if len(key_path) > _MAX_DEPTH:
            raise FileError(f"nests containers more than {_MAX_DEPTH} levels deep; save the tensor alone")
        is_leaf = isinstance(node, Tensor) or _is_names(node)
        if is_leaf or not isinstance(node, Mapping | list | tuple):
            if is_leaf:
                yield key_path, node
        elif id(node) not in visited:
            visited.add(id(node))
            children = [((*key_path, key), value) for key, value in _items(node).items()]
            if any(isinstance(value, Tensor | Mapping | list | tuple) for _, value in children):
                stack.extend(reversed(children))
            else:
                yield key_path, node


def _items(container: Any) -> Mapping[Any, Any]:
    return container if isinstance(container, Mapping) else dict(enumerate(container))


def _is_names(leaf: Any) -> bool:
    return isinstance(leaf, list | tuple) and len(leaf) > 0 and all(isinstance(name, str) for name in leaf)


def _is_same_tensor(leaf: Any, points: Tensor) -> bool:
    """Whether `leaf` is the table under another key, as with tied weights."""
    return (
        isinstance(leaf, Tensor)
        and leaf.layout is torch.strided
        and leaf.dtype == points.dtype
        and leaf.shape == points.shape
        and leaf.stride() == points.stride()
        and leaf.data_ptr() == points.data_ptr()
    )


def _check_storage(points: Tensor, size: int) -> None:
    """Raise for a view that repeats few numbers many times, or for more numbers than the file holds."""
    if points.layout is not torch.strided or points.device.type != "cpu":
        raise FileError(
            f"expected a dense tensor, got {points.layout} on {points.device}; save tensor.to_dense().cpu()"
        )
    declared = points.numel() * points.element_size()
    if declared > min(points.untyped_storage().nbytes(), size):
        raise FileError(f"declares {declared} bytes for {tuple(points.shape)} {points.dtype}, but does not hold them")


def check(table: Table) -> None:
    """Raise if rows or names were added that the rest of the file cannot hold."""
    source = table.source_in_format(FORMAT)
    if source is None:
        return
    layout = source.layout_as(Layout)
    check_row_counts(layout.lengths, source, len(table.points))
    if layout.names_key_path is None and table.names_to_write(source, had_names=False) is not None:
        raise FileError(
            f"{sanitise(source.path)} cannot store names; write .npz{reword(', or drop them: names=None', '')}"
        )


def write(file: BinaryIO, table: Table) -> None:
    """Write the tensor alone, or the object that was read with every occurrence of the table replaced."""
    points = table.rows_to_write()
    if points.untyped_storage().nbytes() != points.numel() * points.element_size():
        points = points.clone()  # torch.save writes the whole storage behind a slice
    source = table.source_in_format(FORMAT)
    if source is None:
        torch.save(points if table.names is None else {"points": points, "names": list(table.names)}, file)
        return
    source.check_unchanged()
    layout, saved = source.layout_as(Layout), _load(source.path)
    old = _get_at(saved, layout.key_path).detach()
    for key_path, leaf in list(_leaves(saved)):
        if _is_same_tensor(leaf, old):
            is_parameter = isinstance(leaf, torch.nn.Parameter)
            new = torch.nn.Parameter(points, leaf.requires_grad) if is_parameter else points
            saved = _replace_at(saved, key_path, new)
    if layout.names_key_path is not None and table.names is not None:
        saved = _replace_at(saved, layout.names_key_path, type(_get_at(saved, layout.names_key_path))(table.names))
    torch.save(saved, file)


def write_with_tensor_replaced(file: BinaryIO, original: Path, key: str, table: Table) -> None:
    """Copy the file `original`, with the tensor `key` replaced."""
    write(file, read(original, key).with_points(table.rows_to_write()))


def _get_at(saved: Any, key_path: KeyPath) -> Any:
    for key in key_path:
        saved = saved[key]
    return saved


def _replace_at(saved: Any, key_path: KeyPath, value: Any) -> Any:
    """Return `saved` with `value` at `key_path`; the containers on the way are copied."""
    if not key_path:
        return value
    inner = _replace_at(saved[key_path[0]], key_path[1:], value)
    if isinstance(saved, tuple):
        return tuple(inner if key == key_path[0] else item for key, item in enumerate(saved))
    saved = copy.copy(saved)
    saved[key_path[0]] = inner
    return saved
