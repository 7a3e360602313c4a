"""Charts as SVG text: no network, no fonts to load, readable in light and dark."""

import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain, count, groupby
from math import ceil, floor, log10

import polars as pl

from evaluation_pipelines.comparison.domain.findings import Finding
from evaluation_pipelines.comparison.domain.models import Row, has_cost, has_values, name_of
from evaluation_pipelines.comparison.domain.pairwise import NOT_DECIDED
from evaluation_pipelines.comparison.domain.runs import GROUP, MODEL
from evaluation_pipelines.comparison.domain.verdicts import RELEVANT_POINTS
from evaluation_pipelines.formatting import interval, points, signed, usd

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
        self.step = next(
            power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999
        )
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
    return [min(max(middle + sign * smallest / 2, 0.0), 100.0) for sign in (-1, 1)]


def shortened(words: str, longest: int = 26) -> str:
    """Return ``words``, shortened to fit next to a chart."""
    return words if len(words) <= longest else f"{words[: longest - 1]}…"


def histogram_svg(
    values: Sequence[float],
    label: str,
    limits: tuple[float, float],
    marks: Mapping[str, float] | None = None,
) -> str:
    """A histogram of ``values`` in 20 bins between ``limits``, with named vertical marks."""
    low, high = limits
    left, right, top, base = 20.0, WIDTH - 20.0, 20.0, 130.0

    def x(value: float) -> float:
        return left + (value - low) / (high - low) * (right - left)

    counts = _binned(values, limits, 20)
    body = [*_bars(counts, (left, right), (top + 6, base), color(0), lambda _, number: f"{number}")]
    for name, at in (marks or {}).items():
        body.append(line((x(at), top), (x(at), base), MUTED, 'stroke-dasharray="3 3"'))
        body.append(text(x(at), top - 5, name))
    body.append(line((left, base), (right, base), MUTED))
    ticks = [low + (high - low) * place / 5 for place in range(6)]
    body += [text(x(tick), base + 18, f"{tick:g}", fill=MUTED) for tick in ticks]
    title = f"{label}, n = {len(values)}"
    return _picture(base + 44, [*body, text(WIDTH / 2, base + 38, title)], title)


def bars_svg(rows: Sequence[tuple[str, int]], label: str) -> str:
    """Horizontal bars, one a row, with its name and number; ``label`` stands below."""
    step, left = 24.0, 240.0
    room = WIDTH - left - 60
    largest = max((number for _, number in rows), default=1)
    body = []
    for place, (name, number) in enumerate(rows):
        width, y = room * number / largest, step * (place + 1)
        body += [
            text(left - 8, y, shortened(name, 30), "end"),
            _rect(left, y - 13, width, 16, color(0)),
            text(left + width + 6, y, f"{number}", "start"),
        ]
    height = step * len(rows) + 40
    return _picture(height, [*body, text(WIDTH / 2, height - 12, label, fill=MUTED)], label)


def _picture(height: float, body: Sequence[str], title: str) -> str:
    """Return an image with a size of its own: outside of our pages no style gives it one."""
    size = f'<svg width="{WIDTH}" height="{height:g}" '
    return svg(height, body, title).replace("<svg ", size, 1)


def _binned(values: Iterable[float], limits: tuple[float, float], bins: int) -> list[int]:
    """Return how many values are in each bin; those beyond the limits are at the ends."""
    low, high = limits
    counts = [0] * bins
    for value in values:
        counts[min(max(int((value - low) / (high - low) * bins), 0), bins - 1)] += 1
    return counts


def _bars(
    counts: Sequence[int],
    sides: tuple[float, float],
    heights: tuple[float, float],
    fill: str,
    said: Callable[[int, int], str],
) -> Iterator[str]:
    """Yield the bars of a histogram; the tallest one fills the height."""
    (left, right), (top, base) = sides, heights
    width = (right - left) / len(counts)
    for place, number in enumerate(counts):
        if number:
            height = number / max(counts) * (base - top)
            x = left + place * width + 0.5
            yield _rect(x, base - height, width - 1, height, fill, said(place, number))


def _rect(x: float, y: float, width: float, height: float, fill: str, title: str = "") -> str:
    said = f"<title>{html.escape(title)}</title>" if title else ""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'fill="{fill}">{said}</rect>'
    )


_PLOT_LEFT, _PLOT_RIGHT, _PLOT_TOP, _PLOT_BOTTOM = 76.0, WIDTH - 14.0, 18.0, 226.0
_DATES, _MARK = 5, 'stroke-dasharray="2 4" class="mark"'


@dataclass(frozen=True, slots=True)
class Place:
    """A value at a time.

    Attributes:
        time: When.
        value: The value.
        said: Text of the tooltip.
        url: The page a dot opens; none if empty.
        era: Values of different eras are not joined.
    """

    time: datetime
    value: float
    said: str
    url: str = ""
    era: int = 0


