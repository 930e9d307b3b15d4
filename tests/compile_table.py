"""Compile every objective and the step of both optimisers as one graph, and compare with the plain ones.

    python -m tests.compile_table [--quick]

A program of its own, since the shape checker that pytest puts around every function cannot be traced. Every objective
is compiled alone, against a queue and with a mask, for all of sixteen batch sizes at once; and for one size only. Each
batch has a row of zeros. The quick run has KoLeo in full, one objective of each other kind twice, and an optimiser.
"""

import sys
import warnings

import torch
from torch._dynamo.testing import CompileCounterWithBackend

import unclump as uc
from tests.cases import value_and_gradient

OBJECTIVES = [
    *(uc.objective(name) for name in uc.list_objectives() if name != "polarization"),
    uc.Polarization(samples=16, steps=2),
    uc.KoLeo(k=2),
    uc.Energy(uc.Laplace()),
    uc.Sliced(3, axis_aligned=True),
    uc.SIGReg(3),
    uc.VISReg(3),
]
QUICK = [uc.KoLeo(), uc.Energy(uc.Laplace()), uc.Lloyd(), uc.Sliced(3), uc.SIGReg(3)]
COMPANY = {
    "alone": lambda x: {},
    "against": lambda x: {"against": torch.linspace(-1, 1, 28).sin().view(7, 4)},
    "mask": lambda x: {"weight": torch.arange(len(x)) % 5 != 2},
}
ONE_SIZE, SIXTEEN_SIZES = [12], range(10, 26)
EVERY = [(name, sizes) for name in COMPANY for sizes in (ONE_SIZE, SIXTEEN_SIZES)]
REPRESENTATIVE = [("alone", ONE_SIZE), ("mask", SIXTEEN_SIZES)]
OPTIMISERS = {
    "SphereSGD": lambda x: uc.SphereSGD([x], lr=0.1),
    "SphereSGD with momentum": lambda x: uc.SphereSGD([x], lr=0.1, momentum=0.9),
    "SphereSGD with Nesterov's momentum": lambda x: uc.SphereSGD([x], lr=0.1, momentum=0.9, nesterov=True),
    "SphereSGD with dampening": lambda x: uc.SphereSGD([x], lr=0.1, momentum=0.9, dampening=0.5),
    "SphereAdam": lambda x: uc.SphereAdam([x], lr=0.1),
    "SphereAdam with amsgrad": lambda x: uc.SphereAdam([x], lr=0.1, amsgrad=True),
    "SphereAdam, lr a tensor": lambda x: uc.SphereAdam([x], lr=torch.tensor(0.1)),
}


def difference(objective, company, sizes):
    """The largest difference from the plain objective, in units of the largest entry, and how often it was compiled."""
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(objective, fullgraph=True, backend=counter, dynamic=len(sizes) > 1)
    worst = 0.0
    for n in sizes:
        x, results = torch.randn(n, 4, generator=torch.Generator().manual_seed(n)), []
        x[3] = 0
        for module in (objective, compiled):
            torch.manual_seed(0)  # the same circles and samples for both
            results.append(value_and_gradient(lambda x, module=module: module(x, **company(x)), x))
        for a, b in zip(*results, strict=True):  # near the axis of a circle gradients are large
            worst = max(worst, (a - b).abs().max().item() / max(1.0, a.abs().max().item()))
    return worst, counter.frame_count


def step_difference(make):
    """The same for five steps of an optimiser, compiled from the first on."""
    torch._dynamo.reset()
    counter, results = CompileCounterWithBackend("aot_eager"), []
    for compiled in (False, True):
        x = torch.nn.Parameter(uc.project(torch.randn(6, 4, generator=torch.Generator().manual_seed(0))))
        optimizer = make(x)
        step = torch.compile(optimizer.step, fullgraph=True, backend=counter) if compiled else optimizer.step
        for _ in range(5):
            optimizer.zero_grad()
            (1 / torch.pdist(x)).sum().backward()
            step()
        results.append(x.detach())
    return (results[0] - results[1]).abs().max().item(), counter.frame_count


def main():
    warnings.simplefilter("ignore")  # of torch's own compiler
    failed, is_quick = False, "--quick" in sys.argv
    for number, objective in enumerate(QUICK if is_quick else OBJECTIVES):
        for name, sizes in REPRESENTATIVE if is_quick and number else EVERY:
            worst, compiled = difference(objective, COMPANY[name], sizes)
            failed |= worst > 1e-5 or compiled > 2
            print(f"{objective!r:<70} {name:<8} {len(sizes):>2} sizes: differs by {worst:.1e}, compiled {compiled}x")
    for name, make in list(OPTIMISERS.items())[-1 if is_quick else 0 :]:
        worst, compiled = step_difference(make)
        failed |= worst > 1e-5
        print(f"{name:<40} differs by {worst:.1e}, compiled {compiled}x")
    sys.exit(failed)


if __name__ == "__main__":
    main()
