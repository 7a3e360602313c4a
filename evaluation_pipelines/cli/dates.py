"""Dates of commands: options, ranges, and why one is not built."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import typer

from evaluation_pipelines.cli.output import one_line, pluralize
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter
from evaluation_pipelines.storage.ledger.rebuild_queue import QueuedDate
from evaluation_pipelines.times import USUAL_DAYS

DateRange = tuple[date, date]
"""First and last date."""


def _dates(help_text: str) -> Any:
    return typer.Option("--date", metavar="A[..B]", help=help_text)


def _time(name: str, help_text: str) -> Any:
    return typer.Option(f"--{name}", metavar="TIME", help=help_text)


DATES_TO_BUILD = _dates(
    "Build this UTC date, or the dates from A to B, instead of those with new telemetry."
)
DATES_TO_REREAD = _dates("With --again: the session dates to look at, one or A..B.")
DATES_OF_FILES = _dates("With --files: only files of these session dates.")
DATES_TO_LIST = _dates(
    "Only sessions of this session date, or of the dates from A to B: the UTC date of the "
    "session's first ingested event."
)
DATES_STARTED = _dates(
    "Only sessions that started on this UTC date, or from A to B: short for --from and --to."
)
FROM_TIME = _time("from", "Only sessions that started at this time or later, UTC.")
TO_TIME = _time("to", "Only sessions that started before, UTC.")
AS_OF = _time("as-of", "Report the state at this past time, UTC (see docs/analysts.md).")


def parse_dates(text: str | None) -> DateRange | None:
    """Return the date range ``A`` or ``A..B``; ``None`` for ``None``."""
    if text is None:
        return None
    first, dots, last = text.partition("..")
    try:
        dates = date.fromisoformat(first), date.fromisoformat(last if dots else first)
    except ValueError as error:
        advice = "Use 2026-11-21 or 2026-11-01..2026-11-21"
        raise typer.BadParameter(f"--date {one_line(text)} is not a date. {advice}") from error
    if dates[1] < dates[0]:
        raise typer.BadParameter(f"--date {text}: the range ends before it begins")
    return dates


def parse_time(text: str, option: str) -> datetime:
    """Parse the time of an option, in UTC by default; a date means its midnight."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        advice = "Use 2026-11-21 or 2026-11-21T14:30"
        raise typer.BadParameter(f"{option} {one_line(text)} is not a time. {advice}") from error
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def parse_as_of(text: str | None) -> datetime | None:
    """Return the time of ``--as-of``, which must be past; ``None`` for the present."""
    if text is None:
        return None
    time = parse_time(text, "--as-of")
    if time > datetime.now(UTC):
        raise typer.BadParameter(f"--as-of {one_line(text)}: the time is in the future")
    return time


def dates_in(dates: Iterable[date], date_range: DateRange | None) -> list[date]:
    """Return the dates within a range; all of them if the range is ``None``."""
    return [day for day in dates if date_range is None or date_range[0] <= day <= date_range[1]]


def usual_dates(
    dates: Iterable[date], which: SessionFilter = ALL_SESSIONS, then: datetime | None = None
) -> DateRange:
    """Return the dates that a list is of without ``--date``.

    The last 28 up to the newest complete one with sessions; all if times are given instead.
    """
    yesterday = (then or datetime.now(UTC)).date() - timedelta(days=1)
    found = list(dates) or [yesterday]
    if which.since is not None or which.until is not None:
        return min(found), max(found)
    last = max((day for day in found if day <= yesterday), default=max(found))
    return last - timedelta(days=USUAL_DAYS - 1), last


def why_not_built(due: QueuedDate) -> str:
    """Return the error of a failed date, its next attempt, and how to build it now."""
    now = f"evaluation-pipelines build --date {due.session_date}"
    next_time = due.next_attempt_at
    when = "parked" if due.parked else f"due {next_time:%H:%M} UTC" if next_time else "due"
    return (
        f"{due.last_error} ({pluralize(due.attempts, 'attempt')}, {when}, to build it now: {now})"
    )