@dataclass(frozen=True, slots=True)
class Curve:
    """Values of one name in order of time, in the color of its number.

    ``band`` is the interval around all values, as differences from them; ``None`` for none.
    """

    places: Sequence[Place]
    number: int = 0
    is_dashed: bool = False
    band: tuple[float, float] | None = None


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
    places = [place for curve in curves for place in curve.places]
    if not places:
        return None
    times = [place.time for place in places]
    since, until = span or (min(times), max(times))
    top = _PLOT_TOP + 20 if legend else _PLOT_TOP
    y = AxisScale([*axis.values, *(place.value for place in places)], _PLOT_BOTTOM, top)

    def x(time: datetime) -> float:
        share = (time - since) / (until - since) if until > since else 0.5
        return _PLOT_LEFT + 10 + share * (_PLOT_RIGHT - _PLOT_LEFT - 20)

    body = [*legend, *grid(y, (_PLOT_LEFT, _PLOT_RIGHT), shown=axis.shown)]
    body += _dates(x, since, until)
    for mark in marks:
        body.append(line((x(mark), top), (x(mark), _PLOT_BOTTOM), MUTED, _MARK))
    for curve in curves:
        body += _curve(curve, x, y)
    role = "group" if any(place.url for place in places) else "img"  # an image has no links
    return svg(_PLOT_BOTTOM + 32, body, title, "lines", role)


def _dates(x: Callable[[datetime], float], since: datetime, until: datetime) -> list[str]:
    days = (until.date() - since.date()).days
    number = min(_DATES, days + 1)
    found = []
    for place in range(number):
        # Whole days: a label stands below the value of its day.
        time = min(since + timedelta(days=round(days * place / max(number - 1, 1))), until)
        anchor = "start" if place == 0 and number > 1 else "middle"
        anchor = "end" if place == number - 1 and number > 1 else anchor
        found.append(text(x(time), _PLOT_BOTTOM + 22, f"{time:%d %b}", anchor, MUTED))
    return found


def _curve(curve: Curve, x: Callable[[datetime], float], y: AxisScale) -> list[str]:
    fill, shape = color(curve.number), ' stroke-dasharray="5 4"' if curve.is_dashed else ""
    body = []
    for _, era in groupby(curve.places, key=lambda place: place.era):
        path = ((x(place.time), y(place.value)) for place in era)
        body.append(polyline(path, fill, f'stroke-width="2"{shape}'))
    if curve.band is not None:
        low, high = (
            [(x(place.time), y(place.value + end)) for place in curve.places] for end in curve.band
        )
        ends = " ".join(f"{at:.1f},{value:.1f}" for at, value in [*high, *reversed(low)])
        body.append(f'<polygon points="{ends}" fill="{fill}" fill-opacity="0.18"/>')
    if not curve.is_dashed or curve.band is not None:
        body += [_dot(place, x(place.time), y(place.value), fill) for place in curve.places]
    return body


def _dot(place: Place, x: float, y: float, fill: str) -> str:
    shown = dot(x, y, fill, 4, place.said)
    return f'<a href="{html.escape(place.url)}">{shown}</a>' if place.url else shown


_LEFT, _RIGHT, _TOP, _BOTTOM = 60.0, WIDTH - 20.0, 26.0, 300.0
_NAME = 20.0
"""Height of a model's name in pixels."""


def colors(found: Finding) -> Mapping[str, int]:
    """Return the color number of each model, the same in all charts of a finding."""
    return {name: place for place, name in enumerate(sorted(map(name_of, found.models)))}


def scatter(found: Finding) -> str | None:
    """Mean cost against mean score with 95% intervals, and the line of the best bargains."""
    shown, numbers = list(filter(has_cost, found.models)), colors(found)
    if not shown:
        return None
    costs = [value for row in shown for value in _ends(row, "avg_cost_usd")]
    x = AxisScale([0.0, *costs], _LEFT, _RIGHT)
    y = AxisScale([value for row in shown for value in _ends(row, "avg_score")], _BOTTOM, _TOP)
    body = grid(y, (_LEFT, _RIGHT))
    for value in x.ticks():
        body.append(line((x(value), _TOP), (x(value), _BOTTOM), LINE))
        body.append(text(x(value), _BOTTOM + 22, f"${x.short(value)}", "middle", MUTED))
    best = sorted((row for row in shown if row["on_frontier"]), key=lambda row: row["avg_cost_usd"])
    frontier = ((x(row["avg_cost_usd"]), y(row["avg_score"])) for row in best)
    body += [
        text(_LEFT - 8, 14, "Mean score (0-100)", "start", MUTED),
        text(_RIGHT, _BOTTOM + 40, "Mean cost of a session (cheaper is left)", "end", MUTED),
        polyline(frontier, MUTED, 'stroke-width="1.5" stroke-dasharray="5 4"'),
    ]
    for row in shown:
        body += _point(row, x, y, color(numbers[name_of(row)]))
    body += _names(shown, x, y)
    title = f"Mean cost of a session against mean score, by {found.nouns.model}"
    return svg(_BOTTOM + 52, body, title, "scatter")


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
    start, end = x(-RELEVANT_POINTS), x(RELEVANT_POINTS)
    band = (start, _TOP, end - start, bottom - _TOP)
    body = [
        # Differences that are too small to matter.
        f'<g fill-opacity="0.55">{_rect(*band, LINE)}</g>',
        line((x(0), _TOP), (x(0), bottom), MUTED),
        text(x(0), 16, f"0 = no difference, gray: under {RELEVANT_POINTS:g} points", fill=MUTED),
    ]
    body += [text(x(v), bottom + 18, x.short(v), "middle", MUTED) for v in x.ticks()]
    for place, pair in enumerate(shown):
        body += _whisker(pair, x, _TOP + step * (place + 0.5))
    return svg(bottom + 28, body, "Differences with 95% intervals", "forest")


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


