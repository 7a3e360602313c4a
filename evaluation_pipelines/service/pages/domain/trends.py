"""Quality, cost, tokens and failures of sessions by day or week, and by model, agent or other."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from types import MappingProxyType
from typing import Any

import polars as pl

from evaluation_pipelines.formatting import (
    known_usd,
    of_known,
    percent,
    points,
    signed,
    tokens,
    usd,
    whole,
)
from evaluation_pipelines.judge_changes.domain.judges import Turn
from evaluation_pipelines.reporting.domain.charts import (
    SMALLEST_STEP,
    Axis,
    Curve,
    Place,
    line_chart,
    score_ends,
)
from evaluation_pipelines.scorecards.domain.withheld import IS_SCORED, WAITS
from evaluation_pipelines.sessions.domain.session_filter import short_names

WHOLE = "all"

QUALITY, AS_SCORED = "quality", "quality_as_scored"

STEPS = {"day": "day", "week": "week", WHOLE: "all days"}
"""Length of a period -> how it is called."""

BY = {
    "model": "model",
    "agent": "agent_id",
    "team": "team",
    "person": "person_id",
    "repository": "repository",
    "label": "classification_label",
}
"""Name of a dimension -> its column; the name is that of the filter of the list, too."""

MOST_CURVES = 6
MOST_NAMED = 3
MOST_ROWS = 200

_VISIBLE = 1.0
"""Points between two curves from which on they can be told apart."""

_SMALLEST_SPAN = 20.0
"""The axis of scores spans at least this many points."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of a trend: column, title, how it is shown, and of how many.

    ``count`` is the column with the number of sessions that it is of.
    """

    column: str
    title: str
    shown: Callable[[float | None], str]
    count: str = "sessions"


MEASURES = (
    Measure(QUALITY, "Mean score, 0-100", points, "shown_scores"),
    Measure("cost_per_session", "Cost per session", usd, "known_costs"),
    Measure("tokens_per_session", "Tokens per session", tokens, "known_tokens"),
    Measure("failed_share", "Failed tool calls", percent),
    Measure("merged_share", "Merged sessions", percent, "known_merged"),
)

CSV_COLUMNS = (
    *("period", "name", "first_day", "last_day", "sessions", "scored", "review_due"),
    *(QUALITY, AS_SCORED, "known_costs", "cost_usd", "cost_per_session"),
    *("known_tokens", "tokens_per_session"),
    *("calls", "failed_calls", "failed_share", "failed_sessions"),
    *("known_merged", "merged_share"),
)


def eras(turns: Sequence[Turn]) -> list[str]:
    """Return a text about who judged each ``era`` of :func:`trend_rows`.

    Args:
        turns: Changes of the judge, the oldest first.

    Returns:
        By number of the era: 0 is before the first cut, n since the nth. Empty without cuts.
    """
    cuts = [turn.changed_on for turn in turns if turn.shift is None]
    return [f"judge before {day}" for day in cuts[:1]] + [f"judge since {day}" for day in cuts]


def trend_rows(
    rows: pl.DataFrame, by: str | None, step: str, turns: Sequence[Turn]
) -> pl.DataFrame:
    """Return a row for each period and name, the oldest first.

    No period lies on both sides of a day on which the trend is cut.

    Args:
        rows: Rows of sessions with ``score``, as :func:`on_newest_scale` returns them,
            IS_SCORED and WAITS.
        by: A name in BY; ``None`` for all sessions together.
        step: A name in STEPS.
        turns: Changes of the judge.
    """
    day = pl.col("session_date")
    cuts = [turn.changed_on for turn in turns if turn.shift is None]
    era = pl.sum_horizontal(pl.lit(0), *((day >= cut).cast(pl.Int32) for cut in cuts))
    name = pl.lit("all sessions") if by is None else pl.col(BY[by])
    known_calls = pl.col("total_tools").filter(pl.col("tools_failed").is_not_null())
    periods = {"day": day, "week": day.dt.truncate("1w"), WHOLE: day.min()}
    group = {"period": periods[step], "era": era, "name": name}
    return (
        rows.with_columns(**group)
        .group_by(*group)
        .agg(
            first_day=day.min(),
            last_day=day.max(),
            sessions=pl.len().cast(pl.Int64),
            scored=pl.col(IS_SCORED).sum().cast(pl.Int64),
            review_due=(pl.col(WAITS) & pl.col(IS_SCORED)).sum().cast(pl.Int64),
            shown_scores=pl.col("score").count().cast(pl.Int64),
            quality=pl.col("score").mean(),
            **{AS_SCORED: pl.col("effective_100").mean()},
            known_costs=pl.col("cost_usd").count().cast(pl.Int64),
            cost_usd=pl.col("cost_usd").sum(),
            cost_per_session=pl.col("cost_usd").mean(),
            known_tokens=pl.col("total_tokens").count().cast(pl.Int64),
            tokens_per_session=pl.col("total_tokens").mean(),
            known_merged=pl.col("merged").count().cast(pl.Int64),
            merged_share=pl.col("merged").mean(),
            calls=known_calls.sum(),
            failed_calls=pl.col("tools_failed").sum(),
            failed_sessions=(pl.col("status") == "failed").sum().cast(pl.Int64),
        )
        .with_columns(
            failed_share=pl.when(pl.col("calls") > 0).then(pl.col("failed_calls") / pl.col("calls"))
        )
        .sort("period", "era", "name", nulls_last=True)
    )


def merges_note(rows: pl.DataFrame, first: date) -> str | None:
    """Return that merges are not final, if rows of :func:`trend_rows` have days since the first.

    ``first`` is the first day whose commits are still asked about.
    """
    open_rows = rows.filter(pl.col("last_day") >= first, pl.col("sessions") > 0)
    if open_rows.is_empty() or not rows["known_merged"].sum():
        return None
    return f"Sessions since {first} may still be merged: their share is not final."


def with_absent(rows: pl.DataFrame, every: pl.DataFrame, by: str) -> pl.DataFrame:
    """Add a row without sessions for each name that has some at other times alone.

    Args:
        rows: Rows of :func:`trend_rows` of all days together.
        every: Rows of sessions of any time.
        by: A name in BY.

    Returns:
        The rows, the lowest mean score first; those of absent names are the last.
    """
    newest = every.group_by(name=BY[by]).agg(last_day=pl.col("session_date").max())
    absent = newest.join(rows, on="name", how="anti").drop_nulls("name")
    known = ("scored", "review_due", "shown_scores", "known_costs", "known_tokens")
    none = dict.fromkeys(("sessions", *known, "calls", "failed_calls", "failed_sessions"), 0)
    added = absent.with_columns(**none, cost_usd=0.0, era=0)
    return pl.concat(
        [rows.sort(QUALITY, "name", nulls_last=True), added.sort("last_day", "name")],
        how="diagonal_relaxed",
    )


def display_names(rows: pl.DataFrame, by: str | None) -> Mapping[str, str]:
    """Return how the names of rows are shown, where that differs."""
    return short_names(rows["name"]) if by == "repository" else {}


def answers_of(
    rows: pl.DataFrame, shown_names: Mapping[str, str] = MappingProxyType({})
) -> list[tuple[str, str]]:
    """Return who has the lowest scores, most sessions, highest cost, and no recent session.

    Args:
        rows: Rows of :func:`with_absent`.
        shown_names: As of :func:`display_names`.

    Returns:
        Question and answer of each. Of several eras of a name the sum counts, but the mean score is
        that of the last era: means of different judges cannot be compared. It takes 3 sessions.
    """
    named = rows.drop_nulls("name")
    is_last = pl.col("era") == pl.col("era").filter(pl.col("sessions") > 0).max()
    is_enough = pl.col("shown_scores") >= SMALLEST_STEP
    low = named.filter(is_last, is_enough).sort(QUALITY, "name")
    sums = named.group_by("name")
    total = sums.agg(pl.col("sessions", "known_costs", "cost_usd").sum(), pl.col("last_day").max())
    used = total.filter(pl.col("sessions") > 0).sort(-pl.col("sessions"), "name")
    paid = total.filter(pl.col("known_costs") > 0).sort(-pl.col("cost_usd"), "name")
    absent = total.filter(pl.col("sessions") == 0).sort(
        "last_day", "name", descending=[True, False]
    )
    listed = [
        (
            f"Lowest mean score (at least {SMALLEST_STEP} sessions)",
            low,
            lambda row: f"{points(row[QUALITY])}, {whole(row['shown_scores'])} sessions",
        ),
        ("Most sessions", used, lambda row: whole(row["sessions"])),
        ("Highest known cost", paid, lambda row: usd(row["cost_usd"])),
        ("No recent sessions", absent, lambda row: f"last {row['last_day']}"),
    ]
    return [(title, _named(found, said, shown_names)) for title, found, said in listed]


def unnamed_sessions(rows: pl.DataFrame) -> int:
    """Return the number of sessions without a name, which :func:`answers_of` leaves out.

    Args:
        rows: Rows of :func:`with_absent`.
    """
    return int(rows.filter(pl.col("name").is_null())["sessions"].sum())


def _named(
    rows: pl.DataFrame, said: Callable[[Mapping[str, Any]], str], names: Mapping[str, str]
) -> str:
    """Return the first names with a sentence about each."""
    first = rows.head(MOST_NAMED).iter_rows(named=True)
    shown = [f"{names.get(row['name'], row['name'])} ({said(row)})" for row in first]
    more = rows.height - len(shown)
    return ", ".join([*shown, *([f"{whole(more)} more"] if more else [])]) or "none"


def names_of(rows: pl.DataFrame) -> list[str | None]:
    """Return the names of rows of :func:`trend_rows`, those with most sessions first."""
    sums = rows.group_by("name").agg(pl.col("sessions").sum())
    return sums.sort(-pl.col("sessions"), "name", nulls_last=True)["name"].to_list()


def charts(
    rows: pl.DataFrame,
    names: Sequence[str | None],
    turns: Sequence[Turn],
    url: Callable[[Mapping[str, object]], str],
    measures: Sequence[Measure] = MEASURES,
    shown_names: Mapping[str, str] = MappingProxyType({}),
) -> list[tuple[str, str]]:
    """Return caption and SVG of the chart of each measure that has values.

    Args:
        rows: Rows of :func:`trend_rows`.
        names: Names to draw, in the order of their colors.
        turns: Changes of the judge.
        url: The page that the dot of a row opens.
        measures: The measures.
        shown_names: As of :func:`display_names`, for the text of a dot.
    """
    drawn = rows.filter(pl.col("sessions") >= SMALLEST_STEP)
    if drawn.is_empty():
        return []
    days = drawn["first_day"].sort().to_list()
    span = _noon(days[0]), _noon(days[-1])
    changed = [_noon(turn.changed_on) - timedelta(hours=12) for turn in turns]
    has_shift = is_shift_visible(drawn, turns)
    found = []
    for measure in measures:
        columns, marks = [measure.column], []
        if measure.column == QUALITY:
            columns += [AS_SCORED] if has_shift else []
            marks = [moment for moment in changed if span[0] <= moment <= span[1]]
        curves = [
            Curve(
                _places(drawn, name, measure, column, url, shown_names),
                number,
                column == AS_SCORED,
            )
            for column in columns
            for number, name in enumerate(names)
        ]
        shown = whole if measure.column == QUALITY else measure.shown
        axis = Axis(shown, _span(measure, curves))
        if chart := line_chart(measure.title, curves, axis, span, marks):
            found.append((measure.title, chart))
    return found


def cells(row: Mapping[str, float | None]) -> list[tuple[str, float | None, str]]:
    """Return the numbers of a row of :func:`trend_rows`: as shown, to sort by, what is below."""
    known, every = int(row["known_costs"] or 0), int(row["sessions"] or 0)
    total = f"total {usd(row['cost_usd'])}" if known else ""
    waiting = f"{whole(row['review_due'])} awaiting review" if row["review_due"] else ""
    calls = f"{whole(row['failed_calls'])} of {whole(row['calls'])}" if row["calls"] else ""
    return [
        (points(row["quality"]), row["quality"], ""),
        (whole(row["scored"]), row["scored"], waiting),
        (known_usd(row["cost_per_session"], known, every), row["cost_per_session"], total),
        (
            of_known(tokens(row["tokens_per_session"]), int(row["known_tokens"] or 0), every),
            row["tokens_per_session"],
            "",
        ),
        (percent(row["failed_share"]), row["failed_share"], calls),
        (whole(row["failed_sessions"]), row["failed_sessions"], ""),
    ]


HEADINGS = (
    *("Mean score", "Scored", "Cost per session", "Tokens per session"),
    *("Failed calls", "Failed sessions"),
)
"""Headings of :func:`cells`."""


def is_shift_visible(rows: pl.DataFrame, turns: Sequence[Turn]) -> bool:
    """Return whether scores as they were given are drawn apart from those on the current scale.

    Only totals of the judge are shifted: where they are few among other scores, both curves would
    be one.

    Args:
        rows: Rows of :func:`trend_rows`.
        turns: Changes of the judge.
    """
    apart = (rows[QUALITY] - rows[AS_SCORED]).abs().max()
    return any(turn.shift for turn in turns) and isinstance(apart, float) and apart >= _VISIBLE


def turn_sentence(turn: Turn, *, is_visible: bool = True) -> str:
    """Return what a change of the judge means for the curves; see ``is_shift_visible``."""
    what = f"The judge of profile {turn.profile_id} changed on {turn.changed_on}"
    models = f" from {turn.former} to {turn.new}" if turn.former != turn.new else ""
    if turn.shift is None:
        return f"{what}{models}: earlier scores are not comparable."
    return (
        f"{what}{models}. Earlier judge scores are shown adjusted by {signed(turn.shift)} points. "
        + (
            "The dashed line is not adjusted."
            if is_visible
            else "They are few: no mean differs by a whole point."
        )
    )


def dimensions(hidden: Collection[str]) -> list[str]:
    """Return the names in BY that the settings let people see."""
    return [name for name, column in BY.items() if column not in hidden]


def _places(
    rows: pl.DataFrame,
    name: str | None,
    measure: Measure,
    column: str,
    url: Callable[[Mapping[str, object]], str],
    shown_names: Mapping[str, str],
) -> list[Place]:
    called_now = "unknown" if name is None else shown_names.get(name, name)
    mine = rows.filter(
        pl.col("name").eq_missing(pl.lit(name)),
        pl.col(column).is_not_null(),
        pl.col(measure.count) >= SMALLEST_STEP,
    )
    return [
        Place(
            _noon(row["first_day"]),
            row[column],
            f"{called_now}, {row['period']}: {measure.shown(row[column])}, "
            f"{row[measure.count]} sessions",
            url(row),
            row["era"] if measure.column == QUALITY else 0,
        )
        for row in mine.iter_rows(named=True)
    ]


def _span(measure: Measure, curves: Sequence[Curve]) -> Sequence[float]:
    """Return values that the axis has in any case: 0, or around the scores."""
    if measure.column != QUALITY:
        return (0.0,)
    return score_ends([place.value for curve in curves for place in curve.places], _SMALLEST_SPAN)


def _noon(day: date) -> datetime:
    return datetime.combine(day, time(12), UTC)
