"""Ways to the sphere for those who keep their own optimiser."""

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
    r"""The Euclidean baseline: any torch optimiser, its parameters put back on the sphere after each step.

    The step leaves the sphere, and the optimiser's moments do not account for that: `SphereAdam` and `SphereSGD` are
    better behaved, and this is for comparison with them. A row that a step takes to the origin has no way back.

    Args:
        optimizer: Any torch optimiser, stepping as it always does.
        params: Those of its parameters, of shape (..., n, d), that are points; projected at once, too. Rows of zeros,
            as padding is, stay as they are, and are listed in a warning.

    Returns:
        A handle whose `remove()` ends it. As all hooks of torch, this one is not copied or pickled with the optimiser.

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
    def back_to_sphere(*_: object) -> None:
        for x, mask in zip(points, directed, strict=True):
            x.copy_(project(x) if mask is None else project(x).masked_fill(~mask.unsqueeze(-1), 0))

    with torch.no_grad():
        put_on_sphere(points)
    return optimizer.register_step_post_hook(back_to_sphere)


def sphere_parametrization(module: nn.Module, name: str = "weight") -> nn.Module:
    r"""Make a parameter of `module` the projection of a free one, for those who must keep their own optimiser.

    Reading `module.weight` gives unit rows; assigning to it stores their directions; the optimiser sees
    `module.parametrizations.weight.original`, whose norm grows as it learns, so that equal steps turn it less and less.

    Args:
        module: Changed in place. To save it use its `state_dict`, as for every parametrised module.
        name: Its parameter of shape (..., n, d). Rows of zeros, as padding is, stay as they are, and are listed in a
            warning.

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
    """Free rows to unit rows, in their own dtype, as torch's parametrisations must."""

    def forward(self, free: Tensor) -> Tensor:
        return project(free).to(free.dtype)

    def right_inverse(self, points: Tensor) -> Tensor:
        has_direction(points)
        return self.forward(points)
