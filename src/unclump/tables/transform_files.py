"""The file of a map: safetensors with the tensors `shift` and `matrix` in float64, and a header in JSON."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unclump._atomic_write import replace_file
from unclump._text import FileError
from unclump.tables.files._validation import check_file_target, check_regular, prefix_errors, wrap_errors
from unclump.tables.files.safetensors_files import open_tensors, package
from unclump.tables.transform_maps import Affine

FORMAT = "unclump isotropy 1"
_KEY = "isotropy"  # of the header among the metadata of safetensors, which are strings
_MAX_HEADER = 2**16  # characters
_NOT_A_MAP = "is not a map that unclump wrote"


def write(path: str | os.PathLike[str], by: Affine, header: Mapping[str, Any]) -> None:
    """Write a map, atomically."""
    path = Path(path)
    check_map_target(path)
    with prefix_errors(path):
        text = json.dumps({"format": FORMAT, **header}, allow_nan=False)
        tensors = {name: part.contiguous() for name, part in by._asdict().items()}
        content = package().torch.save(tensors, metadata={_KEY: text})
        with replace_file(path) as file:
            file.write(content)


def check_map_target(path: Path) -> None:
    """Raise if no map can be written there: the suffix must be that of safetensors, and the folder must exist."""
    with prefix_errors(path):
        if path.suffix.lower() != ".safetensors":
            raise FileError("a map is a safetensors file; name a file that ends in .safetensors")
        check_file_target(path)
        if path.exists():
            _open_map(path)  # anything else, such as a table, is not overwritten


def read(path: str | os.PathLike[str]) -> tuple[Affine, dict[str, Any]]:
    """Read a map and its header; raise a FileError for anything else."""
    path = Path(path)
    with prefix_errors(path):
        check_regular(path)
        header = _open_map(path)
        with wrap_errors(_NOT_A_MAP), open_tensors(path) as file:
            by = Affine(file.get_tensor("shift").clone(), file.get_tensor("matrix").clone())
        if not all(part.isfinite().all() for part in by):
            raise FileError(f"{_NOT_A_MAP}: it holds NaN or infinity")
    return by, header


@contextmanager
def explain(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn an error about a value of the header into one about the file."""
    try:
        yield
    except (ValueError, TypeError) as error:
        with prefix_errors(Path(path)):
            raise FileError(f"{_NOT_A_MAP}: {error}") from error


def _open_map(path: Path) -> dict[str, Any]:
    """The header of a map, once the file is known to be one."""
    with wrap_errors(_NOT_A_MAP), open_tensors(path) as file:
        text = (file.metadata() or {}).get(_KEY, "")
        slices = {key: file.get_slice(key) for key in file.keys()}  # noqa: SIM118 - not a mapping
        layout = {key: (part.get_dtype(), list(part.get_shape())) for key, part in slices.items()}
    with wrap_errors(_NOT_A_MAP):
        header = json.loads(text) if len(text) <= _MAX_HEADER else None
    if not isinstance(header, dict) or header.get("format") != FORMAT or not {"method", "strength"} <= header.keys():
        raise FileError(f"{_NOT_A_MAP}: its header does not say '{FORMAT}'; make one with unclump fit")
    d = layout["shift"][1][0] if layout.keys() == {"shift", "matrix"} and layout["shift"][1] else 0
    if d < 2 or layout != {"shift": ("F64", [d]), "matrix": ("F64", [d, d])}:
        raise FileError(f"{_NOT_A_MAP}: expected the tensors shift (d) and matrix (d, d) in float64")
    return header
