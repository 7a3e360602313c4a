"""The first page: is telemetry arriving, how did the last days go, what needs me, which model."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from evaluation_pipelines.alerts.alert_store import AlertStore
from evaluation_pipelines.alerts.domain.messages import (
    OPEN_BOOKS,
    QUALITY_RISKS,
    REGRESSION,
    without_sessions,
)
from evaluation_pipelines.comparison.domain.answers import answers_of, without_ranking
from evaluation_pipelines.comparison.domain.compare import Comparison
from evaluation_pipelines.comparison.domain.findings import findings
from evaluation_pipelines.schemas import EVALUATION_BOOKS
from evaluation_pipelines.scorecards.audit_samples import waiting_samples
from evaluation_pipelines.service.pages.domain.costs import costs_of_ranges
from evaluation_pipelines.service.pages.domain.day_range import DayRange
from evaluation_pipelines.service.pages.domain.days import days_chart, last_days, sources
from evaluation_pipelines.service.pages.rendering import Visit, Visitor
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches
from evaluation_pipelines.telemetry.unread_files import ingest_lags

ROUTER = APIRouter(include_in_schema=False)

_DAYS, _WEEK = 14, timedelta(days=7)
_MOST_LABELS, _MOST_ALERTS = 3, 5
_PAGES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    QUALITY_RISKS: ("/sessions", {"score": "red"}),
    REGRESSION: ("/models", {}),
    OPEN_BOOKS: ("/books", {}),
}
"""Kind of an alert -> the page that shows more, and its query."""


@dataclass(frozen=True, slots=True)
class Need:
    """Something to do: what it is, where it is shown, and what helps."""

    what: str
    help: str
    url: str | None = None
    is_urgent: bool = False


@dataclass(frozen=True, slots=True)
class LabelAnswer:
    """What the comparison says of one label."""

    label: str
    quality: str
    money: str


@ROUTER.get("/")
def overview(visit: Visitor) -> HTMLResponse:
    """Show the state of everything on one screen."""
    now = visit.installation.clock()
    rows = visit.rows()
    days = last_days(visit.rows_to_sum_up(), now.date(), _DAYS)
    urls = [_day_url(visit, f"{each.date}") for each in days]
    comparison = visit.comparison()
    answers, remark = ([], None) if comparison is None else _answers(comparison)
    return visit.page(
        "overview",
        has_sessions=not rows.is_empty(),
        sources=sources(rows, now.date()),
        unread_bytes=_unread_bytes(visit),
        now=now,
        days=list(zip(days, urls, strict=True)),
        chart=days_chart(days, urls),
        needs=sorted([*_for_all(visit), *_needs(visit)], key=lambda each: not each.is_urgent),
        answers=answers,
        costs=[
            (name, days, cost, _trends_url(visit, days))
            for name, days, cost in costs_of_ranges(rows, now.date())
        ],
        remark=remark,
        is_compared=comparison is not None,
    )


def _day_url(visit: Visit, day: str) -> str:
    return visit.frame.url("/sessions", **{"from": day, "to": day})


def _trends_url(visit: Visit, days: DayRange) -> str:
    return visit.frame.url("/trends", **{"from": f"{days.first}", "to": f"{days.last}"})


def _unread_bytes(visit: Visit) -> int | None:
    """Return what is not ingested yet; ``None`` for callers of one organization."""
    if visit.caller.organization is not None:
        return None
    return sum(each.unread_bytes or 0 for each in ingest_lags(visit.stores)[0])


def _needs(visit: Visit) -> Iterator[Need]:
    """Yield what concerns the sessions of the last week, by the state in the books of their day."""
    today = visit.installation.clock().date()
    lake = visit.stores.lake
    days = [each for each in lake.partitions(EVALUATION_BOOKS) if today - each <= _WEEK]
    books = lake.read(EVALUATION_BOOKS, days, ["organization_id", "state", "session_date"])
    if visit.organization is not None:
        books = books.filter(organization_id=visit.organization)
    for state, meaning in (("failed", "failed"), ("deferred", "was left for later")):
        of_state = books.filter(state=state)
        if not of_state.is_empty():
            newest = max(of_state["session_date"])
            url = visit.frame.url(f"/books/{newest}", state=state)
            what = f"Sessions of the last 7 days whose scoring {meaning}: {of_state.height}"
            yield Need(what, f"why, and what helps: the books of each day, such as {newest}", url)
    if number := len(waiting_samples(visit.stores, visit.organization)):
        what = f"Reviews that are due: {number}"
        yield Need(
            what, "scores of people, without seeing the judge's", visit.frame.url("/reviews")
        )


def _for_all(visit: Visit) -> Iterator[Need]:
    """Yield what concerns all organizations, for those who see all."""
    if visit.caller.organization is not None:
        return
    ledger, now = visit.stores.ledger, visit.installation.clock()
    alerts = [each for each in AlertStore(ledger).all() if each.ended_at is None]
    for each in reversed(alerts[-_MOST_ALERTS:]):
        text = without_sessions(each.alert.text, visit.waiting)
        text = f"{text}\nSince {each.raised_at:%Y-%m-%d %H:%M}."
        page, query = _PAGES.get(each.alert.kind, (None, {}))
        url = visit.frame.url(page, **query) if page else None
        yield Need(each.alert.title, text, url, is_urgent=True)
    queue = [each for each in RebuildQueue(ledger).all() if not each.is_built]
    if parked := [f"{each.session_date}" for each in queue if each.parked]:
        yield Need(f"Dates that cannot be built: {len(parked)}", ", ".join(parked), is_urgent=True)
    elif queue:
        yield Need(f"Dates to build: {len(queue)}", "make dev does it; or: build")
    if number := IngestBatches(ledger).totals(now - _WEEK).quarantined:
        what = f"Lines of the last 7 days in quarantine: {number}"
        yield Need(
            what, "what was not counted, why, and what to do", visit.frame.url("/quarantine")
        )


def _answers(comparison: Comparison) -> tuple[list[LabelAnswer], str | None]:
    """Return the answers for the labels with a ranking, and what to say of all without one."""
    found = findings(comparison)
    answers = []
    for each in found:
        if each.is_main and each.ranked:
            quality, money, *_ = answers_of(each, comparison)
            answers.append(LabelAnswer(each.label, quality.sentence, money.sentence))
    return answers[:_MOST_LABELS], without_ranking(found, comparison.question.min_runs)
