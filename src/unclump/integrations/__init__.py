"""Adapters for training frameworks. Each needs its extra to be installed, and is imported explicitly.

- `unclump.integrations.lightning`: a callback that monitors a table, and a mixin that regularises it.
- `unclump.integrations.transformers`: the same for the input embedding of a Hugging Face model and its `Trainer`.
- `unclump.integrations.sentence_transformers`: a loss that disperses the sentences of a batch.
- `unclump.integrations.torchmetrics`: the measures as a metric that accumulates batches on all ranks.
"""
