"""What `gpu.py` measures: for every objective and operation, who computes it, and the least that there is to do."""

import itertools
from functools import partial
from typing import NamedTuple

import textbook
import torch
from reference import evaluate, objectives, with_fixed_draw
from torch.nn.functional import normalize, pairwise_distance

import unclump as uc
from unclump.ops import native
from unclump.ops import triton as door
from unclump.ops.add_rows import sum_rows
from unclump.ops.even_spacing import combine, squares_of_gaps
from unclump.ops.kernel_sum import kernel_sum
from unclump.ops.nearest import nearest
from unclump.ops.project import largest_entries, unit_rows, unit_rows_backward


class Case(NamedTuple):
    """An objective or an operation: who computes it, and the least work that there is."""

    sides: dict
    """Name -> a call without arguments."""
    flops: float
    """Of matrix products."""
    bytes: float
    """Read once and written once."""
    compared: dict | None = None
    """The same sides with fixed draws, where each draws for itself; None where `sides` are compared."""


def by_reference(function, *arguments):
    """The function without our kernels, and without the loops of a CPU."""
    before, native.ENABLED, door.ENABLED = (native.ENABLED, door.ENABLED), False, False
    try:
        return function(*arguments)
    finally:
        native.ENABLED, door.ENABLED = before


def has_keops():
    try:
        import pykeops  # noqa: F401
    except ImportError:
        return False
    return True


def dinov2_koleo(embeddings):
    """The loss of DINOv2: the nearest by the largest cosine, and a distance with an epsilon inside and outside."""
    x = normalize(embeddings, eps=1e-8, dim=-1)
    with torch.no_grad():
        near = (x @ x.mT).fill_diagonal_(-1).argmax(dim=1)
    return -torch.log(pairwise_distance(x, x[near], eps=1e-8) + 1e-8).mean()


def keops_nearest(x, y, k):
    from pykeops.torch import LazyTensor

    return (LazyTensor(x[:, None]) - LazyTensor(y[None])).square().sum(-1).argKmin(k, dim=1)


def keops_koleo(embeddings):
    x = normalize(embeddings, dim=-1)
    with torch.no_grad():
        near = keops_nearest(x, x, 2)[:, 1]  # the first is the point itself
    return -torch.log(torch.linalg.vector_norm(x - x[near], dim=-1)).mean()


def keops_energy(embeddings):
    from pykeops.torch import LazyTensor

    x = normalize(embeddings, dim=-1)
    n = len(x)
    sums = (LazyTensor(x[:, None]) | LazyTensor(x[None])).exp().sum(dim=1)
    return (sums.sum() - n * torch.e) / (n * (n - 1))


PEERS = {"KoLeo": {"DINOv2": dinov2_koleo}}
KEOPS_PEERS = {"KoLeo": keops_koleo, "Energy(Gaussian)": keops_energy}


def work_of(name, n, d):
    """Floating-point operations of products, and bytes: embeddings and their gradient, a number each 4 bytes."""
    products = {"MaxMin": 2 * n, "KoLeo": 2 * n, "Lloyd": 2 * textbook.SAMPLES, "SphericalVariance": 0}
    products |= dict.fromkeys(("Sliced", "SSW"), 8 * textbook.CIRCLES)
    return products.get(name, 4 * n) * n * d, 8 * n * d  # energies: chords, and forces


def objective_cases(embeddings):
    """Name -> value and gradient of every objective."""
    n, d = embeddings.shape
    pairs = objectives(uc) | {
        "Energy(FramePotential)": (uc.Energy(uc.FramePotential()), textbook.frame_potential),
        "LogDet": (uc.LogDet(), textbook.log_det),
        "Polarization": (uc.Polarization(), None),
        "SphericalVariance": (uc.SphericalVariance(), textbook.spherical_variance),
    }
    for name, (ours, peer) in pairs.items():
        functions = sides_of(ours, peer) | PEERS.get(name, {})
        if name in KEOPS_PEERS and has_keops():
            functions["KeOps"] = KEOPS_PEERS[name]
        fixed = with_fixed_draw(uc, name, d)
        compared = None if fixed is None else sides_of(*(moved(one, embeddings.device) for one in fixed))
        if name == "Polarization":
            compared = {}  # it draws its starts, and has no textbook
        yield name, Case(calls(functions, embeddings), *work_of(name, n, d), calls(compared, embeddings))


def sides_of(ours, peer):
    return {"ours": ours, "reference": partial(by_reference, ours), "textbook": peer}


def moved(function, device):
    """A partial function, with its tensors on a device."""
    return partial(function.func, **{name: value.to(device) for name, value in function.keywords.items()})


def calls(functions, embeddings):
    if functions is None:
        return None
    return {name: partial(evaluate, one, embeddings, {}) for name, one in functions.items() if one is not None}


