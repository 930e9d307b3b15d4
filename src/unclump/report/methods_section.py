"""The comparison of repairs that `unclump repair --save` wrote: every method, its figures, and the recommendation."""

import math

import numpy as np

from unclump.report import svg
from unclump.report.components import render_commands, render_section, render_table
from unclump.report.text import escape, escape_prose, format_count
from unclump.tables.comparison import Compared, Comparison

_ROW = 26  # pixels of a line of the chart
_NAMES = 150  # pixels left of it


def methods_section(comparison: Comparison) -> str:
    """Methods with their figures, the changes of the owner's figure with their intervals, and what is recommended."""
    advice = comparison.recommendation
    heads = ["Method", *(_head(column.title, column.better) for column in comparison.columns), "Verdict"]
    rows = [
        [
            _name(method, is_recommended=method.name == advice.method),
            *(_cell(method, column.key) for column in comparison.columns),
            escape_prose(method.verdict),
        ]
        for method in comparison.methods
    ]
    numbers = range(1, len(comparison.columns) + 1)
    recommended = f'<p class="recommended"><strong>Recommended: {escape(advice.method)}.</strong> '
    recommended += f"{escape_prose(advice.reason)}</p>{render_commands([advice.command] if advice.command else [])}"
    notes = "".join(f'<p class="note">{escape_prose(note)}</p>' for note in comparison.notes)
    return render_section(
        "Which repair helps",
        recommended,
        _change_chart(comparison),
        render_table(heads, rows, numbers=numbers, stacked=True),
        notes,
        note=_describe(comparison),
        splittable=True,
    )


def _describe(comparison: Comparison) -> str:
    rows = f"{format_count(comparison.compared_rows)} of {format_count(comparison.rows)} rows of {comparison.file}."
    figure = comparison.figure
    if figure is None:
        return f"{rows} Without a figure of your own, methods are judged by neighbours kept and hubs removed."
    return f"{rows} Judged by {figure.name} over {format_count(figure.items)} items of {figure.source}."


def _head(title: str, better: str) -> str:
    return f"{title} {'↑' if better == 'more' else '↓'}"


def _name(method: Compared, *, is_recommended: bool) -> str:
    mark = ' <span class="good-mark">recommended</span>' if is_recommended else ""
    return f"{escape(method.name)}{mark}"


def _cell(method: Compared, key: str) -> str:
    """A value, with its interval where it is known."""
    value = escape(_format(method.values[key]))
    if key not in method.intervals:
        return value
    low, high = method.intervals[key]
    return f'{value} <small class="row">{_format(low)} to {_format(high)}</small>'


def _format(value: float) -> str:
    digits = 3 if abs(value) < 1 else 2 if abs(value) < 10 else 1
    return f"{value:.{digits}f}"


def _change_chart(comparison: Comparison) -> str:
    """The change of the first column that has changes, one line per method, with its interval and the line of none."""
    column = next(
        (c for c in comparison.columns if any(c.key in method.changes for method in comparison.methods)), None
    )
    if column is None:
        return ""
    changed = [
        (method.name, method.changes[column.key]) for method in comparison.methods if column.key in method.changes
    ]
    reach = max(max(map(abs, change)) for _, change in changed) or 1.0
    width, height = 640, _ROW * len(changed) + 34

    def x(value: float) -> float:
        return _NAMES + (width - _NAMES - 16) * (value / reach + 1.05) / 2.1

    body = f'<path class="axis" d="M{x(0):.1f} 4V{height - 30}"/>'
    for place, (name, (value, low, high)) in enumerate(changed):
        y = 16 + _ROW * place
        is_sure = low > 0 or high < 0
        better = (value > 0) == (column.better == "more")
        style = "unsure" if not is_sure else "better" if better else "worse"
        body += f'<text x="{_NAMES - 8}" y="{y + 4}" text-anchor="end">{escape(name)}</text>'
        body += f'<path class="interval {style}" d="M{x(low):.1f} {y}H{x(high):.1f}"/>'
        body += svg.dots(np.array([[x(value), float(y)]]), f"dots {style}")
    step = 10 ** math.floor(math.log10(reach))
    for tick in (-step, 0.0, step):
        body += f'<text class="tick" x="{x(tick):.1f}" y="{height - 12}" text-anchor="middle">{tick:+.2g}</text>'
    label = f"Change of {column.title} by each method, with 95 percent intervals."
    figure = svg.figure(body, label, size=(width, height), kind="chart changes")
    return f"<figure>{figure}<figcaption>{escape_prose(label)}</figcaption></figure>"
