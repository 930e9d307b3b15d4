"""The adapters, each on a small model on the CPU. One worker runs them all: the frameworks take long to import."""

import gc
import importlib
import os
import re
import runpy
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch.utils.data import DataLoader

import unclump as uc
from unclump.integrations._monitor import CollapseAlarm, TableMonitor
from unclump.integrations._penalty import Penalty, rows_on_rank
from unclump.measures import pairs

ROOT, SOURCE = Path(__file__).parents[2], Path(uc.__file__).parent / "integrations"
PAGES = {
    page: re.search(r"```python\n(.*?)```", (ROOT / f"docs/{page}.md").read_text(), re.DOTALL)[1]
    for page in ("lightning", "huggingface", "sentence_transformers", "torchmetrics")
}
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*LeafSpec.*:FutureWarning",  # lightning, of torch
    "ignore:.*does not have many workers:UserWarning",
    "ignore:.*smaller than the logging interval:UserWarning",
    "ignore:.*was called before the ``update``:UserWarning",
)


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    """Frameworks write into the folder they run in, and may ask the network: neither is wanted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    gc.freeze()  # trainers collect garbage after every run, half a second where all frameworks are loaded
    yield
    gc.unfreeze()


def events(folder):
    """The scalars and histograms that TensorBoard would show."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (file,) = Path(folder).rglob("events.out.*")
    found = EventAccumulator(str(file), size_guidance={"scalars": 0, "histograms": 0}).Reload()
    tags = found.Tags()
    return {name: found.Scalars(name) for name in tags["scalars"]}, {n: found.Histograms(n) for n in tags["histograms"]}


class TestPages:
    @pytest.mark.parametrize("page", PAGES)
    def test_the_example_is_short_and_does_what_it_says(self, page, capsys):
        pytest.importorskip({"huggingface": "transformers"}.get(page, page))
        assert len(PAGES[page].splitlines()) < 40
        exec(compile(PAGES[page], f"{page}.md", "exec"), {"__name__": "example"})
        printed = capsys.readouterr().out
        if page == "torchmetrics":
            assert "'min_angle': 0." in printed
            return
        before, after = map(float, re.search(r"spherical variance (\S+) -> (\S+)", printed).groups())
        assert after > before + 0.1
        if page != "sentence_transformers":
            prefix, folder = {"lightning": ("items", "logs"), "huggingface": ("train/embedding", "runs")}[page]
            scalars, histograms = events(folder)
            assert [event.step for event in scalars[f"{prefix}/min_angle"]] == [0, 20, 40]
            assert scalars[f"{prefix}/spherical_variance"][-1].value == pytest.approx(after, abs=0.006)
            ((_, shown),) = [(name, shown) for name, shown in histograms.items() if "nearest_angles" in name]
            assert [event.step for event in shown] == [0, 20, 40]
            smallest = scalars[f"{prefix}/min_angle"][-1].value
            assert shown[-1].histogram_value.min == pytest.approx(smallest, rel=1e-5)

    @pytest.mark.parametrize("name", ["lightning", "transformers", "sentence_transformers", "torchmetrics"])
    def test_what_is_missing_is_named_with_its_extra(self, name, monkeypatch):
        for module in [name, *(loaded for loaded in sys.modules if loaded.startswith(f"{name}."))]:
            monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ModuleNotFoundError, match=rf"pip install 'unclump\[{name.replace('_', '-')}\]'"):
            runpy.run_path(str(SOURCE / f"{name}.py"))


