"""``sessions --by``: who gets worse, what costs most, who has stopped."""

from collections.abc import Collection, Iterable, Sequence
from datetime import date, timedelta
from enum import StrEnum

import polars as pl
import typer

from evaluation_pipelines.cli.filters import DateRange, parse_dates, usual_dates
from evaluation_pipelines.cli.output import (
    OutputFormat,
    one_decimal,
    one_line,
    pluralize,
    print_line,
    print_table,
)
from evaluation_pipelines.cli.rows import write_rows
from evaluation_pipelines.cli.session_lines import waiting_of
from evaluation_pipelines.formatting import known_usd, of_known, percent, signed
from evaluation_pipelines.judge_changes.domain.judges import (
    Turn,
    is_judged_for,
    is_one_scale,
    on_newest_scale,
)
from evaluation_pipelines.people.identity_store import hidden_columns
from evaluation_pipelines.schemas import AGENT_SESSIONS, JUDGE_CHANGES
from evaluation_pipelines.schemas.sessions import USED_KINDS
from evaluation_pipelines.scorecards.domain.withheld import (
    IS_SCORED,
    WAITS,
    SessionKey,
)
from evaluation_pipelines.sessions.domain.performance import is_counted
from evaluation_pipelines.sessions.domain.session_filter import SessionFilter
from evaluation_pipelines.sessions.domain.summary import SUMMED, uses_of
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import Stores, read_stores
from evaluation_pipelines.views.sessions import sessions, with_details

_COLUMNS = {
    "person": "person_id",
    "team": "team",
    "repository": "repository",
    "agent": "agent_id",
    "program": "source_cli",
    "model": "model",
    "masque": "masque",
    "label": "classification_label",
    **dict.fromkeys(USED_KINDS, "used_name"),
}
By = StrEnum("By", {name: name for name in _COLUMNS})  # type: ignore[misc]
_DESCENDING = {
    "change": False,
    "score": False,
    "cost_usd": True,
    "sessions": True,
    "last_date": False,
}
Sort = StrEnum("Sort", {name: name for name in _DESCENDING})  # type: ignore[misc]


def print_groups(
    by: By,
    dates: str | None,
    sort: Sort,
    limit: int | None,
    form: OutputFormat,
    which: SessionFilter,
) -> None:
    """Print a row for each person, team, repository or other group of the chosen sessions."""
    settings, column = load_settings(), _COLUMNS[by]
    if column in hidden_columns(settings.people_view):
        raise typer.BadParameter(
            f"{by}: not shown (EVAL_PEOPLE_VIEW={settings.people_view}), see docs/people.md"
        )
    with read_stores(settings) as stores:
        span = parse_dates(dates) or usual_dates(stores.lake.partitions(AGENT_SESSIONS))
        waiting = waiting_of(stores) if form is OutputFormat.TABLE else ()
        rows, turns = _rows(stores, span, which, waiting)
        if by in USED_KINDS:
            rows = uses_of(by, with_details(stores, rows, ("used",)))
    figures = group_figures(rows, column, span, turns)
    figures = figures.sort(sort, "name", descending=[_DESCENDING[sort], False], nulls_last=True)
    shown = figures if limit is None else figures.head(limit)
    if form is not OutputFormat.TABLE:
        write_rows(shown, form, first_date=span[0], last_date=span[1])
    elif rows.is_empty():
        print_line("No matching sessions.")
    elif by in USED_KINDS:
        _print_used(by, shown, span)
    else:
        _print(by, shown, span)
        if hidden := rows.filter(IS_SCORED, WAITS, _is_within(span)).height:
            print_line(
                f"Means exclude {pluralize(hidden, 'scored session')} awaiting review. json and "
                "csv include them."
            )
        for turn in turns:
            print_line(one_line(_turn_line(turn)))


def _rows(
    stores: Stores, span: DateRange, which: SessionFilter, waiting: Collection[SessionKey]
) -> tuple[pl.DataFrame, Sequence[Turn]]:
    """Return the chosen sessions to the end of a span, and the changes of the judge: ``scaled``.

    Those that are ``waiting`` for a review have no score.
    """
    days = [day for day in stores.lake.partitions(AGENT_SESSIONS) if day <= span[1]]
    rows = sessions(stores, days, which.condition() & is_counted(), waiting=waiting)
    return scaled(rows, span, stores.lake.read_whole(JUDGE_CHANGES))


def _first_before(span: DateRange) -> date:
    """Return the first of as many days before a span."""
    first, last = span
    return first - (last - first + timedelta(days=1))


def scaled(
    rows: pl.DataFrame, span: DateRange, changes: pl.DataFrame
) -> tuple[pl.DataFrame, Sequence[Turn]]:
    """Return rows with ``score``, and the changes of the judge in a span and as long before.

    Their scores are on the scale of the newest judge. Older sessions, whose scores are as they
    are, do not cut the trend.

    Args:
        rows: AGENT_SESSIONS with the columns that ``on_newest_scale`` needs.
        span: First and last session date.
        changes: JUDGE_CHANGES.
    """
    is_older = pl.col("session_date") < _first_before(span)
    recent, turns = on_newest_scale(rows.filter(~is_older), changes)
    older = rows.filter(is_older).with_columns(score="effective_100")
    return pl.concat([older, recent]), turns


