"""What the terminal program prints of ingest, build and sessions."""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import date

from evaluation_pipelines.adapters.lake import Lake
from evaluation_pipelines.adapters.ledger.records import TouchedDate
from evaluation_pipelines.domain.schemas import (
    AGENT_EVENTS,
    AGENT_SESSIONS,
    QUARANTINE,
    SESSION_PERFORMANCE,
)
from evaluation_pipelines.domain.sessions.masques import masque_table
from evaluation_pipelines.domain.sessions.summary import session_record, session_summary, to_yaml
from evaluation_pipelines.domain.telemetry.counts import IngestCounts
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.stages.build import DateBuilt, DateFailed
from evaluation_pipelines.stages.ingest import IngestReport
from evaluation_pipelines.stages.score import Scored, SessionRow, session_rows
from evaluation_pipelines.stages.stores import Stores
from evaluation_pipelines.status import why_not_built
from evaluation_pipelines.terminal import complain, counted, one_line, print_table, say

_DEFECTS_SHOWN = 5
_SESSION_COLUMNS = (
    "session key",
    "composite #",
    "recommendation",
    "started (UTC)",
    "tools #",
    "failed #",
    "masque",
    "model",
    "agent",
)


def print_ingest(report: IngestReport, settings: Settings) -> None:
    """What one ingest read; what it did not read is never left out."""
    counts = report.counts
    say(
        f"ingest: {counted(counts.lines, 'line')} ({counted(counts.bytes, 'byte')}) of "
        f"{counted(report.files, 'file')}, {counted(counts.events, 'event')} on "
        f"{counted(len(report.dates), 'date')}"
    )
    for what in _what_is_odd(counts, settings):
        say(f"  {what}")
    if counts.quarantined:
        what = counted(counts.quarantined, "line or record", "lines or records")
        complain(f"warning: {what} went to quarantine: {settings.lake_dir / QUARANTINE.name}")
    for passed in report.passed_over:
        complain(f"warning: {one_line(passed.path)} is not read: {passed.reason}")
    for path in report.busy:
        complain(f"warning: {one_line(path)} is being read by another ingest")


def print_build(results: Sequence[DateBuilt | DateFailed], touched: Iterable[TouchedDate]) -> None:
    """What was built, date by date, and what is still due."""
    built = [each for each in results if isinstance(each, DateBuilt)]
    if not results:
        say("build: nothing new")
    if built:
        columns = ("date", "landed #", "duplicates #", "events #", "sessions #", "scored #")
        rows = [
            (
                each.session_date,
                each.facts["landed"],
                each.facts["duplicates"],
                each.rows[AGENT_EVENTS.name],
                each.rows[AGENT_SESSIONS.name],
                each.facts["scored"],
            )
            for each in built
        ]
        print_table("Built", columns, rows, essential=2)
    for failed in results:
        if isinstance(failed, DateFailed):
            complain(f"error: {failed.session_date}: {failed.table} was not built: {failed.error}")
    tried = {each.session_date for each in results}
    for due in touched:
        if due.last_error and not due.is_built and due.session_date not in tried:
            complain(f"warning: {due.session_date} is not built: {why_not_built(due)}")


def print_unread(scored: Scored, settings: Settings) -> None:
    """What was not read, and why there may be no session at all."""
    shown, others = scored.quarantined[:_DEFECTS_SHOWN], scored.quarantined[_DEFECTS_SHOWN:]
    for name, line in shown:
        complain(f"warning: {one_line(name)}, byte {line.offset}: not read: {line.reason}")
    if others:
        complain(f"warning: and {counted(len(others), 'more that was', 'more that were')} not read")
    if not scored.sessions:
        for what in _what_is_odd(scored.counts, settings):
            complain(f"warning: {what}")


def print_sessions(rows: Sequence[SessionRow]) -> None:
    """One line a session."""
    print_table("Sessions", _SESSION_COLUMNS, [_session_line(row) for row in rows], essential=3)


