"""sentence-transformers (extra `[sentence-transformers]`): a loss that keeps the sentences of a batch apart."""

from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from unclump.integrations._extras import require_extra
from unclump.integrations._penalty import check_term, check_weight
from unclump.objectives import Objective

with require_extra("sentence-transformers"):
    from sentence_transformers import SentenceTransformer


class DispersionLoss(nn.Module):
    r"""Any other loss, plus the dispersion of the embeddings that it computes.

    .. math:: \ell + \frac{w}{c} \sum_{k=1}^c f(\text{column}_k)

    Every column, such as anchors and positives, is dispersed separately, so that a positive may stay near its anchor.
    Repeated sentences in a batch are pushed apart too, so batch samplers without duplicates work best. In evaluation
    only the other loss counts, so that losses remain comparable.

    Args:
        model: The model that the other loss trains.
        loss: Any loss that embeds each column once. Losses that cache gradients embed without gradients, and raise an
            error. To combine with `MatryoshkaLoss`, wrap this loss in it: every dimension is then dispersed.
        objective: The objective of one batch of sentences. With ``gather=True``, the sentences of all ranks take part.
        weight: The weight of the dispersion.
    """

    def __init__(self, model: SentenceTransformer, loss: nn.Module, objective: Objective, *, weight: float) -> None:
        super().__init__()
        self.model, self.loss = model, loss
        check_term(objective, weight)
        check_weight(weight)
        self.objective, self.weight = objective, weight

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None) -> Float[Tensor, ""]:
        """Return the sum; only the other loss in evaluation, or with fewer than two sentences."""
        if not self.model.training:
            value: Tensor = self.loss(sentence_features, labels)
            return value
        columns, batches = list(sentence_features), list[Tensor]()
        hook = self.model.register_forward_hook(lambda *call: batches.append(call[-1]["sentence_embedding"]))
        try:
            value = self.loss(columns, labels)
        finally:
            hook.remove()
        embeddings = self._split_columns(batches, len(columns))
        terms = [self.objective(column) for column in embeddings if self._has_enough_rows(column)]
        return value + self.weight * torch.stack(terms).mean() if terms else value

    def _split_columns(self, batches: list[Tensor], count: int) -> list[Tensor]:
        """Split batches into the embeddings of each column: a batch may contain several columns, consecutively."""
        rows, remainder = divmod(sum(map(len, batches)), count)
        if remainder or any(len(batch) % max(rows, 1) for batch in batches):
            raise ValueError(
                f"expected a loss that embeds each of {count} columns once, got batches of {[*map(len, batches)]} "
                f"sentences from {type(self.loss).__name__}; wrap this loss in the one that embeds more often"
            )
        if torch.is_grad_enabled() and not all(batch.requires_grad for batch in batches):
            raise ValueError(
                f"expected a loss that embeds with gradients, got {type(self.loss).__name__}, which caches them; "
                "choose one that does not, such as MultipleNegativesRankingLoss"
            )
        return [column for batch in batches for column in torch.split(batch, max(rows, 1))]

    def _has_enough_rows(self, column: Tensor) -> bool:
        return len(column) > 1 or self.objective.gather is not False  # all ranks must make the same calls

    def get_config_dict(self) -> dict[str, Any]:
        """Return the configuration for the model card."""
        return {
            "loss": type(self.loss).__name__,
            "objective": str(self.objective),
            "weight": self.weight,
        }
