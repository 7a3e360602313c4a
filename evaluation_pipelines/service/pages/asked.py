"""What the URL of a page asks for: sessions that are chosen, and days."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from evaluation_pipelines.service.errors import ServiceError
from evaluation_pipelines.service.pages.domain.days import DayRange, day_range, named_ranges
from evaluation_pipelines.service.pages.domain.session_lines import options_of
from evaluation_pipelines.service.pages.rendering import Visit
from evaluation_pipelines.views.filters import JUDGED, OUTCOMES, SCORES, ListQuery


@dataclass(frozen=True, slots=True)
class AppliedFilters:
    """Texts of the filters, each with the URL of the page without it; the URL without any."""

    links: Sequence[tuple[str, str]]
    clear_url: str


def applied_filters(visit: Visit, query: ListQuery, words: str = "") -> AppliedFilters:
    """Return the filters of a page of ``query`` that searches ``words``; texts are not escaped."""
    applied = list(_applied(query, words))
    here = visit.frame.here
    return AppliedFilters(
        [(f"{title}: {value}", here(**{field: None})) for field, title, value in applied],
        here(**dict.fromkeys(field for field, _, _ in applied)),
    )


def filters_by_value(visit: Visit, query: ListQuery) -> AppliedFilters:
    """Return the filters of a page that applies CHOICES alone and shows its days elsewhere."""
    return applied_filters(visit, query.on())


def _applied(query: ListQuery, words: str) -> Iterator[tuple[str, str, str]]:
    """Yield field of the URL, title and shown value of each filter, as in the form."""
    if query.first_date is not None:
        yield "from", "From", f"{query.first_date}"
    if query.last_date is not None:
        yield "to", "To", f"{query.last_date}"
    for name, value in query.values.items():
        ((_, shown),) = options_of(name, [value])
        yield name, name.capitalize(), shown
    if query.score is not None:
        yield "score", "Score", SCORES[query.score]
    if query.judge is not None:
        yield "judge", "Judge", JUDGED[query.judge]
    if query.outcome is not None:
        yield "outcome", "Outcome", OUTCOMES[query.outcome]
    if query.alert is not None:
        yield "alert", "Alert", f"{query.alert}"
    if words:
        yield "q", "Text in a prompt", words


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
