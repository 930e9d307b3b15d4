"""Writing the points of a code: beside the file first, then in its place."""

import io
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

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
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
        try:
            file.write(buffer.getvalue())
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, 0o666 & ~_umask())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
