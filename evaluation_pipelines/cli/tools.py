"""Command ``tools``: tool reports of one session or of all sessions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

import polars as pl
import typer

from evaluation_pipelines.as_of import read_lake_as_of, read_stores_as_of
from evaluation_pipelines.cli.conventions import ORGANIZATION
from evaluation_pipelines.cli.filters import (
    AS_OF,
    DATES_TO_LIST,
    DateRange,
    dates_in,
    named_session,
    options_text,
    parse_as_of,
    parse_dates,
    usual_dates,
    with_session_filter,
)
from evaluation_pipelines.cli.output import (
    OutputFormat,
    one_line,
    pluralize,
    print_line,
    print_table,
    shortened_to,
)
from evaluation_pipelines.cli.rows import FORMAT, write_record, write_rows
from evaluation_pipelines.cli.session_lines import waiting_of
from evaluation_pipelines.formatting import known_usd
from evaluation_pipelines.schemas import AGENT_SESSIONS, TOOL_REPORTS
from evaluation_pipelines.schemas.sessions import USED_KINDS
from evaluation_pipelines.scorecards.domain.withheld import REVIEW_DUE
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter
from evaluation_pipelines.sessions.domain.summary import used_by
from evaluation_pipelines.sessions.domain.tool_reports.fleet import unknown_columns
from evaluation_pipelines.sessions.find import find_report
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.views.tool_calls import tool_calls

_MAX_CALLS = 20
"""Printed calls of each kind; ``--format json`` has more."""

_MAX_TEXT_CHARACTERS = 60

USED_NAMES = {"subagent": "sub-agent", "skill": "skill", "command": "slash command"}

Row = Mapping[str, Any]


@with_session_filter
def tools(
    session: Annotated[
        str | None, typer.Argument(metavar="SESSION", help="A session key or session id.")
    ] = None,
    fleet: Annotated[
        bool,
        typer.Option("--fleet", help="All sessions, by tool, model, sub-agent, skill, command."),
    ] = False,
    organization: Annotated[str | None, ORGANIZATION] = None,
    dates: Annotated[str | None, DATES_TO_LIST] = None,
    as_of: Annotated[str | None, AS_OF] = None,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
    which: SessionFilter = ALL_SESSIONS,
) -> None:
    """Show lost tool calls: failed, repeated, wasted.

    Also corrected and looping ones. SESSION must be ingested and built. Session filters require
    --fleet, whose default is the last 28 complete dates.
    """
    if fleet == (session is not None):
        raise typer.BadParameter("name one SESSION, or give --fleet for all of them")
    if dates is not None and not fleet:
        raise typer.BadParameter("--date requires --fleet: a SESSION is found on any date")
    if not (which.is_empty or fleet):
        raise typer.BadParameter("session filters require --fleet")
    settings, then = load_settings(), parse_as_of(as_of)
    if session is None:
        with read_lake_as_of(settings, then) as lake:
            which = replace(which, organization=organization)
            days = lake.partitions(TOOL_REPORTS)
            span = parse_dates(dates) or usual_dates(days, which, then)
            _print_fleet(lake, span, form, which)
        return
    with read_stores_as_of(settings, then) as stores:
        report = find_report(stores, named_session(stores.lake, session, organization))
        key = report["organization_id"], report["session_key"]
        if form is OutputFormat.TABLE:
            print_report(report, is_withheld=key in waiting_of(stores))
        else:
            write_record(report, form)


# -- One session ---------------------------------------------------------------------------------


def print_report(report: Row, *, is_withheld: bool = False) -> None:
    """Print the score, what was lost per tool, and the lost calls, most important first."""
    _print_summary(report, is_withheld=is_withheld)
    _print_by_tool(report)
    _print_calls(
        "Failed",
        ("call #", "time (UTC)", "tool", "parameters", "error"),
        report["failures"],
        lambda call: (
            *(call["call"], _clock(call["called_at"]), call["tool"]),
            *(_shorten(call["parameters"]), _shorten(call["error"])),
        ),
    )
    _print_calls(
        "Failing loops: three or more similar calls in a row that all failed",
        ("calls", "first (UTC)", "times #", "tool", "parameters"),
        report["loops"],
        lambda loop: (
            *(f"{loop['first_call']}-{loop['last_call']}", _clock(loop["called_at"])),
            *(loop["calls"], loop["tool"], _shorten(loop["parameters"])),
        ),
    )
    _print_calls(
        "Repeated: similar to an earlier call, with no change in between",
        ("call #", "time (UTC)", "repeats call #", "alike %", "tool", "parameters"),
        report["repeats"],
        lambda call: (
            *(call["call"], _clock(call["called_at"]), call["original"]),
            *(f"{100 * call['similarity']:.0f}", call["tool"], _shorten(call["parameters"])),
        ),
    )
    _print_calls(
        "Wasted: no later call or reply uses their results",
        ("call #", "time (UTC)", "bytes #", "tool", "parameters"),
        report["wasted"],
        _unused_line,
    )
    _print_calls(
        "Not used by a later call. Replies are not logged: one may have used them",
        ("call #", "time (UTC)", "bytes #", "tool", "parameters"),
        report["untraced"],
        _unused_line,
    )
    _print_calls(
        "Corrected: soon after the failure, another tool apparently did the same",
        ("call #", "time (UTC)", "failed tool", "parameters", "corrected by", "with"),
        report["corrections"],
        lambda call: (
            *(call["call"], _clock(call["called_at"]), call["tool"], _shorten(call["parameters"])),
            f"{call['correcting_tool']} (call {call['corrected_by']})",
            _shorten(call["correcting_parameters"]),
        ),
    )


def _print_summary(report: Row, *, is_withheld: bool) -> None:
    masque = report["masque"] or "baseline"
    print_line(
        one_line(
            f"{report['session_key']} of {report['organization_id']}: {masque}, "
            f"{report['model'] or 'unknown model'}, {report['task_class']}, "
            f"{report['started_at']:%Y-%m-%d %H:%M} UTC"
        )
    )
    score, total = report["effectiveness_score"], report["total_calls"]
    if is_withheld:
        print_line(f"effectiveness: {REVIEW_DUE} (page /reviews: score it first)")
    elif score is None:
        print_line("effectiveness unknown: no call with a known outcome")
    else:
        flag = ", below 60" if report["is_flagged"] else ""
        lost = f"{report['lost_calls']:,g} of {total:,} calls lost"
        print_line(f"effectiveness {score:.1f} of 100{flag}: {lost}")
    print_line(f"counted: {report['basis']}")
    tokens, usd = report["lost_tokens"], report["lost_usd"]
    if tokens:
        cost = "cost unknown" if usd is None else f"{usd:.4f} USD"
        print_line(f"results of lost calls: at least {tokens:,.0f} tokens, {cost}")
    others = {"denied": report["denied_calls"], "of unknown outcome": report["unknown_calls"]}
    if uncounted := ", ".join(f"{number:,} {what}" for what, number in others.items() if number):
        print_line(f"calls not counted: {uncounted}")


def _print_by_tool(report: Row) -> None:
    columns = (
        *("tool", "calls #", "failed #", "corrected #", "repeated #", "wasted #", "lost #"),
        *("p50 ms #", "p95 ms #", "bytes #"),
    )
    rows = [
        (
            *(tool["tool"], tool["calls"], tool["failed"], tool["corrected"], tool["repeated"]),
            *(tool["wasted"], f"{tool['lost_calls']:g}"),
            *(_whole(tool["p50_ms"]), _whole(tool["p95_ms"]), tool["bytes_returned"]),
        )
        for tool in report["by_tool"] or []
    ]
    if rows:
        print_table("\nBy tool", *_without_unknown(columns, rows), essential=7)


def _print_calls(
    title: str,
    columns: Sequence[str],
    calls: Sequence[Row] | None,
    line: Callable[[Row], Sequence[object]],
) -> None:
    if calls:
        print_table(f"\n{title}", columns, map(line, calls[:_MAX_CALLS]), essential=len(columns))
        if len(calls) > _MAX_CALLS:
            print_line(f"{len(calls) - _MAX_CALLS:,} more not shown: use --format json")


def _unused_line(call: Row) -> tuple[object, ...]:
    return (
        *(call["call"], _clock(call["called_at"]), call["bytes_returned"]),
        *(call["tool"], _shorten(call["parameters"])),
    )


# -- All sessions --------------------------------------------------------------------------------


def _print_fleet(lake: Lake, span: DateRange, form: OutputFormat, which: SessionFilter) -> None:
    chosen = dates_in(lake.partitions(TOOL_REPORTS), span)
    sessions = lake.read(AGENT_SESSIONS, chosen, where=which.condition())
    calls = tool_calls(lake, chosen).of_sessions(sessions)
    by_tool, by_model = calls.lost_by("tool"), calls.lost_by("model")
    used = {kind: used_by(kind, sessions) for kind in USED_KINDS}
    if form is not OutputFormat.TABLE:
        frames = {"tool": by_tool, "model": by_model}
        frames |= {kind: frame.rename({"used_name": kind}) for kind, frame in used.items()}
        named = [_named(by, frame) for by, frame in frames.items()]
        rows = pl.concat(named, how="diagonal")
        write_rows(rows, form, first_date=span[0], last_date=span[1])
        return
    if calls.windows.is_empty():
        chosen_by = "" if which.is_empty else f" with {one_line(options_text(which))}"
        print_line(
            f"There are no tool reports{chosen_by} from {span[0]} to {span[1]} in {lake.where()}."
            f"{'' if chosen_by else ' Run ingest and build, or name other dates: --date.'}"
        )
        return
    print_line(
        f"{pluralize(calls.windows.height, 'session')} with tool calls from {span[0]} to "
        f"{span[1]}. {int(calls.windows['is_flagged'].sum())} of them lost over 40% of calls"
    )
    _print_losses("By tool", "tool", by_tool)
    _print_losses("By model", "model", by_model)
    for kind, frame in used.items():
        _print_used(kind, frame)
    for advice in unknown_columns(by_model).values():
        print_line(f"\n{advice}")
    print_line(
        "\nlost = failed - corrected / 2 + wasted + only repeated / 2.\n"
        "only repeated: like an earlier call, and neither failed nor wasted. Repeats are known for "
        "the calls of sessions that log parameters. The others seem to lose less.\n"
        "tokens, USD: of the results of lost calls, at 4 bytes per token and the mean price of a "
        "token of their session. A lower bound, where sizes are known.\n"
        "share of cost: the cost of each session times the share of its calls that were lost.\n"
        "The lost calls of one session: evaluation-pipelines tools SESSION"
    )


def _print_used(kind: str, frame: pl.DataFrame) -> None:
    columns = (USED_NAMES[kind], "sessions #", "uses #", "calls #", "requests #", "tokens #")
    rows = [
        (
            *(one_line(row["used_name"]), row["sessions"], row["uses"], row["calls"]),
            *(row["api_requests"], row["total_tokens"]),
            known_usd(row["cost_usd"], row["known_costs"], row["sessions"]),
        )
        for row in frame.iter_rows(named=True)
    ]
    if rows:
        title = f"\nBy {USED_NAMES[kind]} (-: unknown)"
        print_table(title, (*columns, "cost #"), rows, essential=4)


def _named(by: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Return rows with what they are by, and the name of the tool, model or whatever it is."""
    return frame.rename({by: "name"}).select(pl.lit(by).alias("by"), pl.all())


