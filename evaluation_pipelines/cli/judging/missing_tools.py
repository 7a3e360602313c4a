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
from evaluation_pipelines.judging.domain.missing_tools.counts import Period
from evaluation_pipelines.judging.domain.missing_tools.priorities import most_named
from evaluation_pipelines.judging.missing_tools import MissingTools, last_period, missing_tools
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
