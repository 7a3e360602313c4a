"""What the terminal program prints of tool reports."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import polars as pl
import typer

from evaluation_pipelines.as_of import read_lake_as_of
from evaluation_pipelines.cli.dates import AS_OF, DATES_TO_LIST, parse_as_of, parse_days, within
from evaluation_pipelines.cli.output import counted, one_line, print_line, print_table
from evaluation_pipelines.schemas import AGENT_SESSIONS, TOOL_REPORTS
from evaluation_pipelines.sessions.domain.tool_reports.fleet import lost_by_model, lost_by_tool
from evaluation_pipelines.sessions.tool_reports import find_report
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.lake import Lake

_SHOWN = 20
"""Places of each kind that are printed; --format json has more of them."""
_TEXT_LETTERS = 60

Report = Mapping[str, Any]
"""A row of ``tool_reports``."""


def print_report(report: Report) -> None:
    """The score, what was lost at which tool, and where: worst first."""
    _print_head(report)
    _print_by_tool(report)
    _print_places(
        "Failed",
        ("call #", "time (UTC)", "tool", "parameters", "error"),
        report["failures"],
        lambda at: (
            *(at["call"], _clock(at["called_at"]), at["tool"]),
            *(_short(at["parameters"]), _short(at["error"])),
        ),
    )
    _print_places(
        "Failing loops: three or more calls in a row, alike, that all failed",
        ("calls", "first (UTC)", "times #", "tool", "parameters"),
        report["loops"],
        lambda at: (
            f"{at['first_call']}-{at['last_call']}",
            _clock(at["called_at"]),
            at["calls"],
            at["tool"],
            _short(at["parameters"]),
        ),
    )
    _print_places(
        "Repeated: like an earlier call, and nothing was changed in between",
        ("call #", "time (UTC)", "repeats call #", "alike %", "tool", "parameters"),
        report["repeats"],
        lambda at: (
            *(at["call"], _clock(at["called_at"]), at["original"]),
            *(f"{100 * at['similarity']:.0f}", at["tool"], _short(at["parameters"])),
        ),
    )
    _print_places(
        "Wasted: nothing later uses what these calls brought to light",
        ("call #", "time (UTC)", "bytes #", "tool", "parameters"),
        report["wasted"],
        _unused,
    )
    _print_places(
        "Used by no later call; replies are not logged, so they may have served one",
        ("call #", "time (UTC)", "bytes #", "tool", "parameters"),
        report["untraced"],
        _unused,
    )
    _print_places(
        "Corrected: soon after it failed, another tool did what seems to be the same",
        ("call #", "time (UTC)", "failed tool", "parameters", "made good by", "with"),
        report["corrections"],
        lambda at: (
            *(at["call"], _clock(at["called_at"]), at["tool"], _short(at["parameters"])),
            f"{at['correcting_tool']} (call {at['corrected_by']})",
            _short(at["correcting_parameters"]),
        ),
    )


def print_fleet(by_tool: pl.DataFrame, by_model: pl.DataFrame, reports: pl.DataFrame) -> None:
    """Tools and models, those that lose most first, and what the figures mean."""
    days = reports["session_date"].sort().to_list()
    flagged = int(reports["is_flagged"].sum())
    print_line(
        f"{counted(reports.height, 'session')} with tool calls from {days[0]} to {days[-1]}; "
        f"{flagged} of them below 60"
    )
    for title, name, frame in (("By tool", "tool", by_tool), ("By model", "model", by_model)):
        _print_losses(title, name, frame)
    print_line(
        "\nlost: failed and wasted calls count 1, corrected and repeated ones 0.5.\n"
        "tokens, USD: of what lost calls gave back, 4 bytes a token, at the mean price of a token "
        "of their session; the least they cost, where sizes are known.\n"
        "share of cost: the cost of each session times the share of its calls that were lost."
    )


def _print_head(report: Report) -> None:
    worn = report["masque"] or "baseline"
    print_line(
        one_line(
            f"{report['session_key']} of {report['organization_id']}: {worn}, "
            f"{report['model'] or 'model unknown'}, {report['task_class']}, "
            f"{report['started_at']:%Y-%m-%d %H:%M} UTC"
        )
    )
    score, total = report["effectiveness_score"], report["total_calls"]
    if score is None:
        print_line("effectiveness unknown: no call with a known outcome")
    else:
        flag = ", below 60" if report["is_flagged"] else ""
        lost = f"{report['lost_calls']:g} of {total} calls lost"
        print_line(f"effectiveness {score:.1f} of 100{flag}: {lost}")
    print_line(f"counted: {report['basis']}")
    tokens, usd = report["lost_tokens"], report["lost_usd"]
    if tokens:
        money = "cost unknown" if usd is None else f"{usd:.4f} USD"
        print_line(f"what lost calls gave back: about {tokens:.0f} tokens, {money}, at the least")
    others = {"denied": report["denied_calls"], "of unknown outcome": report["unknown_calls"]}
    if beside := ", ".join(f"{number} {what}" for what, number in others.items() if number):
        print_line(f"beside these calls: {beside}")


def _print_by_tool(report: Report) -> None:
    columns = (
        *("tool", "calls #", "failed #", "corrected #", "repeated #", "wasted #", "lost #"),
        *("p50 ms #", "p95 ms #", "bytes #"),
    )
    rows = [
        (
            *(each["tool"], each["calls"], each["failed"], each["corrected"], each["repeated"]),
            *(each["wasted"], f"{each['lost_calls']:g}"),
            *(_whole(each["p50_ms"]), _whole(each["p95_ms"]), each["bytes_returned"]),
        )
        for each in report["by_tool"] or []
    ]
    if rows:
        print_table("\nBy tool", columns, rows, essential=7)


def _print_places(
    title: str,
    columns: Sequence[str],
    places: Sequence[Mapping[str, Any]] | None,
    cells: Any,
) -> None:
    if places:
        print_table(f"\n{title}", columns, map(cells, places[:_SHOWN]), essential=len(columns))
        if len(places) > _SHOWN:
            print_line(f"{len(places) - _SHOWN} more not shown: use --format json")


def _print_losses(title: str, name: str, frame: pl.DataFrame) -> None:
    columns = (
        *(name, "calls #", "lost #", "lost % #", "failed #", "repeated #", "wasted #"),
        *("tokens #", "USD #", "share of cost, USD #", "sizes known #"),
    )
    print_table(f"\n{title}", columns, _losses(name, frame), essential=7)


def _losses(name: str, frame: pl.DataFrame) -> Iterable[tuple[object, ...]]:
    for row in frame.iter_rows(named=True):
        yield (
            *(row[name], row["calls"], f"{row['lost_calls']:g}", f"{row['lost_pct']:.1f}"),
            *(row["failed"], row["repeated"], row["wasted"]),
            *(_whole(row["lost_tokens"]), _money(row["lost_usd"]), _money(row["cost_share_usd"])),
            f"{row['known_sessions']} of {row['sessions']}",
        )


def _unused(at: Mapping[str, Any]) -> tuple[object, ...]:
    size, place = at["bytes_returned"], (at["call"], _clock(at["called_at"]))
    return (*place, size, at["tool"], _short(at["parameters"]))


def _short(text: str | None) -> str | None:
    """A text on one line, cut short; what a terminal would obey is taken out where printed."""
    if text is None:
        return None
    line = " ".join(text.split())
    return line if len(line) <= _TEXT_LETTERS else f"{line[: _TEXT_LETTERS - 1]}…"


def _clock(time: datetime) -> str:
    return f"{time:%H:%M:%S}"


def _whole(number: float | None) -> str | None:
    return None if number is None else f"{number:.0f}"


def _money(usd: float | None) -> str | None:
    return None if usd is None else f"{usd:.2f}"


class ReportFormat(StrEnum):
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
    form: Annotated[
        ReportFormat, typer.Option("--format", help="How to print it.")
    ] = ReportFormat.TEXT,
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
    if form is ReportFormat.JSON:
        print_line(json.dumps(report, indent=2, default=str))
    else:
        print_report(report)


def _fleet(lake: Lake, dates: str | None, form: ReportFormat) -> None:
    days = within(lake.partitions(TOOL_REPORTS), None if dates is None else parse_days(dates))
    reports, sessions = lake.read(TOOL_REPORTS, days), lake.read(AGENT_SESSIONS, days)
    by_tool, by_model = lost_by_tool(reports, sessions), lost_by_model(reports, sessions)
    if form is ReportFormat.JSON:
        found = {"tools": by_tool.to_dicts(), "models": by_model.to_dicts()}
        print_line(json.dumps(found, indent=2))
    elif reports.is_empty():
        print_line(
            f"There are no tool reports of these dates in {lake.root}. Run ingest and build."
        )
    else:
        print_fleet(by_tool, by_model, reports)
