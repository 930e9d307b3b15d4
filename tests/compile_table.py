"""Compile every objective as one graph, and compare value and gradient with the plain ones.

    python -m tests.compile_table

A program of its own, since the shape checker that pytest puts around every function cannot be traced.
"""

import sys
import warnings

import torch

import unclump as uc
from tests.cases import value_and_gradient

OBJECTIVES = [
    *(uc.objective(name) for name in uc.list_objectives()),
    uc.Energy(uc.Laplace()),
    uc.MMD(uc.Laplace()),
    uc.Sliced(3, axis_aligned=True),
]


def difference(objective):
    """The largest difference of value or gradient between the compiled and the plain objective."""
    compiled = torch.compile(objective, fullgraph=True, backend="aot_eager")
    x = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))
    results = []
    for module in (objective, compiled):
        torch._dynamo.reset()
        torch.manual_seed(0)  # the same circles and samples for both
        results.append(value_and_gradient(module, x))
    return max((a - b).abs().max().item() for a, b in zip(*results, strict=True))


def main():
    warnings.simplefilter("ignore")  # of torch's own compiler
    worst = 0.0
    for objective in OBJECTIVES:
        found = difference(objective)
        worst = max(worst, found)
        print(f"{objective!r:<85} differs by {found:.1e}")
    sys.exit(worst > 1e-5)


if __name__ == "__main__":
    main()