class TestParts:
    def test_the_penalty_is_the_objective_without_padding(self, points):
        table = points(9, 4).requires_grad_()
        value = Penalty(uc.KoLeo(), 0.3)(table, 2)
        others = [0, 1, *range(3, 9)]
        assert_close(value, 0.3 * uc.KoLeo()(table[others]))
        value.backward()
        assert not table.grad[2].any()
        assert table.grad[others].any(dim=-1).all()
        assert_close(Penalty(uc.KoLeo(), 0.3)(table, -1), 0.3 * uc.KoLeo()(table[:8]))

    def test_a_frozen_table_is_warned_of_once(self, points):
        penalty, table = Penalty(uc.KoLeo(), 0.3), nn.Parameter(points(9, 4), requires_grad=False)
        with pytest.warns(UserWarning, match=r"shape \(9, 4\) has requires_grad=False: KoLeo.* moves nothing until"):
            penalty(table, None)
        penalty(table, None)
        with torch.no_grad():  # as in validation
            Penalty(uc.KoLeo(), 0.3)(table, None)

    @pytest.mark.parametrize("padding", [None, 2])
    @pytest.mark.parametrize("rows", [None, 8])
    def test_other_zeros_take_no_part_and_are_listed_once(self, padding, rows, points):
        table = points(9, 4)
        table[[2, 5]] = 0
        x = table.clone().requires_grad_()
        penalty = Penalty(uc.KoLeo(), 0.3, rows=rows)
        with pytest.warns(UserWarning, match=r"zeros in 2 rows \(2, 5\)" if padding is None else r"in 1 row \(5\)"):
            first = penalty(x, padding)
        value = penalty(x, padding)  # warnings are errors here
        value.backward()
        if rows is None or padding is not None:  # with one row of padding all others are drawn
            others = table[[0, 1, 3, 4, 6, 7, 8]].clone().requires_grad_()
            expected = 0.3 * uc.KoLeo()(others)
            expected.backward()
            assert_close((first, value), (expected, expected))
            assert_close(x.grad[[0, 1, 3, 4, 6, 7, 8]], others.grad)
        assert not x.grad[[2, 5]].any()
        table[5] = 1.0  # from now on it has a direction
        if padding is not None and rows is None:
            assert_close(penalty(table, 2), 0.3 * uc.KoLeo()(table[[0, 1, 3, 4, 5, 6, 7, 8]]))

    def test_a_nan_in_the_table_is_refused_at_first(self, points):
        table = points(9, 4)
        table[3] = torch.nan
        with pytest.raises(ValueError, match=r"finite rows of the table, got NaN in 1 row"):
            Penalty(uc.KoLeo(), 0.3)(table, None)

    def test_a_schedule_is_a_function_of_the_step(self, points):
        table = points(9, 4)
        penalty = Penalty(uc.KoLeo(), lambda step: 0.1 * step)
        assert_close(penalty(table, None, step=3), 0.3 * uc.KoLeo()(table))
        assert penalty(table, None) == 0
        with pytest.raises(ValueError, match="weight >= 0, got -1"):
            Penalty(uc.KoLeo(), lambda step: -1.0)(table, None)

    def test_rows_are_drawn_anew_and_never_the_padding(self, points):
        table = points(9, 4).requires_grad_()
        penalty = Penalty(uc.KoLeo(), 1.0, rows=3, generator=torch.Generator().manual_seed(0))
        draws = [torch.autograd.grad(penalty(table, 0), table)[0].any(dim=-1) for _ in range(30)]
        assert {int(draw.sum()) for draw in draws} == {3}
        assert torch.stack(draws).any(dim=0).tolist() == [False] + [True] * 8
        assert_close(Penalty(uc.KoLeo(), 1.0, rows=20)(table, None), uc.KoLeo()(table))

    @pytest.mark.parametrize(("rows", "counts"), [(2, [2] * 8), (12, [2] * 8), (5, [4, 0, 3]), (2, [0, 1, 7])])
    def test_so_many_rows_are_dealt_to_ranks_and_each_row_is_as_likely(self, rows, counts):
        total = sum(counts)
        before = [sum(counts[:rank]) for rank in range(len(counts))]
        deals = torch.tensor(
            [
                [rows_on_rank(rows, *here, total, start) for here in zip(before, counts, strict=True)]
                for start in range(total)
            ]
        )
        assert deals.sum(dim=1).tolist() == [rows] * total
        assert (deals <= torch.tensor(counts)).all()
        assert deals.sum(dim=0).tolist() == [rows * count for count in counts]

    @pytest.mark.usefixtures("at_the_door")
    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"objective": "koleo"}, TypeError, r"unclump\.objective\(name\)"),
            ({"weight": -1.0}, ValueError, "weight >= 0"),
            ({"weight": "1"}, TypeError, "weight to be a number"),
            ({"rows": 1}, ValueError, "rows >= 2"),
            ({"generator": 0}, TypeError, r"torch\.Generator"),
            ({"objective": uc.KoLeo(gather=True)}, ValueError, "the same on all ranks"),
        ],
    )
    def test_a_penalty_that_makes_no_sense_is_refused(self, options, error, message):
        with pytest.raises(error, match=message):
            Penalty(**({"objective": uc.KoLeo(), "weight": 1.0} | options))

    def test_a_watch_measures_all_rows_that_have_a_direction(self, points):
        table = torch.cat([points(3, 4), torch.zeros(2, 4, dtype=torch.float64), points(5, 4), points(1, 4)])
        rows = [0, 1, 2, *range(5, 10)]
        seen = TableMonitor().measure(table, 10)
        assert_close(seen.nearest, uc.nearest_angles(table[rows]))
        assert seen.measures["min_angle"] == uc.min_angle(table[rows])
        assert seen.measures["spherical_variance"] == pytest.approx(uc.spherical_variance(table[rows]))
        assert seen.measures["effective_rank"] == pytest.approx(uc.effective_rank(table[rows]))
        assert seen.measures["rank_share"] == pytest.approx(uc.effective_rank(table[rows]) / 4)
        assert seen.collapse is None

    def test_a_watch_measures_what_is_chosen_and_what_has_a_bound(self, points):
        table = 3 * points(40, 5)
        seen = TableMonitor(
            rows=10, measures=("alpha_req", "isoscore", "mean_cosine", "uniformity"), least={"rankme": 50.0}
        ).measure(table, None)
        assert seen.measures == {
            "alpha_req": uc.alpha_req(table),
            "isoscore": uc.isoscore(table),
            "mean_cosine": uc.mean_cosine(table),
            "uniformity": pairs.uniformity(table[::4]),
            "rankme": uc.rankme(table),
        }
        assert "rankme is" in seen.collapse
        with pytest.raises(ValueError, match=r"a measure in least to be one of .*, got 'mean_cosine'"):
            TableMonitor(least={"mean_cosine": 0.1})  # which rises on collapse
        assert list(TableMonitor().measure(table, None).measures) == [
            "min_angle", "median_nearest_angle", "spherical_variance", "effective_rank", "rank_share"
        ]  # fmt: skip

    def test_few_rows_stand_for_all(self, points):
        table = points(1000, 3)
        seen = TableMonitor(rows=10).measure(table, None)
        assert_close(seen.nearest, uc.nearest_angles(table[::100]))
        assert seen.measures["spherical_variance"] == uc.spherical_variance(table)

    def test_collapse_is_seen_whichever_way_it_comes(self, points):
        cone, line, broken = points(50, 20) + 9, points(50, 20), points(50, 20)
        line[:, 1:] *= 1e-6
        broken[7, 3] = torch.nan
        assert "spherical_variance is 0.0" in TableMonitor().measure(cone, None).collapse
        assert "rank_share is 0.05" in TableMonitor().measure(line, None).collapse
        assert TableMonitor().measure(broken, None).collapse == "1 rows are NaN or infinite"
        assert TableMonitor().measure(broken * torch.nan, None).measures == {}
        assert "fewer than two" in TableMonitor().measure(torch.zeros(4, 3), None).collapse
        assert TableMonitor().measure(points(50, 20), None).collapse is None

    def test_a_share_of_rank_rings_in_few_dimensions_only_with_a_larger_bound(self, points):
        line = points(50, 10) * torch.tensor([1.0] + [1e-6] * 9)
        assert TableMonitor().measure(line, None).collapse is None
        assert "rank_share is 0.1, below 0.3" in TableMonitor(least={"rank_share": 0.3}).measure(line, None).collapse

    def test_only_a_collapse_that_begins_rings(self):
        for on_collapse, rings in (("stop", [False, True, False, False, True]), ("warn", [False] * 5)):
            alarm = CollapseAlarm(on_collapse)
            with pytest.warns(UserWarning, match="the table has collapsed at step [14]: all") as warned:
                heard = [
                    alarm.update("the table", step, seen) for step, seen in enumerate([None, "all", "all", None, "all"])
                ]
            assert heard == rings
            assert len(warned) == 2

    @pytest.mark.usefixtures("at_the_door")
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"every": 0}, "every >= 1"),
            ({"rows": 1}, "rows >= 2"),
            ({"least": {"variance": 0.1}}, "did you mean 'spherical_variance'"),
            ({"on_collapse": "raise"}, "'warn', 'stop'"),
            ({"measures": ("rank_me",)}, "did you mean 'rankme'"),
        ],
    )
    def test_a_watch_that_makes_no_sense_is_refused(self, options, message):
        with pytest.raises(ValueError, match=message):
            TableMonitor(**options)


