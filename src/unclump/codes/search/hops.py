"""Basin hopping: a few points are taken out and put into the deepest holes."""

import numpy as np
from jaxtyping import Float

Points = Float[np.ndarray, "n d"]

_SAMPLES = 200


def hop(x: Points, generator: np.random.Generator) -> Points:
    """Move one to three points, each to that of 200 random places which is farthest from all others."""
    x = x.copy()
    moved = generator.choice(len(x), size=min(int(generator.integers(1, 4)), len(x) - 1), replace=False)
    kept = np.delete(np.arange(len(x)), moved)
    for point in moved:
        places = generator.standard_normal((_SAMPLES, x.shape[1]))
        places /= np.linalg.norm(places, axis=1, keepdims=True)
        x[point] = places[(places @ x[kept].T).max(axis=1).argmin()]
        kept = np.append(kept, point)
    return x
