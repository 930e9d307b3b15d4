"""A health check as JSON: for programs to read, and as a file that holds all of it."""

import base64
import dataclasses
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from unclump._atomic_write import replace_file
from unclump._text import FileError
from unclump.geometry.uniform_law import UniformLaw
from unclump.measures.isotropic_law import IsotropicLaw
from unclump.tables.files import BadRow
from unclump.tables.files._validation import check_file_target, check_regular, prefix_errors
from unclump.tables.groups import Group
from unclump.tables.health_text import law_name
from unclump.tables.typed_json import decode

if TYPE_CHECKING:
    from unclump.tables.findings import Health

_KIND = "unclump health"
_FORMAT = 3
_BEGINNING = f'{{"kind": "{_KIND}",'.encode()  # of every file, whatever its format
_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)
_RECOMPUTED = {"names", "uniform", "isotropic"}  # and not in the file
_ENCODED = {"bad_rows", "nearest_angles", "occurrences", "spectrum", "sampled"}  # in a form of their own


def save(path: str | os.PathLike[str], health: "Health") -> None:
    """Write a health check to a file; nothing but another health check is overwritten."""
    check_health_target(Path(path))
    content = {
        field.name: _encode(getattr(health, field.name))
        for field in dataclasses.fields(health)
        if field.name not in _RECOMPUTED
    }
    content["bad_rows"] = [[row.row, row.fault] for row in health.bad_rows]  # names stay with the table
    text = json.dumps({"kind": _KIND, "format": _FORMAT} | content, allow_nan=False)
    with prefix_errors(Path(path)), replace_file(Path(path)) as file:
        file.write(text.encode("ascii"))


def check_health_target(path: Path) -> None:
    """Raise if no health check can be written there."""
    with prefix_errors(path):
        check_file_target(path)
        if path.exists():
            with open(path, "rb") as file:
                is_health = file.read(len(_BEGINNING)) == _BEGINNING
            if not is_health:
                raise FileError("is not what `unclump measure --save` wrote, and is not overwritten; name another file")


def load(path: str | os.PathLike[str], types: dict[str, Any]) -> dict[str, Any]:
    """Read the attributes of a health check, which have these types, but for the names of the rows."""
    path = Path(path)
    with prefix_errors(path):
        check_regular(path)
        try:
            content = json.loads(path.read_bytes())
            if (content.pop("kind"), content.pop("format")) != (_KIND, _FORMAT):
                raise FileError("was saved by another version of unclump; measure the table again")
            return _decode(content, types)
        except FileError:
            raise
        except _DAMAGE as error:
            raise FileError("expected what `unclump measure --save` wrote, got another or a damaged file") from error


def _encode(value: Any) -> Any:
    if isinstance(value, Tensor):
        return base64.b64encode(value.numpy().astype("<f8").tobytes()).decode("ascii")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return [_encode(part) for part in value]
    if isinstance(value, dict):
        return {key: list(part) for key, part in value.items()}
    return value


def _decode(content: dict[str, Any], types: dict[str, Any]) -> dict[str, Any]:
    """The attributes; whatever is missing, of another type or out of range raises."""
    if content.keys() != types.keys() - _RECOMPUTED:
        raise KeyError(content.keys() ^ types.keys())
    content |= {name: decode(types[name], content[name]) for name in content.keys() - _ENCODED}
    total, d = content["n"], content["d"]
    bad_rows = tuple(
        BadRow(row, None, fault) for row, fault in decode(tuple[tuple[int, str], ...], content["bad_rows"])
    )
    groups = [group.rows for group in (*content["duplicates"], *content["clumps"])]
    for limit, numbers in (
        (total, [row.row for row in bad_rows]),
        (total, [row for rows in groups for row in rows]),
        (d, content["dead_dimensions"]),
    ):
        if max(numbers, default=-1) >= limit:
            raise ValueError(f"expected numbers below {limit}, got {max(numbers)}")
    occurrences, spectrum = _decode_array(content["occurrences"]), _decode_array(content["spectrum"])
    n = len(occurrences)
    if n + len(bad_rows) != total:
        raise ValueError(f"expected {total} rows, got {n} and {len(bad_rows)} without a direction")
    if len(spectrum) not in (n, d):
        raise ValueError(f"expected {min(n, d)} singular values, got {len(spectrum)}")
    sampled = None if content["sampled"] is None else _decode_array(content["sampled"]).long()
    bad = {row.row for row in bad_rows}
    if sampled is not None and any(not 0 <= row < total or row in bad for row in sampled.tolist()):
        raise ValueError("a row is sampled that has no direction, or that the table does not have")
    return content | {
        "bad_rows": bad_rows,
        "uniform": UniformLaw(n, d),
        "isotropic": IsotropicLaw(n, d),
        "nearest_angles": _decode_array(content["nearest_angles"], n if sampled is None else len(sampled)),
        "occurrences": occurrences,
        "spectrum": spectrum,
        "sampled": sampled,
    }


