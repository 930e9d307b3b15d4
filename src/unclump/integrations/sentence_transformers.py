"""sentence-transformers (extra `[sentence-transformers]`): a loss that keeps the sentences of a batch apart."""

from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from unclump.integrations._penalty import check_term
from unclump.integrations._required import required
from unclump.objectives import Objective

with required("sentence-transformers"):
    from sentence_transformers import SentenceTransformer


class DispersionLoss(nn.Module):
    r"""Another loss, plus the dispersion of the embeddings that it computes.

    .. math:: \ell + \frac{w}{c} \sum_{k=1}^c f(\text{column}_k)

    Every column, such as anchors and positives, is dispersed by itself: a positive is to stay with its anchor. What
    repeats a sentence in a batch is pushed apart as well, so batch samplers without duplicates fit best. In evaluation
    the other loss counts alone, so that losses remain comparable.

    Args:
        model: The model that the other loss trains.
        loss: Any that embeds each column once. Those that cache gradients embed without any, and are refused. To
            combine with `MatryoshkaLoss`, give it this one: every size is then dispersed.
        objective: Of one batch of sentences. With ``gather=True`` the sentences of all ranks take part.
        weight: How much it counts.
    """

    def __init__(self, model: SentenceTransformer, loss: nn.Module, objective: Objective, *, weight: float) -> None:
        super().__init__()
        self.model, self.loss = model, loss
        check_term(objective, weight)
        self.objective, self.weight = objective, weight

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None) -> Float[Tensor, ""]:
        """The sum of both; only the other loss in evaluation, or where there are fewer than two sentences."""
        if not self.model.training:
            value: Tensor = self.loss(sentence_features, labels)
            return value
        columns, seen = list(sentence_features), list[Tensor]()
        hook = self.model.register_forward_hook(lambda *call: seen.append(call[-1]["sentence_embedding"]))
        try:
            value = self.loss(columns, labels)
        finally:
            hook.remove()
        apart = [self.objective(column) for column in self._columns(seen, len(columns)) if self._is_enough(column)]
        return value + self.weight * torch.stack(apart).mean() if apart else value

    def _columns(self, seen: list[Tensor], count: int) -> list[Tensor]:
        """The embeddings of each column: several may have gone through the model as one batch, one after the other."""
        rows, left_over = divmod(sum(map(len, seen)), count)
        if left_over or any(len(batch) % max(rows, 1) for batch in seen):
            raise ValueError(
                f"expected a loss that embeds each of {count} columns once, got batches of {[*map(len, seen)]} "
                f"sentences from {type(self.loss).__name__}; give this loss to the one that embeds more often"
            )
        if torch.is_grad_enabled() and not all(batch.requires_grad for batch in seen):
            raise ValueError(
                f"expected a loss that embeds with gradients, got {type(self.loss).__name__}, which caches them; "
                "choose one that does not, such as MultipleNegativesRankingLoss"
            )
        return [column for batch in seen for column in torch.split(batch, max(rows, 1))]

    def _is_enough(self, column: Tensor) -> bool:
        return len(column) > 1 or self.objective.gather is not False  # all ranks must make the same calls

    def get_config_dict(self) -> dict[str, Any]:
        """For the model card."""
        return {
            "loss": type(self.loss).__name__,
            "objective": str(self.objective),
            "weight": self.weight,
        }
