"""A clumped table comes apart: measured, dispersed, measured again.

python -m unclump.dispersion.demo
"""

import time

import torch

from unclump.dispersion.loop import disperse
from unclump.geometry.distributions import PowerSpherical
from unclump.measures.angles import Summary, summary
from unclump.objectives import KoLeo, Sliced


def clumped_table(n: int = 2_000, d: int = 64, scale: float = 100.0) -> torch.Tensor:
    """Points around one direction, as embeddings of a collapsed model are."""
    loc = torch.nn.functional.one_hot(torch.tensor(0), d).float()
    return PowerSpherical(loc, torch.tensor(scale)).sample((n,), generator=torch.Generator().manual_seed(0))


def main() -> None:
    """Print the table's measures before and after."""
    table = clumped_table()
    print(f"A clumped table of {len(table)} points in {table.shape[1]} dimensions (power spherical, scale 100).\n")
    start = time.perf_counter()
    generator = torch.Generator().manual_seed(1)
    print("First Sliced, which pulls the clump open, then KoLeo, which parts the nearest neighbours:")
    opened = disperse(table, Sliced(circles=8, generator=generator), steps=300, lr=0.02, progress=True).points
    spread = disperse(opened, KoLeo(), steps=150, lr=0.005, progress=True).points
    seconds = time.perf_counter() - start
    print(f"\nDispersed in {seconds:.1f} s.\n")
    before, after = (summary(x, samples=5_000, generator=torch.Generator().manual_seed(2)) for x in (table, spread))
    print(side_by_side(before, after))


def side_by_side(before: Summary, after: Summary) -> str:
    """Two summaries as one table."""
    rows = zip(before.rows(), after.rows(), strict=True)
    lines = [("", "before", "after"), *((name, first, second) for (name, first), (_, second) in rows)]
    width = max(len(name) for name, _, _ in lines)
    return "\n".join(f"{name:<{width}}  {first:>12}  {second:>12}" for name, first, second in lines)


if __name__ == "__main__":
    main()
