"""The objectives as one writes them in plain torch, and POT's: what ours are measured against.

Each takes unit vectors and lets autograd do the rest. They are written as well as the plain expression allows: no loop,
no needless matrix, the nearest neighbour by one product and one maximum.
"""

import math

import ot
import torch


def _cosines(x):
    return x @ x.mT


def energy(x):
    n = len(x)
    return (torch.exp(_cosines(x)).sum() - n * math.e) / (n * (n - 1))


def koleo(x):
    with torch.no_grad():
        near = _cosines(x).fill_diagonal_(-1).argmax(dim=1)
    return -torch.log(torch.linalg.vector_norm(x - x[near], dim=-1) + 1e-8).mean()


def max_min(x):
    with torch.no_grad():
        near = _cosines(x).fill_diagonal_(-1).argmax(dim=1)
    return -torch.acos((x * x[near]).sum(dim=-1).clamp(-1 + 1e-7, 1 - 1e-7)).mean()


def lloyd(x, samples=512):
    y = torch.nn.functional.normalize(torch.randn(samples, x.shape[1]), dim=-1)
    nearest = (y @ x.mT).amax(dim=1)
    return torch.acos(nearest.clamp(-1 + 1e-7, 1 - 1e-7)).square().mean() / 2


def sliced(x, p, q):
    theta = torch.atan2(x @ q, x @ p)  # (n, k)
    n = len(x)
    even = (2 * torch.arange(n) + (1 - n)) * (math.pi / n)
    with torch.no_grad():
        ranks = theta.argsort(dim=0).argsort(dim=0)
        target = theta.mean(dim=0) + even[ranks]
    return (theta - target).square().mean() / 2


def sliced_axes(x, circles=13):
    axes = torch.eye(x.shape[1])[torch.randperm(x.shape[1])[: 2 * circles]]
    return sliced(x, axes[:circles].mT, axes[circles:].mT)


def sliced_random(x, circles=1):
    q, _ = torch.linalg.qr(torch.randn(circles, x.shape[1], 2))
    return sliced(x, q[..., 0].mT, q[..., 1].mT)


def ssw(x, circles):
    return ot.sliced_wasserstein_sphere_unif(x, n_projections=circles) ** 2  # POT gives the root of the mean
