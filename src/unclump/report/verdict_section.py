"""The top of the page: the verdict in the words of `unclump.tables.verdict`, and the commands that help."""

from collections.abc import Sequence

from unclump.report.components import render_verdict
from unclump.report.table_view import TableView


def verdict_section(tables: Sequence[TableView]) -> str:
    """The verdict as a headline; for two tables, the change from the first to the second."""
    verdicts = [view.health.verdict for view in tables]
    last = verdicts[-1]
    badge = " · ".join(last.findings)
    first, *rest = last.text.split("; ")
    headline, _, parenthesis = first.partition(" (")  # keeps the headline short
    details = [*parenthesis.removesuffix(")").split("): "), *rest]
    structure = []
    if not last.is_healthy and last.structure:
        structure = [f"structure, which is no fault: {'; '.join(last.structure)}"]
    if len(tables) == 2:
        before, after = (" and ".join(verdict.findings) for verdict in verdicts)
        details = [first, *rest]
        headline = f"Before and after: {after}" if before == after else f"Before: {before}. After: {after}"
        badge = f"after: {badge}"
    return render_verdict(
        "good" if last.is_healthy else "bad",
        _capitalise(badge),
        f"{_capitalise(headline)}.",
        " ".join(f"{_capitalise(part)}." for part in [*details, *structure] if part),
        last.commands_for(tables[-1].paths),
    )


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]
