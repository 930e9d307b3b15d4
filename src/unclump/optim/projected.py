"""Two ways to keep points on the sphere with any optimiser of torch."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.optim.optimizer import Optimizer
from torch.utils.hooks import RemovableHandle

from unclump._checks import directed_rows, has_direction
from unclump.ops.project import project
from unclump.ops.put_on_sphere import put_on_sphere
from unclump.optim.groups import check_point_parameter


def project_after_step(optimizer: Optimizer, params: Iterable[Tensor]) -> RemovableHandle:
    r"""The Euclidean baseline: any torch optimiser, with its points projected back onto the sphere after each step.

    A step leaves the sphere, and the optimiser's moments do not account for the projection. This is a baseline for
    comparison; `SphereAdam` and `SphereSGD` are better behaved. A row that a step moves to the origin stays there.

    Args:
        optimizer: Any torch optimiser.
        params: Those of its parameters that are points, of shape (..., n, d); they are also projected immediately. Rows
            of zeros, such as padding, are left unchanged, and a warning lists them.

    Returns:
        A handle whose `remove()` removes the hook. Like all hooks of torch, it is not copied or pickled with the
        optimiser.

    Example:
        >>> from unclump.optim.projected import project_after_step
        >>> x = torch.nn.Parameter(torch.tensor([[3.0, 0.0]]))
        >>> optimizer = torch.optim.SGD([x], lr=1.0)
        >>> handle = project_after_step(optimizer, [x])
        >>> (-x[:, 1]).sum().backward()
        >>> optimizer.step()
        >>> x.data
        tensor([[0.7071, 0.7071]])
    """
    points = list(params)
    for x in points:
        check_point_parameter(x)
    directed = [directed_rows(x, f"a parameter of shape {tuple(x.shape)}") for x in points]

    @torch.no_grad()
    def project_points(*_: object) -> None:
        for x, mask in zip(points, directed, strict=True):
            x.copy_(project(x) if mask is None else project(x).masked_fill(~mask.unsqueeze(-1), 0))

    with torch.no_grad():
        put_on_sphere(points)
    return optimizer.register_step_post_hook(project_points)


def sphere_parametrization(module: nn.Module, name: str = "weight") -> nn.Module:
    r"""Reparametrise a parameter of `module` as the projection of an unconstrained one, for use with any optimiser.

    Reading `module.weight` gives unit rows; assigning to it stores their directions. The optimiser sees
    `module.parametrizations.weight.original`, whose norm grows during training, so that equal steps rotate it less and
    less.

    Args:
        module: Changed in place. To save it, use its `state_dict`, as for every parametrised module.
        name: Its parameter of shape (..., n, d). Rows of zeros, such as padding, are left unchanged, and a warning
            lists them.

    Returns:
        `module`.

    Example:
        >>> from unclump.optim.projected import sphere_parametrization
        >>> layer = sphere_parametrization(torch.nn.Embedding(5, 3))
        >>> torch.allclose(layer.weight.norm(dim=-1), torch.ones(5))
        True
    """
    parameter = getattr(module, name)
    check_point_parameter(parameter)
    directed_rows(parameter, f"the {name} of {type(module).__name__}")
    return parametrize.register_parametrization(module, name, _Projection())


class _Projection(nn.Module):
    """Maps unconstrained rows to unit rows, in the same dtype, as torch requires of parametrisations."""

    def forward(self, free: Tensor) -> Tensor:
        return project(free).to(free.dtype)

    def right_inverse(self, points: Tensor) -> Tensor:
        has_direction(points)
        return self.forward(points)
