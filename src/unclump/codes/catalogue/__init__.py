"""The catalogue: codes that the solver found, kept so that nobody needs to search for them twice.

One zip archive a dimension: `24.npy` holds the 24 points, `index.json` the angle of each code, the bound on it, and the
seed and command that found it. The package ships its own; codes that a user improves go to a folder of theirs, the
better of both counts. An entry whose points do not have the angle that the index promises is not used.
"""

import io
import json
import math
import os
import warnings
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from unclump._atomic_write import replace_file
from unclump.codes.verify import minimal_angle

SHIPPED = Path(__file__).parent
_INDEX = "index.json"
_DIGITS = 1e-12  # radians by which points may miss the angle in the index


class CatalogueError(ValueError):
    """A catalogue file that cannot be read."""


@dataclass(frozen=True)
class Record:
    """What the index says of a code; angles in radians."""

    angle: float
    bound: float
    bound_name: str
    seed: int
    command: str


@dataclass(frozen=True, eq=False)
class Entry:
    """A code of the catalogue, its angle verified from its points."""

    points: Float[np.ndarray, "n d"]
    record: Record


def own_folder() -> Path:
    """Where the user's own codes are kept: `UNCLUMP_CATALOGUE`, or a folder among the user's data."""
    given = os.environ.get("UNCLUMP_CATALOGUE")
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return Path(given) if given else data / "unclump" / "codes"


def look_up(n: int, d: int) -> Entry | None:
    """The better of the shipped code and the user's own, or None where there is neither.

    Raises:
        CatalogueError: Where a file is not a catalogue, or was cut off.
    """
    found = [entry for folder in (SHIPPED, own_folder()) if (entry := read(folder, n, d)) is not None]
    return max(found, key=lambda entry: entry.record.angle, default=None)


def read(folder: Path, n: int, d: int) -> Entry | None:
    """The code of n points in d dimensions in a folder, or None where it has none, or a damaged one."""
    path = folder / f"{d}.zip"
    if not path.exists():
        return None
    records = index(path)
    if n not in records:
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            points = np.lib.format.read_array(io.BytesIO(archive.read(f"{n}.npy")), allow_pickle=False)
    except (KeyError, ValueError, zipfile.BadZipFile) as error:
        _warn(path, n, str(error))
        return None
    if points.shape != (n, d) or points.dtype != np.float64 or not np.isfinite(points).all():
        _warn(path, n, f"its points are {points.dtype} of shape {points.shape}")
        return None
    angle = minimal_angle(points)
    if not math.isclose(angle, records[n].angle, rel_tol=0, abs_tol=_DIGITS):
        _warn(path, n, f"its points have the angle {angle!r}, the index says {records[n].angle!r}")
        return None
    return Entry(points, records[n])


def index(path: Path) -> dict[int, Record]:
    """What a catalogue file holds, by the number of points; empty where there is no file."""
    if not path.exists():
        return {}
    try:
        with zipfile.ZipFile(path) as archive:
            return {int(n): Record(**record) for n, record in json.loads(archive.read(_INDEX)).items()}
    except (OSError, KeyError, TypeError, ValueError, AttributeError, zipfile.BadZipFile) as error:
        raise CatalogueError(
            f"expected a catalogue of codes in {path}, got a file that cannot be read ({error}); "
            "remove it, or install unclump again if it is the package's own"
        ) from error


def keep(folder: Path, points: Float[np.ndarray, "n d"], record: Record) -> bool:
    """Put a code into a folder's catalogue if it is better than the one there; whether it was."""
    n, d = points.shape
    path = folder / f"{d}.zip"
    records = index(path)
    there = read(folder, n, d) if n in records else None
    if there is not None and there.record.angle >= record.angle - _DIGITS:
        return False
    members = {}
    if path.exists():
        with zipfile.ZipFile(path) as archive:
            members = {int(name[:-4]): archive.read(name) for name in archive.namelist() if name.endswith(".npy")}
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(points, dtype=np.float64), allow_pickle=False)
    members[n], records[n] = buffer.getvalue(), record
    _write(path, members, records)
    return True


def _write(path: Path, members: dict[int, bytes], records: dict[int, Record]) -> None:
    """Nobody ever sees half a catalogue."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = json.dumps({str(n): asdict(records[n]) for n in sorted(records)}, indent=1)
    with replace_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for n in sorted(members):
            archive.writestr(_member(f"{n}.npy"), members[n])
        archive.writestr(_member(_INDEX), lines)


def _member(name: str) -> zipfile.ZipInfo:
    """Without the time of day: the same codes make the same file."""
    return zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))


def _warn(path: Path, n: int, why: str) -> None:
    warnings.warn(f"the code of {n} points in {path} is damaged ({why}) and not used", stacklevel=4)
