"""What processes do together in `test_distributed`: `python -m tests.launch 3 tests.ranks CHECKS FOLDER`.

One launch checks everything, since starting a process takes longer than all that it then does.
"""

import datetime
import os
import signal
import time
import warnings
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

import unclump as uc
from tests.cases import FEW, value_and_gradient
from tests.cases import OBJECTIVES as SPHERICAL
from tests.raw_cases import RAW_OBJECTIVES
from tests.sharded import check_fsdp, check_metric, check_replicas  # noqa: F401
from tests.sharded_optimisers import check_sphere_checkpoint, check_sphere_fsdp, check_sphere_shards  # noqa: F401
from unclump.distributed.ranks import Ranks
from unclump.measures.pairs import uniformity
from unclump.ops import native

OBJECTIVES = SPHERICAL | RAW_OBJECTIVES
FEW = [*FEW, *RAW_OBJECTIVES]

# Rows of three ranks, or of the first two: even, uneven, and some with none at all.
COUNTS = [(5, 5, 5), (9, 2, 4), (0, 8, 1), (7, 0, 0)]
MEASURES = (
    uc.min_angle, uc.mean_angle, uc.median_angle, uc.spherical_variance, uc.effective_rank,
    uc.rankme, uc.isoscore, uc.alpha_req, uc.mean_cosine, uniformity,
)  # fmt: skip
TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-6}


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def table(counts, dtype, *, twins=True, d=4):
    """A table with rows that coincide, on one rank and on two."""
    x = torch.randn(sum(counts), d, generator=seeded(sum(counts)), dtype=torch.float64)
    if twins:
        x[1], x[-1] = x[0], x[2]
    return x.to(dtype)


def keeps_order(name):
    """Which of two coinciding rows is first on a circle, or nearer to a sample, is a matter of rounding.

    So is, without compiled loops, which of them is nearer to a third.
    """
    by_rounding = ("Sliced", "SSW", "Lloyd", "VISReg", *(() if native.ENABLED else ("MaxMin", "KoLeo")))
    return not name.startswith(by_rounding)


def here(x, counts):
    return x.split(list(counts))[dist.get_rank()]


def here_of_sets(x, counts):
    return x.split(list(counts), dim=1)[dist.get_rank()]


def close(found, expected, dtype, what):
    size = expected.abs().max().clamp_min(1).item() if expected.numel() else 1.0
    # Where a descent in single precision ends depends on the order of its sums.
    tolerance = 1e-3 if what.startswith("Polarization") and dtype is torch.float32 else TOLERANCES[dtype]
    assert_close(
        found,
        expected,
        rtol=tolerance,
        atol=tolerance * size,
        msg=lambda text: f"rank {dist.get_rank()}, {what}: {text}",
    )


def cases():
    """Dtype, rows a rank, and objectives: all of them once, a few for everything else."""
    everywhere = [counts[: dist.get_world_size()] for counts in COUNTS]
    yield torch.float64, everywhere[2], OBJECTIVES if dist.get_world_size() == 3 else FEW
    yield from ((dtype, everywhere[1], FEW) for dtype in TOLERANCES)
    yield from ((torch.float64, counts, FEW) for counts in (everywhere[0], everywhere[3]))
    yield torch.float32, everywhere[3], FEW  # where some have no rows


def check_objectives():
    """Value and gradient, after DDP's average and without it, are those of one process."""
    for dtype, counts, names in cases():
        for name in names:
            x, what = table(counts, dtype, twins=keeps_order(name)), f"{name}, {counts}, {dtype}"
            expected, expected_gradient = value_and_gradient(OBJECTIVES[name](), x)
            for gather, factor in ((True, dist.get_world_size()), (uc.Shards(), 1))[: 1 + (counts[0] == 9)]:
                objective = OBJECTIVES[name]()
                objective.gather = gather
                value, gradient = value_and_gradient(objective, here(x, counts))
                close(value, expected, dtype, what)
                close(gradient, factor * here(expected_gradient, counts), dtype, what)


