"""What the terminal program prints of ingest, build, sessions and status."""

from collections.abc import Sequence
from datetime import date, datetime

from evaluation_pipelines.adapters.lake import Lake
from evaluation_pipelines.adapters.landing import Landing
from evaluation_pipelines.adapters.ledger.ledger import Ledger
from evaluation_pipelines.domain.schemas import (
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    SESSION_PERFORMANCE,
)
from evaluation_pipelines.domain.sessions.summary import session_summary, to_yaml
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.stages.build import DateBuilt, DateFailed
from evaluation_pipelines.stages.ingest import IngestReport
from evaluation_pipelines.stages.score import SessionRow, session_rows
from evaluation_pipelines.terminal import complain, print_table, say

_SESSION_COLUMNS = (
    "started (UTC)",
    "session key",
    "agent",
    "masque",
    "model",
    "tools #",
    "failed #",
    "composite #",
    "recommendation",
)


def print_ingest(report: IngestReport, settings: Settings) -> None:
    """What one ingest read; what it did not read is never left out."""
    counts = report.counts
    say(
        f"ingest: {counts.lines} lines ({counts.bytes} bytes) of {report.files} files, "
        f"{counts.events} events on {len(report.dates)} dates"
    )
    for number, what in (
        (counts.attribution_lines, "attribution lines"),
        (counts.skipped, "metrics or traces, not used"),
        (counts.unknown_records, "records of agents that are not understood"),
        (counts.repeated_records, "records that repeat another one"),
        (counts.unattributed, "records without a session"),
        (counts.time_anomalies, "events whose time was impossible"),
        (counts.value_anomalies, "values that were impossible and became null"),
        (counts.out_of_range, f"events before {settings.start_date}, filed under that date"),
    ):
        if number:
            say(f"  {number} {what}")
    if counts.quarantined:
        complain(f"warning: {counts.quarantined} lines or records went to quarantine")
    for passed in report.passed_over:
        complain(f"warning: {passed.path}: {passed.reason}")
    for path in report.busy:
        complain(f"warning: {path} is being read by another ingest")


def print_build(results: Sequence[DateBuilt | DateFailed]) -> None:
    """What was built, date by date."""
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
        print_table("Built", columns, rows)
    for failed in results:
        if isinstance(failed, DateFailed):
            complain(f"error: {failed.session_date} was not built: {failed.error}")


def print_sessions(rows: Sequence[SessionRow]) -> None:
    """One line a session."""
    print_table("Sessions", _SESSION_COLUMNS, [_session_line(row) for row in rows])


def print_stored_sessions(lake: Lake, dates: list[date] | None, limit: int) -> None:
    """The newest sessions of the lake, oldest first."""
    rows = _stored_sessions(lake, lake.partitions(AGENT_SESSIONS) if dates is None else dates)
    print_sessions(rows[-limit:])
    if len(rows) > limit:
        say(f"{len(rows) - limit} older ones are not shown: use --limit or --date")


def print_best_session(lake: Lake) -> None:
    """The summary of the best session of the lake."""
    rows = _stored_sessions(lake, lake.partitions(AGENT_SESSIONS))
    if scored := [row for row in rows if row["scorable"] and not row["partial"]]:
        best = max(scored, key=lambda row: (row["composite"], row["total_tools"]))
        say(f"\nThe best of them, {best['session_key']}:\n")
        say(to_yaml(session_summary(best)))


def print_places(settings: Settings) -> None:
    """Where everything lies."""
    say(f"telemetry  {settings.landing_dir}  (put more there and run: evaluation-pipelines ingest)")
    say(f"tables     {settings.lake_dir}/<table>/session_date=<day>/<table>.parquet")
    say(f"ledger     {settings.ledger_url}")


def print_status(landing: Landing, ledger: Ledger, now: datetime) -> None:
    """Positions and lag of every file, what is built, what could not be read."""
    files, passed_over = landing.list_files()
    sizes = {(file.device, file.inode): file for file in files}
    rows = []
    for source in ledger.files.all():
        file = sizes.pop((source.device, source.inode), None)
        size = file.size_bytes if file else None
        lag = None if size is None else max(size - source.position, 0)
        rows.append((source.path, source.position, size, lag, _age(source.last_event_time, now)))
    rows += [(file.path, 0, file.size_bytes, file.size_bytes, None) for file in sizes.values()]
    columns = ("file", "read (bytes) #", "size (bytes) #", "lag (bytes) #", "newest event #")
    print_table("Landing folder", columns, rows)
    for passed in passed_over:
        say(f"not read: {passed.path}: {passed.reason}")
    _print_partitions(ledger)
    totals = ledger.ingest.totals()
    say(f"quarantine: {totals.quarantined} of {totals.lines} lines")
    for (source_name, name), number in sorted(ledger.ingest.names().items()):
        say(f"not stored: {number} records {name or '(no name)'} of {source_name or '(no scope)'}")


def _print_partitions(ledger: Ledger) -> None:
    touched = {each.session_date: each for each in ledger.touched.all()}
    rows = []
    for part in ledger.parts.dates(AGENT_EVENTS_LANDED.name):
        due = touched.get(part.session_date)
        state = "built" if due is None or due.is_built else "parked" if due.parked else "due"
        error = due.last_error if due else None
        rows.append((part.session_date, part.parts, part.rows, part.size_bytes, state, error))
    columns = ("date", "parts #", "landed events #", "bytes #", "state", "last error")
    print_table("Partitions", columns, rows)


def _stored_sessions(lake: Lake, dates: list[date]) -> list[SessionRow]:
    return session_rows(lake.read(AGENT_SESSIONS, dates), lake.read(SESSION_PERFORMANCE, dates))


def _session_line(row: SessionRow) -> tuple[object, ...]:
    summary = session_summary(row)
    return (
        row["started_at"].strftime("%Y-%m-%d %H:%M:%S"),
        row["session_key"],
        row["source_cli"],
        summary["masque"],
        row["model"],
        row["total_tools"],
        row["tools_failed"],
        summary["composite"],
        summary["recommendation"],
    )


def _age(time: datetime | None, now: datetime) -> str | None:
    return None if time is None else f"{int((now - time).total_seconds() // 60)} min ago"