def print_scores(rows: Sequence[SessionRow], form: str) -> None:
    """Scores as ``yaml`` (a document each), ``json`` (an array) or ``table``."""
    if form == "table":
        print_sessions(rows)
    elif form == "json":
        say(json.dumps([session_record(row) for row in rows], indent=2))
    else:
        for row in rows:
            if len(rows) > 1:
                say(f"---\n# {one_line(row['session_key'])}")
            say(to_yaml(session_summary(row)).rstrip("\n"))


def print_stored_sessions(lake: Lake, dates: list[date], limit: int) -> None:
    """The newest sessions of the lake, oldest first."""
    rows = _stored_sessions(lake, dates)
    if not rows:
        say(f"There are no sessions on these dates in {lake.root}.")
        return
    print_sessions(rows[-limit:])
    if len(rows) > limit:
        say(f"{counted(len(rows) - limit, 'older one')} not shown: use --limit or --date")


def print_masques(lake: Lake) -> None:
    """Masques side by side, and whether they get better."""
    dates = lake.partitions(SESSION_PERFORMANCE)
    if not dates:
        return
    table = masque_table(lake.read(SESSION_PERFORMANCE, dates), dates[-1])
    rows = [
        (
            row["masque"] or "baseline",
            row["sessions"],
            f"{row['composite']:.1f}",
            row["recommendation"],
            None if row["trend"] is None else f"{round(row['trend'], 1) + 0.0:+.1f}",
        )
        for row in table.iter_rows(named=True)
    ]
    columns = ("masque", "sessions #", "composite #", "recommendation", "trend of 7 days #")
    print_table(
        "Masques, by the mean composite of their sessions (without remainders between masques)",
        columns,
        rows,
        len(columns),
    )


def print_best_session(lake: Lake) -> None:
    """The summary of the best session of the lake of which all dimensions are known."""
    rows = _stored_sessions(lake, lake.partitions(AGENT_SESSIONS))
    if scored := [row for row in rows if row["scorable"] and not row["partial"]]:
        best = max(scored, key=lambda row: (row["composite"], row["total_tools"]))
        say(f"\nThe best one with all dimensions known, {one_line(best['session_key'])}:\n")
        say(to_yaml(session_summary(best)))


def print_places(stores: Stores) -> None:
    """Where everything lies, and what to do next."""
    ledger_url = stores.ledger.engine.url.render_as_string(hide_password=True)
    for what, where in (
        (
            "telemetry",
            f"{stores.landing.root}  (put more there, then: ingest, build, publish)",
        ),
        ("tables", f"{stores.lake.root}/<table>/session_date=<day>/<table>.parquet"),
        (
            "database",
            f"{stores.settings.analytics_path}  (docs/analysts.md has ten queries for it)",
        ),
        ("ledger", ledger_url),
        ("more", "the commands sessions, status and score of .venv/bin/evaluation-pipelines"),
        ("interface", "make dev, then http://127.0.0.1:3000"),
        ("documents", "README.md and docs/"),
    ):
        say(f"{what:10} {where}")


def _what_is_odd(counts: IngestCounts, settings: Settings) -> Iterator[str]:
    for what, number in (
        ("attribution lines", counts.attribution_lines),
        ("metrics and traces, not used", counts.skipped),
        ("records of agents that are not understood", counts.unknown_records),
        ("records that repeat another one", counts.repeated_records),
        ("records without a session", counts.unattributed),
        ("impossible times, replaced by the time observed", counts.time_anomalies),
        ("impossible values, now null", counts.value_anomalies),
        (f"events before {settings.start_date}, filed under that date", counts.out_of_range),
    ):
        if number:
            yield f"{what}: {number}"


def _stored_sessions(lake: Lake, dates: list[date]) -> list[SessionRow]:
    return session_rows(lake.read(AGENT_SESSIONS, dates), lake.read(SESSION_PERFORMANCE, dates))


def _session_line(row: SessionRow) -> tuple[object, ...]:
    summary = session_summary(row)
    return (
        row["session_key"],
        summary["composite"],
        summary["recommendation"],
        row["started_at"].strftime("%Y-%m-%d %H:%M:%S"),
        row["total_tools"],
        row["tools_failed"],
        summary["masque"],
        row["model"],
        row["source_cli"],
    )
