"""Three rows of the synthetic experiment by other libraries: POT and plain torch, with geoopt's RiemannianAdam."""

import torch


def energy(points, draw):
    """exp of inner products, over pairs: the authors' RBF (ledoh_torch/pairwise_dispersion.py at 882a1c1)."""
    i, j = torch.triu_indices(len(points), len(points), 1)
    return torch.exp((points @ points.T)[i, j]).mean()


def koleo(points, draw):
    itself = torch.eye(len(points), dtype=torch.bool)
    return -torch.cdist(points, points).masked_fill(itself, torch.inf).amin(dim=1).log().mean()


def ssw(points, draw):
    """POT's root, on 13 circles (ledoh_torch/ssw.py)."""
    import ot

    seed = int(torch.randint(2**31, (), generator=draw))
    points = torch.nn.functional.normalize(points)  # geoopt's rows leave the sphere by rounding, which POT refuses
    return ot.sliced_wasserstein_sphere_unif(points, n_projections=13, seed=seed)


PEERS = {"peer: MHE RBF chordal": energy, "peer: KoLeo": koleo, "peer: SSW 13 root": ssw}
"""Beside rows of the same name without the prefix; a new version of either library may have another default."""


def table_and_optimizer(points, lr):
    import geoopt

    table = geoopt.ManifoldParameter(points.clone(), manifold=geoopt.SphereExact())
    return table, geoopt.optim.RiemannianAdam([table], lr=lr)
