"""The last days: sessions by the band of the effective score, and their cost."""

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta

import polars as pl

from evaluation_pipelines.formatting import points, signed, usd, whole
from evaluation_pipelines.judging.domain.badge import is_in_band
from evaluation_pipelines.reporting.domain.charts import (
    LINE,
    MUTED,
    WIDTH,
    line,
    svg,
    text,
)
from evaluation_pipelines.scorecards.domain.withheld import IS_SCORED, WAITS
from evaluation_pipelines.times import USUAL_DAYS

BANDS = {
    "green": "75-100",
    "yellow": "50-74",
    "red": "0-49",
    "due": "awaiting review",
    "unscored": "no score",
}
"""Sessions by the effective score; those whose score is withheld; those without one."""

_TOP, _BASE, _LEFT = 16.0, 170.0, 44.0


@dataclass(frozen=True, slots=True)
class Day:
    """Sessions of a UTC day.

    Attributes:
        date: The day.
        counts: Number of sessions by band.
        mean_score: Mean of the scores that are shown, on the scale of the newest judge, 0-100;
            ``None`` without one.
        cost_usd: Sum of the known costs.
    """

    date: date
    counts: dict[str, int]
    mean_score: float | None
    cost_usd: float

    @property
    def sessions(self) -> int:
        """Number of all sessions."""
        return sum(self.counts.values())

    @property
    def scored(self) -> int:
        """Number of those with an effective score, be it withheld or not."""
        return self.sessions - self.counts["unscored"]

    @property
    def cells(self) -> tuple[str, ...]:
        """Sessions, scored ones, counts by band, mean score and cost, for a table."""
        bands = (self.counts[band] for band in BANDS)
        numbers = map(whole, (self.sessions, self.scored, *bands))
        return (*numbers, points(self.mean_score), usd(self.cost_usd))


@dataclass(frozen=True, slots=True)
class Span:
    """Sessions of some days.

    Attributes:
        sessions: Number of all.
        mean_score: Mean of the scores that are shown, on the scale of the newest judge, 0-100;
            ``None`` without one.
        failed: Number of those that failed.
        cost_usd: Sum of the known costs.
        unknown: Number of sessions whose cost is unknown.
    """

    sessions: int
    mean_score: float | None
    failed: int
    cost_usd: float
    unknown: int

    @property
    def cost(self) -> str:
        """The known cost; a dash if none is known."""
        return usd(self.cost_usd if self.unknown < self.sessions or not self.sessions else None)


@dataclass(frozen=True, slots=True)
class Tile:
    """A number of a week, and its change from the week before; ``None`` if one is unknown."""

    name: str
    value: str
    change: str | None


def last_days(rows: pl.DataFrame, today: date, number: int) -> list[Day]:
    """Return the last days, the oldest first; those without sessions are among them.

    Args:
        rows: Rows with ``session_date``, ``effective_100``, IS_SCORED, WAITS and ``cost_usd``,
            and ``score`` as :func:`on_newest_scale` returns it.
        today: The last day.
        number: How many days.
    """
    first = today - timedelta(days=number - 1)
    recent = rows.filter(pl.col("session_date").is_between(first, today))
    found = {
        row["session_date"]: row
        for row in recent.group_by("session_date")
        .agg(
            **{
                band: is_in_band("effective_100", band).sum() for band in ("green", "yellow", "red")
            },
            due=(pl.col(WAITS) & pl.col(IS_SCORED)).sum(),
            unscored=(~pl.col(IS_SCORED)).sum(),
            mean=pl.col("score").mean(),
            cost=pl.col("cost_usd").sum(),
        )
        .iter_rows(named=True)
    }
    nothing = {**dict.fromkeys(BANDS, 0), "mean": None, "cost": 0.0}
    days = (first + timedelta(days=place) for place in range(number))
    return [_day(day, found.get(day, nothing)) for day in days]


