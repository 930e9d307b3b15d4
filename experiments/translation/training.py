"""The training of one row: update by update, and again from where it was.

Everything drawn in an update (dropout, tokens and circles of the regulariser) is a function of the seed and of the
update's number, and so is the order of the batches: a state is weights, optimiser and a number.
"""

import hashlib
import json
import math
import time

import torch
from _common import generator
from torch.nn.utils import clip_grad_norm_
from tqdm import tqdm

import unclump as uc
from translation.batches import make_batches
from translation.model import Translator
from translation.rows import penalty
from translation.saved import read_state, write_whole
from translation.scores import bleu
from translation.search import translate
from translation.setting import Setting
from translation.tokens import along_frequency, dispersion, gradient_norms, loss_of


class Training:
    """A model, its optimiser and what was seen on the way.

    Args:
        text: To learn from and to choose by.
        row: Where the table lives and what keeps it apart.
        setting: Everything else.
        seed: Of the start, the batches and all draws.
        updates: How many in all.
        table_lr: The rate of the decoder's table; on the sphere about the angle that a row turns in an update.
        weight: Of the regulariser.
        table: Frozen embeddings, for continuous output.
        watched: Whether gradients and nearest angles are kept along the frequency of tokens.
    """

    def __init__(
        self, text, row, setting=None, *, seed=0, updates=4000, table_lr=2e-3, weight=0.0, table=None, watched=False
    ):
        self.text, self.row, self.setting, self.seed = text, row, setting or Setting(), seed
        self.updates, self.weight, self.watched, self.update = updates, weight, watched, 0
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.identity = {
            **self.setting.as_dict(),
            "row": str(row),
            "seed": seed,
            "updates": updates,
            "table_lr": table_lr,
            "weight": weight,
            "pairs": len(text.train),
            "vocabulary": hashlib.sha256(text.vocabulary.model).hexdigest()[:16],
            "table": None if table is None else hashlib.sha256(table.cpu().numpy().tobytes()).hexdigest()[:16],
        }
        with torch.random.fork_rng():
            torch.manual_seed(generator(seed, 1).initial_seed())
            self.model = Translator(
                len(text.vocabulary),
                **self.setting.sizes(),
                continuous=row.origin is not None,
                generator=generator(seed, 2),
            ).to(self.device)
        if table is not None:
            self.model.table.data = table.to(self.device, torch.float32)
            self.model.table.requires_grad_(False)
        elif row.sphere:
            self.model.table.data = uc.project(self.model.table.data)
        others = [p for name, p in self.model.named_parameters() if name != "table"]
        groups = [{"params": others, "sphere": False, "lr": self.setting.lr}]
        if table is None:
            groups.append({"params": [self.model.table], "sphere": row.sphere, "lr": table_lr})
        self.optimizer = uc.SphereAdam(groups, lr=self.setting.lr, betas=(0.9, 0.98))
        self.rates = [group["lr"] for group in groups]
        self.batches = make_batches(text.train, self.setting.batch_tokens, generator(seed, 3))
        self.counts = text.counts
        self.losses, self.history, self.best, self._epoch = [], [], None, None

    @property
    def epochs(self):
        """How often all pairs are seen, in the whole training."""
        return self.updates * self.setting.accumulate / len(self.batches)

    def batch(self, number):
        """The batch of that number in the whole training."""
        epoch, place = divmod(number, len(self.batches))
        if self._epoch is None or self._epoch[0] != epoch:
            order = torch.randperm(len(self.batches), generator=generator(self.seed, 4, epoch)).tolist()
            self._epoch = epoch, order
        return self.batches[self._epoch[1][place]].to(self.device)

    def step(self):
        """One update; the translation loss of a token, smoothed as it is."""
        setting, model = self.setting, self.model
        model.train()
        self.optimizer.zero_grad()
        first = self.update * setting.accumulate
        batches = [self.batch(first + more) for more in range(setting.accumulate)]
        tokens, loss = sum(batch.tokens for batch in batches), 0.0
        with torch.random.fork_rng():
            torch.manual_seed(generator(self.seed, 5, self.update).initial_seed())
            for batch in batches:
                with torch.autocast(self.device.type, torch.bfloat16, enabled=setting.precision == "bfloat16"):
                    part = (
                        loss_of(model, batch, smoothing=setting.smoothing, continuous_loss=setting.continuous_loss)
                        / tokens
                    )
                part.backward()
                loss += part.item()
        if not math.isfinite(loss):
            raise ValueError(f"the loss became {loss} at update {self.update}; try a lower learning rate")
        clip_grad_norm_(model.parameters(), setting.clip)
        if self.row.regulariser is not None:
            draw = generator(self.seed, 6, self.update)
            (self.weight * penalty(self.row.regulariser, model.table, draw)).backward()
        factor = setting.factor(self.update, self.updates)
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        self.optimizer.step()
        self.update += 1
        self.losses.append(loss)
        return loss

    def run(self, *, checkpoint=None, checkpoint_seconds=60.0, progress=True, log=None):
        """All updates that are left.

        Args:
            checkpoint: A file for the state. Where it exists, the training goes on from there.
            checkpoint_seconds: Between two writes of it. It is also written at the end.
            progress: Whether a bar is shown, where there is a terminal.
            log: Called with the update's number and a dictionary of numbers, now and then.
        """
        if checkpoint is not None:
            state = read_state(checkpoint, self.identity)
            if state is not None:
                self.load_state_dict(state)
        saved = time.monotonic()
        bar = tqdm(
            total=self.updates, initial=self.update, unit="update", disable=None if progress else True, leave=False
        )
        with bar:
            if self.update == 0:
                self.look()
            while self.update < self.updates:
                loss = self.step()
                bar.update()
                self.look()
                if self.update % 50 == 0:
                    bar.set_postfix(loss=f"{loss:.3f}")
                    if log is not None:
                        log(self.update, self.glance())
                if checkpoint is not None and time.monotonic() - saved > checkpoint_seconds:
                    write_whole(checkpoint, self.state_dict())
                    saved = time.monotonic()
        if self.best is not None:
            self.model.load_state_dict(self.best["weights"])
        if checkpoint is not None:
            write_whole(checkpoint, self.state_dict())
        return self

    def glance(self):
        recent = self.losses[-50:]
        return {
            "loss": sum(recent) / len(recent),
            "lr": self.optimizer.param_groups[0]["lr"],
            "spherical variance": float(uc.spherical_variance(self.model.table.detach())),
        }

    def look(self):
        """Measure what is due at this update: the table, and BLEU to choose by."""
        if self.update in {round(part * self.updates) for part in self.setting.watch}:
            recent = self.losses[-50:]
            seen = {"update": self.update, "loss": sum(recent) / len(recent) if recent else None}
            seen |= dispersion(self.model.table, self.counts)
            if self.watched:
                norms = gradient_norms(
                    self.model,
                    [batch.to(self.device) for batch in self.batches[:: max(1, len(self.batches) // 20)]],
                    sphere=self.row.sphere,
                    smoothing=self.setting.smoothing,
                )
                nearest = uc.nearest_angles(self.model.table.detach())
                seen["gradient"] = along_frequency(norms.cpu(), self.counts)
                seen["nearest"] = along_frequency(nearest.cpu(), self.counts)
            self.history.append(seen)
        often = self.setting.validations
        if often > 1 and self.update in {round(self.updates * (k + 1) / often) for k in range(often)}:
            score = self.validation_bleu()
            if self.best is None or score > self.best["bleu"]:
                weights = {name: value.clone() for name, value in self.model.state_dict().items()}
                self.best = {"bleu": score, "update": self.update, "weights": weights}

    def validation_bleu(self, *, beam=1):
        sources = [source for source, _ in self.text.validation]
        return bleu(translate(self.model, self.text.vocabulary, sources, beam=beam), self.text.references)

    @torch.no_grad()
    def validation_loss(self):
        """Of a token of the validation set, not smoothed."""
        self.model.eval()
        batches = make_batches(self.text.validation, self.setting.batch_tokens, generator(0))
        losses = [
            loss_of(self.model, batch.to(self.device), continuous_loss=self.setting.continuous_loss).item()
            for batch in batches
        ]
        return sum(losses) / sum(batch.tokens for batch in batches)

    def state_dict(self):
        return {
            "identity": json.dumps(self.identity),
            "update": self.update,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "losses": self.losses,
            "history": self.history,
            "best": self.best,
        }

    def load_state_dict(self, state):
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.update, self.losses, self.history, self.best = (
            state[name] for name in ("update", "losses", "history", "best")
        )
