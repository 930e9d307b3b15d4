"""The files of command lines to copy into a shell."""

from dataclasses import dataclass
from pathlib import Path

from unclump.tables.files._formats import is_writable


@dataclass(frozen=True)
class Paths:
    """The files of a command.

    Attributes:
        file: The table.
        out: Where the result goes.
        tensor: Which table of `file`, if it was chosen.
        names: The file of the row names, if it was chosen.
    """

    file: Path
    out: Path
    tensor: str | None = None
    names: Path | None = None

    @property
    def options(self) -> list[str]:
        """The options that `file` is read with."""
        tensor = [] if self.tensor is None else ["--tensor", self.tensor]
        return tensor + ([] if self.names is None else ["--names", str(self.names)])

    def following(self) -> "Paths":
        """The files of the next command, which reads what this one wrote."""
        is_same_format = self.out.suffix == self.file.suffix  # otherwise `out` holds this table alone
        out = self.out.with_stem(f"{self.out.stem}-2")
        return Paths(self.out, out, self.tensor if is_same_format else None, self.names)

    def without_folders(self) -> "Paths":
        """The same with file names only, for a reader on another machine."""
        names = None if self.names is None else Path(self.names.name)
        return Paths(Path(_named(self.file).name), Path(self.out.name), self.tensor, names)


def better_path(file: Path, format_name: str) -> Path:
    """The path for an improved table: beside the file, in its format, or as `.npz` if that format is read-only.

    Example:
        >>> print(better_path(Path("words.csv"), "csv"), better_path(Path("words.txt.gz"), "gzip"))
        words-better.csv words-better.npz
    """
    file = _named(file)
    if is_writable(format_name):
        return file.with_stem(f"{file.stem}-better")
    stem = file.with_suffix("") if file.suffix.lower() == ".gz" else file
    return stem.with_stem(f"{stem.stem}-better").with_suffix(".npz")


def _named(file: Path) -> Path:
    """The path with a file name, which `.` and `..` lack."""
    return file.resolve() if file.name in ("", "..") else file
