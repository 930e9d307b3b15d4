"""A table of embeddings and its source."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from unclump._checks import check_table
from unclump._text import FileError, sanitise
from unclump.tables.files import _display
from unclump.tables.files._validation import FLOATS

if TYPE_CHECKING:
    import pandas

_Layout = TypeVar("_Layout")


@dataclass(frozen=True)
class Source:
    """Where a table was read from, and what `save` needs to write it back in the same form."""

    path: Path
    format: str
    rows: int
    dimensions: int
    files: tuple[Path, ...]  # every file that was read: none may be overwritten by accident
    fingerprints: tuple[tuple[int, ...], ...]
    tensor: str | None = None
    layout: object = None  # anything else that the format needs
    names_path: Path | None = None  # the file or folder the names came from, if not the table's own file
    notes: tuple[str, ...] = ()  # remarks for the user on how the file was read

    def layout_as(self, kind: type[_Layout]) -> _Layout:
        """Return the layout as the format's own type."""
        assert isinstance(self.layout, kind)
        return self.layout

    def check_unchanged(self) -> None:
        """Raise if a file has changed since it was read, before the rest of it is copied."""
        if tuple(map(_fingerprint, self.files)) != self.fingerprints:
            raise FileError(f"{sanitise(self.path)} has changed since it was read; read it again")


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Points with their names, as `load` reads and `save` writes them. In a notebook its first rows are shown.

    Attributes:
        points: The (n, d) table, n >= 1, d >= 2. Memory-mapped where the format allows it: loading takes no memory
            until rows are used, slices read only their rows, and changing the tensor does not change the file. (If
            another program truncates the file while it is mapped, the process crashes, as with any mapping; the
            command line ends with a message.)
        names: One for each row, or None. Any Unicode, including empty and repeated names; bytes that are not UTF-8 are
            kept as lone surrogates, as Python does for file names.
        source: Where it was read from, or None.
        convert: A function that `save` applies to each block of rows as it writes it, so that a large table is never
            held whole; it keeps shape and dtype. None for the rows as they are.

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
    convert: Callable[[Tensor], Tensor] | None = None

    def __post_init__(self) -> None:
        try:
            check_table(self.points)
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
            parts += [f"from {self.source.path.name}", *self.source.notes]
        return f"Table({'; '.join(parts)})"

    def _repr_html_(self) -> str:
        return _display.as_html(self)

    def to_pandas(self) -> "pandas.DataFrame":
        """Convert to a data frame: one column per dimension, numbered from 0, indexed by the names if there are any."""
        return _display.as_frame(self)

    def with_points(self, points: Float[Tensor, "m d"], *, names: Sequence[str] | None = None) -> "Table":
        """Return this table with other points, in its dtype; if it has names, added rows need `names` too."""
        points = points.detach().to(self.points.dtype)
        return replace(self, points=points, names=self.names if names is None else names, convert=None)

    def rows_to_write(self, rows: slice = slice(None)) -> Float[Tensor, "m d"]:
        """Return these rows as they are to be written, after `convert`."""
        points = self.points[rows].detach().cpu()
        return points if self.convert is None else self.convert(points)

    def names_to_write(self, source: Source | None, *, had_names: bool) -> Sequence[str] | None:
        """Return the names to write: none if they came from a separate file and the table's own file had no names."""
        return None if source is not None and source.names_path is not None and not had_names else self.names

    def source_in_format(self, format_name: str) -> Source | None:
        """Return the source if the table was read from this format, so that the rest of the file can be kept."""
        return self.source if self.source is not None and self.source.format == format_name else None


@dataclass(frozen=True)
class BadRow:
    """A row that has no direction."""

    row: int
    name: str | None
    fault: str  # "NaN", "infinite" or "zero"


def bad_rows(table: Table, *, progress: bool = False) -> list[BadRow]:
    """Find the rows that have no direction (NaN, infinite, or all zero), a block of rows at a time.

    With `progress`, a bar is shown on stderr: a memory-mapped file may be read from disk only now.

    Example:
        >>> bad_rows(Table(torch.tensor([[1.0, 0.0], [0.0, 0.0]]), names=["east", "nowhere"]))
        [BadRow(row=1, name='nowhere', fault='zero')]
    """
    rows = []
    step = max(1, 2**22 // table.points.shape[1])
    n = len(table.points)
    with tqdm(total=n, desc="reading", unit="row", unit_scale=True, disable=not progress, leave=False) as bar:
        for start in range(0, n, step):
            for row, fault in faulty_rows(table.points[start : start + step]):
                rows.append(BadRow(start + row, table.names[start + row] if table.names else None, fault))
            bar.update(min(step, n - start))
    return rows


def faulty_rows(points: Float[Tensor, "n d"]) -> list[tuple[int, str]]:
    """The rows that have no direction, by number, and why: "NaN", "infinite" or "zero"."""
    largest = points.detach().abs().amax(dim=-1)
    return [
        (row, "NaN" if largest[row].isnan() else "infinite" if largest[row] > 0 else "zero")
        for row in (~(largest > 0) | largest.isinf()).nonzero().flatten().tolist()
    ]


def make_source(
    path: Path,
    format_name: str,
    points: Tensor,
    *,
    tensor: str | None = None,
    layout: object = None,
    files: Sequence[Path] | None = None,
    names_path: Path | None = None,
    notes: Sequence[str] = (),
) -> Source:
    """Create the source of a table that was just read."""
    n, d = points.shape
    paths = tuple(file.absolute() for file in ((path,) if files is None else files))
    fingerprints = tuple(map(_fingerprint, paths))
    return Source(path.absolute(), format_name, n, d, paths, fingerprints, tensor, layout, names_path, tuple(notes))


def _fingerprint(path: Path) -> tuple[int, ...]:
    try:
        stat = path.stat()
    except OSError:
        return ()
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


def check_row_counts(lengths: Mapping[str, int], source: Source, rows: int) -> None:
    """Raise if rows were added but another array in the file has one entry for each of the old rows."""
    aligned = [key for key, length in lengths.items() if length == source.rows]
    if rows != source.rows and aligned:
        raise FileError(
            f"'{sanitise(aligned[0])}' of {sanitise(source.path)} has {source.rows} entries, one for each old row, and "
            "none for the new ones; write to a format that holds only the table, such as .npy or .txt"
        )
