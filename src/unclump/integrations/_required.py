"""What is said where a framework is not installed."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def required(extra: str) -> Iterator[None]:
    """Around the imports of a framework: the extra that brings it is named where it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"expected {error.name} to be installed for unclump.integrations, got nothing of that name; "
            f"pip install 'unclump[{extra}]'",
            name=error.name,
        ) from error
