"""Writing the points of a code: beside the file first, then in its place."""

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unclump._atomic_write import replace_file

if TYPE_CHECKING:
    from unclump.codes import Code

FORMATS = (".npy", ".csv", ".json")


def check_output(path: Path | None) -> None:
    """Refuse what cannot be written, before the work is done."""
    if path is None:
        return
    if path.suffix not in FORMATS:
        raise ValueError(f"expected an output file ending in {', '.join(FORMATS)}, got {path}; choose one of these")
    if not path.parent.is_dir():
        raise ValueError(f"expected a folder to write {path.name} into, got {path.parent}, which is not there; make it")


def write_points(path: Path, code: "Code") -> None:
    """The points with all their digits: an array, lines of comma-separated numbers, or an object with the facts."""
    from unclump.cli.code import facts

    points, buffer = code.points.numpy(), io.BytesIO()
    if path.suffix == ".npy":
        np.save(buffer, points, allow_pickle=False)
    elif path.suffix == ".csv":
        np.savetxt(buffer, points, delimiter=",", fmt="%.17g")
    else:
        buffer.write((json.dumps({**facts(code), "points": points.tolist()}, indent=1) + "\n").encode())
    with replace_file(path) as file:
        file.write(buffer.getvalue())
