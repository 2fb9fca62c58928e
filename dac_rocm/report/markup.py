"""HTML from values: everything that comes from outside is escaped here, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, NamedTuple

UNKNOWN = "–"
UNITS = {"sample_rate": "Hz", "frame_rate": "Hz", "hop_length": "samples"}
"""Of facts by name."""


class Column(NamedTuple):
    """How a number of a row is shown.

    Args:
        key: Its name in the row.
        title: What people call it, with its unit.
        digits: After the point; None writes the value as it is.
        scale: What it is multiplied with to be shown.
    """

    key: str
    title: str
    digits: int | None = None
    scale: float = 1.0


def number(value: float | None, digits: int | None, scale: float = 1.0) -> str:
    """Return a number to be read, which carries its exact value; a dash for None."""
    if value is None:
        return UNKNOWN
    shown = f"{value * scale:.{digits or 0}f}"
    if float(shown) == 0:
        shown = shown.lstrip("-")
    return f'<data value="{value!r}">{shown.replace("-", "−")}</data>'


def table(
    caption: str, columns: Sequence[Column], rows: Iterable[tuple[str, dict[str, Any]]]
) -> str:
    """Return a table that scrolls by itself where the screen is narrow.

    Args:
        caption: What it tells.
        columns: Of numbers.
        rows: The head of each row, and its numbers by key.
    """
    heads = "".join(f'<th scope="col">{escape(c.title)}</th>' for c in columns)
    lines = "".join(
        f'<tr><th scope="row">{escape(head)}</th>'
        + "".join(f"<td>{number(row.get(c.key), c.digits, c.scale)}</td>" for c in columns)
        + "</tr>"
        for head, row in rows
    )
    label = escape(caption)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{label}"><table>'
        f'<caption>{label}</caption><thead><tr><th scope="col">version</th>{heads}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )


def facts(values: dict[str, Any]) -> str:
    """Return names and values as a list; numbers carry their exact values."""
    return (
        '<dl class="facts">'
        + "".join(
            f"<div><dt>{escape(_title(name))}</dt><dd>{_value(value)}</dd></div>"
            for name, value in values.items()
        )
        + "</dl>"
    )


def _title(name: str) -> str:
    unit = UNITS.get(name)
    return name.replace("_", " ") + (f", {unit}" if unit else "")


def _value(value: Any) -> str:
    if value is None:
        return UNKNOWN
    if isinstance(value, (int, float)):
        return f'<data value="{value!r}">{value:,.10g}</data>'
    if isinstance(value, dict):
        return escape(", ".join(f"{k} {v}" for k, v in value.items())) or UNKNOWN
    if isinstance(value, (list, tuple)):
        return escape(" ".join(map(str, value))) or UNKNOWN
    return escape(str(value)) or UNKNOWN
