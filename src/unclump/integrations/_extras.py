"""The error for a framework that is not installed."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def require_extra(extra: str) -> Iterator[None]:
    """Name the extra to install if an import inside fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"expected {error.name} to be installed for unclump.integrations, but it is not; "
            f"pip install 'unclump[{extra}]'",
            name=error.name,
        ) from error