def test_the_run_with_and_without_dispersion(tmp_path, capsys):
    """The quick form of the example with a real model: it writes what it found, and the page says it."""
    pytest.importorskip("transformers")
    example = runpy.run_path(str(ROOT / "examples/huggingface.py"))
    output = tmp_path / "found.json"
    example["main"](["--quick", "--output", str(output)])
    found = example["json"].loads(output.read_text())
    runs = {run["regulariser"]: run for run in found["runs"]}
    assert len({str(run["before"]) for run in runs.values()}) == 1
    for name in ("Sliced(13)", "KoLeo, 1024 rows"):
        assert runs[name]["after"]["median_nearest_angle"] > runs["none"]["after"]["median_nearest_angle"]
    assert [seen["step"] for seen in runs["none"]["course"]] == [0, 5, 10, 15, 20]
    seconds = os.stat(output).st_mtime_ns
    example["main"](["--quick", "--output", str(output)])  # everything is there
    assert os.stat(output).st_mtime_ns == seconds
    with pytest.raises(SystemExit):  # runs of another setting are kept
        example["main"](["--quick", "--steps", "24", "--output", str(output)])
    assert "choose --output" in capsys.readouterr().err
    assert os.stat(output).st_mtime_ns == seconds
    chance = "does not tell small differences"
    assert chance in example["page"](found)
    assert chance not in example["page"](found | {"runs": found["runs"] + [run | {"seed": 1} for run in found["runs"]]})
    result = example["json"].loads((ROOT / "results/huggingface.json").read_text())
    assert (ROOT / "docs/huggingface_results.md").read_text() == example["page"](result)


