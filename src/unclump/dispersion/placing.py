r"""Room for new rows: the emptiest directions of a table."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from tqdm import tqdm

from unclump._arrays import Table, as_tensor, like
from unclump._checks import check_count, check_generator, check_table
from unclump.dispersion.directed import DirectedRows
from unclump.geometry.sampling import uniform
from unclump.geometry.sphere import angle
from unclump.ops.nearest import nearest
from unclump.ops.project import project
from unclump.optim.optimizers import SphereAdam

_SHARPNESS = [2.0**k for k in range(3, 14)]
_STEPS = 40  # at each sharpness
_NEIGHBOURS = 256  # that each new row minds, or as many as _GATHERED entries hold, but no fewer than 16
_GATHERED = 2**24
_SEARCHED = 1024  # places at a time, between updates of the bar


def place(
    count: int, x: Table, *, samples: int = 10_000, generator: torch.Generator | None = None, progress: bool = False
) -> Table:
    r"""New rows for a table, in its emptiest directions: far from it and from each other.

    Of many uniform places the farthest from all rows is taken, then the farthest from these and it, and so on [1]. Then
    each new row climbs the soft minimum of its distances to its nearest rows z, old and new,

    .. math:: \max_y -\frac1s \log \sum_j \exp(s \langle y, z_j \rangle), \quad s = p / \min_j |y - z_j|^2,

    all of them together, with p ever larger. The smallest angle is never less than where the climb began.

    Args:
        count: How many rows to place.
        x: The table of shape (n, d), a tensor or a NumPy array, rows of any norm. It stays as it is. Rows of zeros, as
            padding is, take up no room, and are listed in a warning.
        samples: How many uniform places to choose from, at least `count`.
        generator: For these.
        progress: Show a bar on stderr while the table is searched for the nearest of each place.

    Returns:
        Unit rows of shape (count, d), of the kind, dtype and device of `x`.

    References:
        [1] Gonzalez. Clustering to minimize the maximum intercluster distance. Theoretical Computer Science, 1985.

    Example:
        >>> from unclump.dispersion.placing import place
        >>> corner = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
        >>> place(1, corner, generator=torch.Generator().manual_seed(0))
        tensor([[-0.5774, -0.5774, -0.5774]])
    """
    given = as_tensor(x)
    check_table(given)
    directed = DirectedRows(given)
    check_count("count", count)
    check_count("samples", samples)
    check_generator(generator)
    if samples < count:
        raise ValueError(f"expected at least as many samples as new rows, got {samples} for {count}; take more samples")
    table = project(directed.rows)
    check_table(table)
    places = uniform(samples, table.shape[1], generator=generator, dtype=table.dtype, device=table.device)
    return like(_climb(table, _farthest(count, places, table, progress)).to(given.dtype), x)


def _farthest(
    count: int, places: Float[Tensor, "m d"], x: Float[Tensor, "n d"], progress: bool
) -> Float[Tensor, "{count} d"]:
    """Choose places one by one, each the farthest from the table and from those before."""
    free = places.new_empty(len(places))
    with tqdm(total=len(places), desc="searching", unit="place", disable=not progress, leave=False) as bar:
        for start in range(0, len(places), _SEARCHED):
            some = places[start : start + _SEARCHED]
            free[start : start + len(some)] = angle(some, x[nearest(some, x)[0][:, 0]])
            bar.update(len(some))
    chosen = []
    for _ in range(count):
        chosen.append(free.argmax())
        free = torch.minimum(free, angle(places, places[chosen[-1]]))
    return places[torch.stack(chosen)]


def _climb(x: Float[Tensor, "n d"], start: Float[Tensor, "m d"]) -> Float[Tensor, "m d"]:
    """The best of the places that the new rows pass on their way, by the smallest angle that any of them has."""
    rows = nn.Parameter(start.clone())
    optimizer = SphereAdam([rows], lr=0.0)
    best, near, room = start, *_nearest_rows(x, start)
    widest = room.min()
    for sharpness in _SHARPNESS:
        optimizer.param_groups[0]["lr"] = room.mean().item() / sharpness  # about the width of the soft minimum
        scale = (sharpness / (2 * torch.sin(room / 2)).square()).unsqueeze(-1)
        old, others = x[near.clamp_max(len(x) - 1)], near - len(x)
        for _ in range(_STEPS):
            y = rows.detach()
            z = torch.where((others < 0).unsqueeze(-1), old, y[others.clamp_min(0)])  # (m, k, d)
            weights = torch.softmax(scale * (z @ y.unsqueeze(-1))[..., 0], dim=1)
            rows.grad = (weights.unsqueeze(1) @ z)[:, 0]
            optimizer.step()
        near, room = _nearest_rows(x, rows.detach())
        if room.min() > widest:
            best, widest = rows.detach().clone(), room.min()
    return best


def _nearest_rows(x: Float[Tensor, "n d"], y: Float[Tensor, "m d"]) -> tuple[Int[Tensor, "m k"], Float[Tensor, " m"]]:
    """The rows of (x, y) nearest to each of y, itself left out, nearest first; and the angle to the nearest."""
    z = torch.cat([x, y])
    k = min(len(z) - 1, max(16, min(_NEIGHBOURS, _GATHERED // y.numel())))
    near, _ = nearest(y, z, k=k, itself=len(x))
    return near, angle(y, z[near[:, 0]])
