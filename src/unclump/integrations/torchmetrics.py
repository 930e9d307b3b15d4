"""torchmetrics (extra `[torchmetrics]`): the measures as metrics that accumulate the batches of all ranks."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unclump._checks import check_choice, check_count, check_points
from unclump.integrations._extras import require_extra
from unclump.measures.angles import (
    effective_rank,
    mean_angle,
    median_angle,
    min_angle,
    nearest_angles,
    spherical_variance,
)
from unclump.measures.codebook import codebook_perplexity, codebook_usage, occurrences
from unclump.measures.lidar import lidar
from unclump.measures.pairs import alignment, mean_cosine, uniformity
from unclump.measures.spectrum import alpha_req, isoscore, rankme

with require_extra("torchmetrics"):
    from torchmetrics import Metric
    from torchmetrics.utilities import dim_zero_cat

_MEASURES: dict[str, Callable[[Tensor], float]] = {
    "min_angle": min_angle,
    "median_nearest_angle": lambda x: nearest_angles(x).median().item(),
    "mean_angle": mean_angle,
    "median_angle": median_angle,
    "spherical_variance": spherical_variance,
    "effective_rank": effective_rank,
    "rankme": rankme,
    "alpha_req": alpha_req,
    "isoscore": isoscore,
    "mean_cosine": mean_cosine,
    "uniformity": uniformity,
}
_MEASURES_OF_VIEWS: dict[str, Callable[[Tensor], float]] = {"alignment": alignment, "lidar": lidar}


class Dispersion(Metric):
    """Measures of all embeddings since the last reset, on all ranks: a dictionary of scalars, angles in radians.

    All embeddings are stored, so memory grows with their number. Ranks may have different numbers of rows, or none.

    Args:
        measures: The names of the measures; by default all except "alignment" and "lidar", which need several views of
            each sample, of shape (samples, views, d). "mean_angle", "median_angle", "uniformity" and the nearest angles
            cost n² d.
        **options: Options of `torchmetrics.Metric`, such as `compute_on_cpu` or `process_group`.
    """

    is_differentiable = False
    full_state_update = False
    values: list[Tensor]
    dimension: Tensor
    views: Tensor

    def __init__(self, *measures: str, **options: Any) -> None:
        super().__init__(**options)
        for name in measures:
            check_choice("a measure", name, _MEASURES | _MEASURES_OF_VIEWS)
        self.measures = measures or tuple(_MEASURES)
        # Flattened, since torchmetrics cannot infer the dimensions of the empty list of a rank without rows.
        self.add_state("values", default=[], dist_reduce_fx="cat")
        self.add_state("dimension", default=torch.tensor(0), dist_reduce_fx="max")
        self.add_state("views", default=torch.tensor(0), dist_reduce_fx="max")

    def update(self, embeddings: Float[Tensor, "n d"] | Float[Tensor, "n views d"]) -> None:
        """Add the nonzero rows of a batch, or the views of its samples."""
        check_points(embeddings, at_least=0)
        if embeddings.ndim > 3:
            raise ValueError(f"expected embeddings of shape (n, d) or (n, views, d), got {tuple(embeddings.shape)}")
        d, views = embeddings.shape[-1], embeddings.shape[1] if embeddings.ndim == 3 else 1
        if self.dimension not in (0, d):
            raise ValueError(f"expected embeddings in {int(self.dimension)} dimensions, as before, got {d}")
        if self.views not in (0, views):
            raise ValueError(f"expected {int(self.views)} views of every sample, as before, got {views}")
        self.dimension, self.views = torch.full_like(self.dimension, d), torch.full_like(self.views, views)
        self.values.append(embeddings.detach().to(self.dtype).flatten())

    def compute(self) -> dict[str, Tensor]:
        """Compute the measures, by name."""
        if self.dimension == 0:
            raise ValueError("expected embeddings, got none; call update(...) before compute()")
        x = dim_zero_cat(self.values).reshape(-1, int(self.dimension))
        if self.views < 2 and not _MEASURES_OF_VIEWS.keys().isdisjoint(self.measures):
            raise ValueError("expected embeddings of shape (samples, views, d) for alignment and lidar, got (n, d)")
        groups = x.reshape(-1, int(self.views), x.shape[1])
        values = {
            name: _MEASURES_OF_VIEWS[name](groups) if name in _MEASURES_OF_VIEWS else _MEASURES[name](x)
            for name in self.measures
        }
        return {name: torch.tensor(value, dtype=self.dtype, device=x.device) for name, value in values.items()}


class CodebookUse(Metric):
    """Usage and perplexity of a codebook over all assignments since the last reset, on all ranks; stores only counts.

    Args:
        codes: The number of codes in the codebook.
        **options: Options of `torchmetrics.Metric`.
    """

    is_differentiable = False
    full_state_update = False
    counts: Tensor

    def __init__(self, codes: int, **options: Any) -> None:
        super().__init__(**options)
        check_count("codes", codes)
        self.codes = codes
        self.add_state("counts", default=torch.zeros(codes, dtype=torch.long), dist_reduce_fx="sum")

    def update(self, indices: Int[Tensor, "*shape"]) -> None:
        """Add the indices of the codes that were assigned in a batch, of any shape."""
        self.counts = self.counts + occurrences(indices.flatten(), self.codes).to(self.counts)

    def compute(self) -> dict[str, Tensor]:
        """Compute ``"usage"``, the share of codes that were used, and ``"perplexity"``."""
        values = {"usage": codebook_usage(counts=self.counts), "perplexity": codebook_perplexity(counts=self.counts)}
        return {name: torch.tensor(value, device=self.counts.device) for name, value in values.items()}