def check_company():
    """Weights, masks and queues go with it."""
    counts = (6, 0, 7)[: dist.get_world_size()]
    queue = table((5, 4), torch.float64, twins=False)
    weight = torch.rand(sum(counts), generator=seeded(1), dtype=torch.float64)
    mask = torch.arange(sum(counts)) % 3 > 0
    for name in FEW:
        x = table(counts, torch.float64, twins=keeps_order(name))
        for company in ({"weight": mask, "against": queue}, {"weight": weight, "against": queue}, {"weight": mask}):
            if company["weight"] is weight and not OBJECTIVES[name]().supports_weights:
                continue
            expected = value_and_gradient(lambda x, name=name, c=company: OBJECTIVES[name]()(x, **c), x)
            objective = OBJECTIVES[name]()
            objective.gather = uc.Shards()
            mine = {**company, "weight": here(company["weight"], counts)}
            value, gradient = value_and_gradient(lambda x, o=objective, c=mine: o(x, **c), here(x, counts))
            close(value, expected[0], torch.float64, name)
            close(gradient, here(expected[1], counts), torch.float64, name)


def check_sets():
    """Separate sets, each of which has points on every rank."""
    counts = (6, 0, 7)[: dist.get_world_size()]
    queue, mask = table((5, 4), torch.float64, twins=False), torch.arange(2 * sum(counts)).view(2, -1) % 3 > 0
    for name in FEW:
        x = table(counts, torch.float64, twins=False)
        x = torch.stack([x, x.roll(1, 1)])
        for company in ({}, {"weight": mask, "against": queue}, {"against": torch.stack([queue, -queue])}):
            expected = value_and_gradient(lambda x, name=name, c=company: OBJECTIVES[name]()(x, **c).sum(), x)
            objective = OBJECTIVES[name]()
            objective.gather = uc.Shards()
            mine = company | ({"weight": here_of_sets(mask, counts)} if "weight" in company else {})
            own = here_of_sets(x, counts)
            value, gradient = value_and_gradient(lambda x, o=objective, c=mine: o(x, **c).sum(), own)
            close(value, expected[0], torch.float64, name)
            close(gradient, here_of_sets(expected[1], counts), torch.float64, name)
    with pytest.raises(ValueError, match=r"the same call on all ranks, .* has d = 4, .* sets \("):
        uc.KoLeo(gather=True)(torch.randn(2 + dist.get_rank() % 2, 5, 4))


def check_balanced():
    """A single row on one rank, as a last batch may have, takes part in the gradient of all."""
    counts = (1, 5, 4)[: dist.get_world_size()]
    x = table(counts, torch.float64, twins=False)
    own = here(x, counts).clone().requires_grad_()
    uc.Balanced(uc.KoLeo(gather=True), share=0.5)(own).sum().backward()
    push = here(uc.KoLeo().value_and_gradient(x)[1], counts)
    task = torch.ones_like(own)
    close(own.grad, task + 0.5 * task.norm() * push / push.norm(), torch.float64, "Balanced")


def check_zero_rows():
    """Rows of zeros take no part, on whichever ranks they are; nor in a queue."""
    counts = (6, 0, 7)[: dist.get_world_size()]
    queue = table((5, 4), torch.float64, twins=False)
    queue[3] = 0
    for name in FEW:
        if not OBJECTIVES[name]().needs_directions:  # a row of zeros is a point as any other
            continue
        x = table(counts, torch.float64, twins=False)
        x[4] = 0  # on the first rank alone
        if keeps_order(name):  # with no row of zeros between them: how far twins are pushed depends on their numbers
            x[1] = x[0]
        for company in ({}, {"against": queue}):
            expected = value_and_gradient(lambda x, name=name, c=company: OBJECTIVES[name]()(x, **c), x)
            objective = OBJECTIVES[name]()
            objective.gather = uc.Shards()
            value, gradient = value_and_gradient(lambda x, o=objective, c=company: o(x, **c), here(x, counts))
            close(value, expected[0], torch.float64, name)
            close(gradient, here(expected[1], counts), torch.float64, name)
    x = table((12,), torch.float64, twins=keeps_order("KoLeo"))
    x[[2, 9]] = 0
    counts = {1: (12,), 2: (5, 7), 3: (5, 4, 3)}[dist.get_world_size()]
    for choices in ({"k": 2}, {"k": 2, "group_size": 4}):
        expected = value_and_gradient(uc.KoLeo(**choices), x)
        value, gradient = value_and_gradient(uc.KoLeo(**choices, gather=uc.Shards()), here(x, counts))
        close(value, expected[0], torch.float64, f"KoLeo, {choices}")
        close(gradient, here(expected[1], counts), torch.float64, f"KoLeo, {choices}")


