"""`unclump demo`: a clumped table comes apart: measured, dispersed, measured again."""

import argparse
import time

HELP = "watch a clumped table being dispersed"
DESCRIPTION = "Disperse a clumped table and show how it changes."
EXAMPLES = "example: unclump demo"


def add_options(command: argparse.ArgumentParser) -> None:
    """There are none."""


def run(_: argparse.Namespace) -> None:
    """Print the table's measures before and after."""
    import torch

    from unclump.dispersion.loop import disperse
    from unclump.geometry.distributions import PowerSpherical
    from unclump.measures.angles import summary
    from unclump.objectives import KoLeo, Sliced

    n, d = 2_000, 64
    around_one_direction = PowerSpherical(torch.eye(d)[0], 100.0)  # as embeddings of a collapsed model are
    table = around_one_direction.sample((n,), generator=torch.Generator().manual_seed(0))
    print(f"A clumped table of {n} points in {d} dimensions (power spherical, scale 100).\n")
    start = time.perf_counter()
    generator = torch.Generator().manual_seed(1)
    print("First Sliced, which pulls the clump open, then KoLeo, which parts the nearest neighbours:")
    opened = disperse(table, Sliced(circles=8, generator=generator), steps=300, lr=0.02, progress=True).points
    spread = disperse(opened, KoLeo(), steps=150, lr=0.005, progress=True).points
    print(f"\nDispersed in {time.perf_counter() - start:.1f} s.\n")
    before, after = (
        summary(x, samples=5_000, generator=torch.Generator().manual_seed(2)).rows() for x in (table, spread)
    )
    lines = [("", "before", "after"), *((name, old, new) for (name, old), (_, new) in zip(before, after, strict=True))]
    width = max(len(name) for name, _, _ in lines)
    print("\n".join(f"{name:<{width}}  {old:>12}  {new:>12}" for name, old, new in lines))
