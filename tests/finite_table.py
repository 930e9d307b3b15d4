"""Print objective x difficult input: are value and gradient finite, and do exact duplicates come apart?

python -m tests.finite_table
"""

import torch

import unclump as uc
from tests.cases import INPUTS, OBJECTIVES, value_and_gradient

# The spherical variance does not see duplicates: (x, x, -x, -x) is one of its optima.
KEEPS_DUPLICATES = {"SphericalVariance"}


def is_finite(name, given):
    value, gradient = value_and_gradient(OBJECTIVES[name](), INPUTS[given](), autocast=given == "autocast")
    return bool(value.isfinite()) and bool(gradient.isfinite().all())


def separation_after(name, *, steps=200, lr=0.1):
    """The angle between two rows that coincide at first, in degrees, after that many steps of the optimiser."""
    x = uc.uniform(16, 4, generator=torch.Generator().manual_seed(1))
    x[1] = x[0]
    x = torch.nn.Parameter(x)
    objective, optimizer = OBJECTIVES[name](), uc.SphereAdam([x], lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        objective(x).backward()
        optimizer.step()
    return torch.rad2deg(uc.angle(x[0], x[1])).item()


def main():
    short = [f"{i}" for i, _ in enumerate(INPUTS, 1)]
    for number, given in zip(short, INPUTS, strict=True):
        print(f"{number:>3}  {given}")
    width = max(map(len, OBJECTIVES))
    print(f"\n{'finite value and gradient':<{width}} " + "".join(f"{s:>4}" for s in short) + "   duplicates part by")
    for name in OBJECTIVES:
        cells = "".join(f"{'yes' if is_finite(name, given) else 'NO':>4}" for given in INPUTS)
        print(f"{name:<{width}} {cells}   {separation_after(name):10.3f} degrees")


if __name__ == "__main__":
    main()
