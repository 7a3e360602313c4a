"""Commands ``score`` and ``sessions``: scores of telemetry files and of the lake."""

import json
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import date, datetime
from math import isfinite
from pathlib import Path
from typing import Annotated, TypeAlias

import polars as pl
import typer

from evaluation_pipelines.as_of import read_lake_as_of, read_stores_as_of
from evaluation_pipelines.cli.dates import AS_OF, DATES_TO_LIST, dates_in, parse_as_of, parse_dates
from evaluation_pipelines.cli.filters import options_text, with_session_filter
from evaluation_pipelines.cli.ingest_notes import ingest_notes
from evaluation_pipelines.cli.options import ORGANIZATION
from evaluation_pipelines.cli.output import (
    OutputFormat,
    csv_text,
    format_option,
    one_line,
    pluralize,
    print_error,
    print_json,
    print_line,
    print_table,
    progress_bar,
    short_key,
    shortened_to,
    write_output,
)
from evaluation_pipelines.judging.domain.badge import Badge, badge, shown_scoring
from evaluation_pipelines.judging.domain.score import Score
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.people.view import hidden_columns
from evaluation_pipelines.schemas import AGENT_SESSIONS, SESSION_PERFORMANCE
from evaluation_pipelines.sessions.domain.find_session import (
    SessionRow,
    find_session,
    in_organization,
)
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter
from evaluation_pipelines.sessions.domain.summary import session_record, session_summary, to_yaml
from evaluation_pipelines.sessions.score import (
    ScoredTelemetry,
    files_not_read,
    open_telemetry,
    score_files,
    session_rows,
    telemetry_files,
)
from evaluation_pipelines.settings import Settings, load_settings
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.landing import summarize_skipped

_NAMES = tuple(dict.fromkeys([*AGENT_SESSIONS.schema, *SESSION_PERFORMANCE.schema]))
_COLUMNS = (
    *("session key", "composite #", "judge", "program", "model", "recommendation", "masque"),
    *("started (UTC)", "tools #", "failed #", "organization"),
)
"""The most important columns first: a narrow terminal leaves out the last ones."""

_ESSENTIAL = 5
_SHORTENED = {"session key": short_key, "model": shortened_to(16)}

Badges: TypeAlias = Mapping[tuple[str, str], Badge]
"""(organization_id, session_key) -> badge of the judge score."""

_MAX_DEFECTS = 5
_LIMIT = 50


def score(
    files: Annotated[list[str], typer.Argument(metavar="FILE...")],
    session: Annotated[
        str | None, typer.Option(metavar="KEY", help="A session key or session id.")
    ] = None,
    organization: Annotated[str | None, ORGANIZATION] = None,
    every: Annotated[bool, typer.Option("--all", help="All sessions, oldest first.")] = False,
    form: Annotated[
        OutputFormat, format_option(OutputFormat.YAML, OutputFormat.JSON, OutputFormat.TABLE)
    ] = OutputFormat.YAML,
) -> None:
    """Score telemetry files without storing anything. Default: the newest session.

    FILE is OTLP JSONL, a folder of such files, or - for standard input.
    """
    if every and session is not None:
        raise typer.BadParameter("--session selects one session, --all selects all: use only one")
    settings = load_settings()
    scored = _score(files, settings, session)
    if session is not None and not scored.sessions and "-" not in files:
        scored = _score(files, settings)  # all sessions, for the error message
    _print_unread(scored, settings)
    for names, reason in summarize_skipped([*files_not_read(files), *scored.cut]):
        print_error(f"warning: {one_line(names)}: {reason}")
    # With --all, too: no session is an error.
    found = find_session(scored.sessions, session, organization)
    candidates = in_organization(scored.sessions, organization)
    rows = candidates if every else [found]
    if session is None and len(candidates) > len(rows):
        which = f"{one_line(rows[0]['session_key'])} is the newest of {len(candidates)}"
        print_error(f"{which} sessions: use --all for all of them, --session for another one")
    _print_scores(rows, form)


