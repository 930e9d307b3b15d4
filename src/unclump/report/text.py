"""Format numbers, and escape untrusted text and data for an HTML page."""

import html
import json
import math
from typing import Any

from unclump._text import escape_unprintable

_MAX_LENGTH = 80  # characters of a name or label


def make_printable(text: str) -> str:
    r"""Escape control characters, direction overrides and lone surrogates; shorten long text.

    Example:
        >>> print(make_printable("pay\u202elap\x1b[31m"))
        pay\u202elap\x1b[31m
    """
    line = text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 20]}…{text[-19:]}"
    return escape_unprintable(line)


def escape(text: str) -> str:
    """Printable text, escaped for HTML.

    Example:
        >>> print(escape('<b title="x">'))
        &lt;b title=&quot;x&quot;&gt;
    """
    return html.escape(make_printable(text), quote=True)


def escape_prose(text: str) -> str:
    """Prose of any length, escaped for HTML word by word."""
    return " ".join(escape(word) for word in text.split())


def escape_command(text: str) -> str:
    """A command of any length to copy, escaped for HTML and not shortened."""
    return html.escape(escape_unprintable(text), quote=True)


def render_name(text: str) -> str:
    """A row name as HTML; right-to-left text does not affect its surroundings."""
    return f'<bdi class="name">{escape(text)}</bdi>' if text else '<span class="name empty">(empty)</span>'


def embed_json(data: Any) -> str:
    r"""JSON that is safe inside a script element, whatever the strings contain.

    Example:
        >>> print(embed_json(["</script>"]))
        ["\u003c/script\u003e"]
    """
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def format_degrees(radians: float) -> str:
    """An angle in degrees with two decimals, or two significant digits if it is small.

    Example:
        >>> format_degrees(math.pi / 2), format_degrees(1e-5), format_degrees(0.0)
        ('90.00°', '0.00057°', '0°')
    """
    value = math.degrees(radians)
    return "0°" if value == 0 else f"{value:.2f}°" if value >= 0.1 else f"{value:.2g}°"


def format_p_value(value: float) -> str:
    """A p-value with two significant digits, or an upper limit if it is tiny.

    Example:
        >>> format_p_value(0.0312), format_p_value(1e-30)
        ('0.031', '< 10⁻⁶')
    """
    return "< 10⁻⁶" if value < 1e-6 else f"{value:.2g}"


def format_count(value: int) -> str:
    """An integer with thousands separators.

    Example:
        >>> format_count(50000)
        '50,000'
    """
    return f"{value:,}"
