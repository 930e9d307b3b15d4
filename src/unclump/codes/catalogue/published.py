"""Published angles, for comparison with those of the catalogue: `published.csv`.

Three dimensions, 4 to 130 points. The angles were computed from published coordinates or, if there are none, taken from
the text; trailing zeros are unknown digits, and not in the file.

References:
    Hardin, Sloane and Smith. Tables of spherical codes. http://neilsloane.com/packings/
    Lai, Yue, Hao, Glover and Lü. Iterated dynamic neighborhood search for packing equal circles on a sphere. Computers
    and Operations Research, 2023. Coordinates: https://github.com/XiangjingLai/Tammes-problem
    Kuznetsov and Sahinidis. 2026.
"""

import csv
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_FILE = Path(__file__).parent / "published.csv"
_MARGIN = 1e-8  # degrees, beyond the last digit: published coordinates are rounded, too


@dataclass(frozen=True)
class Published:
    """A published angle, in degrees, as text with the known digits; and its source."""

    text: str
    source: str

    @property
    def degrees(self) -> float:
        """The angle as a number."""
        return float(self.text)

    def compare(self, degrees: float) -> str:
        """Describe whether an angle is better, equal up to the published digits, or worse.

        Example:
            >>> Published("19.3257514", "a table").compare(19.325751352)
            'equal to the published angle'
        """
        difference = degrees - self.degrees
        if abs(difference) <= 0.5 * 10.0 ** -len(self.text.partition(".")[2]) + _MARGIN:
            return "equal to the published angle"
        return f"{'better' if difference > 0 else 'worse'} than the published angle by {abs(difference):.2g} degrees"


def published(n: int, d: int) -> Published | None:
    """The best published angle in the table for n points in d dimensions, or None.

    Example:
        >>> published(120, 3)
        Published(text='19.324020067', source='Hardin, Sloane and Smith')
    """
    return _table().get((n, d))


@lru_cache(maxsize=1)
def _table() -> dict[tuple[int, int], Published]:
    with _FILE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {(int(row["n"]), int(row["dim"])): Published(row["angle_deg"], row["source"]) for row in rows}