def span_of(rows: pl.DataFrame, first: date, last: date) -> Span:
    """Return the sessions of some days.

    Args:
        rows: Rows with ``session_date``, ``status`` and ``cost_usd``, and ``score`` as
            :func:`on_newest_scale` returns it.
        first: First day.
        last: Last day.
    """
    of_days = rows.filter(pl.col("session_date").is_between(first, last))
    mean, costs = of_days["score"].mean(), of_days["cost_usd"]
    return Span(
        of_days.height,
        mean if isinstance(mean, float) else None,
        of_days.filter(status="failed").height,
        float(costs.sum()),
        costs.null_count(),
    )


def tiles(now: Span, before: Span, *, has_one_scale: bool = True) -> list[Tile]:
    """Return the numbers of a week, each with its change; of no sessions before none is known.

    Without ``has_one_scale`` the mean scores of both weeks are not comparable.
    """
    cost = now.cost_usd - before.cost_usd
    has_costs = now.unknown < now.sessions and before.unknown < before.sessions
    score = None
    if now.mean_score is not None and before.mean_score is not None:
        change = signed(now.mean_score - before.mean_score)
        score = change if has_one_scale else "judge changed, not comparable"
    found = [
        Tile("Sessions", whole(now.sessions), f"{now.sessions - before.sessions:+,}"),
        Tile("Mean score", points(now.mean_score), score),
        Tile("Failed", whole(now.failed), f"{now.failed - before.failed:+,}"),
        Tile(
            "Known cost" if now.unknown else "Cost",
            now.cost,
            f"{'-' if cost < 0 else '+'}{usd(abs(cost))}" if has_costs else None,
        ),
    ]
    return found if before.sessions else [replace(tile, change=None) for tile in found]


def days_chart(days: Sequence[Day], urls: Sequence[str]) -> str:
    """Return a chart of stacked bars, one for each day, that lead to ``urls``."""
    tallest = max((week.sessions for week in days), default=0)
    title = f"Sessions by day and score, {days[0].date} to {days[-1].date}"
    step = (WIDTH - _LEFT) / len(days)
    body = [
        line((_LEFT, _BASE), (WIDTH, _BASE), LINE),
        line((_LEFT, _TOP), (WIDTH, _TOP), LINE),
        text(_LEFT - 6, _TOP + 5, whole(tallest), "end", MUTED),
        text(_LEFT - 6, _BASE + 5, "0", "end", MUTED),
    ]
    for place, (day, url) in enumerate(zip(days, urls, strict=True)):
        left = _LEFT + place * step
        bars = "".join(_bars(day, tallest, left + step * 0.12, step * 0.76))
        body.append(f'<a href="{html.escape(url)}"><title>{_day_text(day)}</title>{bars}</a>')
        if (len(days) - 1 - place) % 2 == 0:  # there is no room for all
            body.append(text(left + step / 2, _BASE + 20, f"{day.date:%m-%d}", fill=MUTED))
    return svg(_BASE + 30, body, title, "days", "group")


def _bars(day: Day, tallest: int, left: float, width: float) -> list[str]:
    found, bottom = [], _BASE
    for band in BANDS:
        height = day.counts[band] / max(tallest, 1) * (_BASE - _TOP)
        bottom -= height
        if height:
            found.append(
                f'<rect class="{band}" x="{left:.1f}" y="{bottom:.1f}" width="{width:.1f}" '
                f'height="{height:.1f}"/>'
            )
    # The whole column links to the day, empty or not.
    found.append(
        f'<rect class="target" x="{left:.1f}" y="{_TOP}" width="{width:.1f}" '
        f'height="{_BASE - _TOP}"/>'
    )
    return found


def _day_text(day: Day) -> str:
    counts = ", ".join(f"{said}: {day.counts[band]}" for band, said in BANDS.items())
    number = f"{day.sessions} session{'' if day.sessions == 1 else 's'}"
    return f"{day.date}, {number}. {counts}"


