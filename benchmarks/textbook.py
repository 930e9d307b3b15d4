"""The objectives of raw embeddings in plain torch: what a careful engineer writes in ten lines, and autograd derives.

Each takes embeddings of shape (..., n, d), whose leading dimensions are separate sets, and has the value of our
objective of the same name: alone, with a queue of fixed embeddings (..., m, d), or with a boolean mask (..., n) that is
False for padding (a queue or a mask, not both). Written to be fast: neighbours are selected by one product without
gradient, a mask is a bias that the product adds anyway, and nothing indexes by booleans, which would wait for the
device. `peers.py` has what other libraries do.
"""

import math
from functools import lru_cache

import torch
from scipy.special import hyp0f1
from torch.nn.functional import embedding, normalize

ALMOST_ONE = 1 - 1e-7  # float32 has nothing between this and one; at one, the derivative of the arc cosine is infinite
CIRCLES, SAMPLES = 13, 512


def _project(embeddings, queue):
    """The points, and all that they are kept away from: themselves, then the queue."""
    x = normalize(embeddings, dim=-1)
    return x, x if queue is None else torch.cat([x, normalize(queue, dim=-1)], dim=-2)


def _bias(x, mask, present, absent):
    """A row to be added to all rows of a product: one number where the mask is True, another where it is False."""
    return x.new_full((), absent).where(~mask, present).unsqueeze(-2)


def _product(x, y, bias=None, alpha=1.0):
    if bias is None:
        return x @ y.mT
    add = torch.addmm if y.ndim == 2 else torch.baddbmm
    return add(bias, x.expand(*y.shape[:-2], *x.shape[-2:]), y.mT, alpha=alpha)


def _nearest(x, others, mask, *, with_itself):
    with torch.no_grad():
        cosines = _product(x, others, None if mask is None else _bias(x, mask, 0.0, -math.inf))
        if not with_itself:
            cosines.diagonal(dim1=-2, dim2=-1).fill_(-math.inf)
        near = cosines.argmax(dim=-1)
        if others.ndim == 3:
            near += torch.arange(len(others), device=x.device).unsqueeze(-1) * others.shape[-2]
    return embedding(near, others.flatten(end_dim=-2))


def _mean(terms, mask):
    return terms.mean(dim=-1) if mask is None else torch.where(mask, terms, 0.0).sum(dim=-1) / mask.sum(dim=-1)


def _angle(x, y):
    return torch.acos((x * y).sum(dim=-1).clamp(-ALMOST_ONE, ALMOST_ONE))


def max_min(embeddings, queue=None, mask=None):
    x, others = _project(embeddings, queue)
    return -_mean(_angle(x, _nearest(x, others, mask, with_itself=False)), mask)


def koleo(embeddings, queue=None, mask=None):
    x, others = _project(embeddings, queue)
    near = _nearest(x, others, mask, with_itself=False)
    return -_mean(torch.log(torch.linalg.vector_norm(x - near, dim=-1)), mask)


def _mean_over_pairs(sums, others, mask):
    """The mean over pairs of different points, of each point's sum over all others."""
    count = others.shape[-2] if mask is None else mask.sum(dim=-1)
    return _mean(sums, mask) / (count - 1)


def _gaussian(embeddings, queue, mask):
    x, others = _project(embeddings, queue)
    return torch.exp(_product(x, others, None if mask is None else _bias(x, mask, 0.0, -math.inf))), others


def energy_gaussian(embeddings, queue=None, mask=None):
    kernel, others = _gaussian(embeddings, queue, mask)
    return _mean_over_pairs(kernel.sum(dim=-1) - math.e, others, mask)  # e is that of a point with itself


def energy_laplace(embeddings, queue=None, mask=None):
    x, others = _project(embeddings, queue)
    angles = torch.acos(_product(x, others).clamp(-ALMOST_ONE, ALMOST_ONE))
    kernel = torch.exp(-angles if mask is None else _bias(x, mask, 0.0, -math.inf) - angles)
    return _mean_over_pairs(kernel.sum(dim=-1) - kernel.detach().diagonal(dim1=-2, dim2=-1), others, mask)


