"""Hugging Face transformers (extra `[transformers]`): disperse and monitor the input embedding of a model.

Two ways to regularise: `dispersion_loss` is a `compute_loss_func` for any `Trainer`; `DispersionMixin` makes a
trainer that adds the term to the model's own loss, for models whose loss is not a plain cross-entropy of their logits.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from unclump.integrations._extras import require_extra
from unclump.integrations._monitor import DEFAULT_LEAST, MEASURES, CollapseAlarm, TableMonitor, send_histogram
from unclump.integrations._penalty import Penalty, Weight, check_weight
from unclump.objectives import Objective

with require_extra("transformers"):
    from transformers import PreTrainedModel, Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
    from transformers.loss.loss_utils import LOSS_MAPPING, ForCausalLMLoss
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

LossFunction = Callable[..., Tensor]


def input_embedding(model: nn.Module) -> tuple[Tensor, int | None]:
    """Return the token embedding table of the model, or of the first submodule that has one, and its `padding_idx`."""
    getters = (getattr(module, "get_input_embeddings", None) for module in model.modules())
    embedding = next((getter() for getter in getters if getter is not None), None)
    table = getattr(embedding, "weight", None)
    if not isinstance(table, Tensor) or table.ndim != 2:
        raise ValueError(
            f"expected a model with a table of input embeddings, got {type(model).__name__}, whose inputs go through "
            f"{type(embedding).__name__}; pass a model of tokens"
        )
    return table, getattr(embedding, "padding_idx", None)


def dispersion_loss(
    model: PreTrainedModel,
    objective: Objective,
    *,
    weight: float,
    rows: int | None = None,
    loss: LossFunction | None = None,
    generator: torch.Generator | None = None,
) -> LossFunction:
    """Make a `compute_loss_func` for `Trainer`: the model's loss, plus the dispersion of its input embedding.

    The term counts once per step, for any number of accumulated batches and devices; in evaluation it does not count,
    so that losses remain comparable. The padding row is ignored.

    If batches have no "labels", as in question answering, the trainer does not count items (`num_items_in_batch` is
    None) and does not divide what a `compute_loss_func` returns: in a step of k accumulated batches, the loss and the
    term each count k times. With `DispersionMixin` they count once in this case too.

    Args:
        model: A masked or causal language model, or a classifier of sequences or tokens; any model if `loss` is given.
            It must be the one that is trained, which the first loss of a training checks as far as it can: not under
            FSDP. If the trainer creates the model (`model_init`), use `DispersionMixin`.
        objective: The objective of the whole table: `Sliced` is cheap. Pairwise objectives cost n² d, see `rows`.
        weight: The weight of the term in the loss.
        rows: The number of rows drawn for each batch; None for all.
        loss: The model's loss as a `compute_loss_func`: ``loss(outputs, labels, num_items_in_batch=...)``.
        generator: Draws the rows.
    """
    check_weight(weight)
    penalty, model_loss = _make_penalty(model, objective, weight, rows, generator), loss or _default_loss(model)
    is_checked = False

    def compute_loss(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> Tensor:
        nonlocal is_checked
        value: Tensor = model_loss(outputs, labels, num_items_in_batch=num_items_in_batch)
        if value.requires_grad and not is_checked:
            _check_trained(model, value)
            is_checked = True
        if not model.training:
            return value
        return value + _share(model, labels, num_items_in_batch) * penalty(*input_embedding(model))

    return compute_loss


class DispersionMixin:
    """Mixin for any `Trainer`: adds the dispersion of the model's input embedding to its loss.

    Example::

        class DispersionTrainer(DispersionMixin, Seq2SeqTrainer): ...


        trainer = DispersionTrainer(model, args, train_dataset=data, objective=unclump.Sliced(13), weight=0.1)

    Args:
        *arguments: Arguments of the trainer.
        objective: The objective of the whole table, as for `dispersion_loss`.
        weight: The weight of the term in the loss: a number, or a function of the number of optimiser steps, such as
            ``lambda step: 0.1 * min(1.0, step / 1000)`` for a warm-up.
        rows: The number of rows drawn for each batch; None for all.
        generator: Draws the rows.
        **options: Options of the trainer.
    """

    def __init__(
        self,
        *arguments: Any,
        objective: Objective,
        weight: Weight,
        rows: int | None = None,
        generator: torch.Generator | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self._penalty = _make_penalty(self.model, objective, weight, rows, generator)  # type: ignore[attr-defined]

    def compute_loss(
        self: Any, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return the trainer's loss, plus the term in training."""
        result = super().compute_loss(model, inputs, return_outputs=True, num_items_in_batch=num_items_in_batch)  # type: ignore[misc]
        value, outputs = result
        if model.training:
            value = value + self._share(num_items_in_batch) * self._penalty(
                *input_embedding(self.model), step=self.state.global_step
            )
        return (value, outputs) if return_outputs else value

    def _share(self: Any, num_items_in_batch: Any) -> float:
        """Return 1, or 1 / k if the trainer expects the loss to average over k accumulated batches."""
        is_scaled = getattr(self, "loss_is_scaled_for_ga", None)  # not in every version
        if is_scaled is None:
            by_model = self.model_accepts_loss_kwargs and num_items_in_batch is not None
            is_scaled = by_model or self.compute_loss_func is not None
        return 1 / self.current_gradient_accumulation_steps if is_scaled else 1.0


