"""Hugging Face transformers (extra `[transformers]`): keep the rows of a model's input embedding apart, and watch them.

Two ways to regularise. `dispersion_loss` is a `compute_loss_func` for any `Trainer`; `DispersionMixin` makes a trainer
that adds the term to whatever loss the model computes, for models whose loss is no plain cross-entropy of their logits.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from unclump.integrations._histograms import send_histogram
from unclump.integrations._penalty import Penalty
from unclump.integrations._required import required
from unclump.integrations._watch import LEAST, Alarm, Watch
from unclump.objectives import Objective

with required("transformers"):
    from transformers import PreTrainedModel, Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
    from transformers.loss.loss_utils import LOSS_MAPPING, ForCausalLMLoss
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

LossFunction = Callable[..., Tensor]


def input_embedding(model: nn.Module) -> tuple[Tensor, int | None]:
    """The table that the model, or the first within it, looks its tokens up in; and the number of its padding row."""
    lookups = (getattr(part, "get_input_embeddings", None) for part in model.modules())
    found = next((lookup() for lookup in lookups if lookup is not None), None)
    table = getattr(found, "weight", None)
    if not isinstance(table, Tensor) or table.ndim != 2:
        raise ValueError(
            f"expected a model with a table of input embeddings, got {type(model).__name__}, whose inputs go through "
            f"{type(found).__name__}; pass a model of tokens"
        )
    return table, getattr(found, "padding_idx", None)


def dispersion_loss(
    model: PreTrainedModel,
    objective: Objective,
    *,
    weight: float,
    rows: int | None = None,
    loss: LossFunction | None = None,
    generator: torch.Generator | None = None,
) -> LossFunction:
    """A `compute_loss_func` for `Trainer`: the model's loss, plus the dispersion of its input embedding.

    The term counts once in a step, however many batches' gradients are accumulated and on however many devices; in
    evaluation it does not count at all, so that losses remain comparable. The padding row does not take part.

    Where batches have no "labels", as in the answering of questions, the trainer counts no items (`num_items_in_batch`
    is None) and does not divide what a `compute_loss_func` returns: in a step of k accumulated batches, the loss and
    the term each count k times. `DispersionMixin` counts once there too.

    Args:
        model: A masked or causal language model, or a classifier of sequences or tokens; any with `loss`. The very
            one that is trained: where the trainer makes it (`model_init`), use `DispersionMixin`.
        objective: Of the whole table: `Sliced` is cheap there. Pairwise objectives cost n² d, see `rows`.
        weight: How much it counts in the loss.
        rows: How many rows, drawn anew for each batch, take part; None for all.
        loss: The model's loss, as a `compute_loss_func` has it: ``loss(outputs, labels, num_items_in_batch=...)``.
        generator: For the draw of rows.
    """
    penalty, task = _penalty(model, objective, weight, rows, generator), loss or _own_loss(model)

    def total(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> Tensor:
        value: Tensor = task(outputs, labels, num_items_in_batch=num_items_in_batch)
        if not model.training:
            return value
        return value + _share(model, labels, num_items_in_batch) * penalty(*input_embedding(model))

    return total


class DispersionMixin:
    """Before any `Trainer`: whatever its loss is, plus the dispersion of the model's input embedding.

    Example::

        class DispersionTrainer(DispersionMixin, Seq2SeqTrainer): ...


        trainer = DispersionTrainer(model, args, train_dataset=data, objective=unclump.Sliced(13), weight=0.1)

    Args:
        *arguments: Those of the trainer.
        objective: As for `dispersion_loss`, and so are the others.
        weight: How much it counts in the loss.
        rows: How many rows take part; None for all.
        generator: For the draw of rows.
        **options: Those of the trainer.
    """

    def __init__(
        self,
        *arguments: Any,
        objective: Objective,
        weight: float,
        rows: int | None = None,
        generator: torch.Generator | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self._penalty = _penalty(self.model, objective, weight, rows, generator)  # type: ignore[attr-defined]

    def compute_loss(
        self: Any, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The trainer's loss, and in training the term beside it."""
        found = super().compute_loss(model, inputs, return_outputs=True, num_items_in_batch=num_items_in_batch)  # type: ignore[misc]
        value, outputs = found
        if model.training:
            value = value + self._share(num_items_in_batch) * self._penalty(*input_embedding(self.model))
        return (value, outputs) if return_outputs else value

    def _share(self: Any, num_items_in_batch: Any) -> float:
        """One, or where the trainer leaves the mean over a step's batches to the loss, one of so many."""
        scaled = getattr(self, "loss_is_scaled_for_ga", None)  # which not every version has
        if scaled is None:
            by_model = self.model_accepts_loss_kwargs and num_items_in_batch is not None
            scaled = by_model or self.compute_loss_func is not None
        return 1 / self.current_gradient_accumulation_steps if scaled else 1.0