def check_neighbours():
    """Several nearest, and groups of consecutive rows of all ranks: within a rank, and across their ends."""
    for rows, choices in (
        ((9, 2, 4), {"k": 3}),
        ((0, 8, 1), {"k": 2}),
        ((8, 4, 8), {"k": 2, "group_size": 4}),
        ((6, 6, 6), {"k": 2, "group_size": 9}),
        ((4, 4, 4), {"group_size": 6}),
        ((9, 0, 7), {"k": 3, "group_size": 4}),
    ):
        counts = rows[: dist.get_world_size()]
        if sum(counts) % choices.get("group_size", 1):
            choices["group_size"] = sum(counts)
        for make in (uc.KoLeo, uc.MaxMin):
            x = table(counts, torch.float64, twins=keeps_order(make.__name__))
            what = f"{make.__name__}, {choices}, {counts}"
            expected, gradient = value_and_gradient(make(**choices), x)
            for gather, factor in ((True, dist.get_world_size()), (uc.Shards(), 1)):
                found = value_and_gradient(make(**choices, gather=gather), here(x, counts))
                close(found[0], expected, torch.float64, what)
                close(found[1], factor * here(gradient, counts), torch.float64, what)
    queue, counts = table((5, 4), torch.float64, twins=False), (6, 0, 7)[: dist.get_world_size()]
    x, mask = table(counts, torch.float64, twins=keeps_order("KoLeo")), torch.arange(sum(counts)) % 3 > 0
    for company in ({"against": queue}, {"against": queue, "weight": mask}, {"weight": mask}):
        expected = value_and_gradient(lambda x, c=company: uc.KoLeo(k=3)(x, **c), x)
        mine = {**company, **({"weight": here(mask, counts)} if "weight" in company else {})}
        found = value_and_gradient(lambda x, c=mine: uc.KoLeo(k=3, gather=uc.Shards())(x, **c), here(x, counts))
        close(found[0], expected[0], torch.float64, "KoLeo(k=3) in company")
        close(found[1], here(expected[1], counts), torch.float64, "KoLeo(k=3) in company")


def check_measures():
    for counts in (counts[: dist.get_world_size()] for counts in COUNTS[1:]):
        x = table(counts, torch.float64)
        mine = here(x, counts)
        for measure in MEASURES:
            found = measure(mine, gather=True)
            assert abs(found - measure(x)) < 1e-12, (measure, counts, found, measure(x))
        codes = torch.arange(sum(counts)) % 5
        for measure in (uc.codebook_usage, uc.codebook_perplexity):
            assert measure(here(codes, counts), codes=7, gather=True) == measure(codes, codes=7)
        views = table([2 * count for count in counts], torch.float64, twins=False).view(-1, 2, 4)
        assert abs(uc.lidar(here(views, counts), gather=True) - uc.lidar(views)) < 1e-10
        close(
            uc.nearest_angles(mine, gather=uc.Shards()), here(uc.nearest_angles(x), counts), x.dtype, "nearest angles"
        )
        found, expected = (
            uc.summary(rows, samples=200, generator=seeded(seed), gather=gather)
            for rows, seed, gather in ((mine, dist.get_rank(), True), (x, 0, False))
        )
        assert str(found) == str(expected), f"{found}\n{expected}"