class DispersionCallback(TrainerCallback):
    """Logs the measures of the input embedding, and warns or stops when it collapses.

    At the start and every `every` steps, it logs through `Trainer.log`, which reaches all trackers of the trainer:
    ``embedding/min_angle``, ``embedding/median_nearest_angle`` (radians), ``embedding/spherical_variance``,
    ``embedding/effective_rank`` and ``embedding/rank_share``, the effective rank divided by min(n, d). TensorBoard and
    W&B also get a histogram, ``embedding/nearest_angles``.

    Args:
        trainer: The trainer to log to: ``trainer.add_callback(DispersionCallback(trainer))``.
        every: The number of optimiser steps between measurements.
        rows: The number of rows to sample for nearest angles, None for all. The cost is rows² d.
        least: Thresholds by measure: a table with a measure below its threshold has collapsed, and so has one with NaN
            in its rows. `rank_share` is at least 1 / min(n, d): in ten dimensions or fewer, its default threshold of
            0.1 never triggers, and should be larger.
        on_collapse: "warn" warns once for each collapse, "stop" also stops the training.
        measures: The names of the measures to log instead of these five, in addition to those in `least`; also
            available are "rankme", "alpha_req", "isoscore", "mean_cosine", and "uniformity" of the sampled rows.
    """

    def __init__(
        self,
        trainer: Trainer,
        *,
        every: int = 100,
        rows: int | None = 4096,
        least: Mapping[str, float] = DEFAULT_LEAST,
        on_collapse: str = "warn",
        measures: Sequence[str] = MEASURES,
    ) -> None:
        input_embedding(trainer.model)
        self.trainer, self.monitor = trainer, TableMonitor(every, rows, least, on_collapse, measures)
        self._alarm = CollapseAlarm(on_collapse)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **options: Any
    ) -> None:
        """Measure the initial table; a table that starts collapsed does not stop the training."""
        self._measure(state, control)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **options: Any
    ) -> None:
        """Measure every `every` steps."""
        if state.global_step % self.monitor.every == 0 and self._measure(state, control):
            control.should_training_stop = True

    def _measure(self, state: TrainerState, control: TrainerControl) -> bool:
        snapshot, step = self.monitor.measure(*input_embedding(self.trainer.model)), state.global_step
        should_log = control.should_log
        if snapshot.measures:
            self.trainer.log({f"embedding/{name}": value for name, value in snapshot.measures.items()})
        control.should_log = should_log  # our call to log resets it, and would suppress the trainer's own
        if state.is_world_process_zero:
            for writer in map(_writer, self.trainer.callback_handler.callbacks):
                name = "embedding/nearest_angles"
                send_histogram(writer, name, snapshot.nearest, step, step_name="train/global_step")
        return self._alarm.update("the input embedding", step, snapshot.collapse)


