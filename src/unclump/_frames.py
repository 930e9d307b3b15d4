"""Results as pandas data frames. pandas is imported only here, and only when needed."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas


def data_frame(
    columns: Mapping[str, Any], *, index: Sequence[Any] | None = None, name: str | None = None
) -> "pandas.DataFrame":
    """A data frame of these columns; `name` is the name of the index."""
    try:
        import pandas
    except ImportError:
        raise ImportError("data frames need pandas: pip install pandas") from None
    numbers = pandas.RangeIndex(len(next(iter(columns.values())))) if index is None else index
    return pandas.DataFrame(dict(columns), index=pandas.Index(numbers, name=name))