_SCORE_BINS = 25
_STEPS = 14
SMALLEST_STEP = 3
"""Means of fewer runs are not drawn, since they vary too much."""


def _runs_of(runs: pl.DataFrame, row: Row) -> pl.DataFrame:
    """Return the runs that the averages of one model of a finding are made from."""
    same = has_values((*GROUP, *MODEL), row)
    return runs.filter(same, pl.col("score").is_not_null(), ~pl.col("is_disqualified"))


def distributions(finding: Finding, runs: pl.DataFrame) -> str:
    """Return a histogram of the scores of each ranked model, with the mean marked."""
    left, right, step = 215.0, WIDTH - 20.0, 68.0
    rows, numbers = finding.ranked, colors(finding)
    bottom = 8 + step * len(rows)
    body = list[str]()
    for place, row in enumerate(rows):
        base = 8 + step * (place + 1) - 6
        scores = _runs_of(runs, row)["score"].to_list()
        body += _bars(
            _binned(scores, (0, 100), _SCORE_BINS),
            (left, right),
            (base - step + 16, base),
            color(numbers[name_of(row)]),
            lambda at, number: f"{number} sessions with {at * 4} to {at * 4 + 4} points",
        )
        mean, mean_shown = left + row["avg_score"] / 100 * (right - left), points(row["avg_score"])
        body += [
            line((left, base), (right, base), LINE),
            line((mean, base - step + 12), (mean, base), INK, 'stroke-width="2"'),
            text(left - 10, base - 24, shortened(name_of(row), 24), "end"),
            text(left - 10, base - 6, f"{row['runs']} runs, mean {mean_shown}", "end", MUTED),
        ]
    body += [
        text(left + share * (right - left), bottom + 14, f"{share * 100:.0f}", fill=MUTED)
        for share in (0, 0.25, 0.5, 0.75, 1)
    ]
    title = f"Score distribution by {finding.nouns.model}"
    return svg(bottom + 22, body, title, "distributions")


def trend(finding: Finding, runs: pl.DataFrame, span: tuple[datetime, datetime]) -> str | None:
    """Return mean scores of each ranked model over time, in up to 14 steps of whole days."""
    since, until = span
    days, numbers = max((until - since).days, 1), colors(finding)
    length = timedelta(days=-(-days // _STEPS))
    rows = {name_of(row): row for row in finding.ranked}
    curves = [
        Curve(_steps(name, _runs_of(runs, row), since, length), numbers[name])
        for name, row in rows.items()
    ]
    title = f"Mean scores over time, by {finding.nouns.model}"
    return line_chart(title, curves, Axis(values=()), span, legend=color_legend([*rows], numbers))


def _steps(name: str, runs: pl.DataFrame, since: datetime, length: timedelta) -> list[Place]:
    """Return the mean of each step with enough runs, in the middle of the step."""
    gone = (pl.col("started_at") - pl.lit(since)).dt.total_microseconds()
    number = gone // (length // timedelta(microseconds=1))
    steps = (
        runs.group_by(step=number)
        .agg(mean=pl.col("score").mean(), number=pl.len())
        .filter(pl.col("number") >= SMALLEST_STEP)
        .sort("step")
    )
    return [
        Place(since + length * (step + 0.5), mean, f"{name}: {count} sessions")
        for step, mean, count in steps.iter_rows()
    ]


def color_legend(names: Sequence[str], numbers: Mapping[str, int]) -> list[str]:
    """Return a legend: names with their colors, as many per line as fit."""
    step = max((WIDTH - 60) / len(names), 130)
    room = int(step / 9)
    return [
        part
        for place, name in enumerate(names[: int((WIDTH - 60) / step)])
        for part in (
            dot(56 + place * step, 12, color(numbers[name]), 5),
            text(66 + place * step, 17, shortened(name, room), "start"),
        )
    ]
