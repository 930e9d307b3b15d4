"""Text for messages: one-line file errors, and untrusted text sanitised for printing."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches

_on_command_line = ContextVar("on_command_line", default=False)
_MAX_LENGTH = 60  # characters of a name in a message


class FileError(ValueError):
    """A file cannot be read or written. The message is one line: which file, why, and what to do."""


@contextmanager
def word_for_command_line() -> Iterator[None]:
    """Word the advice in messages as options of a command instead of arguments in Python."""
    token = _on_command_line.set(True)
    try:
        yield
    finally:
        _on_command_line.reset(token)


def reword(in_python: str, on_command_line: str) -> str:
    """The advice in the wording for the caller."""
    return on_command_line if _on_command_line.get() else in_python


def sanitise(text: object) -> str:
    """Make untrusted text safe to print: one line, no control characters, at most 63 characters."""
    line = escape_unprintable(str(text))
    return line if len(line) <= _MAX_LENGTH else f"{line[: _MAX_LENGTH // 2]}...{line[-_MAX_LENGTH // 2 :]}"


def escape_unprintable(text: str) -> str:
    """Replace every unprintable character with its escape sequence."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """The end of a message that suggests the choice closest to a word; empty if none is close."""
    matches = get_close_matches(word.lower(), tuple(choices), n=1)
    return f"; did you mean {matches[0]!r}?" if matches else ""


def counted(number: int, noun: str) -> str:
    """The number and its noun, in the plural unless the number is one."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def describe_error(error: BaseException) -> str:
    """Return the first line of an exception's message, sanitised."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    first_line = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    line = escape_unprintable(first_line)[:200]
    return line[0].lower() + line[1:]
