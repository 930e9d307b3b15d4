"""The rows of a table that have a direction: all but rows of zeros, such as padding."""

from torch import Tensor

from unclump._checks import directed_rows


class DirectedRows:
    """The rows of a table that can be dispersed; rows of zeros are left unchanged, and a warning lists them.

    Example:
        >>> import warnings
        >>> from unclump.dispersion.directed import DirectedRows
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     directed = DirectedRows(torch.tensor([[0.0, 0.0], [3.0, 4.0]]))
        >>> directed.rows, directed.put_back(torch.tensor([[1.0, 0.0]]))
        (tensor([[3., 4.]]), tensor([[0., 0.],
                [1., 0.]]))
    """

    def __init__(self, table: Tensor) -> None:
        self.table, self._mask = table.detach(), directed_rows(table, stacklevel=4)
        self.rows = self.of(self.table)

    def of(self, values: Tensor) -> Tensor:
        """Select the values of the rows with a direction from those of all rows."""
        return values if self._mask is None else values[self._mask]

    def numbers(self, rows: Tensor) -> Tensor:
        """Convert row numbers among the rows with a direction to row numbers of the table."""
        return rows if self._mask is None else self._mask.nonzero()[:, 0][rows]

    def put_back(self, rows: Tensor) -> Tensor:
        """The table with `rows` in place of the rows with a direction."""
        return rows if self._mask is None else self.table.clone().masked_scatter_(self._mask.unsqueeze(-1), rows)