def _day(day: date, row: dict[str, float | None]) -> Day:
    counts = {band: int(row[band] or 0) for band in BANDS}
    return Day(day, counts, row["mean"], row["cost"] or 0.0)


ALL_DAYS = "all days"

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class DayRange:
    """UTC days, both ends included."""

    first: date
    last: date

    def __str__(self) -> str:
        """Return the days for people."""
        if self.first == self.last:
            return f"{self.first}"
        return f"{self.first} to {self.last}, {self.days} days"

    @property
    def days(self) -> int:
        """Number of days."""
        return (self.last - self.first).days + 1

    @classmethod
    def before_day(cls, day: date, number: int) -> "DayRange":
        """Return the last days before a day."""
        return cls(day - number * _DAY, day - _DAY)

    @property
    def ends(self) -> tuple[date, date]:
        """First and last day."""
        return self.first, self.last

    @property
    def dates(self) -> frozenset[date]:
        """The days one by one."""
        return frozenset(self.first + place * _DAY for place in range(self.days))

    @property
    def before(self) -> "DayRange":
        """As many days just before."""
        return DayRange.before_day(self.first, self.days)


_LENGTHS = (28, 14, 7)


def usual_days(today: date) -> tuple[tuple[tuple[date, date], tuple[date, date]], ...]:
    """Return the recent days that are compared with as many before, by preference."""
    recent = [DayRange.before_day(today, length) for length in _LENGTHS]
    return tuple((span.ends, span.before.ends) for span in recent)


def day_range(since: date | None, until: date | None, today: date) -> DayRange:
    """Return the days from ``since`` until ``until``; without both the last 28 complete ones.

    Raises:
        ValueError: They end before they begin.
    """
    yesterday = today - _DAY
    last = until or max(since or yesterday, yesterday)
    first = since or last - (USUAL_DAYS - 1) * _DAY
    if first > last:
        raise ValueError("the time range ends before it starts")
    return DayRange(first, last)


def named_ranges(today: date, first: date | None) -> Iterator[tuple[str, DayRange]]:
    """Yield names and days that people ask for.

    Args:
        today: The day that is not complete.
        first: First day with a session; ``None`` without any.
    """
    yield "yesterday", DayRange.before_day(today, 1)
    yield "last 7 days", DayRange.before_day(today, 7)
    yield f"last {USUAL_DAYS} days", day_range(None, None, today)
    if first is not None and first <= today:
        yield ALL_DAYS, DayRange(first, today)


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of sessions.

    Attributes:
        known_usd: Sum of the known costs.
        sessions: Number of all sessions.
        unknown: Number of those whose cost is unknown.
    """

    known_usd: float
    sessions: int
    unknown: int

    @property
    def total(self) -> str:
        """The sum for people; a dash if no cost is known."""
        return usd(self.known_usd if self.unknown < self.sessions else None)

    def __str__(self) -> str:
        """Return a sentence."""
        if not self.unknown:
            return f"Total cost: {usd(self.known_usd)} ({whole(self.sessions)} sessions)."
        known = f"known for {whole(self.sessions - self.unknown)} of {whole(self.sessions)}"
        return f"Total cost: {self.total} ({known} sessions)."


def cost_of(rows: pl.DataFrame) -> Cost:
    """Return the cost of rows with ``cost_usd``."""
    costs = rows["cost_usd"]
    return Cost(float(costs.sum()), rows.height, costs.null_count())


def range_costs(rows: pl.DataFrame, today: date) -> Iterator[tuple[str, DayRange, Cost]]:
    """Yield the name, the days and the cost of the times that people ask for.

    Args:
        rows: Rows with ``session_date`` and ``cost_usd``.
        today: The day that is not complete.
    """
    for name, days in named_ranges(today, None):
        yield name, days, cost_of(rows.filter(pl.col("session_date").is_between(*days.ends)))
