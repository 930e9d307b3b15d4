"""A table of embeddings, and where it came from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from jaxtyping import Float
from torch import Tensor

from unclump._checks import check_points
from unclump._text import FileError, shown
from unclump.tables.files._refusals import FLOATS

_Layout = TypeVar("_Layout")


@dataclass(frozen=True)
class Source:
    """Where a table was read, and what `save` needs to write it back the same way."""

    path: Path
    format: str
    rows: int
    dimensions: int
    files: tuple[Path, ...]  # every file that was read: none may be written over by accident
    stamps: tuple[tuple[int, ...], ...]
    tensor: str | None = None
    layout: object = None  # what else the format remembers
    names_path: Path | None = None  # the file or folder the names came from, if it is not the table's own

    def remembered(self, kind: type[_Layout]) -> _Layout:
        """What the format remembers, in its own type."""
        assert isinstance(self.layout, kind)
        return self.layout

    def check_unchanged(self) -> None:
        """Refuse to copy the rest of a file that is no longer the one that was read."""
        if tuple(map(_stamp, self.files)) != self.stamps:
            raise FileError(f"{shown(self.path)} has changed since it was read; read it again")


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Points with their names, as `load` reads and `save` writes them.

    Attributes:
        points: The (n, d) table, n >= 2, d >= 2. Mapped from the file where the format allows it: reading costs no
            memory until rows are used, and changing the tensor changes no file. (A file that another program cuts short
            while it is mapped ends the process, as with any mapping.)
        names: One for each row, or None. Any Unicode, also empty and repeated; bytes that are no UTF-8 are kept as lone
            surrogates, as Python does for file names.
        source: Where it was read, or None.

    Example:
        >>> table = Table(torch.eye(2), names=["east", "north"])
        >>> table
        Table(2 x 2 float32; names 'east', 'north')
        >>> table.with_points(2 * torch.eye(2)).points
        tensor([[2., 0.],
                [0., 2.]])
    """

    points: Float[Tensor, "n d"]
    names: Sequence[str] | None = None
    source: Source | None = None

    def __post_init__(self) -> None:
        try:
            check_points(self.points, at_least=2)
        except ValueError as error:
            raise FileError(str(error)) from None
        if self.points.dtype not in FLOATS:
            raise FileError(
                f"expected points in 16, 32 or 64 bits, got {self.points.dtype}; convert with points.float()"
            )
        if self.names is not None and len(self.names) != len(self.points):
            raise FileError(f"expected {len(self.points)} names, one for each row, got {len(self.names)}")

    def __repr__(self) -> str:
        n, d = self.points.shape
        parts = [f"{n} x {d} {str(self.points.dtype).removeprefix('torch.')}"]
        if self.names is not None:
            parts.append(f"names {', '.join(map(repr, self.names[:3]))}{', ...' if n > 3 else ''}")
        if self.source is not None:
            parts.append(f"from {self.source.path.name}")
        return f"Table({'; '.join(parts)})"

    def with_points(self, points: Float[Tensor, "m d"], *, names: Sequence[str] | None = None) -> "Table":
        """The same table with other points, in this table's dtype; more rows need `names` where there are any."""
        return replace(self, points=points.detach().to(self.points.dtype), names=self.names if names is None else names)

    def names_for(self, source: Source | None, *, had_names: bool) -> Sequence[str] | None:
        """The names to write: those of a names file stay there, unless the table's own file had a place for names."""
        return None if source is not None and source.names_path is not None and not had_names else self.names

    def kept(self, form: str) -> Source | None:
        """The source, where the table was read from that format: then the rest of the file is kept as well."""
        return self.source if self.source is not None and self.source.format == form else None


@dataclass(frozen=True)
class BadRow:
    """A row without a direction."""

    row: int
    name: str | None
    fault: str  # "NaN", "infinite" or "zero"


def bad_rows(table: Table) -> list[BadRow]:
    """The rows that have no direction: NaN, infinite, or all zero. A block of rows at a time.

    Example:
        >>> bad_rows(Table(torch.tensor([[1.0, 0.0], [0.0, 0.0]]), names=["east", "nowhere"]))
        [BadRow(row=1, name='nowhere', fault='zero')]
    """
    found = []
    step = max(1, 2**22 // table.points.shape[1])
    for start in range(0, len(table.points), step):
        sizes = table.points[start : start + step].detach().abs().amax(dim=-1)
        for row in (~(sizes > 0) | sizes.isinf()).nonzero().flatten().tolist():
            fault = "NaN" if sizes[row].isnan() else "infinite" if sizes[row] > 0 else "zero"
            found.append(BadRow(start + row, table.names[start + row] if table.names else None, fault))
    return found


def source_of(
    path: Path,
    form: str,
    points: Tensor,
    *,
    tensor: str | None = None,
    layout: object = None,
    files: Sequence[Path] | None = None,
    names_path: Path | None = None,
) -> Source:
    """The source of a table that was just read."""
    n, d = points.shape
    absolute = tuple(file.absolute() for file in ((path,) if files is None else files))
    return Source(path.absolute(), form, n, d, absolute, tuple(map(_stamp, absolute)), tensor, layout, names_path)


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def check_row_aligned(lengths: Mapping[str, int], source: Source, rows: int) -> None:
    """Refuse to add rows beside arrays that have one entry for each of the old rows."""
    aligned = [key for key, length in lengths.items() if length == source.rows]
    if rows != source.rows and aligned:
        raise FileError(
            f"'{shown(aligned[0])}' of {shown(source.path)} has {source.rows} entries, one for each old row, and none "
            "for the new ones; write to a format that holds the table alone, such as .npy or .txt"
        )
