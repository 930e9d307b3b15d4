"""What all objectives have in common: the door, the projection and the way they print."""

from jaxtyping import Float
from torch import Tensor, nn

from unclump._checks import check_points
from unclump.sphere import project


class Objective(nn.Module):
    """A scalar of raw embeddings, lower where they are more dispersed. They are projected onto the sphere first."""

    choices: tuple[str, ...] = ()
    """The names of the attributes that were chosen at birth."""

    def forward(self, embeddings: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
        check_points(embeddings, at_least=2)
        return self.value(project(embeddings))

    def value(self, x: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
        """The objective of points on the sphere."""
        raise NotImplementedError

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self.choices)
