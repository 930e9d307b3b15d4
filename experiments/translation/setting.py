"""What a training is made of, apart from its row, its seed and what is tuned."""

from dataclasses import asdict, dataclass, field, fields


@dataclass(frozen=True)
class Setting:
    """The model, the batches and the steps; defaults are those for Multi30k on one core."""

    d: int = 128
    embedding: int | None = None
    """The dimension of the embeddings of both languages, where it is another than d."""
    layers: int = 2
    heads: int = 4
    feed_forward: int = 512
    dropout: float = 0.1
    smoothing: float = 0.1
    """Of labels, in discrete models."""
    continuous_loss: str = "cosine"
    """Of continuous ones: "cosine" or "vmf"."""
    batch_tokens: int = 1000
    """In a batch, padding included, of the longer language."""
    accumulate: int = 1
    """Batches in an update."""
    lr: float = 2e-3
    """Of all weights but the decoder's table."""
    warmup: float = 0.1
    """The part of all updates until the rates are at their height; then they fall."""
    schedule: str = "linear"
    """How: "linear" to zero, or "inverse_sqrt" of the number of the update."""
    precision: str = "float32"
    """Of the matrix products of a training: "float32" or "bfloat16". Weights and losses are float32 in both."""
    clip: float = 1.0
    """The largest norm of the translation loss's gradient; the regulariser's is added after."""
    validations: int = 1
    """How often, evenly spaced, BLEU on the validation set chooses the weights that are kept. 1 keeps the last."""
    beam: int = 5
    offline_epochs: int = 500
    """Of dispersion before training continuous output."""
    offline_lr: float = 5e-3
    watch: list = field(default_factory=lambda: [0.0, 0.08, 0.16, 0.24, 0.4, 0.64, 0.8, 1.0])
    """When the table is looked at, as parts of the training: the paper's steps of 50,000, the first and the last."""

    def __post_init__(self):
        for name, choices in (
            ("continuous_loss", ("cosine", "vmf")),
            ("schedule", ("linear", "inverse_sqrt")),
            ("precision", ("float32", "bfloat16")),
        ):
            if getattr(self, name) not in choices:
                raise ValueError(f"expected {name} to be {' or '.join(choices)}, got {getattr(self, name)!r}")
        for name in ("d", "layers", "heads", "feed_forward", "batch_tokens", "accumulate", "validations", "beam"):
            if getattr(self, name) < 1:
                raise ValueError(f"expected {name} >= 1, got {getattr(self, name)!r}")
        if self.embedding is not None and self.embedding < 1:
            raise ValueError(f"expected embedding >= 1, or null for that of d, got {self.embedding!r}")
        if not 0 <= self.warmup < 1:
            raise ValueError(f"expected warmup as a part of all updates, 0 <= warmup < 1, got {self.warmup!r}")
        if self.d % (2 * self.heads):
            raise ValueError(f"expected d to be a multiple of twice the heads, got {self.d} and {self.heads}")

    def factor(self, update, updates):
        """Of the learning rates at an update, counted from 0."""
        height = max(1, round(self.warmup * updates))
        if update < height:
            return (update + 1) / height
        if self.schedule == "inverse_sqrt":
            return (height / (update + 1)) ** 0.5
        return (updates - update) / (updates - height + 1)

    def sizes(self):
        """Of the model."""
        return {name: getattr(self, name) for name in ("d", "embedding", "layers", "heads", "feed_forward", "dropout")}

    def as_dict(self):
        return asdict(self)

    @classmethod
    def of(cls, choices):
        """From the choices with the names of its own, among others."""
        return cls(**{one.name: choices[one.name] for one in fields(cls) if one.name in choices})
