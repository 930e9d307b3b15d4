"""Representations of a code: a dictionary, text, a data frame, and a table with a figure for notebooks."""

import math
from typing import TYPE_CHECKING, Any

from unclump._frames import data_frame
from unclump._notebook import card, text_grid
from unclump._text import counted
from unclump.measures.pair_figure import pair_figure

if TYPE_CHECKING:
    import pandas

    from unclump.codes.code import Code

_MAX_CONTACTS = 5000  # points up to which contacts are counted: more take minutes
_MAX_SYMMETRY = 1000  # points up to which symmetries are computed
_MAX_PAIRS = 1000  # points up to which pairs are drawn


def as_dict(code: "Code") -> dict[str, Any]:
    """Summarise a code; angles in degrees."""
    n, d = code.points.shape
    result: dict[str, Any] = {
        "n": n,
        "d": d,
        "antipodal": code.antipodal,
        "source": code.source,
        "angle_degrees": math.degrees(code.min_angle),
        "bound_degrees": math.degrees(code.upper_bound),
        "bound": code.bound_name,
        "gap_degrees": math.degrees(code.gap),
        "optimal": code.optimal,
        "proof": code.proof,
    }
    if n <= _MAX_CONTACTS and code.energy is None:  # codes of least energy have no contacts
        result |= {"contacts": len(code.contacts.pairs), "rattlers": len(code.contacts.rattlers)}
    if n <= _MAX_SYMMETRY and code.energy is None and code.symmetry is not None:
        result |= {"symmetry": code.symmetry.name, "symmetry_order": code.symmetry.order}
    if code.published is not None and code.energy is None:
        result |= {"published_degrees": code.published.degrees, "published_by": code.published.source}
    if code.energy is not None:
        result["energy"] = code.energy
    return result


def rows(code: "Code") -> list[tuple[str, str]]:
    """The summary as names and formatted values."""
    summary = as_dict(code)
    lines = [
        ("code", f"{summary['n']} {'lines' if code.antipodal else 'points'} in {summary['d']} dimensions"),
        ("source", summary["source"]),
        ("smallest angle", f"{summary['angle_degrees']:.12f} degrees"),
        ("upper bound", f"{summary['bound_degrees']:.12f} degrees ({summary['bound']})"),
        ("gap", f"{summary['gap_degrees']:.6g} degrees"),
        ("optimal", f"proved: {summary['proof']}" if summary["optimal"] else "not known"),
    ]
    if code.published is not None and code.energy is None:
        comparison = code.published.compare(summary["angle_degrees"])
        lines.insert(3, ("published", f"{code.published.text} degrees ({code.published.source}): {comparison}"))
    if "contacts" in summary:
        lines.append(("contacts", f"{counted(summary['contacts'], 'pair')}, {counted(summary['rattlers'], 'rattler')}"))
    if "symmetry" in summary:
        lines.append(("symmetry", str(code.symmetry)))
    if "energy" in summary:
        lines.append(("energy", f"{summary['energy']:.12g}"))
    return lines


def as_text(code: "Code") -> str:
    """The summary as text, one line per row."""
    return "\n".join(f"{name:<16}{value}" for name, value in rows(code))


def as_frame(code: "Code") -> "pandas.DataFrame":
    """The summary as a data frame of one row."""
    return data_frame({name: [value] for name, value in as_dict(code).items()})


def as_html(code: "Code") -> str:
    """The summary as HTML, with a histogram of the angles of all pairs."""
    (_, title), *lines = rows(code)
    figure = pair_figure(code.points, lines=code.antipodal) if len(code.points) <= _MAX_PAIRS else ""
    return card(title, text_grid(lines), figure=figure)
