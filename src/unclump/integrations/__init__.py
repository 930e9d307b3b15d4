"""Adapters to the frameworks people train with. Each needs its extra, and is imported by its own name.

- `unclump.integrations.lightning`: a callback that watches a table, and a mixin that regularises it.
- `unclump.integrations.transformers`: the same for the input embedding of a Hugging Face model and its `Trainer`.
- `unclump.integrations.sentence_transformers`: a loss that disperses the sentences of a batch.
- `unclump.integrations.torchmetrics`: the measures as a metric that collects batches on all ranks.
"""
