"""Elements that all charts share: self-contained SVG in the colors of the page."""

import html
from collections.abc import Callable, Iterable, Sequence
from math import ceil, floor, log10

WIDTH = 640
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#b5529b", "#b38600", "#3d9bd1")
"""Distinguishable for color-blind readers; the page has lighter colors for the dark theme."""

INK, MUTED, LINE, PAPER = (
    "var(--ink,#1d2733)",
    "var(--muted,#5b6875)",
    "var(--line,#d5dbe1)",
    "var(--paper,#ffffff)",
)


def color(number: int) -> str:
    """Return the color of the model with that number."""
    place = number % len(_COLORS)
    return f"var(--m{place},{_COLORS[place]})"


def svg(height: float, body: Sequence[str], title: str, name: str = "", role: str = "img") -> str:
    """Return an SVG image of the common width with a title for screen readers.

    With links in it, its ``role`` is ``group``: what is in an ``img`` cannot be reached.
    """
    said = html.escape(title)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="{role}" '
        f'aria-label="{said}" class="chart {html.escape(name)}" font-family="sans-serif" '
        f'font-size="15"><title>{said}</title>'
        f'<rect width="{WIDTH}" height="{height:g}" fill="{PAPER}"/>{"".join(body)}</svg>'
    )


def text(x: float, y: float, words: str, anchor: str = "middle", fill: str = INK) -> str:
    """Return text at a position; ``words`` is escaped."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" '
        # Legible on lines, too.
        f'stroke="{PAPER}" stroke-width="4" paint-order="stroke">'
        f"{html.escape(words)}</text>"
    )


def line(start: tuple[float, float], end: tuple[float, float], stroke: str, style: str = "") -> str:
    """Return a line between two points."""
    return (
        f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}" '
        f'stroke="{stroke}" {style}/>'
    )


def polyline(places: Iterable[tuple[float, float]], stroke: str, style: str) -> str:
    """Return a line through some points."""
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return f'<polyline points="{points}" fill="none" stroke="{stroke}" {style}/>'


def dot(x: float, y: float, fill: str, radius: float = 5, title: str = "") -> str:
    """Return a filled circle with a tooltip."""
    said = f"<title>{html.escape(title)}</title>" if title else ""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{fill}">{said}</circle>'


class AxisScale:
    """Linear scale from values to pixels, with rounded ends."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        low, high = min(values), max(values)
        if high - low < 1e-9:
            low, high = low - (abs(low) or 1) * 0.1, high + (abs(high) or 1) * 0.1
        rough = (high - low) / 5
        power = 10.0 ** floor(log10(rough))
        self.step = next(power * each for each in (1, 2, 5, 10) if power * each >= rough * 0.999)
        self.low = floor(low / self.step + 1e-9) * self.step
        self.high = ceil(high / self.step - 1e-9) * self.step
        self._start, self._end = start, end

    def __call__(self, value: float) -> float:
        """Return the position of a value in pixels."""
        share = (value - self.low) / (self.high - self.low)
        return self._start + share * (self._end - self._start)

    def ticks(self) -> list[float]:
        """Return round values from one end to the other."""
        number = round((self.high - self.low) / self.step)
        return [round(self.low + place * self.step, 9) for place in range(number + 1)]

    def short(self, value: float) -> str:
        """Return the label of a tick."""
        return f"{value:,.{max(0, -floor(log10(self.step) + 1e-9))}f}"


def grid(
    y: AxisScale,
    *panels: tuple[float, float],
    shown: Callable[[float], str] | None = None,
) -> list[str]:
    """Return lines at the ticks of a vertical axis over panels, from left to right, and labels.

    Labels are numbers, unless ``shown`` makes others of them.
    """
    label = shown or y.short
    body = [line((left, y(at)), (right, y(at)), LINE) for at in y.ticks() for left, right in panels]
    left = panels[0][0] - 8
    return body + [text(left, y(at) + 5, label(at), "end", MUTED) for at in y.ticks()]


def score_ends(values: Sequence[float], smallest: float) -> list[float]:
    """Return values that an axis of scores has in any case: at least ``smallest`` points.

    Noise must not look like a mountain. They lie within 0 and 100; none without values.
    """
    if not values:
        return []
    middle = (min(values) + max(values)) / 2
    return [min(max(middle + each * smallest / 2, 0.0), 100.0) for each in (-1, 1)]


def shortened(words: str, longest: int = 26) -> str:
    """Return ``words``, shortened to fit next to a chart."""
    return words if len(words) <= longest else f"{words[: longest - 1]}…"