def _decode_array(text: str, length: int | None = None) -> Tensor:
    array = torch.from_numpy(np.frombuffer(base64.b64decode(text, validate=True), dtype="<f8").copy())
    if len(array) == 0 or len(array) != (length or len(array)) or not array.isfinite().all():
        raise ValueError(f"expected {length or 'some'} finite numbers, got {len(array)}")
    return array


def as_dict(health: "Health") -> dict[str, Any]:
    """The measures by name, angles in degrees."""
    law = health.uniform
    return {
        "n": health.n,
        "d": health.d,
        "dtype": health.dtype,
        "bad_rows": [{"row": bad.row, "name": bad.name, "fault": bad.fault} for bad in health.bad_rows],
        "duplicates": [_group_as_dict(group, health.names) for group in health.duplicates],
        "near_degrees": math.degrees(health.near),
        "near_duplicates": [_group_as_dict(group, health.names) for group in health.clumps],
        "min_angle_degrees": math.degrees(health.min_angle),
        "median_nearest_angle_degrees": math.degrees(health.median_nearest_angle),
        "mean_nearest_angle_degrees": math.degrees(health.mean_nearest_angle),
        "spherical_variance": health.spherical_variance,
        "resultant_length": health.resultant_length,
        "cone_angle_degrees": math.degrees(health.cone_angle),
        "effective_rank": health.effective_rank,
        "centred_rank": health.centred_rank,
        "rankme": health.rankme,
        "isoscore": health.isoscore,
        "alpha_req": health.alpha_req,
        "mean_cosine": health.mean_cosine,
        "uniformity": health.uniformity,
        "hubness": {
            "k": health.k,
            "skewness": health.hubness,
            "largest": health.largest_hub,
            "orphans": health.orphans,
        },
        "dead_dimensions": list(health.dead_dimensions),
        "norms": {
            "correlation": health.norm_correlation,
            "with": "frequency" if health.has_frequencies else "row order",
            "variation": health.norm_variation,
        },
        "uniform": {
            "min_angle_degrees": math.degrees(law.median_smallest_angle),
            "min_angle_law": law_name(health),
            "median_nearest_angle_degrees": math.degrees(law.median_nearest_angle),
            "mean_nearest_angle_degrees": math.degrees(law.mean_nearest_angle),
            "spherical_variance": law.spherical_variance,
            "resultant_length": law.resultant_length,
            "cone_angle_degrees": math.degrees(law.mean_angle_to_mean),
            "effective_rank": law.effective_rank,
            "centred_rank": law.centred_rank,
            "rankme": health.isotropic.rankme,
            "isoscore": health.isotropic.isoscore,
            "alpha_req": finite_or_none(health.isotropic.alpha_req()),
            "mean_cosine": health.isotropic.mean_cosine,
            "uniformity": health.isotropic.uniformity(),
        },
        "sampled_rows": None if health.sampled is None else len(health.sampled),
        "intervals": dict(_in_degrees(name, interval) for name, interval in health.intervals.items()),
        "tests": {name: {"statistic": test.statistic, "pvalue": test.pvalue} for name, test in health.tests.items()},
        "verdict": {
            "kind": health.verdict.kind,
            "findings": list(health.verdict.findings),
            "text": health.verdict.text,
            "structure": list(health.verdict.structure),
            "commands": list(health.verdict.commands),
        },
    }


def finite_or_none(value: float) -> float | None:
    """The value, or None where it is infinite, which JSON does not know."""
    return value if math.isfinite(value) else None


def _group_as_dict(group: Group, names: Sequence[str] | None) -> dict[str, Any]:
    return {
        "rows": list(group.rows),
        "names": None if names is None else [names[row] for row in group.rows],
        "angle_degrees": math.degrees(group.angle),
    }


def _in_degrees(name: str, interval: tuple[float, float]) -> tuple[str, list[float]]:
    """The name and the ends of an interval; of an angle in degrees."""
    is_angle = "angle" in name
    return (f"{name}_degrees", list(map(math.degrees, interval))) if is_angle else (name, list(interval))
