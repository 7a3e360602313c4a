"""Which days a page shows, and links to the days that people ask for most."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from evaluation_pipelines.service.errors import ServiceError
from evaluation_pipelines.service.pages.domain.day_range import DayRange, day_range, named_ranges
from evaluation_pipelines.service.pages.rendering import Visit
from evaluation_pipelines.views.filters import ListQuery


@dataclass(frozen=True, slots=True)
class DayLinks:
    """The days of a page; ``links`` are name, URL and whether these are the days."""

    shown: DayRange
    links: Sequence[tuple[str, str, bool]]


def asked_days(visit: Visit, query: ListQuery) -> DayRange:
    """Return the days that the fields of the URL ask for, as ``day_range``.

    Raises:
        ServiceError: 400, they end before they begin.
    """
    try:
        return day_range(query.first_date, query.last_date, visit.installation.clock().date())
    except ValueError as error:
        raise ServiceError(400, "empty_time_range", f"{error}".capitalize() + ".") from error


def day_links(visit: Visit, shown: DayRange, rows: pl.DataFrame) -> DayLinks:
    """Return the days of a page with links to the same page for others.

    Args:
        visit: The visit.
        shown: The days.
        rows: Rows of all sessions.
    """
    today, first = visit.installation.clock().date(), rows["session_date"].min()
    links = [
        (name, visit.frame.here(**{"from": f"{days.first}", "to": f"{days.last}"}), days == shown)
        for name, days in named_ranges(today, first)  # type: ignore[arg-type]
    ]
    return DayLinks(shown, links)