def _print_losses(title: str, name: str, frame: pl.DataFrame) -> None:
    columns = (
        *(name, "calls #", "lost #", "lost % #", "failed #", "corrected #", "only repeated #"),
        *("wasted #", "repeats known #", "tokens #", "USD #", "share of cost, USD #"),
        "sizes known #",
    )
    shown = _without_unknown(columns, list(_loss_lines(name, frame)))
    print_table(f"\n{title}", *shown, essential=7)


def _without_unknown(
    columns: Sequence[str], rows: Sequence[Sequence[object]]
) -> tuple[list[str], list[list[object]]]:
    """Return the table without the columns of which no row knows anything."""
    kept = [at for at in range(len(columns)) if any(row[at] is not None for row in rows)]
    return [columns[at] for at in kept], [[row[at] for at in kept] for row in rows]


def _loss_lines(name: str, frame: pl.DataFrame) -> Iterable[tuple[object, ...]]:
    for row in frame.iter_rows(named=True):
        yield (
            *(row[name], row["calls"], f"{row['lost_calls']:g}", f"{row['lost_pct']:.1f}"),
            *(row["failed"], row["corrected"]),
            row["only_repeated"] if row["repeats_known"] else None,
            row["wasted"] if row["waste_known"] else None,
            f"{row['repeats_known']} of {row['calls']}" if row["repeats_known"] else None,
            *(_whole(row["lost_tokens"]), _cents(row["lost_usd"]), _cents(row["cost_share_usd"])),
            f"{row['known_sessions']} of {row['sessions']}",
        )


def _shorten(text: str | None) -> str | None:
    """Return text on one line, shortened."""
    return None if text is None else shortened_to(_MAX_TEXT_CHARACTERS)(" ".join(text.split()))


def _clock(time: datetime) -> str:
    return f"{time:%H:%M:%S}"


def _whole(number: float | None) -> str | None:
    return None if number is None else f"{number:.0f}"


def _cents(usd: float | None) -> str | None:
    return None if usd is None else f"{usd:.2f}"
