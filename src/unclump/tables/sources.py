"""Tables of other libraries: data frames, datasets, search indexes, models that encode sentences."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unclump._arrays import as_tensor
from unclump._text import FileError
from unclump.tables.files._columns import choose_columns, choose_names_column, pyarrow, read_columns
from unclump.tables.files._table import Table

_EXPECTED = (
    "a tensor, an array, an embedding layer, a data frame or column of pandas or polars, a dataset of Hugging Face, a "
    "FAISS index, or a model that encodes sentences"
)


def as_table(source: Any, *, tensor: str | None = None, sentences: Sequence[str] | None = None) -> Table:
    """Convert a data frame, a dataset, a search index, a model or an array to a `Table`.

    Args:
        source: A tensor or NumPy array; a `Table`; an `nn.Embedding`; a data frame of pandas or polars, or a dataset of
            Hugging Face, with one column of lists or many columns of numbers; a single column of lists; a FAISS index
            that can reconstruct its vectors, in the order in which they were added; a SentenceTransformer, with
            `sentences`.
        tensor: Which table, if a data frame or dataset has several: the name of a column of lists, or the common prefix
            of columns of numbers.
        sentences: The sentences that a model encodes. They become the names of the rows.

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
        return Table(torch.from_numpy(_reconstruct(source)))
    if isinstance(source, str | Path):
        raise TypeError(f"expected {_EXPECTED}, got the path of a file; read it with unclump.load")
    if hasattr(source, "encode"):
        raise ValueError(f"expected sentences for {type(source).__name__} to encode, got none; pass sentences=[...]")
    return _read_arrow(_to_arrow(source), tensor)


def _encode(model: Any, sentences: Sequence[str]) -> Table:
    if not hasattr(model, "encode"):
        raise TypeError(f"expected a model that encodes sentences, got {type(model).__name__}; leave out sentences")
    return Table(torch.from_numpy(model.encode(list(sentences), convert_to_numpy=True)), names=list(sentences))


def _reconstruct(index: Any) -> Any:
    """All vectors of a FAISS index, which is not changed."""
    import faiss

    # An index with an id map wraps another one, whose vectors are in the order in which they were added.
    vectors = faiss.downcast_index(index.index) if hasattr(index, "id_map") else index
    try:
        can_reconstruct = _has_ids_in_order(vectors) if hasattr(vectors, "invlists") else True
        if vectors.ntotal and not hasattr(vectors, "invlists"):
            vectors.reconstruct(0)  # raises an error, where reconstruct_n would abort the process
    except RuntimeError:
        can_reconstruct = False
    if not can_reconstruct:
        kind = type(vectors).__name__
        raise ValueError(
            f"expected a FAISS index that can reconstruct its vectors, got {kind}; use the vectors it was built from"
        )
    return vectors.reconstruct_n(0, vectors.ntotal)


def _has_ids_in_order(index: Any) -> bool:
    """Whether the ids in the inverted lists are 0, 1, ...: reconstruct_n leaves out all others, without an error."""
    import faiss

    lists = index.invlists
    ids = [faiss.rev_swig_ptr(lists.get_ids(k), lists.list_size(k)) for k in range(lists.nlist) if lists.list_size(k)]
    return not ids or np.array_equal(np.sort(np.concatenate(ids)), np.arange(index.ntotal))


def _to_arrow(source: Any) -> Any:
    """A data frame or dataset as a table of Arrow, which most of them convert to by themselves."""
    if hasattr(source, "column_name") and hasattr(source, "source"):  # a column of a dataset
        source = source.source.select_columns(source.column_name)
    if hasattr(source, "with_format"):  # a dataset, which may have a selection of rows
        _check_dataset(source)
        return source.with_format("arrow")[:]
    if hasattr(source, "collect") and hasattr(source, "collect_schema"):  # a lazy frame of polars
        source = source.collect()
    if hasattr(source, "to_frame"):  # a column of pandas or polars
        source = source.to_frame(source.name or "vector")
    if hasattr(source, "reset_index") and getattr(source.index, "dtype", None) is not None:
        has_names = not np.issubdtype(np.asarray(source.index).dtype, np.number)
        source = source.rename(columns=str)  # Arrow warns of numbers beside text
        source = source.reset_index(names="name") if has_names else source
    if not hasattr(source, "__arrow_c_stream__"):
        raise TypeError(f"expected {_EXPECTED}, got {type(source).__name__}; convert it to a tensor or an array")
    return pyarrow().table(source)


def _check_dataset(source: Any) -> None:
    if isinstance(source, dict):
        splits = ", ".join(map(repr, source))
        raise TypeError(f"expected one split of a dataset, got all of them; choose one of {splits}")
    if not hasattr(source, "__len__"):
        raise TypeError(
            f"expected a dataset with all of its rows, got {type(source).__name__}, which streams them; take some first"
        )


def _read_arrow(table: Any, tensor: str | None) -> Table:
    try:
        columns = choose_columns(table.schema, table.num_rows, tensor, argument="unclump.as_table(..., tensor={})")
    except FileError as error:
        raise FileError(f"expected one table of embeddings in the columns; the source {error}") from None
    names = choose_names_column(table.schema)
    points, labels = read_columns(table.to_batches(), table.num_rows, columns, names, table.nbytes)
    return Table(points, labels)
