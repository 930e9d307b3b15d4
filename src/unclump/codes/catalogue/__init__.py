"""The catalogue of codes found by search.

One zip archive per dimension: `24.npy` has the 24 points, `index.json` the angle of each code, its upper bound, the
seed and command that found it, and the date. The package ships a catalogue; codes that a user improves are saved in the
user's folder, and the better of the two is used. An entry whose points do not have the angle in the index is ignored.
Codes of lines through the origin are in the folder `lines` of each catalogue: one direction per line, and the angle
between lines.
"""

import datetime
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
LINES = "lines"  # the folder of lines in a catalogue
_INDEX = "index.json"
_ANGLE_TOLERANCE = 1e-12  # radians between the angle of the points and that in the index


class CatalogueError(ValueError):
    """A catalogue file that cannot be read."""


@dataclass(frozen=True)
class Record:
    """The index entry of a code; angles in radians."""

    angle: float
    bound: float
    bound_name: str
    seed: int
    command: str
    improved: str = ""
    """The date on which it was found, such as "2026-11-17"; "" if unknown."""


@dataclass(frozen=True, eq=False)
class Entry:
    """A code of the catalogue, with a verified angle."""

    points: Float[np.ndarray, "n d"]
    record: Record


def today() -> str:
    """Today's date, in the format of records."""
    return datetime.date.today().isoformat()


def user_folder() -> Path:
    """The folder of the user's codes: `UNCLUMP_CATALOGUE`, or a default in the user's data folder."""
    override = os.environ.get("UNCLUMP_CATALOGUE")
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return Path(override) if override else data / "unclump" / "codes"


def look_up(n: int, d: int, *, antipodal: bool = False) -> Entry | None:
    """The better of the shipped code and the user's, of points or of lines; None if there is neither.

    Raises:
        CatalogueError: If a file is not a catalogue or is truncated.
    """
    read_from = (read(folder, n, d, antipodal=antipodal) for folder in (SHIPPED, user_folder()))
    entries = [entry for entry in read_from if entry is not None]
    return max(entries, key=lambda entry: entry.record.angle, default=None)


def path_of(folder: Path, d: int, *, antipodal: bool = False) -> Path:
    """The file of the codes in d dimensions in a folder."""
    return (folder / LINES if antipodal else folder) / f"{d}.zip"


def angle_of(points: Float[np.ndarray, "n d"], *, antipodal: bool = False) -> float:
    """The smallest angle between points, or between lines with these directions."""
    return minimal_angle(np.concatenate([points, -points]) if antipodal else points)


def read(folder: Path, n: int, d: int, *, antipodal: bool = False) -> Entry | None:
    """The code of n points in d dimensions in a folder, or None if it is missing or damaged."""
    path = path_of(folder, d, antipodal=antipodal)
    if not path.exists():
        return None
    records = read_index(path)
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
    angle = angle_of(points, antipodal=antipodal)
    if not math.isclose(angle, records[n].angle, rel_tol=0, abs_tol=_ANGLE_TOLERANCE):
        _warn(path, n, f"its points have the angle {angle!r}, the index says {records[n].angle!r}")
        return None
    return Entry(points, records[n])


def read_index(path: Path) -> dict[int, Record]:
    """The records of a catalogue file by number of points; empty if the file does not exist."""
    if not path.exists():
        return {}
    try:
        with zipfile.ZipFile(path) as archive:
            return {int(n): Record(**record) for n, record in json.loads(archive.read(_INDEX)).items()}
    except (OSError, KeyError, TypeError, ValueError, AttributeError, zipfile.BadZipFile) as error:
        raise CatalogueError(
            f"expected a catalogue of codes in {path}, got a file that cannot be read ({error}); "
            "remove it, or reinstall unclump if it belongs to the package"
        ) from error


def save_if_better(folder: Path, points: Float[np.ndarray, "n d"], record: Record, *, antipodal: bool = False) -> bool:
    """Save a code to a folder unless its catalogue has one as good; return whether it was saved."""
    n, d = points.shape
    path = path_of(folder, d, antipodal=antipodal)
    records = read_index(path)
    current = read(folder, n, d, antipodal=antipodal) if n in records else None
    if current is not None and current.record.angle >= record.angle - _ANGLE_TOLERANCE:
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
    """Replace a catalogue file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = json.dumps({str(n): asdict(records[n]) for n in sorted(records)}, indent=1)
    with replace_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for n in sorted(members):
            archive.writestr(_member(f"{n}.npy"), members[n])
        archive.writestr(_member(_INDEX), lines)


def _member(name: str) -> zipfile.ZipInfo:
    """A member without timestamp, so that the same codes give the same file."""
    return zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))


def _warn(path: Path, n: int, reason: str) -> None:
    warnings.warn(f"the code of {n} points in {path} is damaged and was ignored: {reason}", stacklevel=4)
