"""The objectives of the experiments, as the paper sets them, and the loop for tables whose every row is in a step."""

import torch

import unclump as uc


def descend(points, objective, *, steps, lr, optimizer=uc.SphereAdam, schedule=None):
    """The points after so many steps on all of them, as `uc.disperse` has it, to the bit.

    A leading dimension holds separate starts, of which each ends where it would alone.
    """
    table = torch.nn.Parameter(points.clone())
    stepper = optimizer([table], lr=lr)
    if optimizer is not uc.SphereAdam:
        uc.project_after_step(stepper, [table])
    for step in range(steps):
        if schedule:
            stepper.param_groups[0]["lr"] = lr * schedule(step)
        table.grad = objective.value_and_gradient(table.detach())[1]
        stepper.step()
    return table.detach()


class Root(torch.nn.Module):
    """The root of an objective's value: what POT's function, and so the authors' SSW, returns (erratum 14)."""

    def __init__(self, objective):
        super().__init__()
        self.objective = objective

    def forward(self, points):
        return self.objective(points).sqrt()

    def value_and_gradient(self, points):
        value, gradient = self.objective.value_and_gradient(points)
        return value.sqrt(), gradient.div_(2 * value.sqrt()[..., None, None])


# The objectives of the small experiments, as the paper sets them: gamma = s = 1, 300 samples, 50 circles, 1 circle.
# "shifted" is the chordal kernel as the paper prints it, and as its authors ran it; "double" is in double precision,
# since this kernel draws points to antipodes, where its gradient has a corner that single precision does not resolve.
SMALL = {
    "MHE RBF chordal": lambda g: uc.Energy(uc.Gaussian()),
    "MHE RBF geodesic": lambda g: uc.Energy(uc.Gaussian(distance="geodesic")),
    "MHE Laplace chordal": lambda g: uc.Energy(uc.Laplace(distance="chordal")),
    "MHE Laplace geodesic": lambda g: uc.Energy(uc.Laplace(distance="geodesic")),
    "MHE Laplace geodesic, double": lambda g: uc.Energy(uc.Laplace(distance="geodesic")),
    "MHE Laplace shifted": lambda g: uc.Energy(uc.Laplace(distance="shifted")),
    "MHE Riesz chordal": lambda g: uc.Energy(uc.Riesz(distance="chordal")),
    "MHE Riesz geodesic": lambda g: uc.Energy(uc.Riesz(distance="geodesic")),
    "MHE Riesz shifted": lambda g: uc.Energy(uc.Riesz(distance="shifted")),
    "MM geodesic": lambda g: uc.MaxMin(distance="geodesic"),
    "MM chordal": lambda g: uc.MaxMin(distance="chordal"),
    "MM squared": lambda g: uc.MaxMin(distance="squared"),
    "KoLeo": lambda g: uc.KoLeo(),
    "Lloyd 300": lambda g: uc.Lloyd(300, generator=g),
    "SSW 50": lambda g: uc.SSW(50, generator=g),
    "Sliced 1": lambda g: uc.Sliced(1, reduction="sum", generator=g),
}

# Those of the large ones. Pairwise objectives and Lloyd see 512 random rows, the sliced ones the whole table.
LARGE = {
    "MHE RBF chordal": lambda g: uc.Energy(uc.Gaussian()),
    "MHE Laplace shifted": lambda g: uc.Energy(uc.Laplace(distance="shifted")),
    "MHE Laplace geodesic": lambda g: uc.Energy(uc.Laplace()),
    "MHE Riesz shifted": lambda g: uc.Energy(uc.Riesz(distance="shifted")),
    "MHE Riesz geodesic": lambda g: uc.Energy(uc.Riesz(distance="geodesic")),
    "KoLeo": lambda g: uc.KoLeo(),
    "MM geodesic": lambda g: uc.MaxMin(),
    "Lloyd 512": lambda g: uc.Lloyd(512, generator=g),
    "Sliced 13 axes": lambda g: uc.Sliced(13, axis_aligned=True, reduction="sum", generator=g),
    "Sliced 13": lambda g: uc.Sliced(13, reduction="sum", generator=g),
    "SSW 13": lambda g: uc.SSW(13, generator=g),
    "SSW 1": lambda g: uc.SSW(1, generator=g),
    "SSW 13 root": lambda g: Root(uc.SSW(13, generator=g)),
    "SSW 1 root": lambda g: Root(uc.SSW(1, generator=g)),
}


def draws(objective):
    """Whether it takes random numbers: its starts have generators of their own, and do not share a run."""
    return objective.startswith(("Lloyd", "Sliced", "SSW"))


def sees_all(objective):
    return objective.startswith(("Sliced", "SSW"))
