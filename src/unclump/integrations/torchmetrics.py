"""torchmetrics (extra `[torchmetrics]`): the measures as a metric that accumulates the batches of all ranks."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from unclump._checks import check_choice, check_points
from unclump.integrations._extras import require_extra
from unclump.measures.angles import (
    effective_rank,
    mean_angle,
    median_angle,
    min_angle,
    nearest_angles,
    spherical_variance,
)

with require_extra("torchmetrics"):
    from torchmetrics import Metric
    from torchmetrics.utilities import dim_zero_cat

_MEASURES = {
    "min_angle": min_angle,
    "median_nearest_angle": lambda x: nearest_angles(x).median().item(),
    "mean_angle": mean_angle,
    "median_angle": median_angle,
    "spherical_variance": spherical_variance,
    "effective_rank": effective_rank,
}


class Dispersion(Metric):
    """Measures of all embeddings since the last reset, of all ranks: a dictionary of scalars, angles in radians.

    All embeddings are stored, so memory grows with their number. Ranks may have different numbers of rows, or none.

    Args:
        measures: The names of the measures; all by default. "mean_angle", "median_angle" and the nearest angles cost
            n² d.
        **options: Options of `torchmetrics.Metric`, such as `compute_on_cpu` or `process_group`.
    """

    is_differentiable = False
    full_state_update = False
    values: list[Tensor]
    dimension: Tensor

    def __init__(self, *measures: str, **options: Any) -> None:
        super().__init__(**options)
        for name in measures:
            check_choice("a measure", name, _MEASURES)
        self.measures = measures or tuple(_MEASURES)
        # Flattened, since torchmetrics cannot infer the dimensions of the empty list of a rank without rows.
        self.add_state("values", default=[], dist_reduce_fx="cat")
        self.add_state("dimension", default=torch.tensor(0), dist_reduce_fx="max")

    def update(self, embeddings: Float[Tensor, "n d"]) -> None:
        """Add the rows of a batch, of any norm but zero."""
        check_points(embeddings, at_least=0)
        d = embeddings.shape[1]
        if self.dimension not in (0, d):
            raise ValueError(f"expected embeddings in {int(self.dimension)} dimensions, as before, got {d}")
        self.dimension = torch.full_like(self.dimension, d)
        self.values.append(embeddings.detach().to(self.dtype).flatten())

    def compute(self) -> dict[str, Tensor]:
        """Compute the measures, by name."""
        if self.dimension == 0:
            raise ValueError("expected embeddings, got none; call update(...) before compute()")
        x = dim_zero_cat(self.values).reshape(-1, int(self.dimension))
        return {name: torch.tensor(_MEASURES[name](x), dtype=self.dtype, device=x.device) for name in self.measures}
