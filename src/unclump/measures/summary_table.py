"""The result of `summary`, which converts to text, a data frame and a table in a notebook."""

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from unclump._frames import data_frame
from unclump._notebook import card, full_grid

if TYPE_CHECKING:
    import pandas

_ANGLES = {
    "min_angle",
    "median_nearest_angle",
    "mean_nearest_angle",
    "median_angle",
    "mean_angle",
    "covering_radius",
}


@dataclass(frozen=True, repr=False)
class Summary:
    """The result of `summary`; angles in radians. Text and notebooks show it as a table, in degrees."""

    n: int
    d: int
    min_angle: float
    median_nearest_angle: float
    mean_nearest_angle: float
    median_angle: float
    mean_angle: float
    spherical_variance: float
    effective_rank: float
    covering_radius: float
    covering_samples: int

    def __repr__(self) -> str:
        return f"Summary({self.n} x {self.d}; smallest angle {_degrees(self.min_angle)})"

    def rows(self) -> list[tuple[str, str]]:
        """The names of the measures and their formatted values."""
        return [
            ("points x dimensions", f"{self.n} x {self.d}"),
            ("smallest angle", _degrees(self.min_angle)),
            ("median nearest angle", _degrees(self.median_nearest_angle)),
            ("mean nearest angle", _degrees(self.mean_nearest_angle)),
            ("median angle", _degrees(self.median_angle)),
            ("mean angle", _degrees(self.mean_angle)),
            ("spherical variance", f"{self.spherical_variance:.4f}"),
            ("effective rank", f"{self.effective_rank:.1f}"),
            (f"covering radius ({self.covering_samples} samples)", _degrees(self.covering_radius)),
        ]

    def to_dict(self) -> dict[str, float]:
        """The measures by name, for a program; angles in degrees."""
        values = {f"{name}_degrees" if name in _ANGLES else name: value for name, value in asdict(self).items()}
        return {name: math.degrees(value) if "_degrees" in name else value for name, value in values.items()}

    def to_pandas(self) -> "pandas.DataFrame":
        """Convert to a data frame of one row, to be stacked with those of other tables; angles in degrees."""
        return data_frame({name: [value] for name, value in self.to_dict().items()})

    def _repr_html_(self) -> str:
        (_, size), *rows = self.rows()
        return card(f"{size} dimensions", full_grid((), rows))

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self.rows())
        return "\n".join(f"{name:<{width}}  {value:>12}" for name, value in self.rows())


def _degrees(radians: float) -> str:
    return f"{math.degrees(radians):.4f}°"
