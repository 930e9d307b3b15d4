r"""Placement of new rows in the emptiest directions of a table."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from tqdm import tqdm

from unclump._arrays import Table, as_tensor, as_type_of
from unclump._checks import check_count, check_generator, check_table
from unclump.dispersion.directed import DirectedRows
from unclump.geometry.sampling import uniform
from unclump.geometry.sphere import angle, angle_of
from unclump.ops.nearest import nearest
from unclump.ops.project import project
from unclump.optim.optimizers import SphereAdam

_SHARPNESS = [2.0**k for k in range(3, 14)]
_STEPS = 40  # at each sharpness
_NEIGHBOURS = 256  # rows that repel each new row: fewer if they have more than _MAX_GATHERED entries, but at least 16
_MAX_GATHERED = 2**24
_BLOCK = 1024  # locations searched between two updates of the progress bar


def place(
    count: int, x: Table, *, samples: int = 10_000, generator: torch.Generator | None = None, progress: bool = False
) -> Table:
    r"""Place new rows in the emptiest directions of a table: far from its rows and from each other.

    Of many uniformly random locations, the farthest from all rows is chosen, then the farthest from all rows and the
    first choice, and so on [1]. Then each new row y maximises the soft minimum of its distances to its nearest rows z,
    old and new,

    .. math:: \max_y -\frac1s \log \sum_j \exp(s \langle y, z_j \rangle), \quad s = p / \min_j |y - z_j|^2,

    all of them at once, for increasing p. The smallest angle never falls below that of the chosen locations.

    Args:
        count: The number of rows to place.
        x: The table of shape (n, d), a tensor or a NumPy array, with rows of any norm. It is not changed. Rows of
            zeros, such as padding, are ignored, and a warning lists them.
        samples: The number of random locations to choose from, at least `count`.
        generator: Draws these locations.
        progress: Show a progress bar on stderr during the search for the nearest row of each location.

    Returns:
        Unit rows of shape (count, d), with the type, dtype and device of `x`.

    References:
        [1] Gonzalez. Clustering to minimize the maximum intercluster distance. Theoretical Computer Science, 1985.

    Example:
        >>> from unclump.dispersion.placing import place
        >>> corner = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
        >>> place(1, corner, generator=torch.Generator().manual_seed(0))
        tensor([[-0.5774, -0.5774, -0.5774]])
    """
    original = as_tensor(x)
    check_table(original)
    directed = DirectedRows(original)
    check_count("count", count)
    check_count("samples", samples)
    check_generator(generator)
    if samples < count:
        raise ValueError(f"expected at least as many samples as new rows, got {samples} for {count}; use more samples")
    table = project(directed.rows)
    check_table(table)
    placed = place_among(count, table, samples=samples, generator=generator, progress=progress)
    return as_type_of(placed.to(original.dtype), x)


def place_among(
    count: int, x: Float[Tensor, "n d"], *, samples: int, generator: torch.Generator | None, progress: bool
) -> Float[Tensor, "{count} d"]:
    """`place` among unit rows, without checks."""
    locations = uniform(samples, x.shape[1], generator=generator, dtype=x.dtype, device=x.device)
    return _maximise_room(x, _choose_farthest(count, locations, x, progress), progress)


def _choose_farthest(
    count: int, locations: Float[Tensor, "m d"], x: Float[Tensor, "n d"], progress: bool
) -> Float[Tensor, "{count} d"]:
    """Choose locations one by one, each the farthest from the table and from those already chosen."""
    room = locations.new_empty(len(locations))
    with tqdm(total=len(locations), desc="searching", unit="place", disable=not progress, leave=False) as bar:
        for start in range(0, len(locations), _BLOCK):
            block = locations[start : start + _BLOCK]
            room[start : start + len(block)] = angle(block, x[nearest(block, x)[0][:, 0]])
            bar.update(len(block))
    chosen = []
    for _ in range(count):
        chosen.append(room.argmax())
        room = torch.minimum(room, angle(locations, locations[chosen[-1]]))
    return locations[torch.stack(chosen)]


def _maximise_room(x: Float[Tensor, "n d"], start: Float[Tensor, "m d"], progress: bool) -> Float[Tensor, "m d"]:
    """Maximise the soft minimum; return the best iterate, by its smallest angle to any other row."""
    rows = nn.Parameter(start.clone())
    optimizer = SphereAdam([rows], lr=0.0)
    best, near, room = start, *_nearest_rows(x, start)
    widest = room.min()
    for sharpness in tqdm(_SHARPNESS, desc="placing", disable=not progress, leave=False):
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
    """For each row of y, its nearest other rows in (x, y), nearest first; and the angle to the nearest."""
    k = max(16, min(_NEIGHBOURS, _MAX_GATHERED // y.numel()))
    near, r2 = nearest(y, x, k=min(k, len(x)))
    if len(y) > 1:
        near_new, r2_new = nearest(y, k=min(k, len(y) - 1))
        near, r2 = torch.cat([near, near_new + len(x)], dim=1), torch.cat([r2, r2_new], dim=1)
        r2, order = r2.topk(min(k, r2.shape[1]), largest=False)
        near = near.gather(1, order)
    return near, angle_of(r2[:, 0])