def check_training():
    """A model under DDP, whose batches are uneven, learns as one process does on the whole batch.

    So it does where activations are checkpointed, and all circles are drawn a second time.
    """
    counts = (6, 1, 4)[: dist.get_world_size()]
    batch = torch.randn(sum(counts), 5, generator=seeded(0), dtype=torch.float64)

    def trained(wrap, rows, *, is_checkpointed=False, **gather):
        torch.manual_seed(0)
        model, circles = wrap(torch.nn.Linear(5, 3, dtype=torch.float64)), seeded(dist.get_rank())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        objectives = uc.KoLeo(**gather), uc.Sliced(3, generator=circles, **gather), uc.Energy(**gather)

        def block(embeddings):
            return sum(objective(embeddings.tanh()) for objective in objectives)

        for _ in range(5):
            optimizer.zero_grad()
            embeddings = model(rows)
            if is_checkpointed:
                loss = checkpoint(block, embeddings, use_reentrant=False, context_fn=uc.replay(circles))
            else:
                loss = block(embeddings)
            loss.backward()
            optimizer.step()
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    for is_checkpointed in (False, True):
        ddp, own = torch.nn.parallel.DistributedDataParallel, here(batch, counts)
        together = trained(ddp, own, is_checkpointed=is_checkpointed, gather=True)
        if dist.get_rank() == 0:  # whose circles all of them used
            close(together, trained(lambda model: model, batch), torch.float64, f"training, {is_checkpointed=}")


def check_draws():
    """Each rank has a generator of its own, and yet one value: the circles are those of the first."""
    x = table((5, 5, 5)[: dist.get_world_size()], torch.float64, twins=False)
    for make in (uc.Sliced, uc.SSW, uc.Lloyd, uc.Polarization):
        value = make(generator=seeded(dist.get_rank()), gather=True)(here(x, [5] * dist.get_world_size()))
        close(value, make(generator=seeded(0))(x), torch.float64, make.__name__)


def dispersed(rows, steps, gather, rank=0, **options):
    """A run with all there is: minibatches, circles, frozen rows, a bound, a schedule."""
    numbers = torch.arange(30, dtype=torch.float64)
    mine = numbers if rank is None else numbers.split([len(part) for part in rows])[rank]
    return uc.disperse(
        rows if rank is None else rows[rank],
        uc.Sliced(3, generator=seeded(1), gather=gather),
        steps=steps,
        lr=0.01,
        batch_size=16,
        generator=seeded(2),
        frozen=(mine == 3) | (mine == 28),
        max_move=0.7,
        schedule=lambda step: 1 / (1 + step / 30),
        measure_every=7,
        checkpoint_seconds=0,
        **options,
    )


def check_disperse(folder):
    """A table that is spread ends where one process takes it, even if it changes ranks on the way."""
    x, size, rank = table((30,), torch.float64, twins=False), dist.get_world_size(), dist.get_rank()
    counts = {3: (20, 0, 10), 2: (13, 17), 1: (30,)}[size]
    torch.manual_seed(0)
    found = dispersed(x.split(list(counts)), 40, uc.Shards(), rank)
    torch.manual_seed(0)
    expected = dispersed(x, 40, False, None)
    close(found.points, here(expected.points, counts), torch.float64, "disperse")
    for name in ("step", "value", "min_angle", "spherical_variance"):
        close(*(torch.from_numpy(getattr(run.history, name)) for run in (found, expected)), torch.float64, name)

    # Three ranks begin, and are interrupted; two, in a launch of their own, go on.
    resumed = dispersed(x.split(list(counts)), 40, uc.Shards(), rank, checkpoint=folder / "state", **breaking_off(size))
    if size == 3:
        assert resumed.history.interrupted
        assert len(list((folder / "state").glob("step-*"))) == 1
    else:
        close(resumed.points, here(expected.points, counts), torch.float64, "resumed")
        assert resumed.history.step[0] == 0
        with pytest.raises(ValueError, match="another table"):
            dispersed((x.flip(0)).split(list(counts)), 40, uc.Shards(), rank, checkpoint=folder / "state")


def breaking_off(size):
    """Three ranks stop after step 20, on account of a Ctrl-C that only the second has heard."""
    if size < 3:
        return {}

    def optimizer(parameters):
        made, steps = uc.SphereAdam(parameters, lr=0.01), iter(range(1000))
        made.register_step_post_hook(lambda *_: signal.raise_signal(signal.SIGINT) if next(steps) == 20 else None)
        return made

    return {"optimizer": optimizer} if dist.get_rank() == 1 else {}


