"""Prototypes are as far apart as is known, and the head sends outputs to them."""

import copy
import math
import pickle
import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import unclump as uc
from tests.small_tables import seeded
from unclump.codes import prototypes as module
from unclump.codes.prototypes import PrototypeHead, prototypes, squared_cosine_loss

PAGE = (Path(__file__).parents[2] / "docs" / "prototypes.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.mark.parametrize(
    ("classes", "d", "cosine"),
    [(3, 2, -0.5), (10, 9, -1 / 9), (10, 50, -1 / 9), (12, 10, 0.0), (200, 100, 0.0), (240, 8, 0.5)],
)
def test_known_optima_are_taken(classes, d, cosine):
    found = prototypes(classes, d)
    assert found.shape == (classes, d)
    assert found.dtype is torch.float32
    assert_close(uc.min_angle(found), math.acos(cosine), rtol=0, atol=1e-6)


def test_a_known_code_is_taken_only_where_it_is_better(monkeypatch):
    far, near = uc.orthonormal_blocks(20, 20, generator=seeded()).double(), uc.project(1 + torch.rand(20, 20).double())
    for known, taken in ((far, True), (near, False)):
        monkeypatch.setattr(module, "_best_known", lambda n, d, known=known: (known, False))
        found = prototypes(20, 20, steps=20, generator=seeded())
        assert torch.equal(found.sort(dim=0).values, known.float().sort(dim=0).values) is taken
        assert uc.min_angle(found) >= uc.min_angle(known) - 1e-6


def test_a_code_is_shuffled():
    """A cross-polytope, which is built as pairs of opposite points."""
    found = prototypes(200, 100, generator=seeded())
    opposite = (found @ found.mT).argmin(dim=1)
    assert ((opposite - torch.arange(200)).abs() == 1).sum() < 10
    assert_close((found * found[opposite]).sum(dim=1), -torch.ones(200))
    assert torch.equal(found, prototypes(200, 100, generator=seeded()))
    assert not torch.equal(found, prototypes(200, 100, generator=seeded(1)))


def test_part_of_a_larger_code_counts_as_known():
    known, is_optimal = module._best_known(200, 50)  # of the McLaughlin graph's 275
    assert_close(uc.min_angle(known), math.acos(1 / 6), rtol=0, atol=1e-6)
    assert not is_optimal


def test_dispersed_where_no_code_is_better():
    found = prototypes(200, 50, steps=200, lr=0.1, generator=seeded())
    assert uc.min_angle(found) > 1.43  # part of a code in closed form has 1.403, a search of a minute 1.495
    assert_close(found.norm(dim=1), torch.ones(200))


def test_an_objective_by_name_or_module_is_followed():
    """Where no code is better, the objective makes the difference, and the generator all of the chance."""
    choices = {"steps": 60, "lr": 0.1}
    named, again, module = (
        prototypes(70, 10, objective=o, generator=seeded(), **choices) for o in ("koleo", "koleo", uc.KoLeo())
    )
    other = prototypes(70, 10, objective="max_min", generator=seeded(), **choices)
    assert torch.equal(named, again)
    assert torch.equal(named, module)
    assert not torch.equal(named, other)


def test_an_objective_does_not_keep_a_better_code_away():
    found = prototypes(30, 20, objective="sliced", steps=5, generator=seeded())
    assert_close(uc.min_angle(found), math.pi / 2, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_prototypes_come_in_the_dtype_that_is_asked_for(dtype):
    for classes, d in ((5, 8), (30, 8)):
        found = prototypes(classes, d, steps=5, dtype=dtype, generator=seeded())
        assert found.dtype is dtype
        assert found.shape == (classes, d)


def test_the_loss_is_the_definition(points):
    x, y = points(7, 4), points(7, 4)
    loop = sum((1 - float(a @ b)) ** 2 for a, b in zip(x, y, strict=True)) / 7
    assert_close(squared_cosine_loss(x, y).item(), loop)


def test_the_loss_keeps_its_digits_near_its_minimum():
    x = torch.tensor([[1.0, 0.0]])
    y = torch.tensor([[math.cos(1e-4), math.sin(1e-4)]])
    assert_close(squared_cosine_loss(x, y).item(), 1e-16 / 4, rtol=1e-4, atol=0)  # 1 - cos is 0 in single precision


def test_gradients_match_finite_differences(points):
    head = PrototypeHead(points(4, 3), trainable=True)
    labels = torch.tensor([0, 3, 3, 1, 2])
    outputs = (3 * points(5, 3)).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: head.loss(x, labels), outputs)
    assert torch.autograd.gradcheck(head, outputs)