@with_session_filter
def sessions(
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
    """List sessions of the lake with their scores, oldest first."""
    date_range = parse_dates(dates)
    settings, then = load_settings(), parse_as_of(as_of)
    with read_lake_as_of(settings, then) as lake:
        days = dates_in(lake.partitions(AGENT_SESSIONS), date_range)
        rows = stored_sessions(lake, days, which)
        usual = _LIMIT if form is OutputFormat.TABLE else len(rows)
        hidden = hidden_columns(settings.people_view)
        names = [name for name in _NAMES if name not in hidden]
        badges = stored_badges(settings, then, rows) if rows else {}
        _print_stored_sessions(rows, badges, limit or usual or 1, form, names)
        if not rows:
            print_remark = print_line if form is OutputFormat.TABLE else print_error
            print_remark(_no_sessions(lake, which, has_dates=dates is not None))


def stored_sessions(
    lake: Lake, dates: list[date], which: SessionFilter = ALL_SESSIONS
) -> list[SessionRow]:
    """Return sessions of the lake with their scores, in the order they started."""
    sessions = lake.read(AGENT_SESSIONS, dates, where=which.condition())
    return session_rows(sessions, lake.read(SESSION_PERFORMANCE, dates))


def stored_badges(settings: Settings, then: datetime | None, rows: Sequence[SessionRow]) -> Badges:
    """Return the badge of the judge score of each session, by ``SESSION_KEY``."""
    days = [row["session_date"] for row in rows]
    with read_stores_as_of(settings, then) as stores:
        scorings = ScoreStore(stores.ledger).listed(min(days), max(days))
    by_session: dict[tuple[str, str], list[Score]] = {}
    for each in scorings:
        by_session.setdefault((each.organization_id, each.session_key), []).append(each)
    found = {}
    for row in rows:
        key = _key(row)
        shown = shown_scoring(by_session.get(key, ()), row["content_hash"])
        found[key] = Badge() if shown is None else badge(shown)
    return found


def _key(row: SessionRow) -> tuple[str, str]:
    return row["organization_id"], row["session_key"]


def _score(paths: Iterable[str], settings: Settings, session: str | None = None) -> ScoredTelemetry:
    """Score files; all of standard input is scored because it cannot be read twice."""
    with ExitStack() as stack, progress_bar(of_bytes=True) as progress:
        files, size_bytes = [], 0
        for path in telemetry_files(paths):
            name, handle = open_telemetry(path, sys.stdin.buffer)
            files.append((name, stack.enter_context(handle)))
            size_bytes += 0 if path == "-" else Path(path).stat().st_size
        progress.begin("reading telemetry", size_bytes)
        only = None if any(name == "-" for name, _ in files) else session
        return score_files(files, settings, progress, only)


def print_sessions(
    rows: Sequence[SessionRow], badges: Badges | None = None, title: str = "Sessions"
) -> None:
    """Print a table with one line per session; without ``badges``, no judge is mentioned."""
    if badges is None:
        lines = [_line(row, None) for row in rows]
        columns = [each for each in _COLUMNS if each != "judge"]
        print_table(title, columns, lines, _ESSENTIAL - 1, _SHORTENED)
        return
    lines = [_line(row, badges[_key(row)]) for row in rows]
    print_table(title, _COLUMNS, lines, _ESSENTIAL, _SHORTENED)
    print_line(_scales({badges[_key(row)].model for row in rows} - {None}))


def _scales(judge_models: Collection[str | None]) -> str:
    """Return what the numbers of the table mean, and which models judged."""
    by = ", ".join(sorted(one_line(f"{each}") for each in judge_models)) or "no model yet"
    bands = "0-49 red, 50-74 yellow, 75-100 green"
    return f"composite: 0 to 10. judge: {bands}, by {by}: judge list"


def _line(row: SessionRow, judged: Badge | None) -> tuple[object, ...]:
    summary = session_summary(row)
    return (
        row["session_key"],
        summary["composite"],
        *(() if judged is None else (judged.text,)),
        row["source_cli"],
        row["model"],
        summary["recommendation"],
        summary["masque"],
        row["started_at"].strftime("%Y-%m-%d %H:%M:%S"),
        row["total_tools"],
        row["tools_failed"],
        row["organization_id"],
    )


def _print_scores(rows: Sequence[SessionRow], form: OutputFormat) -> None:
    """Print scores as a table, a JSON array, or one YAML document per session."""
    if form is OutputFormat.TABLE:
        print_sessions(rows)
    elif form is OutputFormat.JSON:
        print_json([session_record(row) for row in rows])
    else:
        for row in rows:
            if len(rows) > 1:
                name = one_line(f"{row['session_key']} of {row['organization_id']}")
                print_line(f"---\n# {name}")
            print_line(to_yaml(session_summary(row)).rstrip("\n"))


def _print_stored_sessions(
    rows: Sequence[SessionRow],
    badges: Badges,
    limit: int,
    form: OutputFormat,
    names: Sequence[str],
) -> None:
    """Print the newest sessions; with JSON and CSV, remarks go to standard error.

    ``names`` are the columns of JSON and CSV.
    """
    newest = rows[-limit:]
    print_remark = print_line if form is OutputFormat.TABLE else print_error
    if form is OutputFormat.JSON:
        print_json([_record(row, names) | _judged(badges[_key(row)]) for row in newest])
    elif form is OutputFormat.CSV:
        write_output(csv_text(_flat(newest, badges, names)))
    elif newest:
        print_sessions(newest, badges)
    if len(rows) > limit:
        older = pluralize(len(rows) - limit, "older session")
        print_remark(f"{older} not shown: use --limit or --date")


def _no_sessions(lake: Lake, which: SessionFilter, *, has_dates: bool) -> str:
    """Say what there are no sessions of: a lake, some dates, or a filter."""
    said = f"There are no sessions in {lake.root.absolute()}"
    if not lake.partitions(AGENT_SESSIONS):
        return f"{said} yet. Run evaluation-pipelines ingest and build, or set EVAL_DATA_DIR."
    chosen = "" if which.is_empty else f" with {one_line(options_text(which))}"
    return f"{said}{chosen}{' on these dates' if has_dates else ''}."


def _record(row: SessionRow, names: Sequence[str]) -> dict[str, object]:
    """Return columns of a session: times as ISO 8601, lists of keys and values as objects."""
    return {name: _json_value(name, row[name]) for name in names}


def _judged(judged: Badge) -> dict[str, object]:
    """Return the columns about the judge that follow those of the tables."""
    return {
        "judge_badge": judged.text,
        "judge_total": judged.total,
        "judge_model": judged.model,
        "judge_flags": list(judged.flags),
    }


def _json_value(name: str, value: object) -> object:
    match value:
        case date() | datetime():
            return value.isoformat()
        case float() if not isfinite(value):
            return None  # the sum of absurd values; JSON has no infinity
        case list() if name in {"tool_mix", "session_attributes"}:
            return {each["key"]: each["value"] for each in value}
    return value


def _flat(rows: Sequence[SessionRow], badges: Badges, names: Sequence[str]) -> pl.DataFrame:
    """Return records for CSV: strings on one line, lists and objects as JSON."""
    records = [_record(row, names) | _judged(badges[_key(row)]) for row in rows]
    columns: Mapping[str, list[object]] = {
        name: [_flat_value(record[name]) for record in records]
        for name in (*names, *_judged(Badge()))
    }
    return pl.DataFrame(columns)


def _flat_value(value: object) -> object:
    match value:
        case str():
            return one_line(value) or None
        case list() | dict():
            return json.dumps(value)
    return value


def _print_unread(scored: ScoredTelemetry, settings: Settings) -> None:
    """Print what was not read; if there is no session, also what the telemetry contains."""
    shown, others = scored.quarantined[:_MAX_DEFECTS], scored.quarantined[_MAX_DEFECTS:]
    for name, line in shown:
        where = f"{one_line(name)}, byte {line.offset}"
        others_like_it = f" ({line.lines} equal lines)" if line.lines > 1 else ""
        print_error(f"warning: {where}{others_like_it}: not read: {line.reason}")
    if left := sum(line.lines for _, line in others):
        more = pluralize(left, "more line or record", "more lines or records")
        print_error(f"warning: {more} not read")
    if not scored.sessions:
        for note in ingest_notes(scored.counts, settings):
            print_error(f"warning: {note}")