def energy_riesz(embeddings, queue=None, mask=None):
    x, others = _project(embeddings, queue)
    bias = x.new_ones((1,) * x.ndim) if mask is None else _bias(x, mask, 1.0, math.inf)
    half_squared = _product(x, others, bias, alpha=-1.0)
    half_squared.detach().diagonal(dim1=-2, dim2=-1).fill_(math.inf)  # where value and derivative are zero
    kernel = torch.rsqrt(half_squared.clamp_min(1e-7))
    return _mean_over_pairs(kernel.sum(dim=-1), others, mask) * math.sqrt(0.5)


def uniformity(embeddings, queue=None, mask=None):
    kernel, _ = _gaussian(embeddings, queue, mask)
    if mask is None:
        return kernel.mean(dim=(-2, -1)).log()
    return torch.log(_mean(kernel.sum(dim=-1), mask) / mask.sum(dim=-1))


@lru_cache
def gaussian_mean(d):
    """The mean of the Gaussian kernel over the sphere."""
    return float(hyp0f1(d / 2, 0.25))


def mmd(embeddings, queue=None, mask=None):
    return energy_gaussian(embeddings, queue, mask) - gaussian_mean(embeddings.shape[-1])


def lloyd(embeddings, queue=None, mask=None, *, samples=None):
    x, others = _project(embeddings, queue)
    if samples is None:
        samples = normalize(torch.randn(SAMPLES, x.shape[-1], dtype=x.dtype, device=x.device), dim=-1)
    return _angle(samples, _nearest(samples, others, mask, with_itself=True)).square().mean(dim=-1) / 2


def great_circles(x):
    p, q = normalize(torch.randn(2, CIRCLES, x.shape[-1], dtype=x.dtype, device=x.device), dim=-1)
    return torch.stack([p, normalize(q - (p * q).sum(dim=-1, keepdim=True) * p, dim=-1)], dim=1)


def _circle_angles(x, circles):
    along, across = (circles.flatten(end_dim=1) @ x.mT).unflatten(-2, (-1, 2)).unbind(dim=-2)
    return torch.atan2(across, along)


def sliced(embeddings, queue=None, mask=None, *, circles=None):
    circles = great_circles(embeddings) if circles is None else circles
    angles = _circle_angles(embeddings, circles)  # (..., k, n): angles do not change with the length of a row
    if queue is not None:
        angles = torch.cat([angles, _circle_angles(queue, circles)], dim=-1)
    if mask is not None:
        angles = torch.where(mask.unsqueeze(-2), angles, 4.0)  # beyond pi: sorted behind all others
    angles = angles.sort(dim=-1).values
    rank = torch.arange(angles.shape[-1], dtype=angles.dtype, device=angles.device)
    n = angles.shape[-1] if mask is None else mask.sum(dim=-1)[..., None, None]
    present = None if mask is None else rank < n
    with torch.no_grad():  # the gradient by the mean vanishes, since the gaps sum to zero
        even = (2 * rank + (1 - n)) * (math.pi / n)
        target = even + (angles if mask is None else torch.where(present, angles, 0.0)).sum(dim=-1, keepdim=True) / n
    gaps = angles - target if mask is None else torch.where(present, angles - target, 0.0)
    squares = gaps.square().sum(dim=-1).mean(dim=-1)
    return squares / (2 * (n if mask is None else mask.sum(dim=-1)))


def ssw(embeddings, queue=None, mask=None, *, circles=None):
    n = embeddings.shape[-2] + (0 if queue is None else queue.shape[-2]) if mask is None else mask.sum(dim=-1)
    return sliced(embeddings, queue, mask, circles=circles) * (2 / (4 * math.pi**2)) + 1 / (12 * n**2)


def frame_potential(embeddings):
    x, _ = _project(embeddings, None)
    return _mean_over_pairs(_product(x, x).square().sum(dim=-1) - 1, x, None)


def log_det(embeddings):
    x, _ = _project(embeddings.double(), None)  # a product of float32 leaves a matrix without an inverse
    return (-torch.linalg.slogdet(torch.exp(_product(x, x))).logabsdet / x.shape[-2]).to(embeddings.dtype)


def spherical_variance(embeddings):
    return torch.linalg.vector_norm(_project(embeddings, None)[0].mean(dim=-2), dim=-1) - 1
