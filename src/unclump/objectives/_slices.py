"""The base class of objectives of raw embeddings, which are projected onto random directions."""

import torch
from jaxtyping import Float
from torch import Tensor

from unclump._checks import check_count, check_generator, check_points, check_same_dimension, check_table
from unclump._precision import exact_products, full_precision
from unclump.distributed.ranks import Gather
from unclump.geometry.sampling import uniform
from unclump.objectives._base import Objective

Directions = Float[Tensor, "k d"]


class RawObjective(Objective):
    """An objective of raw embeddings, including their norms: lower if they are more like a standard normal sample.

    Unlike in all other objectives, the embeddings are **not** projected onto the sphere. New directions are drawn at
    every call; the sets of one call share them.
    """

    needs_directions = False
    slices: int
    generator: torch.Generator | None

    def __init__(self, slices: int, generator: torch.Generator | None, gather: Gather) -> None:
        super().__init__(gather=gather)
        check_count("slices", slices)
        check_generator(generator)
        self.slices, self.generator = slices, generator

    def draw(self, embeddings: Float[Tensor, "*sets n d"]) -> Directions:
        """Uniformly random directions, with the dimension, dtype and device of the embeddings."""
        d, dtype, device = embeddings.shape[-1], embeddings.dtype, embeddings.device
        return uniform(self.slices, d, generator=self.generator, dtype=dtype, device=device)

    def with_directions(self, embeddings: Float[Tensor, "*sets n d"], directions: Directions) -> Float[Tensor, "*sets"]:
        """The objective with these directions instead of random ones."""
        check_points(embeddings, at_least=0)
        check_table(directions)
        check_same_dimension(embeddings, directions, "directions")
        return self.with_draw(embeddings, directions.to(full_precision(embeddings).dtype))


def inner_products(x: Float[Tensor, "*sets n d"], directions: Directions) -> Float[Tensor, "*sets n k"]:
    """The inner products of the rows with the directions."""
    with exact_products(x.device):
        return x @ directions.mT


def pull_back_products(coordinates: Float[Tensor, "*sets n k"], directions: Directions) -> Float[Tensor, "*sets n d"]:
    """The gradient with respect to the rows, from that with respect to their inner products."""
    with exact_products(coordinates.device):
        return coordinates @ directions
