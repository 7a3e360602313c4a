"""Command ``judge missing-tools``: the tools that judges said were missing."""

from datetime import UTC, datetime, time
from typing import Annotated, Any

import typer

from evaluation_pipelines.as_of import read_stores_as_of
from evaluation_pipelines.cli.dates import AS_OF, DATES_TO_LIST, parse_as_of, parse_time_range
from evaluation_pipelines.cli.filters import with_session_filter
from evaluation_pipelines.cli.output import (
    OutputFormat,
    one_line,
    print_line,
    print_table,
)
from evaluation_pipelines.cli.rows import FORMAT, write_rows
from evaluation_pipelines.judging.domain.missing_tools.counts import Period
from evaluation_pipelines.judging.domain.missing_tools.priorities import most_named
from evaluation_pipelines.judging.missing_tools import MissingTools, last_period, missing_tools
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter
from evaluation_pipelines.settings import load_settings

_COLUMNS = (
    *("tool", "sessions #", "of #", "mentions #", "last", "masques", "models", "organization"),
    "for example",
)


@with_session_filter
def show_missing_tools(
    dates: Annotated[str | None, DATES_TO_LIST] = None,
    since: Annotated[
        str | None,
        typer.Option("--from", metavar="DAY", help="Only sessions of this UTC date or later."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="DAY", help="Only sessions of earlier UTC dates.")
    ] = None,
    as_of: Annotated[str | None, AS_OF] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of tools in the table.")] = 20,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
    which: SessionFilter = ALL_SESSIONS,
) -> None:
    """List the tools that judges said were missing. Default: the last 28 complete days."""
    then = parse_as_of(as_of)
    begin, end = parse_time_range(dates, since, until)
    period = _period(begin, end, then or datetime.now(UTC))
    with read_stores_as_of(load_settings(), then) as stores:
        found = missing_tools(stores, period, which.organization, which)
    if form is not OutputFormat.TABLE:
        write_rows(found.tools, form, **_record(found))
    else:
        _print(found, limit)


def _period(since: datetime | None, until: datetime | None, now: datetime) -> Period:
    end = last_period(now).end if until is None else until.date()
    start = last_period(datetime.combine(end, time(), UTC)).start
    if since is not None:
        start = since.date()
    if start >= end:
        raise typer.BadParameter(f"the range ends ({end}) before it begins")
    return Period(start, end)


def _print(found: MissingTools, limit: int) -> None:
    period = found.counted.period
    if found.tools.is_empty():
        print_line(f"No judge named a missing tool in sessions of {period}.")
    else:
        shown = most_named(found.tools).head(limit)
        rows = [
            (
                *(row["tool"], row["sessions"], row["asked_sessions"], row["mentions"]),
                *(row["last_date"], ", ".join(row["masques"]), ", ".join(row["agent_models"])),
                row["organization_id"],
                next((each["rationale"] for each in row["examples"]), None),
            )
            for row in shown.iter_rows(named=True)
        ]
        print_table(f"Missing tools, sessions of {period}", _COLUMNS, rows, essential=4)
        if shown.height < found.tools.height:
            print_line(f"{found.tools.height - shown.height} more: use --limit, or --format csv")
    _print_priorities(found)
    for line in found.counted.lines():
        print_line(one_line(line))


def _print_priorities(found: MissingTools) -> None:
    by_priority = found.tools.drop_nulls("priority").sort("organization_id", "priority")
    for row in by_priority.iter_rows(named=True):
        tool = f"{row['priority']}. {row['tool']} ({row['organization_id']})"
        print_line(one_line(f"{tool}: {row['priority_reason']}"))
    for line in found.priority_notes:
        print_line(one_line(line))


def _record(found: MissingTools) -> dict[str, Any]:
    counted = found.counted
    return {
        "period_start": counted.period.start,
        "period_end": counted.period.end,
        "answers": dict(counted.answers),
        "unparsed": dict(counted.unparsed),
        "nameless_items": counted.nameless_items,
        "priorities": list(found.priority_notes),
        "cost_usd": found.cost_usd,
    }
