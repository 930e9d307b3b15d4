r"""Who is near whom, and how much of it a change of the table has kept."""

import torch
from torch import Tensor

from unclump._arrays import Floats, as_tensor
from unclump._checks import check_count, check_generator, check_points, check_rows
from unclump.measures.rows import PerSet, map_sets
from unclump.ops.nearest import nearest_of_rows
from unclump.ops.project import project


def neighbour_overlap(
    x: Tensor | Floats,
    y: Tensor | Floats,
    *,
    neighbours: int = 10,
    samples: int | None = 2000,
    generator: torch.Generator | None = None,
) -> PerSet:
    r"""How many of a row's nearest neighbours in one table are among its nearest in another, on average.

    .. math:: \frac1m \sum_i \frac{|N_k(x_i) \cap N_k(y_i)|}{k}

    with k neighbours by angle, the row itself left out: 1 where nothing has changed, about k / n where nothing is left.

    Args:
        x: A table of shape (n, d), torch or NumPy; or separate sets of shape (..., n, d), which give a tensor of (...).
        y: The same rows in another state, of shape (n, e) or (..., n, e).
        neighbours: k; no more than n - 1 of them are looked at.
        samples: How many rows are looked at, a random choice, each against the whole table. With 2000 rows the result
            is off by about 0.005. None is all of them. In all sets the same rows.
        generator: For the choice.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
        >>> neighbour_overlap(x, x.flip(1), neighbours=1)  # a reflection
        1.0
        >>> neighbour_overlap(x, x[[0, 2, 1, 3]], neighbours=1)  # two rows exchanged
        0.0
    """
    first, second = as_tensor(x), as_tensor(y)
    for table in (first, second):
        check_points(table, at_least=2)
        check_rows(table)
    if first.shape[:-1] != second.shape[:-1]:
        counts = [" x ".join(map(str, table.shape[:-1])) for table in (first, second)]
        raise ValueError(f"expected the same rows in both tables, got {counts[0]} and {counts[1]} rows")
    check_count("neighbours", neighbours)
    check_generator(generator)
    n = first.shape[-2]
    rows = torch.arange(n)
    if samples is not None:
        check_count("samples", samples)
        if samples < n:
            rows = torch.randperm(n, generator=generator)[:samples].sort().values
    k = min(neighbours, n - 1)

    def share_kept(*tables: Tensor) -> float:
        before, after = (nearest_of_rows(project(table), rows.to(table.device), k=k) for table in tables)
        return (before.unsqueeze(2) == after.unsqueeze(1)).any(dim=2).sum().item() / before.numel()

    return map_sets(share_kept, first.detach(), second.detach())