@pytest.mark.parametrize("outputs", [torch.zeros(2, 3), torch.eye(3)[:2], -torch.eye(3)[:2]])
def test_the_gradient_is_finite_at_zero_at_the_prototype_and_opposite(outputs):
    head = PrototypeHead(torch.eye(3), trainable=True)
    outputs = outputs.requires_grad_()
    head.loss(outputs, torch.tensor([0, 1])).backward()
    assert outputs.grad.isfinite().all()
    assert head.prototypes.grad.isfinite().all()


def test_logits_are_cosines_whatever_the_norms(points):
    x, p = points(5, 4), points(3, 4)
    assert_close(PrototypeHead(7 * p)(0.01 * x), x @ p.mT)


def test_prediction_is_the_nearest_by_angle(points):
    x, p = points(50, 4), points(6, 4)
    nearest = [min(range(6), key=lambda k: float(uc.angle(row, p[k]))) for row in x]
    assert PrototypeHead(p).predict(3 * x).tolist() == nearest


def test_fixed_prototypes_are_saved_and_never_trained(points):
    head = PrototypeHead(points(3, 4))
    assert list(head.parameters()) == []
    other = PrototypeHead(points(3, 4))
    other.load_state_dict(head.state_dict())
    assert torch.equal(other.prototypes, head.prototypes)


def test_the_given_tensor_is_not_shared(points):
    given = points(3, 4)
    for trainable in (False, True):
        head = PrototypeHead(given, trainable=trainable)
        before = head.prototypes.detach().clone()
        given += 1
        assert torch.equal(head.prototypes, before)


def test_trainable_prototypes_meet_without_a_regulariser_and_not_with_one():
    draw = seeded()
    images, labels = torch.randn(64, 5, generator=draw), torch.arange(64) % 4
    closest = {}
    for weight in (0.0, 1.0):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            network = nn.Linear(5, 3)
        head = PrototypeHead(uc.uniform(4, 3, generator=seeded()), trainable=True)
        groups = [{"params": [head.prototypes]}, {"params": list(network.parameters()), "sphere": False}]
        optimizer = uc.SphereAdam(groups, lr=0.05)
        for _ in range(100):
            optimizer.zero_grad()
            (head.loss(network(images), labels) + weight * uc.KoLeo()(head.prototypes)).backward()
            optimizer.step()
        assert_close(head.prototypes.detach().norm(dim=1), torch.ones(4))
        closest[weight] = uc.min_angle(head.prototypes.detach())
    assert closest[0.0] < 0.1
    assert closest[1.0] > 1.2  # the start has 0.56


def test_a_small_network_learns_its_classes():
    draw = seeded()
    centres = 3 * torch.randn(8, 6, generator=draw)
    labels = torch.arange(400) % 8
    images = centres[labels] + torch.randn(400, 6, generator=draw)
    head = PrototypeHead(prototypes(8, 5, generator=draw))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 5))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        head.loss(network(images), labels).backward()
        optimizer.step()
    assert (head.predict(network(images)) == labels).float().mean() > 0.9


def test_half_precision_is_computed_in_single(points):
    head = PrototypeHead(points(3, 4).float())
    outputs = points(5, 4).bfloat16()
    assert head(outputs).dtype is torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_close(head(outputs), head(outputs.float()))


class _Loss(nn.Module):
    def __init__(self, head):
        super().__init__()
        self.head = head

    def forward(self, outputs, labels):
        return self.head.loss(outputs, labels)


@pytest.mark.parametrize("trainable", [False, True])
@pytest.mark.usefixtures("at_the_door")  # the checker of shapes would fix the batch
@pytest.mark.parametrize("part", [nn.Identity(), nn.Linear(4, 4)], ids=["head", "network"])
def test_it_exports_with_a_dynamic_batch(trainable, part):
    head = PrototypeHead(prototypes(5, 4, generator=seeded()), trainable=trainable)
    model, batch = nn.Sequential(part, head), torch.export.Dim("batch")
    labels = torch.arange(7) % 5
    outputs = torch.randn(7, 4, generator=seeded())
    logits = torch.export.export(model, (outputs,), dynamic_shapes=({0: batch},), strict=False).module()
    loss = torch.export.export(
        _Loss(head), (outputs, labels), dynamic_shapes=({0: batch}, {0: batch}), strict=False
    ).module()
    for count in (2, 64):
        outputs, labels = torch.randn(count, 4, generator=seeded(count)), torch.arange(count) % 5
        assert_close(logits(outputs), model(outputs))
        assert_close(loss(outputs, labels), head.loss(outputs, labels))


