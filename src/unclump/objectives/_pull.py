"""What an objective saves for its backward pass."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor


class Pull(NamedTuple):
    """The data from which `pull_back` computes the gradient."""

    vectors: Float[Tensor, "*sets n d"] | Float[Tensor, "*sets k 2 n"]
    """The gradient with respect to the embeddings, up to the scale; for `Sliced`, its coefficients on the circles."""
    scale: Float[Tensor, "*sets n 1"] | Float[Tensor, "*sets 1 1"] | None = None

    def to(self, dtype: torch.dtype) -> "Pull":
        """The gradient data in this precision."""
        return Pull((self.vectors if self.scale is None else self.vectors * self.scale).to(dtype))

    def zero_where(self, is_zero: Bool[Tensor, "*sets"]) -> "Pull":
        """The gradient data, zero for these sets."""
        by_set = is_zero[..., None, None]
        scale = self.vectors.new_ones(by_set.shape) if self.scale is None else self.scale
        return self._replace(scale=scale.masked_fill(by_set, 0))

    def over(self, total: Float[Tensor, "*sets"] | float) -> "Pull":
        """The gradient data of the objective divided by a total for each set; there must be a scale."""
        assert self.scale is not None
        if isinstance(total, Tensor) and total.ndim > 0:
            total = total[..., None, None]
        return Pull(self.vectors, self.scale / total)

    def times(self, factor: Float[Tensor, "*sets"]) -> "Pull":
        """The gradient data of the objective times a factor for each set."""
        by_set = factor[..., None, None]
        return Pull(self.vectors, by_set if self.scale is None else self.scale * by_set)
