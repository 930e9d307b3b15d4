"""The repairs that are compared: maps of the whole table, and moves of its rows one by one."""

import math
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from unclump.dispersion.loop import disperse
from unclump.objectives import KoLeo, Sliced
from unclump.tables.commands import Paths
from unclump.tables.transform import Isotropy
from unclump.tables.transform_covariance import Covariance, estimate_covariance
from unclump.tables.transform_learned import soften
from unclump.tables.transform_maps import Affine, closed_form

_NAMES = {"centre": "centre", "all_but_the_top": "all but the top", "whiten": "whiten", "learn": "learned map"}
_PASSES = 200  # over the table, of a move
_LR = 0.01  # the default of unclump spread
_CIRCLES = 32
_BATCH = 1024


@dataclass(frozen=True)
class Map:
    """An `Isotropy`."""

    method: str
    strength: float = 1.0
    directions: int | None = None
    kind = "map"

    @property
    def name(self) -> str:
        """Such as "whiten, strength 0.5"."""
        name = _NAMES[self.method]
        if self.directions is not None:
            return f"{name} {self.directions}"
        return name if self.method == "centre" else f"{name}, strength {self.strength:g}"

    def command(self, paths: Paths, rows: int, seed: int) -> str:
        """The command lines that fit and apply it, whatever the number of rows."""
        file, by = str(paths.file), str(paths.out.with_suffix(".map.safetensors"))
        fit = ["unclump", "fit", file, *paths.options, "-o", by, "--method", self.method.replace("_", "-")]
        if self.directions is not None:
            fit += ["--directions", str(self.directions)]
        elif self.method != "centre":
            fit += ["--strength", f"{self.strength:g}"]
        if self.method == "learn":
            fit += _seed_option(seed)
        apply = ["unclump", "apply", by, file, *paths.options, "-o", str(paths.out)]
        return f"{shlex.join(fit)} && {shlex.join(apply)}"


@dataclass(frozen=True)
class Move:
    """Rows that move one by one, up to an angle in degrees."""

    objective: str
    max_move: float
    kind = "move"

    @property
    def name(self) -> str:
        """Such as "spread by sliced, 10°"."""
        return f"spread by {self.objective}, {self.max_move:g}°"

    def command(self, paths: Paths, rows: int, seed: int) -> str:
        """The command line for a table of so many rows."""
        words = ["unclump", "spread", str(paths.file), *paths.options, "-o", str(paths.out)]
        words += ["--objective", self.objective, "--keep-norms", "--max-move", f"{self.max_move:g}"]
        return shlex.join([*words, "--steps", str(self._steps(rows)), *_seed_option(seed)])

    def apply(self, x: Float[Tensor, "n d"], seed: int) -> Float[Tensor, "n d"]:
        """The table after it; norms are kept."""
        generator = torch.Generator().manual_seed(seed)
        steps = self._steps(len(x))
        return disperse(
            x,
            Sliced(circles=_CIRCLES, generator=generator) if self.objective == "sliced" else KoLeo(),
            steps=steps,
            lr=_LR,
            batch_size=self._batch(len(x)),
            generator=generator,
            max_move=math.radians(self.max_move),
            keep_norms=True,
            schedule=lambda step: 1 - step / steps,
        ).points

    def _steps(self, rows: int) -> int:
        return _PASSES * max(1, rows // (self._batch(rows) or rows))

    def _batch(self, rows: int) -> int | None:
        """Rows in a step; None for all."""
        return None if self.objective == "sliced" or rows <= _BATCH else _BATCH


Method = Map | Move


def _seed_option(seed: int) -> list[str]:
    return ["--seed", str(seed)] if seed else []


def candidates(d: int, rows: int) -> Iterator[Method]:
    """What is tried on a table, gentle to strong."""
    yield Map("centre")
    top = max(1, round(d / 100))
    for directions in (top, 3 * top):
        if directions < min(d, rows - 1):
            yield Map("all_but_the_top", directions=directions)
    for strength in (0.25, 0.5, 1.0):
        yield Map("whiten", strength)
    for strength in (0.5, 1.0):
        yield Map("learn", strength)
    yield Move("sliced", 10)
    yield Move("sliced", 30)
    yield Move("koleo", 10)


def method_named(name: str, d: int, rows: int) -> Method | None:
    """The candidate of that name, or None, which is to leave the table as it is."""
    return next((method for method in candidates(d, rows) if method.name == name), None)


class Fits:
    """Maps fitted on one table; its moments are taken once, and the learned map is learned once."""

    def __init__(self, x: Float[Tensor, "n d"], *, seed: int) -> None:
        self.x, self.seed = x, seed

    def fit(self, by: Map) -> tuple[Isotropy, float]:
        """The map of a method, and the seconds that it takes alone."""
        if by.method == "learn":
            full, seconds = self._learned
            fitted = soften(full, by.strength)
        else:
            table, seconds = self._covariance
            began = time.perf_counter()
            fitted = closed_form(by.method, table, by.strength, directions=by.directions)
            seconds += time.perf_counter() - began
        return Isotropy.from_affine(fitted, by.method, by.strength), seconds

    @cached_property
    def _covariance(self) -> tuple[Covariance, float]:
        began = time.perf_counter()
        return estimate_covariance(self.x), time.perf_counter() - began

    @cached_property
    def _learned(self) -> tuple[Affine, float]:
        began = time.perf_counter()
        isotropy = Isotropy("learn", generator=torch.Generator().manual_seed(self.seed)).fit(self.x)
        return isotropy.affine, time.perf_counter() - began
