"""The filters that a page applies, each with a link that removes it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evaluation_pipelines.service.pages.domain.session_lines import options_of
from evaluation_pipelines.service.pages.rendering import Visit
from evaluation_pipelines.views.filters import JUDGED, SCORES, ListQuery


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
    if query.alert is not None:
        yield "alert", "Alert", f"{query.alert}"
    if words:
        yield "q", "Text in a prompt", words
