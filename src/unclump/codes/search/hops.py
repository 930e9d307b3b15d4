"""Basin hopping: remove a few points and put them into the deepest holes."""

import numpy as np
from jaxtyping import Float

Points = Float[np.ndarray, "n d"]

_SAMPLES = 200


def hop(x: Points, generator: np.random.Generator) -> Points:
    """Move one to three points, each to the one of 200 random positions that is farthest from all others."""
    x = x.copy()
    moved = generator.choice(len(x), size=min(int(generator.integers(1, 4)), len(x) - 1), replace=False)
    kept = np.delete(np.arange(len(x)), moved)
    for point in moved:
        positions = generator.standard_normal((_SAMPLES, x.shape[1]))
        positions /= np.linalg.norm(positions, axis=1, keepdims=True)
        x[point] = positions[(positions @ x[kept].T).max(axis=1).argmin()]
        kept = np.append(kept, point)
    return x
