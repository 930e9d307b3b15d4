"""What a run records on its way."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unclump._arrays import Floats


@dataclass(frozen=True, eq=False)
class History:
    """What was recorded on the way: one entry a record in every array. Prints itself as a table, angles in degrees."""

    step: npt.NDArray[np.int64]
    """How many updates the points had had."""
    value: Floats
    """The objective at them: of the whole table, or of the batch that was drawn next."""
    min_angle: Floats
    """The smallest angle in radians, among `min_angle_rows` rows."""
    spherical_variance: Floats
    seconds: Floats
    """Since the start of the run, measuring included; a continued run counts on."""
    rows: int
    """The rows of the table."""
    min_angle_rows: int
    """How many of them `min_angle` looks at. Where fewer than `rows`, a fixed random choice: an upper bound."""
    interrupted: bool = False
    """Whether the run was stopped before its last step."""

    def __str__(self) -> str:
        lines = [f"{'step':>8}  {'value':>12}  {'min angle':>10}  {'variance':>8}  {'seconds':>8}"]
        for step, value, smallest, variance, seconds in zip(
            self.step, self.value, self.min_angle, self.spherical_variance, self.seconds, strict=True
        ):
            lines.append(f"{step:8d}  {value:12.6g}  {math.degrees(smallest):9.4f}°  {variance:8.4f}  {seconds:8.2f}")
        if self.min_angle_rows < self.rows:
            lines.append(f"min angle among {self.min_angle_rows} of {self.rows} rows")
        if self.interrupted:
            lines.append("interrupted")
        return "\n".join(lines)
