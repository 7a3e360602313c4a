"""``judge list missing-tools``: tools that judges missed."""

from datetime import datetime, timedelta
from typing import Any

from evaluation_pipelines.cli.output import (
    OutputFormat,
    one_line,
    print_line,
    print_table,
)
from evaluation_pipelines.cli.rows import write_rows
from evaluation_pipelines.judging.domain.missing_tools import MissingToolCounts, Period, most_named
from evaluation_pipelines.judging.missing_tools import last_period, missing_tools
from evaluation_pipelines.sessions.domain.session_filter import SessionFilter
from evaluation_pipelines.storage.stores import Stores

_COLUMNS = (
    *("tool", "sessions #", "of #", "mentions #", "last", "masques", "models", "organization"),
    "for example",
)


def list_missing_tools(
    stores: Stores, which: SessionFilter, limit: int, form: OutputFormat, now: datetime
) -> None:
    """List the tools that judges missed in chosen sessions, by default of 28 complete days."""
    found = missing_tools(stores, _period(which, now), which.organization, which)
    if form is not OutputFormat.TABLE:
        write_rows(found.tools, form, **_record(found))
    else:
        _print(found, limit)


def _period(which: SessionFilter, now: datetime) -> Period:
    if which.dates is None:
        return last_period(now)
    first, last = which.dates
    return Period(first, last + timedelta(days=1))


def _print(found: MissingToolCounts, limit: int) -> None:
    period = found.period
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
    for line in found.lines():
        print_line(one_line(line))


def _record(found: MissingToolCounts) -> dict[str, Any]:
    return {
        "period_start": found.period.start,
        "period_end": found.period.end,
        "answers": dict(found.answers),
        "unparsed": dict(found.unparsed),
        "nameless_items": found.nameless_items,
    }
