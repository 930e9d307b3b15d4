"""Every objective with every choice it offers, and the difficult inputs they must all survive."""

import torch

import unclump as uc

KERNELS = [
    kernel
    for distance in ("chordal", "geodesic", "shifted")
    for kernel in (
        uc.Gaussian(2.0, distance),
        uc.Laplace(1.5, distance),
        uc.Riesz(1.0, distance),
        uc.Riesz(3.0, distance),
        uc.Riesz(0.0, distance),
        uc.Riesz(-1.0, distance),
    )
]


def _seeded():
    return torch.Generator().manual_seed(5)


# Name -> maker: the random ones draw the same circles and samples each time they are made anew.
OBJECTIVES = {
    **{f"MaxMin({distance})": lambda distance=distance: uc.MaxMin(distance=distance)
       for distance in ("geodesic", "chordal", "squared")},
    **{f"KoLeo({distance})": lambda distance=distance: uc.KoLeo(distance=distance)
       for distance in ("chordal", "geodesic")},
    **{f"Energy({kernel})": lambda kernel=kernel: uc.Energy(kernel) for kernel in KERNELS},
    "FramePotential": lambda: uc.Energy(uc.FramePotential()),
    "Uniformity": uc.Uniformity,
    "Uniformity(Gaussian)": lambda: uc.Uniformity(kernel=uc.Gaussian(2.0), diagonal=True),
    "Uniformity(Laplace)": lambda: uc.Uniformity(kernel=uc.Laplace(), diagonal=True),
    "MMD(Gaussian)": lambda: uc.MMD(uc.Gaussian()),
    "MMD(Laplace)": lambda: uc.MMD(uc.Laplace()),
    "Lloyd": lambda: uc.Lloyd(64, generator=_seeded()),
    "Sliced": lambda: uc.Sliced(generator=_seeded()),
    "Sliced(13)": lambda: uc.Sliced(13, generator=_seeded()),
    "Sliced(axis-aligned)": lambda: uc.Sliced(3, axis_aligned=True, generator=_seeded()),
    "SSW": lambda: uc.SSW(generator=_seeded()),
    "SSW(13)": lambda: uc.SSW(13, generator=_seeded()),
    "LogDet(Gaussian)": lambda: uc.LogDet(uc.Gaussian()),
    "LogDet(Laplace)": lambda: uc.LogDet(uc.Laplace()),
    "Polarization(Riesz)": lambda: uc.Polarization(samples=32, steps=16, generator=_seeded()),
    "Polarization(Laplace)": lambda: uc.Polarization(uc.Laplace(), samples=32, steps=16, generator=_seeded()),
    "SphericalVariance": uc.SphericalVariance,
}  # fmt: skip

# One energy stands for all of them where the kernel makes no difference.
FEW = [name for name in OBJECTIVES if not name.startswith("Energy") or "Riesz(s=1.0, distance='ch" in name]


def _table(n=12, d=4):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(3))


def _near(distance):
    x = uc.project(_table())
    x[1] = x[0]
    x[1, 0] += distance
    return x


def _rows(table, factor):
    table[3:6] *= factor
    return table


def _axes():
    return torch.cat([torch.eye(4), -torch.eye(4), torch.eye(4)])


INPUTS = {
    "generic": _table,
    "duplicates": lambda: torch.cat([_table(), _table()]),
    "all the same": lambda: _table(1).expand(6, 4).clone(),
    "near 1e-5": lambda: _near(1e-5),
    "near 1e-6": lambda: _near(1e-6),
    "antipodes": lambda: torch.cat([_table(), -_table()]),
    "axis points": _axes,
    "a row of zeros": lambda: _rows(_table(), torch.tensor([[1.0], [0.0], [1.0]])),
    "norm 1e-20": lambda: _rows(_table(), 1e-20),
    "norm 1e20": lambda: _rows(_table(), 1e20),
    "n = 2": lambda: _table(2),
    "n = 2, antipodes": lambda: torch.tensor([[0.0, 1.0, 0.0], [0.0, -1.0, 0.0]]),
    "n = 2, duplicates": lambda: torch.tensor([[0.6, 0.8, 0.0], [0.6, 0.8, 0.0]]),
    "d = 2": lambda: _table(12, 2),
    "d = 4096": lambda: _table(12, 4096),
    "float64": lambda: _table().double(),
    "float64 duplicates": lambda: torch.cat([_table(), _table()]).double(),
    "float16": lambda: _table().half(),
    "float16 duplicates": lambda: torch.cat([_table(), _table()]).half(),
    "bfloat16": lambda: _table().bfloat16(),
    "autocast": _table,
}


def value_and_gradient(objective, x, *, autocast=False):
    x = x.clone().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        value = objective(x)
        value.backward()
    return value.detach(), x.grad
