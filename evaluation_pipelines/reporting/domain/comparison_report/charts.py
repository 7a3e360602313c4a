"""Charts of the report: cost against quality, and differences between models."""

from collections.abc import Sequence
from itertools import chain, count

from evaluation_pipelines.comparison.domain.findings import name_of
from evaluation_pipelines.comparison.domain.models import Row, has_cost
from evaluation_pipelines.comparison.domain.pairwise import NOT_DECIDED
from evaluation_pipelines.comparison.domain.verdicts import RELEVANT_POINTS
from evaluation_pipelines.formatting import interval, points, signed, usd
from evaluation_pipelines.reporting.domain.comparison_report.drawing import (
    INK,
    LINE,
    MUTED,
    WIDTH,
    AxisScale,
    color,
    dot,
    grid,
    line,
    polyline,
    shortened,
    svg,
    text,
)

_LEFT, _RIGHT, _TOP, _BOTTOM = 60.0, WIDTH - 20.0, 26.0, 300.0
_NAME = 20.0
"""Height of a model's name in pixels."""
_AXIS = "Mean score (0-100)"


def scatter(models: Sequence[Row], numbers: dict[str, int]) -> str | None:
    """Mean cost against mean score with 95% intervals, and the line of the best bargains.

    Args:
        models: rows of ``model_comparison`` of one group.
        numbers: model -> number of its color.
    """
    shown = [row for row in models if has_cost(row)]
    if not shown:
        return None
    costs = [value for row in shown for value in _ends(row, "avg_cost_usd")]
    x = AxisScale([0.0, *costs], _LEFT, _RIGHT)
    y = AxisScale([value for row in shown for value in _ends(row, "avg_score")], _BOTTOM, _TOP)
    body = [*_grid(x, y), _frontier(shown, x, y)]
    for row in shown:
        body += _point(row, x, y, color(numbers[name_of(row)]))
    body += _names(shown, x, y)
    return svg(_BOTTOM + 52, body, "Mean cost of a session against mean score, by model", "scatter")


def _grid(x: AxisScale, y: AxisScale) -> list[str]:
    body = grid(y, (_LEFT, _RIGHT))
    for value in x.ticks():
        body.append(line((x(value), _TOP), (x(value), _BOTTOM), LINE))
        body.append(text(x(value), _BOTTOM + 22, f"${x.short(value)}", "middle", MUTED))
    body.append(text(_LEFT - 8, 14, _AXIS, "start", MUTED))
    body.append(
        text(_RIGHT, _BOTTOM + 40, "Mean cost of a session (cheaper is left)", "end", MUTED)
    )
    return body


def _frontier(shown: Sequence[Row], x: AxisScale, y: AxisScale) -> str:
    best = sorted((row for row in shown if row["on_frontier"]), key=lambda row: row["avg_cost_usd"])
    places = ((x(row["avg_cost_usd"]), y(row["avg_score"])) for row in best)
    return polyline(places, MUTED, 'stroke-width="1.5" stroke-dasharray="5 4"')


def _point(row: Row, x: AxisScale, y: AxisScale, fill: str) -> list[str]:
    at_x, at_y = x(row["avg_cost_usd"]), y(row["avg_score"])
    (low_x, high_x), (low_y, high_y) = _ends(row, "avg_cost_usd"), _ends(row, "avg_score")
    thick = 'stroke-width="2" stroke-opacity="0.65"'
    said = f"{name_of(row)}: {points(row['avg_score'])} points for {usd(row['avg_cost_usd'])}"
    return [
        line((x(low_x), at_y), (x(high_x), at_y), fill, thick),
        line((at_x, y(low_y)), (at_x, y(high_y)), fill, thick),
        dot(at_x, at_y, fill, 6, said),
    ]


def _names(shown: Sequence[Row], x: AxisScale, y: AxisScale) -> list[str]:
    """Return the models' names: above their dots, or below where another name is in the way."""
    body: list[str] = []
    taken: list[tuple[bool, float]] = []
    for row in sorted(shown, key=lambda row: -row["avg_score"]):
        at_x, at_y = x(row["avg_cost_usd"]), y(row["avg_score"])
        is_right = at_x > (_LEFT + _RIGHT) / 2
        places = chain([at_y - 9], count(at_y + _NAME, _NAME))
        free = next(
            place
            for place in places
            if all(abs(place - other) >= _NAME for side, other in taken if side == is_right)
        )
        taken.append((is_right, free))
        name_x = at_x - 10 if is_right else at_x + 10
        body.append(text(name_x, free, shortened(name_of(row)), "end" if is_right else "start"))
    return body


def _ends(row: Row, name: str) -> tuple[float, float]:
    """Return the interval, or the value itself where there is none."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    value = row[name]
    return (value, value) if low is None or high is None else (low, high)


def forest(pairs: Sequence[Row]) -> str | None:
    """Return the differences on the same mix of tasks with their intervals."""
    shown = [pair for pair in pairs if pair["adjusted_low_holm"] is not None]
    if not shown:
        return None
    ends = [pair[name] for pair in shown for name in ("adjusted_low_holm", "adjusted_high_holm")]
    left, step = 270.0, 44.0
    x = AxisScale([-RELEVANT_POINTS, RELEVANT_POINTS, *ends], left, WIDTH - 24.0)
    bottom = _TOP + step * len(shown)
    body = [
        _band(x, bottom),
        line((x(0), _TOP), (x(0), bottom), MUTED),
        text(x(0), 16, f"0 = no difference, gray: under {RELEVANT_POINTS:g} points", fill=MUTED),
    ]
    body += [text(x(v), bottom + 18, x.short(v), "middle", MUTED) for v in x.ticks()]
    for place, pair in enumerate(shown):
        body += _whisker(pair, x, _TOP + step * (place + 0.5))
    return svg(bottom + 28, body, "Differences between models with 95% intervals", "forest")


def _band(x: AxisScale, bottom: float) -> str:
    """Return the band in which differences are too small to matter."""
    start, end = x(-RELEVANT_POINTS), x(RELEVANT_POINTS)
    return (
        f'<rect x="{start:.1f}" y="{_TOP}" width="{end - start:.1f}" '
        f'height="{bottom - _TOP:.1f}" fill="{LINE}" fill-opacity="0.55"/>'
    )


def _whisker(pair: Row, x: AxisScale, y: float) -> list[str]:
    a, b = name_of(pair, "_a"), name_of(pair, "_b")
    fill = MUTED if pair["verdict"] == NOT_DECIDED else INK
    low, high = pair["adjusted_low_holm"], pair["adjusted_high_holm"]
    said = f"{signed(pair['adjusted_difference'])} ({interval(signed(low), signed(high))})"
    return [
        text(8, y - 3, shortened(a, 30), "start"),
        text(8, y + 15, f"minus {shortened(b, 24)}", "start", MUTED),
        line((x(low), y), (x(high), y), fill, 'stroke-width="2.5"'),
        dot(x(pair["adjusted_difference"]), y, fill, 5.5, said),
    ]
