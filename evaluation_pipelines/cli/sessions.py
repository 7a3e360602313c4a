"""Command ``sessions``: the sessions of the lake with their scores."""

from collections.abc import Sequence
from datetime import date
from typing import Annotated

import typer

from evaluation_pipelines.as_of import read_lake_as_of, read_stores_as_of
from evaluation_pipelines.cli.dates import AS_OF, DATES_TO_LIST, dates_in, parse_as_of, parse_dates
from evaluation_pipelines.cli.filters import options_text, with_session_filter
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
from evaluation_pipelines.cli.session_lines import session_key_of
from evaluation_pipelines.cli.session_scores import (
    StoredScore,
    print_stored_sessions,
    stored_scores,
)
from evaluation_pipelines.judging.domain.badge import Badge
from evaluation_pipelines.people.view import hidden_columns
from evaluation_pipelines.schemas import AGENT_SESSIONS, RANKED_PERFORMANCE, SESSION_PERFORMANCE
from evaluation_pipelines.sessions.domain.find_session import SessionRow, session_rows
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.stores import Stores

_NAMES = tuple(dict.fromkeys([*AGENT_SESSIONS.schema, *RANKED_PERFORMANCE.schema]))
_LIMIT = 50
_PAIRS = {"tool_mix", "session_attributes"}
"""Columns of keys and values."""


@with_session_filter
def sessions(
    by: Annotated[
        By | None,
        typer.Option(metavar="GROUP", help=f"A row for each group instead: {', '.join(By)}."),
    ] = None,
    sort: Annotated[
        Sort | None, typer.Option(help="With --by: column to sort by. Default: change.")
    ] = None,
    dates: Annotated[str | None, DATES_TO_LIST] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help=f"Only the newest N. Default: {_LIMIT} in a table, else all."
        ),
    ] = None,
    as_of: Annotated[str | None, AS_OF] = None,
    form: Annotated[
        OutputFormat,
        format_option(
            OutputFormat.TABLE,
            OutputFormat.JSON,
            OutputFormat.CSV,
            help_text="Output format; json and csv have all columns, unrounded.",
        ),
    ] = OutputFormat.TABLE,
    which: SessionFilter = ALL_SESSIONS,
) -> None:
    """List sessions with scores, or compare groups.

    Sessions are listed oldest first, and the table has no scores of sessions awaiting review.
    --by compares people, teams, repositories and others by score, cost, failures and last session.
    Default: the last 28 dates, and the change since the 28 before. Its scores, 0-100, are adjusted
    for changes of the judge. Its means exclude sessions awaiting review.
    """
    if by is not None:
        if as_of is not None:
            raise typer.BadParameter("--as-of does not go with --by")
        print_groups(by, dates, sort or Sort("change"), limit, form, which)
        return
    if sort is not None:
        raise typer.BadParameter("--sort requires --by")
    date_range = parse_dates(dates)
    settings, then = load_settings(), parse_as_of(as_of)
    with read_lake_as_of(settings, then) as lake:
        days = dates_in(lake.partitions(AGENT_SESSIONS), date_range)
        rows = stored_sessions(lake, days, which, ranked=form is not OutputFormat.TABLE)
        usual = _LIMIT if form is OutputFormat.TABLE else len(rows)
        hidden = hidden_columns(settings.people_view)
        names = [name for name in _NAMES if name not in hidden]
        newest = rows[-(limit or usual or 1) :]
        if newest:
            with read_stores_as_of(settings, then) as stores:
                _print_newest(stores, newest, form, names)
        elif form is not OutputFormat.TABLE:
            write_rows([], form, [*names, *_scored(_NO_SCORE)])
        print_remark = print_line if form is OutputFormat.TABLE else print_error
        if len(rows) > len(newest):
            older = pluralize(len(rows) - len(newest), "older session")
            print_remark(f"{older} not shown: use --limit or --date")
        if not rows:
            print_remark(_no_sessions(lake, which, has_dates=dates is not None))


def stored_sessions(
    lake: Lake, dates: list[date], which: SessionFilter = ALL_SESSIONS, *, ranked: bool = False
) -> list[SessionRow]:
    """Return sessions of the lake with their scores, in the order they started.

    With ``ranked`` they have ``percentile_in_class``, which takes the 28 days before as well.
    """
    sessions = lake.read(AGENT_SESSIONS, dates, where=which.condition())
    if ranked:
        from evaluation_pipelines.sessions.percentiles import ranked_performance  # loads DuckDB

        return session_rows(sessions, ranked_performance(lake, dates))
    return session_rows(sessions, lake.read(SESSION_PERFORMANCE, dates))


def _print_newest(
    stores: Stores, newest: Sequence[SessionRow], form: OutputFormat, names: Sequence[str]
) -> None:
    """Print sessions; ``names`` are the columns of JSON and CSV."""
    if form is OutputFormat.TABLE:
        print_stored_sessions(stores, newest)
        return
    scores = stored_scores(stores, newest)
    records = [_record(row, names) | _scored(scores[session_key_of(row)]) for row in newest]
    write_rows(records, form, [*names, *_scored(_NO_SCORE)])


def _no_sessions(lake: Lake, which: SessionFilter, *, has_dates: bool) -> str:
    """Say what there are no sessions of: a lake, some dates, or a filter."""
    said = f"There are no sessions in {lake.store.address('')}"
    if not lake.partitions(AGENT_SESSIONS):
        return f"{said} yet. Run evaluation-pipelines ingest and build, or set EVAL_DATA_DIR."
    chosen = "" if which.is_empty else f" with {one_line(options_text(which))}"
    return f"{said}{chosen}{' on these dates' if has_dates else ''}."


def _record(row: SessionRow, names: Sequence[str]) -> dict[str, object]:
    """Return columns of a session, with lists of keys and values as objects."""
    return {name: _value(name, row[name]) for name in names}


_NO_SCORE = StoredScore(None, "none", None, Badge())


def _scored(score: StoredScore) -> dict[str, object]:
    """Return the columns about scores that follow those of the tables."""
    judged = score.badge
    return {
        "effective_100": score.effective_100,
        "provisional_100": score.provisional_100,
        "effective_source": score.effective_source,
        "judge_badge": judged.text,
        "judge_total": judged.total,
        "judge_model": judged.model,
        "judge_flags": list(judged.flags),
    }


def _value(name: str, value: object) -> object:
    if name in _PAIRS and isinstance(value, list):
        return {each["key"]: each["value"] for each in value}
    return value
