r"""One map for a whole table that makes it more isotropic, and that queries can follow.

`disperse` moves each row by itself, and the rows of a table that is looked up by index may go where they like. Where
other vectors are compared with the table (queries, new documents), they must be changed in the same way, and that takes
a map: here an affine one, :math:`y = A (x - b)`.
"""

import os
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from unclump._arrays import Table, as_tensor, as_type_of
from unclump._checks import check_choice, check_count, check_generator, check_number
from unclump._precision import exact_products, full_precision
from unclump.objectives import Sliced
from unclump.tables import transform_files
from unclump.tables.transform_covariance import check_rows_to_fit, estimate_covariance, row_blocks
from unclump.tables.transform_learned import learn, sample_rows, soften
from unclump.tables.transform_maps import Affine, closed_form

METHODS = ("centre", "all_but_the_top", "whiten", "learn")
_STEPS = 300
_CIRCLES = 32  # of the sliced objective, in each step
_OPTIONS = {"directions": "all_but_the_top", "shrinkage": "whiten", "objective": "learn", "steps": "learn"}


class Isotropy:
    r"""A map that makes a table of embeddings more isotropic: fitted on the table, applied to it and to queries.

    * `"centre"`: the mean is subtracted.
    * `"all_but_the_top"`: the mean is subtracted, and so are the components along the `directions` of most variance.
    * `"whiten"`: the mean is subtracted, and the variances of all directions are brought to one.
    * `"learn"`: an affine map that starts as the identity and is trained to disperse the rows, by an objective.

    Whether it helps depends on the task: `unclump repair` compares the methods on your own data. Rows of zeros,
    such as padding, are left out of the fit and stay zeros.

    Args:
        method: One of the four names above.
        strength: From 0, the identity, to 1. When whitening, the exponent: each variance v becomes
            :math:`v^{1 - \text{strength}}`.
        directions: How many, for `"all_but_the_top"`; None for a hundredth of the dimensions, as its authors advise.
        shrinkage: From 0 to 1, for `"whiten"`: how much of the covariance is replaced by a multiple of the identity, so
            that directions of little variance, which are poorly estimated, are not blown up. None: by Ledoit and Wolf.
        objective: For `"learn"`: `Sliced`, `MMD`, `Energy` or another; None for `Sliced` with 32 circles.
        steps: The number of training steps of `"learn"`; None for 300.
        generator: Draws rows and circles in the training of `"learn"`; None for a new one with seed 0.

    Attributes:
        shift: b, of shape (d,), in float64; None before `fit`.
        matrix: A, of shape (d, d), applied to rows from the right; None before `fit`.

    Example:
        >>> table = torch.randn(1000, 8) * torch.arange(1, 9) + 5
        >>> isotropy = Isotropy("whiten").fit(table)
        >>> better, queries = isotropy.transform(table), isotropy.transform(table[:3])
        >>> bool((better.mean(dim=0).abs() < 1e-3).all()), torch.equal(better[:3], queries)
        (True, True)
    """

    def __init__(
        self,
        method: str = "whiten",
        *,
        strength: float = 1.0,
        directions: int | None = None,
        shrinkage: float | None = None,
        objective: nn.Module | None = None,
        steps: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        check_choice("method", method, METHODS)
        _check_share("strength", strength)
        options = {"directions": directions, "shrinkage": shrinkage, "objective": objective, "steps": steps}
        for option, value in options.items():
            if value is not None and _OPTIONS[option] != method:
                raise ValueError(
                    f"expected {option} only with the method {_OPTIONS[option]!r}, got {method!r}; leave it out, or "
                    "choose that method"
                )
        if directions is not None:
            check_count("directions", directions)
        if shrinkage is not None:
            _check_share("shrinkage", shrinkage)
        if objective is not None and not isinstance(objective, nn.Module):
            raise TypeError(
                f"expected objective to be a module such as unclump.Sliced(), got {type(objective).__name__}"
            )
        if steps is not None:
            check_count("steps", steps)
        check_generator(generator)
        self.method, self.strength, self.directions, self.shrinkage = method, strength, directions, shrinkage
        self.objective, self.steps, self.generator = objective, steps, generator
        self.shift: Float64[Tensor, " d"] | None = None
        self.matrix: Float64[Tensor, "d d"] | None = None

    def fit(self, x: Table, *, progress: bool = False) -> "Isotropy":
        """Find the map for a table, in one pass over blocks of its rows, and return this object.

        Args:
            x: Of shape (n, d), torch or NumPy, also memory-mapped; at least 2 rows that are not zero.
            progress: Show a bar on stderr.
        """
        check_rows_to_fit(x, at_least=2)
        self.shift, self.matrix = self._fit(x, progress)
        return self

    def transform(self, x: Table, *, progress: bool = False) -> Table:
        """Apply the map to rows, a block at a time; the result has their kind and dtype. No gradient.

        Args:
            x: Of shape (m, d), with as many dimensions as the map; m may be any number.
            progress: Show a bar on stderr.
        """
        self.check_dimensions(x)
        first = as_tensor(x[:0])
        result = torch.empty(x.shape, dtype=first.dtype, device=first.device)
        for start, block in row_blocks(x, progress=progress):
            result[start : start + len(block)] = self._map(block)
        return as_type_of(result, x)

    def check_dimensions(self, x: Table) -> None:
        """Raise unless the map is fitted, and the rows of `x` have as many dimensions."""
        d = len(self.affine.shift)
        check_rows_to_fit(x, at_least=0)
        if x.shape[1] != d:
            raise ValueError(
                f"expected rows in {d} dimensions, those of the map, got shape {tuple(x.shape)}; "
                "apply it to vectors of the model that the table is from"
            )

    def fit_transform(self, x: Table, *, progress: bool = False) -> Table:
        """Find the map for a table, and apply it to the same table."""
        return self.fit(x, progress=progress).transform(x, progress=progress)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted map to a safetensors file, atomically; `load` gives the same bits back."""
        transform_files.write(path, self.affine, {"method": self.method, "strength": self.strength})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Isotropy":
        """Read a map that `save` wrote.

        Raises:
            FileError: The file is not such a map; one line says why.
        """
        fitted, header = transform_files.read(path)
        with transform_files.explain(path):
            return cls.from_affine(fitted, header["method"], header["strength"])

    @classmethod
    def from_affine(cls, fitted: Affine, method: str, strength: float) -> "Isotropy":
        """A map that was fitted elsewhere."""
        result = cls(method, strength=strength)
        result.shift, result.matrix = fitted
        return result

    def __repr__(self) -> str:
        options = {"strength": self.strength, **{name: getattr(self, name) for name in _OPTIONS}}
        shown = [f"{name}={value}" for name, value in options.items() if value is not None]
        fitted = "not fitted" if self.shift is None else f"fitted in {len(self.shift)} dimensions"
        return f"Isotropy({', '.join([repr(self.method), *shown])}; {fitted})"

    def _fit(self, x: Any, progress: bool) -> Affine:
        if self.method != "learn":
            return closed_form(
                self.method,
                estimate_covariance(x, progress=progress),
                self.strength,
                directions=self.directions,
                shrinkage=self.shrinkage,
            )
        generator = torch.Generator().manual_seed(0) if self.generator is None else self.generator
        objective = Sliced(circles=_CIRCLES, generator=generator) if self.objective is None else self.objective
        steps = _STEPS if self.steps is None else self.steps
        rows = sample_rows(x, generator)
        return soften(learn(rows, objective, steps=steps, generator=generator, progress=progress), self.strength)

    @property
    def affine(self) -> Affine:
        """The fitted map; raise if there is none."""
        if self.shift is None or self.matrix is None:
            raise ValueError(
                "expected a fitted map, got one that is not; call fit(table) first, or Isotropy.load(path)"
            )
        return Affine(self.shift, self.matrix)

    def _map(self, block: Tensor) -> Tensor:
        """The images of some rows; rows of zeros stay zeros."""
        rows = full_precision(block)
        shift, matrix = (part.to(rows.device, rows.dtype) for part in self.affine)
        with exact_products(rows.device):
            images = ((rows - shift) @ matrix).to(block.dtype)
        if not images.isfinite().all():
            raise ValueError(
                f"expected images that {block.dtype} can hold, got larger ones; transform the rows in float32"
            )
        return images.masked_fill_(~rows.any(dim=1, keepdim=True), 0)


def _check_share(name: str, value: float) -> None:
    check_number(name, value)
    if not 0 <= value <= 1:
        raise ValueError(f"expected {name} from 0 to 1, got {value:g}")