class TestLightning:
    @pytest.fixture
    def lightning(self):
        pytest.importorskip("lightning")
        return importlib.import_module("unclump.integrations.lightning")

    @pytest.fixture
    def fit(self, lightning):
        """fit(callback, move, ...): a module whose table moves as told, under a trainer that is returned."""
        from lightning.pytorch import LightningModule, Trainer
        from lightning.pytorch.loggers import CSVLogger

        class Module(lightning.DispersionMixin, LightningModule):
            def __init__(self, move):
                super().__init__()
                torch.manual_seed(0)
                self.tokens, self.move = nn.Embedding(20, 4, padding_idx=3), move

            def training_step(self, batch):
                with torch.no_grad():
                    self.move(self.tokens.weight)
                return self.tokens(batch).square().mean()

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.01)

        def run(callback, move=lambda table: None, start=lambda table: None, **options):
            quiet = dict.fromkeys(("enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
            options = {"max_steps": 12, "logger": CSVLogger("csv"), **quiet} | options
            trainer = Trainer(callbacks=[callback], accelerator="cpu", **options)
            module = Module(move)
            start(module.tokens.weight.data)
            trainer.fit(module, DataLoader(torch.arange(20).expand(40, 20), batch_size=2))
            return trainer

        run.module = Module
        return run

    def test_measures_reach_loggers_and_monitors(self, lightning, fit):
        trainer = fit(lightning.DispersionCallback("tokens.weight", every=4, rows=None), log_every_n_steps=1000)
        trainer.logger.save()
        lines = (Path(trainer.logger.log_dir) / "metrics.csv").read_text().splitlines()
        place = lines[0].split(",").index("step")
        assert [line.split(",")[place] for line in lines[1:]] == ["0", "4", "8", "12"]
        table = trainer.lightning_module.tokens.weight[torch.arange(20) != 3]
        assert trainer.callback_metrics["tokens.weight/min_angle"].item() == pytest.approx(uc.min_angle(table))

    def test_gradients_that_are_collected_are_one_step(self, lightning, fit):
        trainer = fit(lightning.DispersionCallback("tokens", every=2), accumulate_grad_batches=3, max_steps=4)
        assert trainer.logger.experiment.metrics_keys  # written at least once
        lines = (Path(trainer.logger.log_dir) / "metrics.csv").read_text().splitlines()
        assert len(lines) == 1 + 3

    def test_collapse_stops(self, lightning, fit):
        def gather(table):
            table[:] = table.mean(dim=0) + 0.5 * (table - table.mean(dim=0)) + 0.1

        with pytest.warns(UserWarning, match="tokens has collapsed at step 3: spherical_variance is 0.0"):
            trainer = fit(lightning.DispersionCallback("tokens", every=3, on_collapse="stop"), gather, min_epochs=0)
        assert trainer.global_step == 3

    def test_collapse_warns_once(self, lightning, fit):
        from lightning.pytorch.loggers import TensorBoardLogger

        for rows in (slice(5, 7), slice(None)):
            with pytest.warns(UserWarning, match="rows are NaN") as warned:
                trainer = fit(
                    lightning.DispersionCallback("tokens", every=2),
                    lambda table, rows=rows: table[rows].fill_(torch.nan),
                    logger=TensorBoardLogger("logs"),
                )
            assert trainer.global_step == 12
            assert len([w for w in warned if "collapsed" in str(w.message)]) == 1

    def test_a_start_in_collapse_goes_on(self, lightning, fit):
        with pytest.warns(UserWarning, match="tokens has collapsed at step 0"):
            trainer = fit(
                lightning.DispersionCallback("tokens", every=2, on_collapse="stop"), start=lambda table: table.add_(9)
            )
        assert trainer.global_step == 12

    def test_the_mixin_adds_up_its_terms(self, lightning, fit):
        module = fit.module(None)
        with pytest.raises(ValueError, match=r"self\.regularize"):
            module.dispersion()
        with pytest.raises(ValueError, match=r"got 'words'; Module has 'tokens\.weight'"):
            lightning.find_table(module, "words")
        module.head = nn.Linear(4, 6)
        logged = {}
        module.log_dict = logged.update
        module.regularize("tokens", uc.KoLeo(), weight=0.5)
        module.regularize("head.weight", uc.Energy(), weight=2.0)
        table = module.tokens.weight[torch.arange(20) != 3]
        first, second = 0.5 * uc.KoLeo()(table), 2 * uc.Energy()(module.head.weight)
        assert_close(module.dispersion(), first + second)
        assert_close(logged, {"tokens/KoLeo": first.detach(), "head.weight/Energy": second.detach()})
        module.regularize("tokens", uc.SphericalVariance(), weight=1.0)  # beside the first, not in its place
        module.regularize("head.weight", uc.Energy(), weight=1.0)
        third = uc.SphericalVariance()(table)
        assert_close(module.dispersion(), first + 1.5 * second + third)
        assert_close(logged["tokens/KoLeo"], first.detach())
        assert_close(logged["tokens/SphericalVariance"], third.detach())
        assert_close(logged["head.weight/Energy"], 1.5 * second.detach())

    def test_a_schedule_follows_the_steps_of_the_trainer(self, lightning, fit):
        from lightning.pytorch import Callback

        steps = []

        class Disperse(Callback):
            def on_before_zero_grad(self, trainer, module, optimizer):
                module.dispersion()

            def on_fit_start(self, trainer, module):
                module.regularize("tokens", uc.KoLeo(), weight=lambda step: steps.append(step) or 0.0)

        fit(Disperse())
        assert steps == list(range(12))

    def test_weights_and_biases_get_measures_and_a_histogram(self, lightning, fit):
        wandb = pytest.importorskip("wandb")
        from lightning.pytorch.loggers import WandbLogger

        trainer = fit(lightning.DispersionCallback("tokens", every=6), logger=WandbLogger(offline=True))
        summary = dict(trainer.logger.experiment.summary)
        wandb.finish()
        assert {"tokens/min_angle", "tokens/nearest_angles"} <= summary.keys()
        assert summary["tokens/nearest_angles"]["_type"] == "histogram"


KINDS = [
    ("BertForMaskedLM", "tokens", {}),
    ("GPT2LMHeadModel", "tokens", {}),
    ("BertForTokenClassification", "classes", {}),
    ("BertForSequenceClassification", "sentence", {}),
    ("BertForSequenceClassification", "number", {"num_labels": 1}),
]


class TestTransformers:
    @pytest.fixture
    def adapter(self):
        pytest.importorskip("transformers")
        return importlib.import_module("unclump.integrations.transformers")

    @staticmethod
    def model(kind, **options):
        import transformers

        torch.manual_seed(0)
        size = {"vocab_size": 30, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
        if kind.startswith("Bert"):
            dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
            config = transformers.BertConfig(**size, intermediate_size=16, **dropout, **options)
        elif kind.startswith("GPT2"):
            dropout = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
            config = transformers.GPT2Config(vocab_size=30, n_embd=8, n_layer=1, n_head=2, **dropout)
        else:
            config = transformers.T5Config(vocab_size=30, d_model=8, d_ff=8, d_kv=4, num_layers=1, num_heads=2,
                                           dropout_rate=0.0, decoder_start_token_id=0)  # fmt: skip
        return getattr(transformers, kind)(config)

    @staticmethod
    def data(labels="tokens", count=16):
        """Sentences with unequally many labels, in such an order that batches differ in them as well."""
        draw = torch.Generator().manual_seed(1)
        rows = []
        for row, tokens in enumerate(torch.randint(1, 30, (count, 6), generator=draw)):
            hidden = tokens.masked_fill(torch.arange(6) < row // 4, -100)
            kinds = {"tokens": hidden, "classes": tokens % 2, "sentence": row % 2, "number": row / count}
            rows.append({"input_ids": tokens, "labels": kinds[labels]})
        return rows

    @staticmethod
    def train(model, data, *, trainer=None, callback=None, more=None, **options):
        from transformers import Seq2SeqTrainingArguments, Trainer

        arguments = {"max_steps": 1, "per_device_train_batch_size": 16, "learning_rate": 0.1, "optim": "sgd",
                     "lr_scheduler_type": "constant", "report_to": "none", "save_strategy": "no", "use_cpu": True,
                     "disable_tqdm": True, "max_grad_norm": 0.0, "seed": 0}  # fmt: skip
        made = (trainer or Trainer)(
            model, Seq2SeqTrainingArguments("runs", **(arguments | options)), train_dataset=data, **(more or {})
        )
        if callback:
            made.add_callback(callback(made))
        made.train()
        return made

    @pytest.mark.parametrize(("kind", "labels", "options"), KINDS)
    def test_the_loss_is_the_models_own_and_the_term(self, adapter, kind, labels, options):
        model = self.model(kind, **options)
        batch = {name: torch.stack([torch.as_tensor(row[name]) for row in self.data(labels)])
                 for name in ("input_ids", "labels")}  # fmt: skip
        loss = adapter.dispersion_loss(model, uc.KoLeo(), weight=0.7)
        own, outputs = model.eval()(**batch).loss, model(batch["input_ids"])
        assert_close(loss(outputs, batch["labels"]), own)
        padding = model.get_input_embeddings().padding_idx
        table = model.get_input_embeddings().weight
        table = table if padding is None else table[torch.arange(30) != padding]
        model.train()
        assert_close(loss(outputs, batch["labels"]), own + 0.7 * uc.KoLeo()(table))

    @pytest.mark.parametrize(("kind", "labels", "options"), [KINDS[0], KINDS[1], KINDS[4]])
    def test_accumulated_batches_make_the_step_of_one(self, adapter, kind, labels, options):
        """With the function and with the mixin, both of which train."""

        class Mixed(adapter.DispersionMixin, importlib.import_module("transformers").Trainer):
            pass

        def table(size, way):
            model = self.model(kind, **options)
            start = model.get_input_embeddings().weight.detach().clone()
            steps = {"per_device_train_batch_size": size, "gradient_accumulation_steps": 16 // size}
            if way == "function":
                more = {"compute_loss_func": adapter.dispersion_loss(model, uc.KoLeo(), weight=0.7)}
                self.train(model, self.data(labels), more=more, **steps)
            else:
                more = {"objective": uc.KoLeo(), "weight": 0.7}
                self.train(model, self.data(labels), trainer=Mixed, more=more, **steps)
            return model.get_input_embeddings().weight.detach() - start

        whole = table(16, "function")
        assert whole.abs().max() > 1e-3
        assert_close(table(4, "function"), whole, rtol=1e-3, atol=1e-6)
        assert_close(table(16, "mixin"), whole, rtol=1e-3, atol=1e-6)
        if kind == "GPT2LMHeadModel":  # the one whose own loss is that of all batches
            assert_close(table(4, "mixin"), whole, rtol=1e-3, atol=1e-6)

    def test_without_labels_the_loss_and_the_term_count_in_every_batch_but_not_with_the_mixin(self, adapter):
        class Mixed(adapter.DispersionMixin, importlib.import_module("transformers").Trainer):
            pass

        data = [
            {"input_ids": row["input_ids"], "start_positions": number % 6, "end_positions": number % 6}
            for number, row in enumerate(self.data())
        ]

        def loss(outputs, labels, num_items_in_batch=None):
            return 0 * outputs["start_logits"].sum()

        def moved(size, way):
            model = self.model("BertForQuestionAnswering")
            start = model.get_input_embeddings().weight.detach().clone()
            steps = {"per_device_train_batch_size": size, "gradient_accumulation_steps": 16 // size}
            if way == "function":
                made = adapter.dispersion_loss(model, uc.KoLeo(), weight=0.7, loss=loss)
                self.train(model, data, more={"compute_loss_func": made}, **steps)
            else:
                self.train(model, data, trainer=Mixed, more={"objective": uc.KoLeo(), "weight": 0.7}, **steps)
            return model.get_input_embeddings().weight.detach() - start

        assert_close(moved(4, "function"), 4 * moved(16, "function"), rtol=1e-3, atol=1e-6)
        assert_close(moved(4, "mixin"), moved(16, "mixin"), rtol=1e-3, atol=1e-6)

    def test_a_model_that_computes_its_loss_itself_has_the_mixin(self, adapter):
        import transformers

        model = self.model("T5ForConditionalGeneration")
        with pytest.raises(ValueError, match=r"got T5ForConditionalGeneration; .* DispersionMixin"):
            adapter.dispersion_loss(model, uc.KoLeo(), weight=1.0)

        class Mixed(adapter.DispersionMixin, transformers.Seq2SeqTrainer):
            pass

        def train(weight):
            model = self.model("T5ForConditionalGeneration")
            model.shared.weight.data += 1
            more = {"objective": uc.SphericalVariance(), "weight": weight}
            made = self.train(model, self.data(), trainer=Mixed, more=more, max_steps=5, learning_rate=0.2)
            return uc.spherical_variance(model.shared.weight), made.evaluate(self.data())["eval_loss"]

        (without, loss), (with_term, _) = train(0.0), train(500.0)
        assert with_term > without + 0.1
        assert 0 < loss < 50  # in evaluation the term does not count

    def test_a_schedule_follows_the_steps_of_the_trainer(self, adapter):
        import transformers

        class Mixed(adapter.DispersionMixin, transformers.Trainer):
            pass

        steps = []
        more = {"objective": uc.KoLeo(), "weight": lambda step: steps.append(step) or 0.0}
        self.train(self.model("BertForMaskedLM"), self.data(), trainer=Mixed, more=more, max_steps=3)
        assert steps == [0, 1, 2]

    @pytest.mark.usefixtures("at_the_door")
    def test_a_loss_function_knows_no_step_and_takes_no_schedule(self, adapter):
        with pytest.raises(TypeError, match="got a schedule: only a trainer knows its step; use DispersionMixin"):
            adapter.dispersion_loss(self.model("BertForMaskedLM"), uc.KoLeo(), weight=lambda step: 1.0)

    def test_the_callback_leaves_the_trainers_own_log_alone(self, adapter):
        model = self.model("BertForMaskedLM")
        made = self.train(model, self.data(), max_steps=4, logging_steps=2,
                          callback=lambda trainer: adapter.DispersionCallback(trainer, every=2))  # fmt: skip
        logs = made.state.log_history
        assert [log["step"] for log in logs if "loss" in log] == [2, 4]
        assert [log["step"] for log in logs if "embedding/min_angle" in log] == [0, 2, 4]
        last = [log for log in logs if "embedding/min_angle" in log][-1]
        table = model.get_input_embeddings().weight[1:]
        assert last["embedding/min_angle"] == pytest.approx(uc.min_angle(table))
        assert adapter.input_embedding(nn.Sequential(nn.Linear(2, 2), model))[0] is model.get_input_embeddings().weight

    def test_collapse_stops(self, adapter):
        import transformers

        class Gather(transformers.TrainerCallback):
            def on_step_begin(self, args, state, control, model=None, **options):
                if state.global_step == 3:
                    model.get_input_embeddings().weight.data[1:] += 1

        model = self.model("BertForMaskedLM")
        with pytest.warns(UserWarning, match="the input embedding has collapsed at step 4: spherical_variance"):
            made = self.train(
                model, self.data(), max_steps=20, more={"callbacks": [Gather()]},
                callback=lambda trainer: adapter.DispersionCallback(trainer, every=2, on_collapse="stop"),
            )  # fmt: skip
        assert made.state.global_step == 4

    def test_a_start_in_collapse_goes_on(self, adapter):
        model = self.model("BertForMaskedLM")
        model.get_input_embeddings().weight.data[1:] += 1
        with pytest.warns(UserWarning, match="the input embedding has collapsed at step 0"):
            made = self.train(
                model, self.data(), max_steps=5,
                callback=lambda trainer: adapter.DispersionCallback(trainer, every=2, on_collapse="stop"),
            )  # fmt: skip
        assert made.state.global_step == 5

    def test_what_cannot_be_regularised_is_refused(self, adapter):
        import transformers

        frozen = self.model("BertForMaskedLM")
        frozen.get_input_embeddings().weight.requires_grad_(False)
        with pytest.raises(ValueError, match="requires_grad=False"):
            adapter.dispersion_loss(frozen, uc.KoLeo(), weight=1.0)
        config = transformers.ViTConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
        with pytest.raises(ValueError, match="a table of input embeddings, got ViTModel"):
            adapter.dispersion_loss(transformers.ViTModel(config), uc.KoLeo(), weight=1.0)
        model = self.model("BertForMaskedLM")
        with pytest.raises(ValueError, match="expected labels in the batch"):
            adapter.dispersion_loss(model, uc.KoLeo(), weight=1.0)({"logits": torch.zeros(1, 2, 30)}, None)

    @pytest.mark.parametrize("is_training", [False, True], ids=["eval", "train"])
    @pytest.mark.parametrize("own_loss", [False, True], ids=["default loss", "own loss"])
    def test_the_loss_of_another_model_is_refused(self, adapter, is_training, own_loss):
        """It would be trained without the term, or with a term that moves nothing."""
        other, options = self.model("GPT2LMHeadModel").train(is_training), {}
        if own_loss:
            options["loss"] = lambda outputs, labels, num_items_in_batch: outputs["logits"].square().mean()
        loss = adapter.dispersion_loss(other, uc.KoLeo(), weight=1.0, **options)
        with pytest.raises(ValueError, match="the loss of the GPT2LMHeadModel that dispersion_loss was given"):
            self.train(self.model("GPT2LMHeadModel"), self.data(), more={"compute_loss_func": loss})

    @pytest.mark.parametrize("reentrant", [False, True])
    def test_a_wrapped_and_checkpointed_model_is_the_one_that_is_trained(self, adapter, reentrant):
        model, batch = self.model("GPT2LMHeadModel"), torch.stack([row["input_ids"] for row in self.data()])
        model.gradient_checkpointing_enable({"use_reentrant": reentrant})
        loss = adapter.dispersion_loss(model, uc.KoLeo(), weight=1.0)
        assert loss(nn.Sequential(model)(batch), batch).requires_grad


class TestSentenceTransformers:
    @pytest.fixture
    def adapter(self):
        pytest.importorskip("sentence_transformers")
        return importlib.import_module("unclump.integrations.sentence_transformers")

    @staticmethod
    def model():
        """Sentences as means of token vectors, which go through the model padded, as those of a transformer do."""
        from sentence_transformers import SentenceTransformer

        class Mean(nn.Module):
            def __init__(self):
                super().__init__()
                self.tokens = nn.Embedding(30, 6)

            def forward(self, features):
                mask = features["attention_mask"].unsqueeze(-1)
                means = (self.tokens(features["input_ids"]) * mask).sum(dim=1) / mask.sum(dim=1)
                return features | {"sentence_embedding": means}

            def get_embedding_dimension(self):
                return 6

            def save(self, *arguments, **options): ...

        torch.manual_seed(0)
        return SentenceTransformer(modules=[Mean()], device="cpu").train()

    @staticmethod
    def columns(count, rows=8):
        draw = torch.Generator().manual_seed(0)
        return [
            {"input_ids": torch.randint(30, (rows, 5), generator=draw), "attention_mask": torch.ones(rows, 5)}
            for _ in range(count)
        ]

    @staticmethod
    def embeddings(model, columns):
        return [model(dict(column))["sentence_embedding"] for column in columns]

    @pytest.mark.parametrize("count", [2, 4])  # the later of four go through the model as one batch
    def test_each_column_is_dispersed_by_itself(self, adapter, count):
        from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

        model, columns = self.model(), self.columns(count)
        alone = MultipleNegativesRankingLoss(model)
        loss = adapter.DispersionLoss(model, alone, uc.KoLeo(), weight=0.5)
        terms = [uc.KoLeo()(x) for x in self.embeddings(model, columns)]
        expected = alone([dict(c) for c in columns], None) + 0.5 * sum(terms) / count
        assert_close(loss([dict(c) for c in columns], None), expected)
        wanted, found = (torch.autograd.grad(value, list(model.parameters()))
                         for value in (expected, loss([dict(c) for c in columns], None)))  # fmt: skip
        assert_close(found, wanted)
        assert loss.get_config_dict()["weight"] == 0.5
        assert not model._forward_hooks

    def test_evaluation_has_the_other_loss_alone(self, adapter):
        from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

        model, columns = self.model(), self.columns(2)
        alone = MultipleNegativesRankingLoss(model)
        loss = adapter.DispersionLoss(model, alone, uc.KoLeo(), weight=0.5)
        expected = alone([dict(c) for c in columns], None)
        assert loss([dict(c) for c in columns], None) != expected
        model.eval()
        assert_close(loss([dict(c) for c in columns], None), expected)

    def test_one_sentence_has_none_to_keep_apart_from(self, adapter):
        from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss

        model, columns, labels = self.model(), self.columns(2, rows=1), torch.ones(1)
        alone = CosineSimilarityLoss(model)
        loss = adapter.DispersionLoss(model, alone, uc.KoLeo(), weight=0.5)
        assert_close(loss([dict(c) for c in columns], labels), alone([dict(c) for c in columns], labels))

    def test_sizes_of_a_matryoshka_are_dispersed_from_within(self, adapter):
        from sentence_transformers.sentence_transformer.losses import MatryoshkaLoss, MultipleNegativesRankingLoss

        model, columns = self.model(), self.columns(2)
        inner = MultipleNegativesRankingLoss(model)
        both = MatryoshkaLoss(model, adapter.DispersionLoss(model, inner, uc.KoLeo(), weight=0.5), [6, 3])
        alone = MatryoshkaLoss(model, inner, [6, 3])
        terms = [uc.KoLeo()(x[:, :size]) for x in self.embeddings(model, columns) for size in (6, 3)]
        value = both([dict(c) for c in columns], None)
        assert_close(value, alone([dict(c) for c in columns], None) + 0.5 * sum(terms) / 2)
        wrong = adapter.DispersionLoss(model, alone, uc.KoLeo(), weight=0.5)
        with pytest.raises(ValueError, match=r"each of 2 columns once, got batches of \[8, 8, 8, 8\]"):
            wrong([dict(c) for c in columns], None)

    def test_cached_gradients_are_refused(self, adapter):
        from sentence_transformers.sentence_transformer.losses import CachedMultipleNegativesRankingLoss

        model = self.model()
        loss = adapter.DispersionLoss(model, CachedMultipleNegativesRankingLoss(model), uc.KoLeo(), weight=0.5)
        with pytest.raises(ValueError, match="embeds with gradients, got CachedMultipleNegativesRankingLoss"):
            loss(self.columns(2), None)


class TestTorchmetrics:
    @pytest.fixture
    def metric(self):
        pytest.importorskip("torchmetrics")
        return importlib.import_module("unclump.integrations.torchmetrics").Dispersion

    def test_batches_add_up_to_the_table(self, metric, points):
        x = points(40, 5)
        made = metric().set_dtype(torch.float64)
        for _ in range(2):
            for batch in x.split(9):
                made.update(batch)
            found = made.compute()
            made.reset()
        near = uc.nearest_angles(x)
        assert_close(found["median_nearest_angle"], near.median())
        for name in ("min_angle", "mean_angle", "median_angle", "spherical_variance", "effective_rank"):
            assert found[name].item() == pytest.approx(getattr(uc, name)(x), rel=1e-12), name

    def test_views_of_samples_are_rows_and_groups(self, metric, points):
        x = points(24, 3).view(8, 3, 3)
        seen = metric("alignment", "lidar", "rankme", "isoscore", "mean_cosine", "alpha_req", "uniformity")
        seen.set_dtype(torch.float64)
        for batch in x.split(5):
            seen.update(batch)
        flat, found = x.flatten(0, 1), seen.compute()
        expected = {
            "alignment": pairs.alignment(x),
            "lidar": uc.lidar(x),
            "rankme": uc.rankme(flat),
            "isoscore": uc.isoscore(flat),
            "mean_cosine": uc.mean_cosine(flat),
            "alpha_req": uc.alpha_req(flat),
            "uniformity": pairs.uniformity(flat),
        }
        assert {name: value.item() for name, value in found.items()} == pytest.approx(expected, rel=1e-12)
        with pytest.raises(ValueError, match="expected 3 views of every sample, as before, got 2"):
            seen.update(x[:, :2])
        alone = metric("lidar")
        alone.update(flat)
        with pytest.raises(ValueError, match=r"shape \(samples, views, d\) for alignment and lidar"):
            alone.compute()

    def test_counts_of_codes_add_up(self, metric):
        from unclump.integrations.torchmetrics import CodebookUse

        indices, use = torch.tensor([[0, 1, 1], [5, 5, 5]]), CodebookUse(8)
        for batch in indices:
            use.update(batch)
        found = use.compute()
        assert found["usage"] == 3 / 8
        assert found["perplexity"].item() == pytest.approx(uc.codebook_perplexity(indices.flatten(), codes=8))
        with pytest.raises(ValueError, match="indices from 0 to 7, got 8 to 8"):
            use.update(torch.tensor([8]))

    def test_it_goes_into_a_collection(self, metric, points):
        from torchmetrics import MetricCollection

        both = MetricCollection({"all": metric("min_angle"), "some": metric("effective_rank")})
        both.update(points(20, 3))
        assert both.compute().keys() == {"min_angle", "effective_rank"}
        assert metric("min_angle")(points(20, 3))["min_angle"] > 0  # of the batch alone

    @pytest.mark.usefixtures("at_the_door")
    def test_what_makes_no_table_is_refused(self, metric, points):
        with pytest.raises(ValueError, match="did you mean 'min_angle'"):
            metric("min_angel")
        made = metric()
        with pytest.raises(ValueError, match=r"call update\(\.\.\.\)"):
            made.compute()
        made.update(points(4, 3))
        with pytest.raises(ValueError, match="in 3 dimensions, as before, got 5"):
            made.update(points(4, 5))
        with pytest.raises(ValueError, match="one row per point"):
            made.update(points(4, 5)[0])
