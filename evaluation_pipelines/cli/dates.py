"""Days as people write them: one, or a range."""

from collections.abc import Iterable
from datetime import UTC, date, datetime

import typer

from evaluation_pipelines.cli.output import one_line

Days = tuple[date, date]
"""First and last day."""

DATES_TO_BUILD = typer.Option(
    "--date",
    metavar="A[..B]",
    help="These UTC days (one, or all from A to B) instead of those with new telemetry.",
)
DATES_TO_LIST = typer.Option(
    "--date",
    metavar="A[..B]",
    help="Only sessions that began on this UTC day, or on the days from A to B.",
)

AS_OF = typer.Option(
    "--as-of",
    metavar="TIME",
    help="As it was at this past time, UTC: see docs/as-of.md.",
)


def parse_days(text: str) -> Days:
    """First and last day of ``A`` or ``A..B``."""
    first, dots, last = text.partition("..")
    try:
        days = date.fromisoformat(first), date.fromisoformat(last if dots else first)
    except ValueError as error:
        advice = "write 2026-11-21 or 2026-11-01..2026-11-21"
        raise typer.BadParameter(f"--date {one_line(text)}: {error}; {advice}") from error
    if days[1] < days[0]:
        raise typer.BadParameter(f"--date {text}: the range ends before it begins")
    return days


def parse_time(text: str, option: str) -> datetime:
    """A point in time: a day (its beginning) or a time; UTC unless it says otherwise."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        advice = "write 2026-11-21 or 2026-11-21T14:30"
        raise typer.BadParameter(f"{option} {one_line(text)}: {error}; {advice}") from error
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def parse_as_of(text: str | None) -> datetime | None:
    """The time of ``--as-of``, None for the present; not one that is still to come."""
    if text is None:
        return None
    time = parse_time(text, "--as-of")
    if time > datetime.now(UTC):
        raise typer.BadParameter(f"--as-of {one_line(text)}: this is still to come")
    return time


def within(dates: Iterable[date], days: Days | None) -> list[date]:
    """The dates among the days; all of them when no days are asked for."""
    return [each for each in dates if days is None or days[0] <= each <= days[1]]
