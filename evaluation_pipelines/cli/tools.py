"""Commands about tool calls: what those of a session were worth, and where the fleet loses."""

import json
from enum import StrEnum
from typing import Annotated

import typer

from evaluation_pipelines.adapters.lake import Lake
from evaluation_pipelines.cli.dates import AS_OF, DATES_TO_LIST, parse_as_of, parse_days, within
from evaluation_pipelines.cli.terminal import say
from evaluation_pipelines.cli.tool_overview import print_fleet, print_report
from evaluation_pipelines.domain.schemas import AGENT_SESSIONS, TOOL_REPORTS
from evaluation_pipelines.domain.tools.fleet import lost_by_model, lost_by_tool
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.stages.as_of import read_lake_as_of
from evaluation_pipelines.stages.tool_reports import find_report


class Format(StrEnum):
    """How a report is printed."""

    TEXT = "text"
    JSON = "json"


def tools(
    session: Annotated[
        str | None, typer.Argument(metavar="SESSION", help="A session key or session id.")
    ] = None,
    fleet: Annotated[
        bool, typer.Option("--fleet", help="All sessions, by tool and model.")
    ] = False,
    dates: Annotated[str | None, DATES_TO_LIST] = None,
    as_of: Annotated[str | None, AS_OF] = None,
    form: Annotated[Format, typer.Option("--format", help="How to print it.")] = Format.TEXT,
) -> None:
    """Show what tool calls were worth: repeated, wasted, corrected, looping; of one session or all.

    SESSION must have been ingested and built. --date goes with --fleet.
    """
    if fleet == (session is not None):
        raise typer.BadParameter("name one SESSION, or give --fleet for all of them")
    if dates is not None and not fleet:
        raise typer.BadParameter("--date goes with --fleet: a SESSION is found on any date")
    with read_lake_as_of(load_settings(), parse_as_of(as_of)) as lake:
        if session is None:
            _fleet(lake, dates, form)
            return
        report = find_report(lake, session)
    if form is Format.JSON:
        say(json.dumps(report, indent=2, default=str))
    else:
        print_report(report)


def _fleet(lake: Lake, dates: str | None, form: Format) -> None:
    days = within(lake.partitions(TOOL_REPORTS), None if dates is None else parse_days(dates))
    reports, sessions = lake.read(TOOL_REPORTS, days), lake.read(AGENT_SESSIONS, days)
    by_tool, by_model = lost_by_tool(reports, sessions), lost_by_model(reports, sessions)
    if form is Format.JSON:
        found = {"tools": by_tool.to_dicts(), "models": by_model.to_dicts()}
        say(json.dumps(found, indent=2))
    elif reports.is_empty():
        say(f"There are no tool reports of these dates in {lake.root}. Run ingest and build.")
    else:
        print_fleet(by_tool, by_model, reports)
