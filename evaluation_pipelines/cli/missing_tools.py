"""The command that shows which tools judges missed."""

import json
import sys
from datetime import UTC, date, datetime, time
from enum import StrEnum
from typing import Annotated

import polars as pl
import typer

from evaluation_pipelines.as_of import read_stores_as_of
from evaluation_pipelines.cli.dates import AS_OF, parse_as_of, parse_time
from evaluation_pipelines.cli.output import csv_of, one_line, print_line, print_table
from evaluation_pipelines.judging.domain.missing_tools.counts import Period
from evaluation_pipelines.judging.domain.missing_tools.priorities import most_named
from evaluation_pipelines.judging.missing_tools import Missing, last_period, missing_tools
from evaluation_pipelines.settings import load_settings

_COLUMNS = (
    *("tool", "sessions #", "of #", "mentions #", "last", "masques", "models", "organization"),
    "for example",
)


class MissingToolsFormat(StrEnum):
    """How the tools are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def show_missing_tools(
    since: Annotated[
        str | None, typer.Option("--from", metavar="DAY", help="Sessions of this UTC day or later.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="DAY", help="Sessions of the days before.")
    ] = None,
    organization: Annotated[str | None, typer.Option(help="Only this organization.")] = None,
    as_of: Annotated[str | None, AS_OF] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many in the table, the most missed.")] = 20,
    form: Annotated[
        MissingToolsFormat, typer.Option("--format", help="How to print them.")
    ] = MissingToolsFormat.TABLE,
) -> None:
    """Show which tools judges say were missing, counted over the last 28 complete days."""
    then = parse_as_of(as_of)
    period = _period(since, until, then or datetime.now(UTC))
    with read_stores_as_of(load_settings(), then) as stores:
        found = missing_tools(stores, period, organization)
    if form is MissingToolsFormat.JSON:
        print_line(json.dumps(_record(found), indent=2, default=str))
    elif form is MissingToolsFormat.CSV:
        sys.stdout.write(csv_of(_flat(found.tools)))
    else:
        _print(found, limit)


def _period(since: str | None, until: str | None, now: datetime) -> Period:
    end = last_period(now).end if until is None else _day(until, "--to")
    start = last_period(datetime.combine(end, time(), UTC)).start
    if since is not None:
        start = _day(since, "--from")
    if start >= end:
        raise typer.BadParameter(f"the range ends ({end}) before it begins")
    return Period(start, end)


def _day(text: str, option: str) -> date:
    return parse_time(text, option).date()


def _print(found: Missing, limit: int) -> None:
    period = found.counted.period
    if found.tools.is_empty():
        print_line(f"No judge missed a tool in sessions of {period}.")
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
    _print_order(found)
    for line in found.counted.lines():
        print_line(one_line(line))


def _print_order(found: Missing) -> None:
    ordered = found.tools.drop_nulls("priority").sort("organization_id", "priority")
    for row in ordered.iter_rows(named=True):
        place = f"{row['priority']}. {row['tool']} ({row['organization_id']})"
        print_line(one_line(f"{place}: {row['priority_reason']}"))
    for line in found.orders:
        print_line(one_line(line))


def _record(found: Missing) -> dict[str, object]:
    counted = found.counted
    return {
        "period_start": counted.period.start,
        "period_end": counted.period.end,
        "tools": found.tools.to_dicts(),
        "answers": dict(counted.answers),
        "unparsed": dict(counted.unparsed),
        "nameless_items": counted.nameless_items,
        "priorities": list(found.orders),
        "cost_usd": found.cost_usd,
    }


def _flat(tools: pl.DataFrame) -> pl.DataFrame:
    """Lists as JSON text: CSV has no nested columns."""
    nested = [name for name, dtype in tools.schema.items() if isinstance(dtype, pl.List)]
    texts = [
        pl.Series(name, [json.dumps(each) for each in tools[name].to_list()], pl.String)
        for name in nested
    ]
    return tools.with_columns(texts)
