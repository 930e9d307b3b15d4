"""What an objective saves for its backward pass."""

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor


class Pull(NamedTuple):
    """The data from which `pull_back` computes the gradient."""

    vectors: Float[Tensor, "*sets n d"] | Float[Tensor, "*sets k 2 n"]
    """The gradient with respect to the embeddings, up to the scale; for `Sliced`, its coefficients on the circles."""
    scale: Float[Tensor, "*sets n 1"] | Float[Tensor, "*sets 1 1"] | None = None

    def over(self, total: Float[Tensor, "*sets"] | float) -> "Pull":
        """The gradient data of the objective divided by a total for each set; there must be a scale."""
        assert self.scale is not None
        return Pull(self.vectors, self.scale / (total[..., None, None] if isinstance(total, Tensor) else total))

    def times(self, factor: Float[Tensor, "*sets"]) -> "Pull":
        """The gradient data of the objective times a factor for each set."""
        by_set = factor[..., None, None]
        return Pull(self.vectors, by_set if self.scale is None else self.scale * by_set)
