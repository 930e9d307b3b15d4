"""What an objective keeps for its gradient."""

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor


class Pull(NamedTuple):
    """What `pull_back` makes the gradient of."""

    vectors: Float[Tensor, "*sets n d"] | Float[Tensor, "*sets k 2 n"]
    """The gradient by the embeddings, up to the scale; for `Sliced` its coefficients on the circles."""
    scale: Float[Tensor, "*sets n 1"] | Float[Tensor, "*sets 1 1"] | None = None

    def times(self, factor: Float[Tensor, "*sets"]) -> "Pull":
        """That of the objective times a factor of each set."""
        by_set = factor[..., None, None]
        return Pull(self.vectors, by_set if self.scale is None else self.scale * by_set)
