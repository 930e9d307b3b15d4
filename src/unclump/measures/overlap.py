r"""Who is near whom, and how much of it a change of the table has kept."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unclump._arrays import Floats, as_tensor
from unclump._checks import check_count, check_generator, check_points, check_rows
from unclump.geometry.sphere import project

_BLOCK = 512, 16384  # rows and columns of the largest matrix of cosines


def neighbour_overlap(
    x: Tensor | Floats,
    y: Tensor | Floats,
    *,
    neighbours: int = 10,
    samples: int | None = 2000,
    generator: torch.Generator | None = None,
) -> float:
    r"""How many of a row's nearest neighbours in one table are among its nearest in another, on average.

    .. math:: \frac1m \sum_i \frac{|N_k(x_i) \cap N_k(y_i)|}{k}

    with k neighbours by angle, the row itself left out: 1 where nothing has changed, about k / n where nothing is left.

    Args:
        x: A table of shape (n, d).
        y: The same rows in another state, of shape (n, e).
        neighbours: k; no more than n - 1 of them are looked at.
        samples: How many rows are looked at, a random choice, each against the whole table. With 2000 rows the result
            is off by about 0.005. None is all of them.
        generator: For the choice.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
        >>> neighbour_overlap(x, x.flip(1), neighbours=1)  # a reflection
        1.0
        >>> neighbour_overlap(x, x[[0, 2, 1, 3]], neighbours=1)  # two rows exchanged
        0.0
    """
    first, second = as_tensor(x).detach(), as_tensor(y).detach()
    for table in (first, second):
        check_points(table, at_least=2)
        check_rows(table)
    if len(first) != len(second):
        raise ValueError(f"expected the same rows in both tables, got {len(first)} and {len(second)} rows")
    check_count("neighbours", neighbours)
    check_generator(generator)
    rows = torch.arange(len(first))
    if samples is not None:
        check_count("samples", samples)
        if samples < len(first):
            rows = torch.randperm(len(first), generator=generator)[:samples].sort().values
    found = [nearest_rows(table, rows, neighbours) for table in (first, second)]
    return (found[0].unsqueeze(2) == found[1].unsqueeze(1)).any(dim=2).double().mean().item()


def nearest_rows(x: Float[Tensor, "n d"], rows: Int[Tensor, " m"], count: int) -> Int[Tensor, "m k"]:
    """The `count` rows of a table nearest to each of some of its rows, these left out, nearest first.

    By cosines in the table's precision, single at least: among rows that are as near to within 0.02 degrees the order
    is open in float32.
    """
    points = project(x)
    count = min(count, len(points) - 1)
    found = []
    for own in torch.split(rows.to(points.device), _BLOCK[0]):
        cosine, index = points.new_empty(len(own), 0), own.new_empty(len(own), 0)
        for columns in torch.split(torch.arange(len(points), device=points.device), _BLOCK[1]):
            block = (points[own] @ points[columns].mT).masked_fill_(own.unsqueeze(1) == columns, -math.inf)
            best, at = block.topk(min(count, len(columns)), dim=1)
            cosine, index = torch.cat([cosine, best], dim=1), torch.cat([index, columns[at]], dim=1)
            cosine, kept = cosine.topk(min(count, cosine.shape[1]), dim=1)
            index = index.gather(1, kept)
        found.append(index)
    return torch.cat(found)
