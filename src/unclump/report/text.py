"""Text and data from outside, made safe for a page: shown as text, run nowhere."""

import html
import json
import math
from typing import Any

_LONGEST = 80  # characters of a name


def visible(text: str) -> str:
    r"""Text with its control characters, direction overrides and lone surrogates written out; a long one is cut.

    Example:
        >>> print(visible("pay\u202elap\x1b[31m"))
        pay\u202elap\x1b[31m
    """
    line = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 20]}…{text[-19:]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def escaped(text: str) -> str:
    """Visible text as HTML.

    Example:
        >>> print(escaped('<b title="x">'))
        &lt;b title=&quot;x&quot;&gt;
    """
    return html.escape(visible(text), quote=True)


def words(text: str) -> str:
    """Running text, of any length."""
    return " ".join(escaped(word) for word in text.split())


def name_html(text: str) -> str:
    """A row's name, which may run from right to left without turning what stands beside it."""
    return f'<bdi class="name">{escaped(text)}</bdi>' if text else '<span class="name empty">(empty)</span>'


def data_html(data: Any) -> str:
    r"""Data as JSON that no parser of HTML or JavaScript can be led out of.

    Example:
        >>> print(data_html(["</script>"]))
        ["\u003c/script\u003e"]
    """
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def degrees(radians: float) -> str:
    """An angle as a person reads it: two digits after the point, more where it is small.

    Example:
        >>> degrees(math.pi / 2), degrees(1e-5), degrees(0.0)
        ('90.00°', '0.00057°', '0°')
    """
    value = math.degrees(radians)
    return "0°" if value == 0 else f"{value:.2f}°" if value >= 0.1 else f"{value:.2g}°"


def probability(value: float) -> str:
    """A p-value, whose exact size does not matter when it is tiny.

    Example:
        >>> probability(0.0312), probability(1e-30)
        ('0.031', '< 10⁻⁶')
    """
    return "< 10⁻⁶" if value < 1e-6 else f"{value:.2g}"


def count(value: int) -> str:
    """A whole number with its thousands set apart.

    Example:
        >>> count(50000)
        '50,000'
    """
    return f"{value:,}"
