"""The results of a health check: as values, and in other forms, all but the dictionary and frames safe to print."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from unclump.geometry.uniform_law import UniformLaw
from unclump.measures.isotropic_law import IsotropicLaw
from unclump.measures.uniformity_tests import UniformityTest
from unclump.tables import health_display, health_json, health_text
from unclump.tables.files import BadRow
from unclump.tables.groups import Group
from unclump.tables.rows import Rows, evenly
from unclump.tables.verdict import Verdict

if TYPE_CHECKING:
    import pandas

_FINGERPRINT_ROWS = 64


@dataclass(frozen=True, repr=False)
class Health:
    """The result of `health`; angles in radians, rows by number from 0. Prints as a table, in degrees.

    In a notebook it is shown as a table with a histogram of the nearest angles.

    Attributes:
        n: The number of rows, including those without a direction.
        d: The number of dimensions.
        dtype: The dtype of the table, such as "float32".
        bad_rows: Rows without a direction; everything below describes the other rows.
        duplicates: Groups of equal rows, largest first.
        clumps: Groups of near duplicates, including equal rows, largest first.
        near: The angle within which two rows are near duplicates.
        min_angle: The smallest angle of all pairs.
        median_nearest_angle: The median angle between a row and its nearest neighbour.
        mean_nearest_angle: The mean of these angles.
        uniform: What n uniform points would give: its `median_smallest_angle`, `median_nearest_angle`,
            `mean_nearest_angle`, `spherical_variance`, `resultant_length`, `effective_rank`.
        spherical_variance: One minus the length of the mean.
        resultant_length: The length of the mean: 1 if all rows are equal, about 0 for a balanced table.
        cone_angle: The mean angle between the rows and the direction of their mean.
        effective_rank: How many dimensions are used; see `effective_rank`.
        centred_rank: The effective rank after subtracting the mean, the direction that all rows share.
        rankme: The effective rank of the rows with their norms; see `rankme`.
        isoscore: How evenly the variance of the rows is spread over dimensions; see `isoscore`.
        alpha_req: The exponent of a power law fitted to the spectrum of the covariance, see `alpha_req`; None where it
            falls faster than any power.
        mean_cosine: The mean cosine over all pairs.
        uniformity: Wang and Isola's uniformity, see `unclump.measures.pairs.uniformity`: of all rows, or of 2,048
            evenly spaced ones in a larger table.
        isotropic: What n rows of an isotropic Gaussian would give: its `rankme`, `isoscore`, `alpha_req()` and
            `uniformity()`.
        k: The number of neighbours that count for hubness and orphans.
        hubness: The skewness of how often a row is among the k nearest of others; None where a sample does not tell.
        largest_hub: The largest share of the rows that have the same row, outside of any clump, among their k nearest.
        orphans: The fraction of rows that are not among the k nearest of any other row; None where rows were sampled.
        dead_dimensions: The dimensions that are constant: a hundredth of the median standard deviation or less.
        norm_correlation: Spearman's rank correlation of the norms with the frequency, or with minus the row number.
        norm_variation: The standard deviation of the norms, divided by their mean.
        has_frequencies: Whether the frequencies were given.
        tests: Tests of uniformity by name, with their p-values.
        verdict: The verdict in plain words, with the commands that help.
        names: The names of the rows, or None. They are untrusted: sanitise them before printing.
        nearest_angles: The nearest angle of every row that has a direction, or of those sampled, for figures.
        occurrences: How often each row that has a direction is among the k nearest of others, estimated where rows were
            sampled; hubs have the largest counts.
        spectrum: The singular values of the unit rows divided by the root of n, descending, for figures.
        sampled: The rows, by number, whose neighbours were searched for in the whole table; None if all were.
        intervals: 95 percent intervals of measures that depend on which rows were sampled, by the attribute.
        fingerprint: A digest of the size and of some rows of the table, to match a saved result with it.
    """

    n: int
    d: int
    dtype: str
    bad_rows: tuple[BadRow, ...]
    duplicates: tuple[Group, ...]
    clumps: tuple[Group, ...]
    near: float
    min_angle: float
    median_nearest_angle: float
    mean_nearest_angle: float
    uniform: UniformLaw
    spherical_variance: float
    resultant_length: float
    cone_angle: float
    effective_rank: float
    centred_rank: float
    rankme: float
    isoscore: float
    alpha_req: float | None
    mean_cosine: float
    uniformity: float
    isotropic: IsotropicLaw
    k: int
    hubness: float | None
    largest_hub: float
    orphans: float | None
    dead_dimensions: tuple[int, ...]
    norm_correlation: float
    norm_variation: float
    has_frequencies: bool
    tests: dict[str, UniformityTest]
    verdict: Verdict
    names: Sequence[str] | None = field(repr=False, compare=False)
    nearest_angles: Float64[Tensor, " m"] = field(repr=False, compare=False)
    occurrences: Float64[Tensor, " n"] = field(repr=False, compare=False)
    spectrum: Float64[Tensor, " k"] = field(repr=False, compare=False)
    sampled: Int[Tensor, " m"] | None = field(repr=False, compare=False)
    intervals: dict[str, tuple[float, float]]
    fingerprint: str

    def to_dict(self) -> dict[str, Any]:
        """Convert to numbers, strings and lists, for JSON; angles in degrees. Names are not sanitised."""
        return health_json.as_dict(self)

    def to_pandas(self) -> "pandas.DataFrame":
        """Convert the measures to a data frame, one row each; angles in degrees.

        Columns: `table`; `uniform`, what as many uniform points would give, or NaN; `low` and `high`, the ends of a 95
        percent interval where rows were sampled.
        """
        return health_display.as_frame(self)

    def rows_to_pandas(self) -> "pandas.DataFrame":
        """Convert what is known of single rows to a data frame, one row each.

        Columns: `name`, if there are names, which are not sanitised; `nearest_angle_degrees`; `neighbour_of`, the
        number of rows that have it among their k nearest; `duplicates` and `near_duplicates`, the number of its group
        in `duplicates` and `clumps`, or -1; `fault`, "" for a row with a direction. What was not measured is NaN.
        """
        return health_display.rows_as_frame(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all but the names to a file, for `load` and `unclump report --from`."""
        health_json.save(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, names: Sequence[str] | None = None) -> "Health":
        """Read what `save` wrote; the names of the rows are those given here.

        Raises:
            FileError: One line: what is wrong with the file.
        """
        return cls(names=names, **health_json.load(path, {part.name: part.type for part in fields(cls)}))

    def __repr__(self) -> str:
        return f"Health({self.n} x {self.d} {self.dtype}; {', '.join(self.verdict.findings)})"

    def __str__(self) -> str:
        return health_text.as_text(self)

    def _repr_html_(self) -> str:
        return health_display.as_html(self)


def fingerprint(table: Rows) -> str:
    """A digest of the shape, the dtype and up to 64 rows of a table."""
    rows = table.take(evenly(len(table), _FINGERPRINT_ROWS)).contiguous()
    content = f"{(len(table), table.d)} {table.dtype}".encode() + rows.view(torch.uint8).numpy().tobytes()
    return hashlib.blake2b(content, digest_size=16).hexdigest()