def _is_within(span: DateRange) -> pl.Expr:
    return pl.col("session_date").is_between(*span)


def group_figures(
    rows: pl.DataFrame, column: str, span: DateRange, turns: Iterable[Turn] = ()
) -> pl.DataFrame:
    """Return a row for each value of a column, with the figures of a span of dates.

    Args:
        rows: AGENT_SESSIONS with ``score``, of the span and all dates before.
        column: Column of a group; sessions without a value are one, with no name.
        span: First and last session date.
        turns: Changes of the judge between the sessions.

    Returns:
        Columns ``name``, ``sessions``, of a sub-agent, skill or command SUMMED, ``score`` (mean,
        0-100), ``known_scores`` (of how many sessions it is), ``before`` (the mean of as many days
        before the span), ``change`` (null if a judge change makes scores incomparable),
        ``cost_usd`` (of the sessions whose cost is known, null if of none), ``known_costs`` (their
        number), ``failed_share`` (of tool calls) and ``last_date``.
    """
    (first, last), first_before, day = span, _first_before(span), pl.col("session_date")
    within, before = _is_within(span), day.is_between(first_before, first, "left")
    cut = {turn.profile_id for turn in turns if not is_one_scale([turn], first_before, last)}
    is_cut = (within | before) & pl.any_horizontal(pl.lit(False), *map(is_judged_for, cut))
    known = within & pl.col("cost_usd").is_not_null()
    calls, failed = (pl.col(name).filter(within).sum() for name in ("total_tools", "tools_failed"))
    used = [name for name in SUMMED if name in rows.columns and column == "used_name"]
    uses = [pl.col(name).filter(within) for name in used if name != "cost_usd"]
    return (
        rows.group_by(name=column)
        .agg(
            *(pl.when(use.count() > 0).then(use.sum()) for use in uses),
            sessions=within.sum().cast(pl.Int64),
            score=pl.col("score").filter(within).mean(),
            known_scores=pl.col("score").filter(within).count().cast(pl.Int64),
            before=pl.col("score").filter(before).mean(),
            cost_usd=pl.when(known.any()).then(pl.col("cost_usd").filter(known).sum()),
            known_costs=known.sum().cast(pl.Int64),
            failed_share=pl.when(calls > 0).then(failed / calls),
            last_date=day.max(),
            is_cut=is_cut.any(),
        )
        .with_columns(change=pl.when(~pl.col("is_cut")).then(pl.col("score") - pl.col("before")))
        .select(
            *("name", "sessions", *(name for name in used if name != "cost_usd")),
            *("score", "known_scores", "before", "change"),
            *("cost_usd", "known_costs", "failed_share", "last_date"),
        )
    )


def _print(by: str, figures: pl.DataFrame, span: DateRange) -> None:
    columns = (
        *(by, "sessions #", "score #", "before #", "change #", "cost #", "failed calls #"),
        "last date",
    )
    rows = [
        (
            None if row["name"] is None else one_line(row["name"]),
            *(row["sessions"], _mean(row["score"], row["known_scores"], row["sessions"])),
            *(one_decimal(row["before"]), _signed(row["change"])),
            known_usd(row["cost_usd"], row["known_costs"], row["sessions"]),
            None if row["failed_share"] is None else percent(row["failed_share"]),
            row["last_date"],
        )
        for row in figures.iter_rows(named=True)
    ]
    print_table(f"Sessions by {by}, {span[0]} to {span[1]}", columns, rows, essential=6)
    print_line("score: mean, 0-100 (number of sessions). before: the same number of days earlier.")
    if figures["name"].has_nulls():
        print_line(f"-: sessions without a {by}")
    if (figures["known_costs"] < figures["sessions"]).any():
        print_line("cost: known cost (number of sessions).")


def _print_used(by: str, figures: pl.DataFrame, span: DateRange) -> None:
    columns = (
        *(by, "sessions #", "uses #", "calls #", "requests #", "tokens #", "cost #"),
        *("score #", "last date"),
    )
    rows = [
        (
            *(one_line(row["name"]), row["sessions"], row["uses"], row["calls"]),
            *(row["api_requests"], row["total_tokens"]),
            known_usd(row["cost_usd"], row["known_costs"], row["sessions"]),
            *(_mean(row["score"], row["known_scores"], row["sessions"]), row["last_date"]),
        )
        for row in figures.iter_rows(named=True)
    ]
    print_table(f"Sessions by {by}, {span[0]} to {span[1]}", columns, rows, essential=7)
    print_line(
        f"uses, calls, requests, tokens, cost: of the {by} alone. -: not in the telemetry. "
        "score: mean of the sessions"
    )


def _mean(score: float | None, known: int, every: int) -> str | None:
    """Return a mean with one decimal, and of how many sessions it is if not of all."""
    return None if score is None else of_known(f"{score:.1f}", known, every)


def _turn_line(turn: Turn) -> str:
    """Return the effect of a judge change on the scores."""
    what = f"the judge of profile {turn.profile_id} changed on {turn.changed_on}: "
    if turn.shift is None:
        return f"{what}scores before and after are not comparable ({turn.reason})"
    shift = f"{signed(turn.shift)} points before that day"
    return f"{what}its totals are shown on the scale of the new judge, {shift}"


def _signed(change: float | None) -> str | None:
    return None if change is None else f"{change:+.1f}"