def _make_penalty(
    model: PreTrainedModel, objective: Objective, weight: Weight, rows: int | None, generator: torch.Generator | None
) -> Penalty:
    penalty = Penalty(objective, weight, rows, generator)
    if not input_embedding(model)[0].requires_grad:
        raise ValueError(
            "expected a trainable input embedding, got one with requires_grad=False, on which the term has no effect; "
            "unfreeze it, or remove the regulariser"
        )
    return penalty


def _check_trained(model: nn.Module, value: Tensor) -> None:
    """Raise if the loss is that of another model, on which a term of this one's table has no effect.

    Parameters that are sharded are not those of the graph: DTensors are left alone, and FSDP's flat ones, too.
    """
    own = set(model.parameters())
    leaves = set(_leaves(value))
    is_sharded = any(hasattr(parameter, "device_mesh") for parameter in own)
    if not is_sharded and own.isdisjoint(leaves) and any(leaf.ndim > 1 for leaf in leaves):
        raise ValueError(
            f"expected the loss of the {type(model).__name__} that dispersion_loss was given, got that of a model with "
            "other parameters; pass the model that is trained, or use DispersionMixin, which takes the trainer's"
        )


def _leaves(value: Tensor) -> Iterator[Tensor]:
    """Yield the tensors that get a gradient from the value."""
    waiting, seen = [value.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [following for following, _ in node.next_functions]
            if isinstance(leaf := getattr(node, "variable", None), Tensor):
                yield leaf


def _default_loss(model: PreTrainedModel) -> LossFunction:
    """Return the loss that the model computes from its logits if it gets labels."""
    kind, config = getattr(model, "loss_type", None), cast(Any, getattr(model, "config", None))
    if kind is None and type(model).__name__ in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values():  # such as GPT2LMHeadModel
        kind = "ForCausalLM"
    if kind not in _KINDS or _is_encoder_decoder(model):
        raise ValueError(
            f"expected a model whose loss follows from its logits ({', '.join(_KINDS)}), got {type(model).__name__}; "
            "pass loss=..., or let the model compute it: see DispersionMixin"
        )

    def loss(outputs: Any, labels: Tensor | None, *, num_items_in_batch: Any = None) -> Tensor:
        if labels is None:
            raise ValueError("expected labels in the batch, got none; use a collator that adds them")
        logits = outputs["logits"] if isinstance(outputs, dict) else outputs[0]
        if kind == "ForSequenceClassification":  # perhaps a regression, and always a mean over the batch
            mean: Tensor = model.loss_function(labels=labels, pooled_logits=logits, config=config)
            return _share(model, labels, num_items_in_batch) * mean
        value: Tensor = model.loss_function(
            logits=logits,
            labels=labels,
            vocab_size=config.get_text_config().vocab_size,
            config=config,
            num_items_in_batch=num_items_in_batch,
        )
        return value

    return loss


_KINDS = ("ForMaskedLM", "ForCausalLM", "ForTokenClassification", "ForSequenceClassification")


def _share(model: PreTrainedModel, labels: Any, num_items_in_batch: Any) -> Tensor | float:
    """Return the fraction of a step's items, as the trainer counts them, that is in the batch with these labels."""
    if num_items_in_batch is None:
        return 1.0
    is_causal = LOSS_MAPPING.get(getattr(model, "loss_type", None)) is ForCausalLMLoss
    if is_causal and not _is_encoder_decoder(model):
        labels = labels[..., 1:]  # the first token of a row is not predicted, and so not an item
    share: Tensor = labels.ne(-100).sum() / num_items_in_batch
    return share


def _is_encoder_decoder(model: PreTrainedModel) -> bool:
    return bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))


def _writer(callback: TrainerCallback) -> Any:
    """Return what a reporting callback writes to: a TensorBoard writer or a W&B run."""
    wandb = getattr(callback, "_wandb", None)
    return getattr(callback, "tb_writer", None) if wandb is None else wandb.run
