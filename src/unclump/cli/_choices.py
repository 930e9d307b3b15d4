"""Choices that are more than a number: an objective with its options, and rows to freeze."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from unclump._checks import check_choice
from unclump._text import sanitise
from unclump.cli._tables import read_lines
from unclump.objectives import Objective, objective
from unclump.tables.files import FileError, Table

_CIRCLES = 32  # a step of this many on the whole table goes where hundreds of steps of one circle go


def objective_of(name: str, options: Sequence[str], seed: int) -> Objective:
    """The objective of that name with options such as "circles=13", "kernel=riesz" and "kernel.s=2"."""
    usual = objective(name)
    given: dict[str, Any] = {"circles": _CIRCLES} if "circles" in usual.choices else {}
    kernel: dict[str, Any] = {}
    for option in options:
        key, equals, text = option.partition("=")
        if not equals or not key or not text:
            raise ValueError(f"expected --option KEY=VALUE, such as circles=13 or kernel.s=2, got '{sanitise(option)}'")
        of_kernel = key.startswith("kernel.")
        check_choice(f"the option of {name}", "kernel" if of_kernel else key, usual.choices or ("none at all",))
        if of_kernel:
            kernel[key.removeprefix("kernel.")] = _value(text)
        else:
            given[key] = _value(text)
    if kernel:
        given["kernel"] = {"name": given.get("kernel", type(getattr(usual, "kernel", None)).__name__.lower()), **kernel}
    made = objective(name, **given)
    if "generator" in vars(made):
        vars(made)["generator"] = torch.Generator().manual_seed(seed)
    return made


def _value(text: str) -> bool | int | float | str:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def rows_listed(path: Path, table: Table) -> list[int]:
    """The rows that a file lists, one a line: by name, or by number from 0, with or without a `#` before it.

    A repeated name means all of its rows. A number that is the name of another row is refused: nobody could tell.
    """
    rows, named = len(table.points), defaultdict(list)
    for row, name in enumerate(table.names or ()):
        named[name].append(row)
    found: set[int] = set()
    for line, text in enumerate(read_lines(path), start=1):
        digits = text.strip().removeprefix("#")
        number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None
        if text in named:
            if number is not None and number < rows and named[text] != [number]:
                raise FileError(
                    f"{sanitise(path)}: line {line}: '{sanitise(text)}' is the name of row {named[text][0]} and the "
                    f"number of another; write #{named[text][0]} or #{number}"
                )
            found.update(named[text])
        elif number is None:
            known = f"no row is called '{sanitise(text)}'" if named else f"'{sanitise(text)}' is no row number"
            raise FileError(f"{sanitise(path)}: line {line}: {known}; list rows that are in the table")
        elif number >= rows:
            raise FileError(f"{sanitise(path)}: line {line}: there is no row {number}; the last one is {rows - 1}")
        else:
            found.add(number)
    return sorted(found)
