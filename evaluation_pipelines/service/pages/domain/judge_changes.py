"""The section of a page about a judge change: its picture and its table."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from statistics import fmean
from typing import Any

from evaluation_pipelines.formatting import DASH, interval, points, signed
from evaluation_pipelines.judge_changes.domain.bridge import Point, Split
from evaluation_pipelines.judge_changes.domain.drawing import DAYS, Stratum
from evaluation_pipelines.judge_changes.domain.judge_change import (
    JudgeChange,
    ScoredAnchor,
    headline,
    judges_line,
    names,
    sentences,
    title,
)
from evaluation_pipelines.reporting.domain.charts import (
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
    score_ends,
    shortened,
    svg,
    text,
)

_TOP, _BOTTOM = 62.0, 300.0
_BEFORE = (52.0, 262.0)
_BRIDGE = (282.0, 408.0)
_AFTER = (428.0, WIDTH - 14.0)
_FORMER, _NEW = color(1), color(0)
_LONGEST_NAME = 20
_FEWEST_POINTS = 10.0
"""The axis spans at least this many points."""


@dataclass(frozen=True, slots=True)
class _Panel:
    """A panel of time: pixels of its ends, and the days at them."""

    left: float
    right: float
    first: float
    last: float

    def x(self, day: float) -> float:
        return self.left + (day - self.first) / (self.last - self.first) * (self.right - self.left)


_PAST, _FUTURE = _Panel(*_BEFORE, -DAYS, 0), _Panel(*_AFTER, 0, DAYS)


def before_bridge_after(found: JudgeChange) -> str | None:
    """Return the picture; ``None`` if no period before or after has enough scores."""
    if not found.before and not found.after:
        return None
    y = _scale(found)
    former, new = names(found.change)
    body = [*grid(y, _BEFORE, _BRIDGE, _AFTER), *_frames(), *_headings(found, former, new)]
    body += _past(found, y)
    body += _series(_PAST, found.before, y, _FORMER, "as scored by the former judge", shape="5 4")
    body += _series(_FUTURE, found.after, y, _NEW, "by the new judge")
    body += _bridge(found, y)
    body += _dates(found.change.changed_on)
    what = "Mean scores before and after a change of the judge, and the bridge between them"
    return svg(_BOTTOM + 116, [*body, *_legend(found)], what, "judge-change")


def _scale(found: JudgeChange) -> AxisScale:
    values = [each.mean for each in (*found.before, *found.after)]
    if found.split is not None:
        parts = found.split
        values += [parts.former.value, parts.new.value]
        shift = parts.judges_part.estimate
        ends = [each for each in (shift.low, shift.high) if each is not None]
        if found.is_bridged:
            values += [each.mean + end for each in found.before for end in ends]
        values += [parts.former.value + end for end in ends]
    inside = [_within(each) for each in values]
    return AxisScale([*inside, *score_ends(values, _FEWEST_POINTS)], _BOTTOM, _TOP)


def _frames() -> list[str]:
    """Return the box of the bridge, which has no time."""
    left, right = _BRIDGE
    box = f'<rect x="{left}" y="{_TOP - 8}" width="{right - left}" height="{_BOTTOM - _TOP + 16}" '
    return [f'{box} rx="8" fill="{LINE}" fill-opacity="0.3" stroke="{LINE}"/>']


def _headings(found: JudgeChange, former: str, new: str) -> list[str]:
    anchors, scored = len(found.counted), sum(each.is_scored for each in found.counted)
    middle = f"{anchors} sessions, both judges" if anchors == scored else f"{scored} of {anchors}"
    middle = middle if anchors else "no session yet"
    rows = (
        (_BEFORE, "Before", shortened(former, _LONGEST_NAME + 6)),
        (_BRIDGE, "Bridge" if found.is_bridged else "No bridge", middle),
        (_AFTER, "After", shortened(new, _LONGEST_NAME + 4)),
    )
    return [
        part
        for (left, right), title, below in rows
        for part in (
            _bold(text((left + right) / 2, 18, title)),
            _detail(text((left + right) / 2, 37, below, fill=MUTED)),
        )
    ]


def _past(found: JudgeChange, y: AxisScale) -> list[str]:
    """Return the scores before on the scale of the new judge, with the range of the bridge."""
    parts = found.split
    if parts is None or not found.is_bridged:
        return []
    shift = parts.judges_part.estimate
    low, high = shift.low or 0.0, shift.high or 0.0
    moved = [
        Point(each.middle, each.mean + (shift.value or 0.0), each.sessions) for each in found.before
    ]
    upper = [(_PAST.x(each.middle), y(_within(each.mean + high))) for each in found.before]
    lower = [(_PAST.x(each.middle), y(_within(each.mean + low))) for each in found.before]
    band = " ".join(f"{x:.1f},{at:.1f}" for x, at in [*upper, *reversed(lower)])
    return [
        f'<polygon points="{band}" fill="{_NEW}" fill-opacity="0.18"/>',
        *_series(_PAST, moved, y, _NEW, "on the scale of the new judge"),
    ]


def _series(
    panel: _Panel,
    series: Sequence[Point],
    y: AxisScale,
    stroke: str,
    said: str,
    shape: str = "none",
) -> list[str]:
    places = [(panel.x(each.middle), y(_within(each.mean))) for each in series]
    path = polyline(places, stroke, f'stroke-width="2.5" stroke-dasharray="{shape}"')
    dots = [
        dot(*place, stroke, 3.5, f"{points(each.mean)} points, {each.sessions} sessions, {said}")
        for place, each in zip(places, series, strict=True)
    ]
    return [path, *dots]


def _bridge(found: JudgeChange, y: AxisScale) -> list[str]:
    parts = found.split
    left, right = _BRIDGE
    if parts is None:
        return _small_lines((left + right) / 2, (_TOP + _BOTTOM) / 2, _why_empty(found))
    start, end = left + 24, right - 24
    from_y, to_y = y(parts.former.value), y(parts.new.value)
    stroke = _NEW if found.is_bridged else MUTED
    shape = "" if found.is_bridged else 'stroke-dasharray="3 4"'
    said = parts.judges_part.estimate
    body = [line((start, from_y), (end, to_y), stroke, f'stroke-width="2.5" {shape}')]
    if said.low is not None and said.high is not None:
        ends = [_within(parts.former.value + each) for each in (said.low, said.high)]
        body.append(line((end, y(ends[0])), (end, y(ends[1])), stroke, 'stroke-width="2.5"'))
        body += [
            line((end - 6, y(each)), (end + 6, y(each)), stroke, 'stroke-width="2.5"')
            for each in ends
        ]
    body.append(dot(start, from_y, _FORMER, 6, f"former judge: {points(parts.former.value)}"))
    body.append(dot(end, to_y, _NEW, 6, f"new judge: {points(parts.new.value)}"))
    return [*body, *_difference(parts)]


def _difference(parts: Split) -> list[str]:
    """Return the judge's part in words, below its box."""
    said = parts.judges_part.estimate
    middle = (_BRIDGE[0] + _BRIDGE[1]) / 2
    ends = interval(signed(said.low), signed(said.high))
    return [
        _bold(text(middle, _BOTTOM + 28, f"{signed(said.value)} points")),
        _small(text(middle, _BOTTOM + 52, ends, fill=MUTED)),
    ]


