"""Where the map puts rows: principal axes, and a layout that keeps neighbours together where such a library is here."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from jaxtyping import Float
from torch import Tensor

from unclump._checks import check_choice
from unclump.figures.data import principal_axes
from unclump.ops.nearest import nearest

LAYOUTS = ("auto", "umap", "tsne", "pca")
_COMPONENTS = 6
_MIN_ROWS = 100  # fewer are seen well along principal axes
_ANCHORS = 3  # rows between which another one is put


@dataclass(frozen=True, eq=False)
class Layout:
    """Coordinates of rows, one array per table.

    Attributes:
        title: What the reader chooses it by.
        kind: "plane", "axes" (any two of them make a plane) or "globe".
        points: Coordinates of each table's rows.
    """

    title: str
    kind: str
    points: list[Float[np.ndarray, "_ c"]]


def lay_out(tables: Sequence[Float[Tensor, "_ d"]], *, layout: str, seed: int) -> list[Layout]:
    """The layouts of the rows of one table, or of two in the same axes.

    Args:
        tables: Directions of the rows on the map.
        layout: "umap", "tsne" or "pca"; "auto" is the first that is installed, and "pca" for two tables, which only
            common axes make comparable, and for fewer than 100 rows.
        seed: Of the random parts.
    """
    check_choice("layout", layout, LAYOUTS)
    d = tables[0].shape[1]
    if d == 3:
        return [Layout("globe", "globe", [x.double().numpy() for x in tables])]
    mean, axes = principal_axes(tables[0], min(_COMPONENTS, d))
    along = Layout("principal axes", "axes", [((x - mean) @ axes).double().numpy() for x in tables])
    if layout == "pca" or (layout == "auto" and (len(tables) > 1 or len(tables[0]) < _MIN_ROWS)):
        return [along]
    if len(tables) > 1:
        raise ValueError(f"expected layout pca for two tables, got {layout}; make a separate report of each")
    method = _find_method(layout)
    if method is None:
        return [along]
    start = along.points[0][:, :2] / max(along.points[0][:, 0].std(), 1e-12)
    laid = _lay_out_sample(tables[0], start, method, seed)
    return [Layout(f"{method.title} (neighbours together)", "plane", [laid]), along]


def _lay_out_sample(
    x: Float[Tensor, "m d"], start: Float[np.ndarray, "m 2"], method: "_Method", seed: int
) -> Float[np.ndarray, "m 2"]:
    """At most `method.limit` rows by the method; others between the nearest three of these, by their distances."""
    chosen = np.sort(np.random.default_rng(seed).permutation(len(x))[: method.limit])
    others = np.setdiff1d(np.arange(len(x)), chosen)
    laid: Float[np.ndarray, "m 2"] = np.zeros((len(x), 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on their optional parts, and on the single thread that a seed requires
        laid[chosen] = method.place(x[chosen].numpy(), start[chosen], seed)
    if len(others):
        index, r2 = nearest(x[others], x[chosen], k=_ANCHORS)
        weights = 1 / r2.double().clamp_min(1e-12)  # a row that equals an anchor is put onto it
        weights = weights / weights.sum(dim=1, keepdim=True)
        laid[others] = (weights.unsqueeze(2).numpy() * laid[chosen][index.numpy()]).sum(axis=1)
    return laid


@dataclass(frozen=True)
class _Method:
    """A layout that keeps neighbours together.

    Attributes:
        name: Its key in `LAYOUTS`.
        module: The module that has it.
        title: As on the page.
        limit: How many rows it takes a minute or so for.
        place: From unit rows, their principal coordinates and a seed to places.
    """

    name: str
    module: str
    title: str
    limit: int
    place: Callable[[Float[np.ndarray, "m d"], Float[np.ndarray, "m 2"], int], Float[np.ndarray, "m 2"]]


def _find_method(layout: str) -> _Method | None:
    """The best method that is installed; None if there is none and `layout` is "auto"."""
    for method in _METHODS:
        if layout in ("auto", method.name) and find_spec(method.module) is not None:
            return method
    if layout == "auto":
        return None
    packages = {"umap": "umap-learn", "tsne": "openTSNE or scikit-learn"}
    raise ValueError(f"expected {packages[layout]} to be installed for layout {layout}; install it, or use layout pca")


def _umap(x: Float[np.ndarray, "m d"], start: Float[np.ndarray, "m 2"], seed: int) -> Float[np.ndarray, "m 2"]:
    import umap

    method = umap.UMAP(metric="cosine", init=10 * start, random_state=seed, n_jobs=1)
    return np.asarray(method.fit_transform(x), dtype=np.float64)


def _open_tsne(x: Float[np.ndarray, "m d"], start: Float[np.ndarray, "m 2"], seed: int) -> Float[np.ndarray, "m 2"]:
    import openTSNE

    method = openTSNE.TSNE(metric="cosine", initialization=1e-4 * start, random_state=seed, n_jobs=-1)
    return np.asarray(method.fit(x), dtype=np.float64)


def _scikit_tsne(x: Float[np.ndarray, "m d"], start: Float[np.ndarray, "m 2"], seed: int) -> Float[np.ndarray, "m 2"]:
    from sklearn.manifold import TSNE

    # Unit rows are as near by distance as by cosine.
    method = TSNE(init=(1e-4 * start).astype(np.float32), random_state=seed, learning_rate="auto")
    return np.asarray(method.fit_transform(x), dtype=np.float64)


_METHODS = (
    _Method("umap", "umap", "UMAP", 20_000, _umap),
    _Method("tsne", "openTSNE", "t-SNE", 5_000, _open_tsne),
    _Method("tsne", "sklearn", "t-SNE", 3_000, _scikit_tsne),
)
