"""Small pictures as SVG text: no network, no fonts to load, readable in light and dark."""

import html
from collections.abc import Mapping, Sequence

_WIDTH, _HEIGHT, _BASE, _TOP = 480, 170, 130, 14
_BINS = 20
_ROW, _NAMES, _NAME_LETTERS = 20, 190, 30


def histogram_svg(
    values: Sequence[float],
    label: str,
    limits: tuple[float, float],
    marks: Mapping[str, float] | None = None,
) -> str:
    """A histogram of ``values`` in 20 bins between ``limits``, with named vertical marks."""
    low, high = limits
    counts = [0] * _BINS
    for value in values:
        place = int((value - low) / (high - low) * _BINS)
        counts[min(max(place, 0), _BINS - 1)] += 1
    tallest = max(*counts, 1)
    step = _WIDTH / _BINS
    bars = [
        f'<rect x="{place * step + 1:.1f}" y="{_BASE - _bar(count, tallest):.1f}" '
        f'width="{step - 2:.1f}" height="{_bar(count, tallest):.1f}" fill="#4f7fd9">'
        f"<title>{count}</title></rect>"
        for place, count in enumerate(counts)
        if count
    ]
    lines = [_mark(name, (at - low) / (high - low) * _WIDTH) for name, at in (marks or {}).items()]
    ticks = [_text(place * _WIDTH / 5, _BASE + 16, _tick(low, high, place)) for place in range(6)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH + 40}" height="{_HEIGHT}" '
        f'viewBox="-20 0 {_WIDTH + 40} {_HEIGHT}" font-family="sans-serif" font-size="11">'
        f'<rect x="-20" y="0" width="{_WIDTH + 40}" height="{_HEIGHT}" fill="#ffffff"/>'
        f"{''.join(bars)}{''.join(lines)}"
        f'<line x1="0" y1="{_BASE}" x2="{_WIDTH}" y2="{_BASE}" stroke="#444444"/>'
        f"{''.join(ticks)}{_text(_WIDTH / 2, _BASE + 34, f'{label}, n = {len(values)}')}</svg>"
    )


def bars_svg(rows: Sequence[tuple[str, int]], label: str) -> str:
    """Horizontal bars, one a row, with its name and number; ``label`` stands below."""
    largest = max((number for _, number in rows), default=1)
    height = len(rows) * _ROW + 40
    shown = [_row(place, *row, largest) for place, row in enumerate(rows)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH + 40}" height="{height}" '
        f'viewBox="-20 0 {_WIDTH + 40} {height}" font-family="sans-serif" font-size="11">'
        f'<rect x="-20" y="0" width="{_WIDTH + 40}" height="{height}" fill="#ffffff"/>'
        f"{''.join(shown)}{_text(_WIDTH / 2, height - 14, label)}</svg>"
    )


def _row(place: int, name: str, number: int, largest: int) -> str:
    width, middle = (_WIDTH - _NAMES - 40) * number / largest, place * _ROW + 22
    name = name if len(name) <= _NAME_LETTERS else f"{name[: _NAME_LETTERS - 1]}…"
    return (
        f'<text x="{_NAMES - 8}" y="{middle}" text-anchor="end" fill="#333333">'
        f"{html.escape(name)}</text>"
        f'<rect x="{_NAMES}" y="{middle - 11}" width="{width:.1f}" height="14" fill="#4f7fd9"/>'
        f'<text x="{_NAMES + width + 6:.1f}" y="{middle}" fill="#333333">{number}</text>'
    )


def _bar(count: int, tallest: int) -> float:
    return count / tallest * (_BASE - _TOP - 10)


def _mark(name: str, x: float) -> str:
    return (
        f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{_BASE}" stroke="#999999" '
        f'stroke-dasharray="3 3"/>{_text(x, _TOP - 3, name)}'
    )


def _tick(low: float, high: float, place: int) -> str:
    return f"{low + (high - low) * place / 5:g}"


def _text(x: float, y: float, text: str) -> str:
    escaped = html.escape(text)
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" fill="#333333">{escaped}</text>'
