"""Line charts over time: curves with gaps, dots that lead somewhere, and marked days."""

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from evaluation_pipelines.reporting.domain.comparison_report.drawing import (
    MUTED,
    WIDTH,
    AxisScale,
    color,
    dot,
    grid,
    line,
    polyline,
    svg,
    text,
)

_LEFT, _RIGHT, _TOP, _BOTTOM = 76.0, WIDTH - 14.0, 18.0, 226.0
_DATES = 5


@dataclass(frozen=True, slots=True)
class Place:
    """A value at a time.

    Attributes:
        time: When.
        value: The value.
        said: Text of the tooltip.
        url: Where the dot leads to; none if empty.
        era: Values of different eras are not joined.
    """

    time: datetime
    value: float
    said: str
    url: str = ""
    era: int = 0


@dataclass(frozen=True, slots=True)
class Curve:
    """Values of one name in order of time, in the color of its number."""

    places: Sequence[Place]
    number: int = 0
    is_dashed: bool = False


@dataclass(frozen=True, slots=True)
class Axis:
    """How values are shown (``None``: as numbers), and values that the axis has in any case."""

    shown: Callable[[float], str] | None = None
    values: Sequence[float] = (0.0,)


def line_chart(
    title: str,
    curves: Sequence[Curve],
    axis: Axis,
    span: tuple[datetime, datetime] | None = None,
    marks: Sequence[datetime] = (),
    legend: Sequence[str] = (),
) -> str | None:
    """Return a chart; ``None`` without any value.

    Args:
        title: What it shows, for screen readers.
        curves: The curves.
        axis: The vertical axis.
        span: Ends of the time axis; the first and the last value if ``None``.
        marks: Times with a vertical line.
        legend: What is drawn above the curves, 20 high.
    """
    places = [each for curve in curves for each in curve.places]
    if not places:
        return None
    times = [each.time for each in places]
    since, until = span or (min(times), max(times))
    top = _TOP + 20 if legend else _TOP
    y = AxisScale([*axis.values, *(each.value for each in places)], _BOTTOM, top)

    def x(time: datetime) -> float:
        share = (time - since) / (until - since) if until > since else 0.5
        return _LEFT + 10 + share * (_RIGHT - _LEFT - 20)

    body = [*legend, *grid(y, (_LEFT, _RIGHT), shown=axis.shown)]
    body += _dates(x, since, until)
    for mark in marks:
        body.append(
            line((x(mark), top), (x(mark), _BOTTOM), MUTED, 'stroke-dasharray="2 4" class="mark"')
        )
    for curve in curves:
        body += _curve(curve, x, y)
    role = "group" if any(each.url for each in places) else "img"  # an image has no links
    return svg(_BOTTOM + 32, body, title, "lines", role)


def _dates(x: Callable[[datetime], float], since: datetime, until: datetime) -> list[str]:
    days = (until.date() - since.date()).days
    number = min(_DATES, days + 1)
    found = []
    for place in range(number):
        # Whole days: a label stands below the value of its day.
        time = min(since + timedelta(days=round(days * place / max(number - 1, 1))), until)
        anchor = "start" if place == 0 and number > 1 else "middle"
        anchor = "end" if place == number - 1 and number > 1 else anchor
        found.append(text(x(time), _BOTTOM + 22, f"{time:%d %b}", anchor, MUTED))
    return found


def _curve(curve: Curve, x: Callable[[datetime], float], y: AxisScale) -> list[str]:
    fill, shape = color(curve.number), ' stroke-dasharray="5 4"' if curve.is_dashed else ""
    body = []
    for _, era in groupby(curve.places, key=lambda each: each.era):
        path = ((x(each.time), y(each.value)) for each in era)
        body.append(polyline(path, fill, f'stroke-width="2"{shape}'))
    if not curve.is_dashed:
        body += [_dot(each, x(each.time), y(each.value), fill) for each in curve.places]
    return body


def _dot(place: Place, x: float, y: float, fill: str) -> str:
    shown = dot(x, y, fill, 4, place.said)
    return f'<a href="{html.escape(place.url)}">{shown}</a>' if place.url else shown
