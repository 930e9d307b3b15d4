"""The history of a run."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from unclump._arrays import Floats
from unclump._frames import data_frame
from unclump._notebook import card, curve, grid, note

if TYPE_CHECKING:
    import pandas

_HEADING = ("step", "value", "min angle", "variance", "seconds")


@dataclass(frozen=True, eq=False, repr=False)
class History:
    """The records of a run, one entry per record in every array. Prints as a table, with angles in degrees.

    A notebook shows it as a table with a curve of the smallest angle.
    """

    step: npt.NDArray[np.int64]
    """The number of updates before the record."""
    value: Floats
    """The value of the objective, at the whole table or at the next batch."""
    min_angle: Floats
    """The smallest angle in radians, among `min_angle_rows` rows."""
    spherical_variance: Floats
    seconds: Floats
    """Seconds since the start of the run, including measurements; a resumed run adds to those before it."""
    rows: int
    """The number of rows in the table."""
    min_angle_rows: int
    """The number of rows measured for `min_angle`. If fewer than `rows`, a fixed random sample: an upper bound."""
    interrupted: bool = False
    """Whether the run was stopped before its last step."""

    def to_pandas(self) -> "pandas.DataFrame":
        """Convert to a data frame, one row per record, indexed by the step; angles in degrees."""
        columns = {
            "value": self.value,
            "min_angle_degrees": np.degrees(self.min_angle),
            "spherical_variance": self.spherical_variance,
            "seconds": self.seconds,
        }
        return data_frame(columns, index=self.step.tolist(), name="step")

    def __repr__(self) -> str:
        steps, smallest = (f"{values[0]:.4g} to {values[-1]:.4g}" for values in (self.step, np.degrees(self.min_angle)))
        return f"History(steps {steps}; smallest angle {smallest} degrees)"

    def __str__(self) -> str:
        widths = (8, 12, 10, 8, 8)
        rows = [_HEADING, *self._records()]
        lines = ["  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows]
        return "\n".join([*lines, *self._notes()])

    def _repr_html_(self) -> str:
        parts = [grid(_HEADING, self._records()), *map(note, self._notes())]
        smallest = np.degrees(self.min_angle)
        label = f"smallest angle, up to {smallest.max():.4g}°"
        figure = curve(self.step.astype(np.float64), smallest, label) if len(self.step) > 1 else ""
        return card(f"{self.rows} points dispersed", *parts, figure=figure)

    def _records(self) -> list[tuple[str, ...]]:
        return [
            (f"{step:d}", f"{value:.6g}", f"{math.degrees(smallest):.4f}°", f"{variance:.4f}", f"{seconds:.2f}")
            for step, value, smallest, variance, seconds in zip(
                self.step, self.value, self.min_angle, self.spherical_variance, self.seconds, strict=True
            )
        ]

    def _notes(self) -> list[str]:
        notes = [f"min angle among {self.min_angle_rows} of {self.rows} rows"] * (self.min_angle_rows < self.rows)
        return [*notes, *["interrupted"] * self.interrupted]
