"""HDF5: one dataset is the table, and another may hold its names; read, not written."""

from dataclasses import replace
from pathlib import Path

from unclump._atomic_write import temporary_folder
from unclump.tables.files import arrays
from unclump.tables.files._child import run_reader
from unclump.tables.files._table import Table, make_source
from unclump.tables.files._validation import Entry, check_shape, choose_names, choose_table

FORMAT = "hdf5"
MAGIC = b"\x89HDF\r\n\x1a\n"
_PACKAGE = "h5py", "hdf5"  # and the extra that installs it


def read(path: Path, tensor: str | None) -> Table:
    """Copy the dataset, whose name is the path to it, such as `group/vectors`."""
    answer = run_reader(*_PACKAGE, "list_hdf5", path)
    entries = {name: Entry(tuple(shape), dtype) for name, (shape, dtype) in answer["entries"].items()}
    key = choose_table(entries, tensor)
    n, d = entries[key].shape
    check_shape(n, d)
    names_key = choose_names([name for name, entry in entries.items() if entry == Entry((n,), "text")])
    with temporary_folder() as folder:
        copy = folder / "table.npy"
        answer = run_reader(*_PACKAGE, "read_hdf5", path, str(copy), key, names_key or "")
        points = arrays.read(copy, None).points
    return replace(Table(points, answer["names"]), source=make_source(path, FORMAT, points, tensor=key))
