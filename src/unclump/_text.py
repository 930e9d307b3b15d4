"""Text for people: errors of files in one line, and nothing from outside printed as it came."""

_MOST_SHOWN = 60  # characters of a name in a message


class FileError(ValueError):
    """A file that is refused: one line that says which, why, and what to do."""


def shown(text: object) -> str:
    """Text from outside, safe to print: one line, no control characters, not too long."""
    line = printable(str(text))
    return line if len(line) <= _MOST_SHOWN else f"{line[: _MOST_SHOWN // 2]}...{line[-_MOST_SHOWN // 2 :]}"


def printable(text: str) -> str:
    """`text` with every control character as its escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def reason(error: BaseException) -> str:
    """What an exception says, in one line."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    line = printable(next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__))[:200]
    return line[0].lower() + line[1:]
