"""Command ``sessions``: the sessions of the lake with their scores."""

from collections.abc import Collection
from datetime import date, datetime
from enum import StrEnum
from typing import Annotated

import polars as pl
import typer

from evaluation_pipelines.as_of import read_lake_as_of, read_stores_as_of
from evaluation_pipelines.cli.filters import (
    AS_OF,
    DATES_TO_LIST,
    dates_in,
    options_text,
    parse_as_of,
    parse_dates,
    with_session_filter,
)
from evaluation_pipelines.cli.output import (
    OutputFormat,
    format_option,
    one_line,
    pluralize,
    print_error,
    print_line,
)
from evaluation_pipelines.cli.rows import write_rows
from evaluation_pipelines.cli.session_groups import By, Sort, print_groups
from evaluation_pipelines.cli.session_lines import TABLE_COLUMNS, print_stored, waiting_of
from evaluation_pipelines.outcomes.domain.by_session import by_session
from evaluation_pipelines.people.identity_store import hidden_columns
from evaluation_pipelines.schemas import AGENT_SESSIONS, SESSION_KEY, SESSION_OUTCOMES, SESSIONS
from evaluation_pipelines.sessions.domain.find_session import SessionRow
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.views.filters import HAPPENED, OUTCOMES
from evaluation_pipelines.views.sessions import sessions as relation
from evaluation_pipelines.views.sessions import with_details

_LIMIT = 50
_PAIRS = {"tool_mix", "session_attributes"}
"""Columns with keys and values."""


Outcome = StrEnum("Outcome", list(OUTCOMES))  # type: ignore[misc]


@with_session_filter
def sessions(  # noqa: PLR0913, PLR0917 - one parameter per option
    by: Annotated[
        By | None,
        typer.Option(metavar="GROUP", help=f"One row per group instead: {', '.join(By)}."),
    ] = None,
    sort: Annotated[
        Sort | None, typer.Option(help="With --by: column to sort by. Default: change.")
    ] = None,
    dates: Annotated[str | None, DATES_TO_LIST] = None,
    outcome: Annotated[
        Outcome | None,
        typer.Option(
            metavar="OUTCOME", help=f"Only sessions with this outcome: {', '.join(OUTCOMES)}."
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help=f"Only the latest N. Default: {_LIMIT} in a table, else all."
        ),
    ] = None,
    as_of: Annotated[str | None, AS_OF] = None,
    form: Annotated[
        OutputFormat,
        format_option(
            OutputFormat.TABLE,
            OutputFormat.JSON,
            OutputFormat.CSV,
            help_text="Output format. json and csv have all columns, unrounded.",
        ),
    ] = OutputFormat.TABLE,
    which: SessionFilter = ALL_SESSIONS,
) -> None:
    """List sessions with scores, or compare groups.

    Oldest first. The table hides scores of sessions awaiting review.
    --by compares groups, such as people or teams, by score, cost, failures and last session.
    Default: the last 28 complete dates, and the change since the 28 before. Scores, 0-100, are
    adjusted for judge changes. Means exclude sessions awaiting review.
    """
    if by is not None:
        if as_of is not None or outcome is not None:
            raise typer.BadParameter("--as-of and --outcome cannot be combined with --by")
        print_groups(by, dates, sort or Sort("change"), limit, form, which)
        return
    if sort is not None:
        raise typer.BadParameter("--sort requires --by")
    date_range, is_table = parse_dates(dates), form is OutputFormat.TABLE
    settings, then = load_settings(), parse_as_of(as_of)
    print_remark = print_line if is_table else print_error
    with read_lake_as_of(settings, then) as lake:
        days = dates_in(lake.partitions(AGENT_SESSIONS), date_range)
        every = _keys(lake, days, which, outcome)
        newest = every.tail(limit or (_LIMIT if is_table else every.height))
        hidden = hidden_columns(settings.people_view)
        names = [name for name in SESSIONS.schema if name not in hidden]
        if newest.is_empty():
            if not is_table:
                write_rows([], form, names)
            chosen = ", ".join(
                filter(None, (options_text(which), outcome and f"--outcome {outcome}"))
            )
            print_remark(_no_sessions(lake, chosen, has_dates=dates is not None))
            return
    with read_stores_as_of(settings, then) as stores:
        rows = _rows(stores, newest, TABLE_COLUMNS if is_table else names, then, blind=is_table)
    if is_table:
        print_stored(rows)
    else:
        write_rows(map(_record, rows.select(names).iter_rows(named=True)), form, names)
    if older := every.height - newest.height:
        print_remark(f"{pluralize(older, 'older session')} not shown: use --limit or --date")


def _keys(lake: Lake, days: list[date], which: SessionFilter, outcome: str | None) -> pl.DataFrame:
    """Return session date and key of chosen sessions, in the order they started."""
    order = ["started_at", "ended_at", *SESSION_KEY]
    found = lake.read(AGENT_SESSIONS, days, ["session_date", *order], which.condition()).sort(order)
    if outcome is None:
        return found
    happened = by_session(lake.read(SESSION_OUTCOMES, days)).filter(HAPPENED[outcome])
    return found.join(happened, on=SESSION_KEY, how="semi", maintain_order="left")


def _rows(
    stores: Stores,
    newest: pl.DataFrame,
    names: Collection[str],
    then: datetime | None,
    *,
    blind: bool,
) -> pl.DataFrame:
    """Return columns of some sessions, in the order of ``newest``."""
    days = newest["session_date"].unique().sort().to_list()
    is_one = pl.col("session_key").is_in(newest["session_key"].unique().implode())
    waiting = waiting_of(stores) if blind else ()
    found = relation(stores, days, is_one, waiting=waiting, now=then)
    ordered = newest.select(SESSION_KEY).join(
        found, on=SESSION_KEY, how="inner", maintain_order="left"
    )
    return with_details(stores, ordered, names)


def _no_sessions(lake: Lake, chosen: str, *, has_dates: bool) -> str:
    """Return a message for an empty list: empty lake, dates, or filter."""
    said = f"No sessions in {lake.store.address('')}"
    if not lake.partitions(AGENT_SESSIONS):
        return f"{said} yet. Run evaluation-pipelines ingest and build, or set EVAL_DATA_DIR."
    given = chosen and f" with {one_line(chosen)}"
    return f"{said}{given}{' on these dates' if has_dates else ''}."


def _record(row: SessionRow) -> SessionRow:
    """Return a row with lists of keys and values as objects."""
    return {name: _value(name, value) for name, value in row.items()}


def _value(name: str, value: object) -> object:
    if name in _PAIRS and isinstance(value, list):
        return {pair["key"]: pair["value"] for pair in value}
    return value