class DispersionCallback(TrainerCallback):
    """Logs the measures of the input embedding, and warns or stops when it collapses.

    At the start and every so many steps, through `Trainer.log`, so that every program that the trainer reports to gets
    them: ``embedding/min_angle``, ``embedding/median_nearest_angle`` (radians), ``embedding/spherical_variance``,
    ``embedding/effective_rank`` and ``embedding/rank_share``, the effective rank as a share of min(n, d). TensorBoard
    and W&B also get a histogram, ``embedding/nearest_angles``.

    Args:
        trainer: Whose log it is: ``trainer.add_callback(DispersionCallback(trainer))``.
        every: How many optimiser steps lie between two looks.
        rows: How many rows the nearest angles are taken among, None for all. It costs rows² d.
        least: The smallest value that each of some measures may have; a table below one of them has collapsed, and so
            has one with rows that are NaN. A share of rank is at least 1 / min(n, d): in ten dimensions or fewer, its
            bound of 0.1 never rings, and wants to be larger.
        on_collapse: "warn" warns once for each collapse, "stop" ends the training as well.
    """

    def __init__(
        self,
        trainer: Trainer,
        *,
        every: int = 100,
        rows: int | None = 4096,
        least: Mapping[str, float] = LEAST,
        on_collapse: str = "warn",
    ) -> None:
        input_embedding(trainer.model)
        self.trainer, self.watch, self._alarm = trainer, Watch(every, rows, least, on_collapse), Alarm(on_collapse)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **options: Any
    ) -> None:
        """Look at the table as training finds it; that it has collapsed before is no reason to stop."""
        self._look(state, control)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **options: Any
    ) -> None:
        """Look when it is time."""
        if state.global_step % self.watch.every == 0 and self._look(state, control):
            control.should_training_stop = True

    def _look(self, state: TrainerState, control: TrainerControl) -> bool:
        seen, step = self.watch.look(*input_embedding(self.trainer.model)), state.global_step
        due = control.should_log
        if seen.measures:
            self.trainer.log({f"embedding/{name}": value for name, value in seen.measures.items()})
        control.should_log = due  # a log of ours is not the one that the trainer is about to write
        if state.is_world_process_zero:
            for writer in map(_writer, self.trainer.callback_handler.callbacks):
                send_histogram(writer, "embedding/nearest_angles", seen.nearest, step, step_name="train/global_step")
        return self._alarm.rings("the input embedding", step, seen.collapse)


def _penalty(
    model: PreTrainedModel, objective: Objective, weight: float, rows: int | None, generator: torch.Generator | None
) -> Penalty:
    penalty = Penalty(objective, weight, rows, generator)
    if not input_embedding(model)[0].requires_grad:
        raise ValueError(
            "expected an input embedding that is trained, got one with requires_grad=False, which nothing would move; "
            "unfreeze it, or leave the regulariser out"
        )
    return penalty


def _own_loss(model: PreTrainedModel) -> LossFunction:
    """The loss that the model computes where it is given labels, of its logits."""
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
            raise ValueError("expected labels in the batch, got none; the collator is to make them")
        logits = outputs["logits"] if isinstance(outputs, dict) else outputs[0]
        if kind == "ForSequenceClassification":  # which may be a regression, always a mean over the batch
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
    """The part of a step's items, as the trainer counts them, that is in a batch of these labels."""
    if num_items_in_batch is None:
        return 1.0
    causal = LOSS_MAPPING.get(getattr(model, "loss_type", None)) is ForCausalLMLoss
    if causal and not _is_encoder_decoder(model):
        labels = labels[..., 1:]  # nothing comes before the first of a row, which is thus no item
    share: Tensor = labels.ne(-100).sum() / num_items_in_batch
    return share


def _is_encoder_decoder(model: PreTrainedModel) -> bool:
    return bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))


def _writer(callback: TrainerCallback) -> Any:
    """What a reporting callback writes to: TensorBoard's writer, or the run of W&B."""
    wandb = getattr(callback, "_wandb", None)
    return getattr(callback, "tb_writer", None) if wandb is None else wandb.run