def _why_empty(found: JudgeChange) -> tuple[str, ...]:
    if found.state == "impossible":
        return ("not possible",)
    return ("not measured", "yet")


def _dates(changed_on: date | None) -> list[str]:
    at = _BOTTOM + 24
    if changed_on is None:
        rows = [(_PAST.left, "28 days ago", "start"), (_PAST.right, "today", "end")]
    else:
        since, until = changed_on - timedelta(days=DAYS), changed_on + timedelta(days=DAYS)
        rows = [
            (_PAST.left, _day(since), "start"),
            (_PAST.right, _day(changed_on), "end"),
            (_FUTURE.left, _day(changed_on), "start"),
            (_FUTURE.right, _day(until), "end"),
        ]
    return [_small(text(x, at, said, anchor, MUTED)) for x, said, anchor in rows]


def _legend(found: JudgeChange) -> Iterable[str]:
    rows = [(_FORMER, "5 4", "former judge"), (_NEW, "none", "new judge")]
    if found.is_bridged:
        rows[1] = (_NEW, "none", "on the new judge's scale (shaded: 95% interval)")
    x = _BEFORE[0]
    for at, (stroke, shape, said) in zip((_BOTTOM + 80, _BOTTOM + 106), rows, strict=True):
        yield line(
            (x, at - 5), (x + 26, at - 5), stroke, f'stroke-width="2.5" stroke-dasharray="{shape}"'
        )
        yield _small(text(x + 33, at, said, "start", MUTED))


def _day(day: date) -> str:
    return f"{day:%b} {day.day}"


def _within(score: float) -> float:
    return min(max(score, 0.0), 100.0)


def _small(element: str) -> str:
    return element.replace("<text ", '<text font-size="13" ', 1)


def _detail(element: str) -> str:
    """Mark text that a phone has no room for; the sentences next to the picture say it, too."""
    return _small(element).replace("<text ", '<text class="detail" ', 1)


def _bold(element: str) -> str:
    return element.replace("<text ", '<text font-weight="600" ', 1)


def _small_lines(x: float, y: float, words: Sequence[str]) -> list[str]:
    return [_small(text(x, y + 18 * place, each, fill=INK)) for place, each in enumerate(words)]


STRATUM_HEADINGS = (
    "Label",
    "Model",
    "Sessions #",
    "Anchors #",
    "Previous judge #",
    "New judge #",
    "Difference #",
)


def stratum_rows(found: JudgeChange) -> list[tuple[str, ...]]:
    """Return sessions, anchors and mean scores by label and model, as texts."""
    strata: dict[Stratum, list[ScoredAnchor]] = {}
    for each in found.counted:
        strata.setdefault(each.anchor.session.stratum, []).append(each)
    return [
        (
            label,
            model or "unknown",
            str(scored[0].anchor.stratum_sessions),
            str(len(scored)),
            *_means(scored),
        )
        for (label, model), scored in strata.items()
    ]


def _means(scored: Sequence[ScoredAnchor]) -> tuple[str, str, str]:
    totals = [
        (each.former.score, each.new.score)
        for each in scored
        if each.former.score is not None and each.new.score is not None
    ]
    if not totals:
        return DASH, DASH, DASH
    former, new = (fmean(each) for each in zip(*totals, strict=True))
    return points(former), points(new), signed(new - former)


def change_content(found: JudgeChange) -> dict[str, Any]:
    """Return the values of the template of one change by name; texts are not escaped yet."""
    return {
        "title": title(found.change),
        "judges": judges_line(found.change),
        "headline": headline(found),
        "sentences": sentences(found),
        "is_bridged": found.is_bridged,
        "picture": before_bridge_after(found),
        "headings": STRATUM_HEADINGS,
        "strata": stratum_rows(found),
    }
