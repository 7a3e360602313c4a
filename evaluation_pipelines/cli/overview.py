"""What the terminal program prints of ingest and build."""

from collections.abc import Iterable, Sequence

from evaluation_pipelines.adapters.ledger.records import TouchedDate
from evaluation_pipelines.cli.status import why_not_built
from evaluation_pipelines.cli.terminal import complain, counted, one_line, print_table, say
from evaluation_pipelines.cli.unread import what_is_odd
from evaluation_pipelines.domain.schemas import AGENT_EVENTS, AGENT_SESSIONS
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.stages.build import DateBuilt, DateFailed
from evaluation_pipelines.stages.ingest import IngestReport


def print_ingest(report: IngestReport, settings: Settings) -> None:
    """What one ingest read; what it did not read is never left out."""
    counts = report.counts
    say(
        f"ingest: {counted(counts.lines, 'line')} ({counted(counts.bytes, 'byte')}) of "
        f"{counted(report.files, 'file')}, {counted(counts.events, 'event')} on "
        f"{counted(len(report.dates), 'date')}"
    )
    for what in what_is_odd(counts, settings):
        say(f"  {what}")
    if counts.quarantined:
        what = counted(counts.quarantined, "line or record", "lines or records")
        complain(f"warning: {what} could not be read and went to quarantine: see quarantine list")
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
