"""A chart of quality over bitrate, as inline SVG that follows the colours of the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from dac_rocm.report.spectra import ticks

WIDTH, HEIGHT = 440, 270
LEFT, RIGHT, TOP, BOTTOM = 52, 426, 14, 226
SHAPES = (
    '<circle cx="{x}" cy="{y}" r="5"/>',
    '<path d="M{x} {y}m-5 5h10l-5-10z"/>',
    '<path d="M{x} {y}m-4.5-4.5h9v9h-9z"/>',
    '<path d="M{x} {y}m0-6l6 6l-6 6l-6-6z"/>',
)
"""One per model, beside its colour; they repeat."""
FLAT = '<path class="line" d="M0 8h5m6 0h5"/>'
"""In the legend, a model without a bitrate."""

Point = tuple[float | None, float]


def rate_chart(rows: Sequence[dict[str, Any]], measure: str, title: str) -> str:
    """Return a figure of a measure over kbps, one line per model.

    A model without a bitrate (latents) is a dashed line across. Rows where the measure is not known
    are left out; without any row there is no figure.

    Args:
        rows: With `model`, `kbps` and the measure.
        measure: Key of the number to draw.
        title: What it is, with its unit.
    """
    lines: dict[str, list[Point]] = {}
    for row in rows:
        if row[measure] is not None:
            lines.setdefault(row["model"], []).append((row["kbps"], row[measure]))
    if not lines:
        return ""
    scale = _Scale([point for line in lines.values() for point in line])
    marks = "".join(_line(i, scale, line) for i, line in enumerate(lines.values()))
    told = "; ".join(f"{name}: {_told(line)}" for name, line in lines.items())
    return (
        f'<figure class="chart"><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(f"{title} over kbps. {told}")}">{scale.grid()}{marks}</svg>'
        f"<figcaption>{escape(title)}, over kbps</figcaption>{_legend(lines)}</figure>"
    )


def _told(line: Iterable[Point]) -> str:
    return ", ".join(
        f"{y:.2f} without a bitrate" if x is None else f"{y:.2f} at {x:.2f} kbps" for x, y in line
    )


def _legend(lines: Mapping[str, Sequence[Point]]) -> str:
    items = "".join(
        f'<li><svg viewBox="0 0 16 16" aria-hidden="true"><g class="m{i % 4}">'
        f"{FLAT if line[0][0] is None else SHAPES[i % 4].format(x=8, y=8)}</g></svg> "
        f"{escape(name)}</li>"
        for i, (name, line) in enumerate(lines.items())
    )
    return f'<ul class="legend">{items}</ul>'


class _Scale:
    """From kbps and a measure to places in the picture."""

    def __init__(self, points: Sequence[Point]) -> None:
        rates = [x for x, _ in points if x is not None]
        values = [y for _, y in points]
        self.x_end = 1.08 * max(rates, default=1.0)
        room = 0.1 * (max(values) - min(values)) or 0.1 * abs(values[0]) or 1.0
        self.low, self.high = min(values) - room, max(values) + room

    def x(self, kbps: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * kbps / self.x_end, 1)

    def y(self, value: float) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * (value - self.low) / (self.high - self.low), 1)

    def grid(self) -> str:
        """Return axes with round numbers."""
        across = "".join(
            f'<path d="M{LEFT} {self.y(v)}H{RIGHT}"/>'
            f'<text x="{LEFT - 8}" y="{self.y(v) + 4}" text-anchor="end">{_short(v)}</text>'
            for v in ticks(self.low, self.high, 5)
        )
        along = "".join(
            f'<path d="M{self.x(v)} {BOTTOM}v5"/>'
            f'<text x="{self.x(v)}" y="{BOTTOM + 20}" text-anchor="middle">{_short(v)}</text>'
            for v in ticks(0, self.x_end, 6)
        )
        unit = f'<text x="{RIGHT}" y="{HEIGHT - 6}" text-anchor="end">kbps</text>'
        return f'<g class="grid">{across}<path d="M{LEFT} {BOTTOM}H{RIGHT}"/>{along}{unit}</g>'


def _short(value: float) -> str:
    return f"{value:.6g}".replace("-", "−")


def _line(index: int, scale: _Scale, line: Sequence[Point]) -> str:
    """Draw one model: a line through its bitrates, or across where it has none."""
    mark = SHAPES[index % 4]
    places = sorted((scale.x(x), scale.y(y)) for x, y in line if x is not None)
    flat = "".join(
        f'<path class="line flat" d="M{LEFT} {scale.y(y)}H{RIGHT}"/>' for x, y in line if x is None
    )
    path = "L".join(f"{x} {y}" for x, y in places)
    through = f'<path class="line" d="M{path}"/>' if len(places) > 1 else ""
    marks = "".join(mark.format(x=x, y=y) for x, y in places)
    return f'<g class="m{index % 4}">{flat}{through}{marks}</g>'