def operation_cases(embeddings):
    """Name -> every operation beside the same in a few lines of torch."""
    n, d = embeddings.shape
    raw, x = embeddings.detach(), uc.project(embeddings.detach())
    samples = uc.uniform(textbook.SAMPLES, d, device=x.device)
    circles = uc.great_circles(textbook.CIRCLES, d, device=x.device)
    axes = uc.axis_circles(min(textbook.CIRCLES, d // 2), d, device=x.device)
    index = torch.arange(n, device=x.device).square() % n  # some rows many times, as hubs are the nearest of many
    table = 4 * n * d
    for k in (1, 8):
        keops = partial(keops_nearest, x, x, k + 1)
        yield f"nearest, k = {k}", both(lambda k=k: nearest(x, k=k)[1], partial(top, x, k), 2 * n * n * d, table, keops)
    keops = partial(keops_nearest, samples, x, 1)
    to = both(lambda: nearest(samples, x)[1], partial(top, samples, 1, x), 2 * len(samples) * n * d, table, keops)
    yield "nearest_to", to
    leaf = x.clone().requires_grad_()
    peer = partial(value_of, textbook.energy_riesz, leaf, n * (n - 1))
    yield "kernel_sum, Riesz", both(partial(riesz_sum, x), peer, 4 * n * n * d, 2 * table)
    for name, drawn in (("even_spacing", circles), ("even_spacing on axes", axes)):
        vectors = drawn if drawn.is_floating_point() else torch.eye(d, device=x.device)[drawn]
        peer = partial(value_of, partial(textbook.sliced, circles=vectors), leaf, 2 * n * len(drawn))
        yield name, both(partial(even_spacing, raw, drawn), peer, 8 * len(drawn) * n * d, 2 * table)
    yield "project and back", both(partial(projected, raw, x), partial(normalised, raw, x), 0, 5 * table)
    yield "add_rows", both(partial(sum_rows, n, index, x), partial(index_added, index, x), 0, 2 * table)
    yield from step_cases(x)


def both(ours, peer, flops, least, keops=None):
    sides = compared = sides_of(ours, peer)
    if keops is not None and has_keops():
        sides = sides | {"KeOps": keops}  # row numbers, not chords
    return Case(sides, flops, least, compared)


def value_of(function, leaf, factor):
    """The value, times a factor; the gradient is computed too."""
    return factor * evaluate(function, leaf, {})[0]


def top(x, k, others=None):
    """The squared chords to the nearest, by one product."""
    cosines = x @ (x if others is None else others).mT
    if others is None:
        cosines.fill_diagonal_(-torch.inf)
    return (2 - 2 * cosines.topk(k).values).clamp_min_(0)


def riesz_sum(x):
    return kernel_sum(x, uc.Riesz(1.0))[0].sum()


def index_added(index, x):
    return torch.zeros_like(x).index_add_(0, index, x)


def even_spacing(x, circles):
    squares, coefficients = squares_of_gaps(x, circles, largest_entries(x), None, True)
    combine(coefficients, circles, x.shape[-1], torch.ones_like(squares))
    return squares


def projected(x, grad):
    y, inverse = unit_rows(x)
    return unit_rows_backward(y, inverse, grad)


def normalised(x, grad):
    leaf = x.clone().requires_grad_()
    return torch.autograd.grad(normalize(leaf, dim=-1), leaf, grad)[0]


def step_cases(x):
    """A step of our optimisers, beside torch's with a projection after it; all rows, and a tenth of them."""
    n, d = x.shape
    rows = torch.arange(0, n, 10, device=x.device)
    dense = torch.randn_like(x)
    some = torch.sparse_coo_tensor(rows[None], dense[rows], x.shape, is_coalesced=True, check_invariants=False)
    options = {
        "SphereSGD": (uc.SphereSGD, torch.optim.SGD, dense, 1),
        "SphereAdam": (uc.SphereAdam, torch.optim.Adam, dense, 1),
        "SphereAdam on some rows": (uc.SphereAdam, torch.optim.SparseAdam, some, 10),
    }
    for name, (ours, peer, grad, part) in options.items():
        parameters = [torch.nn.Parameter(x.clone()) for _ in range(2)]
        for parameter in parameters:
            parameter.grad = grad
        steps = [make([one], lr=1e-3).step for make, one in zip((ours, peer), parameters, strict=True)]

        def stepped(step=steps[1], parameter=parameters[1]):
            step()
            with torch.no_grad():
                parameter.copy_(normalize(parameter, dim=-1))

        passes = 3 + 2 * ("Adam" in name)  # points and their gradient read, points written; and the first moments
        yield f"step of {name}", both(steps[0], stepped, 0, passes * 4 * n * d / part)._replace(compared={})


def all_cases(n, d, device):
    """Name -> `Case`, of objectives and of operations."""
    torch.manual_seed(0)
    embeddings = torch.randn(n, d, device=device).requires_grad_()
    return itertools.chain(objective_cases(embeddings), operation_cases(embeddings))