def check_ties():
    """Of ranks that have the same smallest number, one is the first."""
    ranks = Ranks(torch.ones(1, 2), dist.group.WORLD)
    x = torch.tensor([1.0, 2.0 + dist.get_rank()])
    least = ranks.minimum(x)
    assert least.tolist() == [1.0, 2.0]
    assert ranks.is_first(x == least).tolist() == [dist.get_rank() == 0] * 2


def check_groups():
    """A group of some ranks only; the others go their own way."""
    group = dist.new_group([0, 1])
    x = table((4, 5), torch.float64)
    if dist.get_rank() < 2:
        value, gradient = value_and_gradient(uc.KoLeo(gather=group), x.split([4, 5])[dist.get_rank()])
        expected, whole = value_and_gradient(uc.KoLeo(), x)
        close(value, expected, torch.float64, "group")
        close(gradient, 2 * whole.split([4, 5])[dist.get_rank()], torch.float64, "group")


def check_dtensor():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    x = table((7, 6), torch.float64, twins=False)
    for name in ("KoLeo(chordal)", "Sliced(13)", "Energy(Riesz(s=1.0, distance='chordal'))", "Lloyd"):
        expected, whole = value_and_gradient(OBJECTIVES[name](), x)
        objective = OBJECTIVES[name]()
        objective.gather = uc.Shards()
        sharded = torch.nn.Parameter(distribute_tensor(x, mesh, [Shard(0)]))
        value = objective(sharded)
        value.backward()
        close(value.detach(), expected, torch.float64, name)
        close(sharded.grad.full_tensor(), whole, torch.float64, name)
    sharded = distribute_tensor(x, mesh, [Shard(0)])
    assert abs(uc.min_angle(sharded, gather=True) - uc.min_angle(x)) < 1e-12
    with pytest.raises(TypeError, match=r"gather=unclump\.Shards\(\) for all of its rows"):
        uc.KoLeo()(sharded)
    with pytest.raises(ValueError, match=r"\[Shard\(0\)\]"):
        uc.KoLeo(gather=uc.Shards())(distribute_tensor(x, mesh, [Replicate()]))


def check_differences_are_refused():
    x = torch.randn(5, 4)
    for objective, points in (
        (uc.KoLeo(distance="chordal" if dist.get_rank() else "geodesic", gather=True), x),
        (uc.KoLeo(gather=True), x[:, : 3 + dist.get_rank() % 2]),
        (uc.KoLeo(gather=True), x.double() if dist.get_rank() else x),
    ):
        with pytest.raises(ValueError, match="the same objective, dimension and dtype on all ranks"):
            objective(points)
    with pytest.raises(ValueError, match=rf"has d = 4, .*, a queue of {3 + dist.get_rank()} rows, no weights"):
        uc.KoLeo(gather=True)(x, against=torch.randn(3 + dist.get_rank(), 4))


def check_too_few_points():
    """One row on all ranks together is zero, with a gradient for DDP to wait for on every one."""
    x = torch.randn(5, 4)[: 1 if dist.get_rank() == 0 else 0].requires_grad_()
    for objective in (uc.KoLeo(gather=True), uc.Sliced(gather=True), uc.Energy(gather=uc.Shards())):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", uc.TooFewPointsWarning)
            value = objective(x)
        value.backward()
        assert value == 0
        assert x.grad.shape == x.shape
        assert not x.grad.any()


def check_death(folder):
    """The last rank ends in the middle; the others must hear of it within the time-out."""
    objective, rank = uc.Energy(gather=True), dist.get_rank()
    objective(torch.randn(5, 4))
    if rank == dist.get_world_size() - 1:
        os._exit(0)
    start = time.monotonic()
    try:
        objective(torch.randn(5, 4))
    except RuntimeError:
        (folder / f"heard-{rank}").write_text(str(time.monotonic() - start))
        os._exit(0)  # there is nobody left to say good-bye to


def main(names, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
    for name in names.split(","):
        start = time.monotonic()
        check = globals()[f"check_{name}"]
        check(Path(folder)) if name in ("death", "disperse", "sphere_checkpoint") else check()
        if dist.get_rank() == 0:
            print(f"{name}: {time.monotonic() - start:.1f} s", flush=True)
    dist.destroy_process_group()
