"""Tables of other libraries: data frames, datasets, search indexes, models that encode sentences."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unclump._arrays import as_tensor
from unclump.tables.files._columns import choose_columns, choose_names_column, pyarrow, read_columns
from unclump.tables.files._table import Table

_EXPECTED = (
    "a tensor, an array, an embedding layer, a data frame of pandas or polars, a dataset of Hugging Face, a FAISS "
    "index, or a model that encodes sentences"
)


def as_table(source: Any, *, tensor: str | None = None, sentences: Sequence[str] | None = None) -> Table:
    """Convert a data frame, a dataset, a search index, a model or an array to a `Table`.

    Args:
        source: A tensor or NumPy array; a `Table`; an `nn.Embedding`; a data frame of pandas or polars, or a dataset of
            Hugging Face, with one column of lists or many columns of numbers; a FAISS index that can reconstruct its
            vectors; a SentenceTransformer, with `sentences`.
        tensor: Of a data frame or dataset with several: the column of lists, or the prefix of those of numbers.
        sentences: What a model encodes. They are the names of the rows.

    Example:
        >>> as_table(torch.nn.Embedding(100, 16))
        Table(100 x 16 float32)
        >>> import pandas
        >>> as_table(pandas.DataFrame({"word": ["east", "north"], "vector": [[1.0, 0.0], [0.0, 1.0]]}))
        Table(2 x 2 float64; names 'east', 'north')
    """
    if sentences is not None:
        return _encode(source, sentences)
    if isinstance(source, Table):
        return source
    if isinstance(source, Tensor | np.ndarray):
        return Table(as_tensor(source).detach())
    if isinstance(source, nn.Embedding):
        return Table(source.weight.detach())
    if hasattr(source, "reconstruct_n") and hasattr(source, "ntotal"):
        return Table(torch.from_numpy(source.reconstruct_n(0, source.ntotal)))
    if isinstance(source, str | Path):
        raise TypeError(f"expected {_EXPECTED}, got the path of a file; read it with unclump.load")
    if hasattr(source, "encode"):
        raise ValueError(f"expected sentences for {type(source).__name__} to encode, got none; pass sentences=[...]")
    return _read_arrow(_to_arrow(source), tensor)


def _encode(model: Any, sentences: Sequence[str]) -> Table:
    if not hasattr(model, "encode"):
        raise TypeError(f"expected a model that encodes sentences, got {type(model).__name__}; leave out sentences")
    return Table(torch.from_numpy(model.encode(list(sentences), convert_to_numpy=True)), names=list(sentences))


def _to_arrow(source: Any) -> Any:
    """A data frame or dataset as a table of Arrow, which most of them convert to by themselves."""
    if hasattr(source, "with_format"):  # a dataset, which may have a selection of rows
        return source.with_format("arrow")[:]
    if hasattr(source, "reset_index") and getattr(source.index, "dtype", None) is not None:
        has_names = not np.issubdtype(np.asarray(source.index).dtype, np.number)
        source = source.reset_index(names="name") if has_names else source
    if not hasattr(source, "__arrow_c_stream__"):
        raise TypeError(f"expected {_EXPECTED}, got {type(source).__name__}")
    return pyarrow().table(source)


def _read_arrow(table: Any, tensor: str | None) -> Table:
    columns, names = choose_columns(table.schema, table.num_rows, tensor), choose_names_column(table.schema)
    points, labels = read_columns(table.to_batches(), table.num_rows, columns, names, table.nbytes)
    return Table(points, labels)
