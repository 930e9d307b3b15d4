"""PyTorch's `.pt`: tensors alone (`weights_only=True`), mapped."""

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

from unclump._text import FileError, shown
from unclump.tables.files._refusals import Entry, check_shape, choose, choose_names, parsing
from unclump.tables.files._table import Table, check_row_aligned, source_of

FORMAT = "torch"
_ALONE = "tensor"  # what a file that is nothing but a tensor calls it
_DEEPEST = 100  # levels of containers
Place = tuple[Any, ...]  # the keys that lead to a part of what was saved


@dataclass(frozen=True)
class Layout:
    """Where the table and its names are in what was saved; how long the rest is."""

    place: Place
    names_place: Place | None
    lengths: Mapping[str, int]


def read(path: Path, tensor: str | None) -> Table:
    """The table among the tensors, found by its dotted key."""
    saved = _load(path)
    parts = {".".join(map(str, place)) or _ALONE: (place, part) for place, part in _parts(saved)}
    tensors = {key: part for key, (_, part) in parts.items() if isinstance(part, Tensor)}
    key = choose({k: Entry(tuple(t.shape), str(t.dtype).removeprefix("torch.")) for k, t in tensors.items()}, tensor)
    points = tensors[key].detach()
    _check_held(points, path.stat().st_size)
    check_shape(*points.shape)
    rows = len(points)
    lists = {k: part for k, (_, part) in parts.items() if _is_names(part) and len(part) == rows}
    called = {k.rpartition(".")[2]: k for k in lists}
    chosen = choose_names(list(called))
    names_key = None if chosen is None else called[chosen]
    lengths = {
        k: len(part)
        for k, (_, part) in parts.items()
        if k not in {key, names_key}
        and not _is_same(part, points)
        and not (isinstance(part, Tensor) and part.ndim == 0)
    }
    layout = Layout(parts[key][0], None if names_key is None else parts[names_key][0], lengths)
    names = None if names_key is None else list(lists[names_key])
    return Table(points, names, source_of(path, FORMAT, points, tensor=key, layout=layout))


def _load(path: Path) -> Any:
    """What was saved; nothing but tensors and plain containers can come out, whatever the file says."""
    with open(path, "rb") as file:
        is_archive = file.read(4) == b"PK\x03\x04"
    if not is_archive:
        raise FileError("is no file of torch.save since version 1.6; load it with torch and save it again")
    with parsing("is not a whole file of torch.save"), zipfile.ZipFile(path) as archive:
        if any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist()):
            raise FileError("is packed, which torch.save never does; it could unpack to any size")
    with parsing("is not a whole file of torch.save"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return torch.load(path, weights_only=True, mmap=True, map_location="cpu")
        except pickle.UnpicklingError as error:
            named = re.search(r"GLOBAL (\S+)", str(error))
            raise FileError(
                f"holds {named[1] if named else 'more than tensors'}, and reading that could run code; "
                "in a program that trusts it, save the tensor alone with torch.save(tensor, path)"
            ) from error


def _parts(saved: Any) -> Iterator[tuple[Place, Any]]:
    """Every tensor, list of names and other sized leaf, with the keys that lead there.

    Into each container once: a file may nest them in each other.
    """
    waiting: list[tuple[Place, Any]] = [((), saved)]
    entered: set[int] = set()
    while waiting:
        place, part = waiting.pop()
        if len(place) > _DEEPEST:
            raise FileError(f"nests its parts deeper than {_DEEPEST} levels; save the tensor alone")
        is_leaf = isinstance(part, Tensor) or _is_names(part)
        if is_leaf or not isinstance(part, Mapping | list | tuple):
            if is_leaf:
                yield place, part
        elif id(part) not in entered:
            entered.add(id(part))
            inner = [((*place, key), value) for key, value in _items(part).items()]
            if any(isinstance(value, Tensor | Mapping | list | tuple) for _, value in inner):
                waiting.extend(reversed(inner))
            else:
                yield place, part


def _items(saved: Any) -> Mapping[Any, Any]:
    return saved if isinstance(saved, Mapping) else dict(enumerate(saved))


def _is_names(part: Any) -> bool:
    return isinstance(part, list | tuple) and len(part) > 1 and all(isinstance(name, str) for name in part)


def _is_same(part: Any, points: Tensor) -> bool:
    """Whether a tensor is the table under another name, as tied weights are."""
    return (
        isinstance(part, Tensor)
        and part.layout is torch.strided
        and part.dtype == points.dtype
        and part.shape == points.shape
        and part.stride() == points.stride()
        and part.data_ptr() == points.data_ptr()
    )


def _check_held(points: Tensor, size: int) -> None:
    """Refuse a view that repeats few numbers many times, or numbers that are not in the file."""
    if points.layout is not torch.strided or points.device.type != "cpu":
        raise FileError(
            f"expected a dense tensor, got {points.layout} on {points.device}; save tensor.to_dense().cpu()"
        )
    promised = points.numel() * points.element_size()
    if promised > min(points.untyped_storage().nbytes(), size):
        raise FileError(f"promises {promised} bytes for {tuple(points.shape)} {points.dtype}, and does not hold them")


def check(table: Table) -> None:
    """Refuse rows that the rest of the file would not know of."""
    source = table.kept(FORMAT)
    if source is None:
        return
    layout = source.remembered(Layout)
    check_row_aligned(layout.lengths, source, len(table.points))
    if layout.names_place is None and table.names_for(source, had_names=False) is not None:
        raise FileError(f"{shown(source.path)} has no place for names; write .npz, or drop them: names=None")


def write(file: BinaryIO, table: Table) -> None:
    """What was read, with the table replaced wherever it stands, and all else kept; or the tensor alone."""
    points = table.points.detach().cpu()
    if points.untyped_storage().nbytes() != points.numel() * points.element_size():
        points = points.clone()  # a slice would bring all it was cut from
    source = table.kept(FORMAT)
    if source is None:
        torch.save(points if table.names is None else {"points": points, "names": list(table.names)}, file)
        return
    source.check_unchanged()
    layout, saved = source.remembered(Layout), _load(source.path)
    old = _at(saved, layout.place).detach()
    for place, part in list(_parts(saved)):
        if _is_same(part, old):
            is_parameter = isinstance(part, torch.nn.Parameter)
            saved = _replaced(saved, place, torch.nn.Parameter(points, part.requires_grad) if is_parameter else points)
    if layout.names_place is not None and table.names is not None:
        saved = _replaced(saved, layout.names_place, type(_at(saved, layout.names_place))(table.names))
    torch.save(saved, file)


def _at(saved: Any, place: Place) -> Any:
    for key in place:
        saved = saved[key]
    return saved


def _replaced(saved: Any, place: Place, value: Any) -> Any:
    """A copy of the containers on the way to `place`, with `value` there."""
    if not place:
        return value
    inner = _replaced(saved[place[0]], place[1:], value)
    if isinstance(saved, tuple):
        return tuple(inner if key == place[0] else part for key, part in enumerate(saved))
    saved = copy.copy(saved)
    saved[place[0]] = inner
    return saved
