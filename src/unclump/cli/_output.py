"""Output files of `unclump code`."""

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
    """Raise if the points cannot be written, before they are computed."""
    if path is None:
        return
    if path.suffix not in FORMATS:
        raise ValueError(f"expected an output file ending in {', '.join(FORMATS)}, got {path}; choose one of these")
    if not path.parent.is_dir():
        raise ValueError(f"expected {path.name} to be in an existing folder, got {path.parent}; create it first")


def write_points(path: Path, code: "Code") -> None:
    """Write the points with all their digits: as an array, as CSV, or as JSON together with the summary."""
    from unclump.cli.code import summarise

    points, buffer = code.points.numpy(), io.BytesIO()
    if path.suffix == ".npy":
        np.save(buffer, points, allow_pickle=False)
    elif path.suffix == ".csv":
        np.savetxt(buffer, points, delimiter=",", fmt="%.17g")
    else:
        buffer.write((json.dumps({**summarise(code), "points": points.tolist()}, indent=1) + "\n").encode())
    with replace_file(path) as file:
        file.write(buffer.getvalue())
