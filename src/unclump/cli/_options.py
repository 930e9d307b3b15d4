"""Parsing of options that are more than a number: an objective with its own options, and a list of rows."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from unclump._checks import check_choice
from unclump._text import sanitise
from unclump.cli._tables import parse_number
from unclump.objectives import Objective, objective
from unclump.tables.files import FileError, Table, read_lines

_CIRCLES = 32  # on the whole table, a step with 32 circles achieves as much as hundreds of steps with one


def build_objective(name: str, options: Sequence[str], seed: int) -> Objective:
    """Build an objective from its name and options such as "circles=13", "kernel=riesz" and "kernel.s=2"."""
    default = objective(name)
    arguments: dict[str, Any] = {"circles": _CIRCLES} if "circles" in default.choices else {}
    kernel: dict[str, Any] = {}
    for option in options:
        key, equals, text = option.partition("=")
        if not equals or not key or not text:
            raise ValueError(f"expected --option KEY=VALUE, such as circles=13 or kernel.s=2, got '{sanitise(option)}'")
        for_kernel = key.startswith("kernel.")
        check_choice(f"the option of {name}", "kernel" if for_kernel else key, default.choices or ("none at all",))
        if for_kernel:
            kernel[key.removeprefix("kernel.")] = _parse_value(text)
        else:
            arguments[key] = _parse_value(text)
    if kernel:
        default_kernel = type(getattr(default, "kernel", None)).__name__.lower()
        arguments["kernel"] = {"name": arguments.get("kernel", default_kernel), **kernel}
    result = objective(name, **arguments)
    if "generator" in vars(result):
        vars(result)["generator"] = torch.Generator().manual_seed(seed)
    return result


def _parse_value(text: str) -> bool | int | float | str:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def resolve_device(name: str | None) -> torch.device:
    """The device of that name, if torch can use it here; without a name, the CPU."""
    try:
        return torch.zeros(1, device=name or "cpu").device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(
            f"expected --device that torch can use here, such as cpu, got '{sanitise(name)}': {reason}"
        ) from None


def read_row_list(path: Path, table: Table) -> list[int]:
    """Read a list of rows, one per line: by name, or by number from 0, with or without a `#` before it.

    A repeated name means all of its rows. A number that is also the name of another row is ambiguous, and an error.
    """
    count, rows_by_name = len(table.points), defaultdict(list)
    for row, name in enumerate(table.names or ()):
        rows_by_name[name].append(row)
    rows: set[int] = set()
    for line, text in enumerate(read_lines(path), start=1):
        number = parse_number(text.strip().removeprefix("#"))
        where, quoted = f"{sanitise(path)}: line {line}", f"'{sanitise(text)}'"
        if text in rows_by_name:
            first = rows_by_name[text][0]
            if number is not None and number < count and rows_by_name[text] != [number]:
                fault = f"{quoted} is the name of row {first} and the number of another"
                raise FileError(f"{where}: {fault}; write #{first} or #{number}")
            rows.update(rows_by_name[text])
        elif number is None:
            fault = f"no row is named {quoted}" if rows_by_name else f"{quoted} is not a row number"
            raise FileError(f"{where}: {fault}; list rows that are in the table")
        elif number >= count:
            raise FileError(f"{where}: there is no row {number}; the last one is {count - 1}")
        else:
            rows.add(number)
    return sorted(rows)