def test_it_pickles_copies_and_prints(points):
    head = PrototypeHead(points(3, 4), trainable=True)
    for other in (pickle.loads(pickle.dumps(head)), copy.deepcopy(head)):
        assert torch.equal(other.prototypes, head.prototypes)
    assert repr(head) == "PrototypeHead(classes=3, d=4, trainable=True)"


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_of_the_page_run(example, capsys):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        exec(compile(example, "prototypes.md", "exec"), {})
    said = capsys.readouterr().out
    assert said.startswith(("9", "100%", "PrototypeHead(classes=10, d=16, trainable=True), smallest angle"))


@pytest.mark.usefixtures("at_the_door")
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: prototypes(1, 3), ValueError, "classes >= 2, got 1"),
        (lambda: prototypes(3, 1), ValueError, "d >= 2, got 1"),
        (lambda: prototypes(30, 3, objective="kolo"), ValueError, "did you mean"),
        (lambda: prototypes(30, 3, generator=7), TypeError, "got int"),
        (lambda: prototypes(10, 16, steps=-5), ValueError, "steps >= 1, got -5"),
        (lambda: prototypes(10, 16, lr=-1.0), ValueError, "got -1.0"),
        (lambda: prototypes(10, 16, dtype=torch.int64), TypeError, "floating-point dtype, got torch.int64"),
        (lambda: PrototypeHead(torch.zeros(2, 3)), ValueError, "nothing but zeros in 2 rows"),
        (lambda: PrototypeHead(torch.ones(3)), ValueError, "got (3,)"),
        (lambda: PrototypeHead(torch.eye(3))(torch.ones(2, 4)), ValueError, "in the 3 dimensions"),
        (lambda: PrototypeHead(torch.eye(3)).predict(torch.ones(3)), ValueError, "got (3,)"),
        (lambda: PrototypeHead(torch.eye(3)).loss(torch.eye(3), torch.ones(3)), TypeError, "labels.long()"),
        (lambda: PrototypeHead(torch.eye(3)).loss(torch.eye(3), [0, 1, 2]), TypeError, "got list"),
        (lambda: PrototypeHead(torch.eye(3)).loss(torch.eye(3), torch.tensor([1])), ValueError, "shape (3,), got (1,)"),
        (lambda: PrototypeHead(torch.eye(3)).loss(torch.eye(3)[:1], torch.tensor([-1])), IndexError, "got -1 in row 0"),
        (lambda: PrototypeHead(torch.eye(3)).loss(torch.eye(3)[:1], torch.tensor([3])), IndexError, "got 3 in row 0"),
        (
            lambda: PrototypeHead(torch.eye(3)).loss(torch.ones(2, 2, 3), torch.tensor([[0, 1], [2, 7]])),
            IndexError,
            "got 7 in row (1, 1), 1 out of range",
        ),
        (
            lambda: PrototypeHead(torch.eye(3)).loss(torch.ones(2, 2, 3), torch.zeros(4, dtype=torch.int64)),
            ValueError,
            "shape (2, 2), got (4,)",
        ),
        (lambda: squared_cosine_loss(torch.eye(3), torch.eye(3)[:2]), ValueError, "got shapes (3, 3) and (2, 3)"),
    ],
)
def test_bad_arguments_are_refused(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_outputs_of_sequences_are_those_of_all_their_tokens(points):
    head, outputs = PrototypeHead(points(5, 4)), points(2 * 3 * 6, 4)
    labels = torch.arange(36) % 5
    labels[7] = -100
    shape = (2, 3, 6)
    sequences = outputs.view(*shape, 4)
    assert_close(head(sequences), head(outputs).view(*shape, 5))
    assert torch.equal(head.predict(sequences), head.predict(outputs).view(shape))
    assert_close(head.loss(sequences, labels.view(shape)), head.loss(outputs, labels))


def test_ignored_labels_do_not_count(points):
    """As in cross-entropy, whose default they have."""
    head, outputs = PrototypeHead(points(4, 3)), points(6, 3).requires_grad_()
    labels = torch.tensor([0, -100, 3, 1, -100, 2])
    kept = labels >= 0
    loss = head.loss(outputs, labels)
    assert_close(loss, head.loss(outputs[kept], labels[kept]))
    assert_close(head.loss(outputs, labels.clamp_min(-1), ignore_index=-1), loss)
    (gradient,) = torch.autograd.grad(loss, outputs)
    assert not gradient[~kept].any()
    assert head.loss(outputs, torch.full((6,), -100)) == 0
