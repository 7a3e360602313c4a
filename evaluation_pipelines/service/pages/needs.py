"""What there is to do, for the overview: alerts, books, quarantine, reviews."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import polars as pl

from evaluation_pipelines.alerts.alert_store import AlertStore, RaisedAlert
from evaluation_pipelines.alerts.domain.helping_pages import helping_page
from evaluation_pipelines.alerts.domain.messages import (
    DAMAGED,
    OPEN_BOOKS,
    PARKED,
    QUALITY_RISKS,
    REGRESSION,
    STALE,
    Alert,
    regression_cause,
)
from evaluation_pipelines.alerts.domain.risks import risks_of
from evaluation_pipelines.alerts.risky_sessions import sessions_of_alerts
from evaluation_pipelines.doctor.domain.diagnosis import READ_WITHIN
from evaluation_pipelines.formatting import points
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.schemas import AGENT_EVENTS, MODEL_REGRESSIONS
from evaluation_pipelines.scorecards.domain.evaluation import is_risk
from evaluation_pipelines.scorecards.domain.why_low import why_low
from evaluation_pipelines.scorecards.domain.withheld import WAITS, SessionKey
from evaluation_pipelines.scorecards.open_samples import waiting_samples
from evaluation_pipelines.service.pages.losses import QUARANTINE_DAYS, Quarantine
from evaluation_pipelines.service.pages.rendering import Visit
from evaluation_pipelines.storage.landing import LandingError
from evaluation_pipelines.storage.ledger.rebuild_queue import QueuedDate, RebuildQueue
from evaluation_pipelines.telemetry.unread_files import find_unread_files, unread_since

_WEEK = timedelta(days=7)
_MOST_ALERTS, _MOST_SESSIONS = 5, 5
_WORST = "Those with the lowest scores"
_RISK = "A quality risk is a score below the limit that its profile sets"


@dataclass(frozen=True, slots=True)
class NeedLink:
    """A link to what a need is about, such as a session, and what there is to say of it."""

    text: str
    url: str
    why: str


@dataclass(frozen=True, slots=True)
class Need:
    """Something to do.

    Attributes:
        what: What it is; a count in it is the length of the list at ``url``.
        lines: What helps.
        url: The page where one acts.
        since: When it began.
        links: What to look at.
        links_title: What the links are, for a list that is folded.
        is_urgent: Whether it comes first.
        number: How many things it stands for.
    """

    what: str
    lines: Sequence[str] = ()
    url: str | None = None
    since: str | None = None
    links: Sequence[NeedLink] = ()
    links_title: str = ""
    is_urgent: bool = False
    number: int = 1


def needs(visit: Visit, books: pl.DataFrame, lines: Quarantine | None) -> list[Need]:
    """Return what there is to do, what is urgent first.

    Args:
        visit: The visit.
        books: Counts of the books of the last days.
        lines: What is in quarantine; ``None`` for callers of one organization.
    """
    found = [*_for_all(visit), *_of_quarantine(visit, lines), *_of_books(visit, books)]
    if number := len(waiting_samples(visit.stores, visit.organization)):
        found.append(_of_reviews(visit, number))
    return sorted(found, key=lambda each: not each.is_urgent)


def _of_reviews(visit: Visit, number: int) -> Need:
    sessions = _counted(number, "session")
    what = f"Review {sessions} without seeing the judge's scores"
    why = "this shows how far automatic scores can be trusted"
    if not visit.sees_texts:
        what, why = f"Get {sessions} reviewed", f"{why}; it needs a key of the role reviewer"
    return Need(what, [why], visit.frame.url("/reviews"))


def _of_books(visit: Visit, books: pl.DataFrame) -> Iterator[Need]:
    """Yield what the books of the last week say of scorings, each with the newest day of it."""
    today = visit.installation.clock().date()
    books = books.filter(pl.col("session_date") >= today - _WEEK)
    for state, meaning in (("failed", "failed"), ("deferred", "was left for later")):
        of_state = books.filter(state=state)
        if not of_state.is_empty():
            newest = max(of_state["session_date"])
            number = int(of_state.filter(session_date=newest)["sessions"].sum())
            before = int(of_state["sessions"].sum()) - number
            more = [f"{before} more on the {_WEEK.days} days before"] if before else []
            sessions = _counted(number, "session")
            what = f"See why the scoring of {sessions} of {newest} {meaning}, and what helps"
            yield Need(what, more, visit.frame.url(f"/operations/books/{newest}", state=state))


def _of_quarantine(visit: Visit, lines: Quarantine | None) -> Iterator[Need]:
    if lines is None or not lines.lines:
        return
    parts = f"{lines.telemetry} of telemetry, of the last {QUARANTINE_DAYS} days, and "
    parts += f"{lines.signals} of signals or evaluations"
    parts += "" if visit.organization is None else ", of all organizations"
    what = f"See why {_counted(lines.lines, 'line')} could not be read, and what to do"
    yield Need(what, [parts], visit.frame.url("/operations/quarantine", since=f"{lines.since}"))


def _counted(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def _for_all(visit: Visit) -> Iterator[Need]:
    """Yield what concerns all organizations, for those who see all."""
    if visit.caller.organization is not None:
        return
    yield from _of_unread(visit)
    ledger = visit.stores.ledger
    dates = RebuildQueue(ledger).all()
    yield from damage_needs(visit)
    every = AlertStore(ledger).all()
    alerts = [each for each in every if each.ended_at is None]
    stale = [each.alert for each in alerts if each.alert.kind == STALE]
    yield from _of_stale(visit, stale)
    # The queue says which dates are parked or damaged.
    shown = {STALE, PARKED, DAMAGED}
    others = [each for each in reversed(alerts) if each.alert.kind not in shown]
    of_risks = _OfRisks.of(visit, every, {each.alert_id for each in others})
    found = [need for each in others if (need := _of_alert(visit, each, of_risks)) is not None]
    yield from found[:_MOST_ALERTS]
    if more := len(found[_MOST_ALERTS:]):
        what = f"See {_counted(more, 'more alert')}"
        yield Need(what, ["raised before these"], "/operations/doctor", is_urgent=True, number=more)
    queue = [each for each in dates if not each.is_built]
    if parked := [each for each in queue if each.parked]:
        yield _of_parked(visit, parked)
    elif queue:
        yield Need(
            f"Build {_counted(len(queue), 'date')}: evaluation-pipelines build",
            ["make serve does it by itself, and so does make dev"],
        )


def _of_unread(visit: Visit) -> Iterator[Need]:
    """Yield what arrived and is not read by what should run."""
    now, stores = visit.installation.clock(), visit.stores
    try:
        files, _ = find_unread_files(stores, in_order=False)
        since = unread_since(stores, files)
    except LandingError:  # the page of the doctor says why
        return
    size = sum(each.file.size_bytes - each.position for each in files)
    if since and (now - since > READ_WITHIN or not stores.lake.partitions(AGENT_EVENTS)):
        yield Need(
            f"Read {size:,} bytes of telemetry: evaluation-pipelines ingest, then build",
            ["make serve does both by itself, and so does make dev"],
            "/operations/doctor",
            f"{since:%Y-%m-%d %H:%M}",
            is_urgent=True,
        )


def damage_needs(visit: Visit) -> Iterator[Need]:
    """Yield what is damaged, by date."""
    dates = RebuildQueue(visit.stores.ledger).all()
    yield from (_of_damage(each.session_date, each.damage) for each in dates if each.damage)


def _of_damage(day: date, damage: str) -> Need:
    what, _, advice = damage.partition(". ")
    return Need(f"Repair the tables of {day}", [what, advice], "/operations/doctor", is_urgent=True)


def _of_parked(visit: Visit, parked: Sequence[QueuedDate]) -> Need:
    days = [
        NeedLink(
            f"{each.session_date}",
            visit.frame.url(f"/operations/books/{each.session_date}"),
            each.last_error or f"{each.attempts} attempts failed",
        )
        for each in parked
    ]
    return Need(
        f"See why {_counted(len(parked), 'date')} cannot be built",
        ["evaluation-pipelines status names the fault"],
        links=days,
        links_title=", ".join(each.text for each in days),
        is_urgent=True,
    )


def _of_alert(visit: Visit, raised: RaisedAlert, of_risks: "_OfRisks") -> Need | None:
    """Return what an alert is about; ``None`` if there is nothing to show of it."""
    alert = raised.alert
    if alert.kind == QUALITY_RISKS:
        return of_risks.need(raised)
    if alert.kind == REGRESSION:
        return _of_regression(visit, raised)
    since = f"{raised.raised_at:%Y-%m-%d %H:%M}" if alert.kind != OPEN_BOOKS else alert.cause
    page = helping_page(raised.alert_id, alert, visit.installation.settings.dagster_url)
    url = visit.frame.url(page) if page is not None and page.startswith("/") else page
    return Need(f"See why {alert.title}", alert.text.splitlines(), url, since, is_urgent=True)


def _of_stale(visit: Visit, alerts: Sequence[Alert]) -> Iterator[Need]:
    """Yield one need for all agent programs that have sent nothing for long."""
    newest = dict(visit.rows().group_by("source_cli").agg(pl.col("ended_at").max()).rows())
    shown = [each for each in alerts if visit.organization is None or each.cause in newest]
    if not shown:
        return
    _, *advice = shown[0].text.splitlines()
    programs = [
        NeedLink(
            each.cause,
            visit.frame.url("/sessions", program=each.cause),
            f"its newest event is from {newest[each.cause]:%Y-%m-%d %H:%M}"
            if each.cause in newest
            else each.title,
        )
        for each in shown
    ]
    what = f"Check {_counted(len(shown), 'agent program')} that sent nothing of late"
    names = ", ".join(each.text for each in programs)
    yield Need(
        what, advice, "/operations/doctor", links=programs, links_title=names, is_urgent=True
    )


@dataclass(frozen=True, slots=True)
class _OfRisks:
    """Needs of alerts of quality risks, of which there may be many.

    Attributes:
        visit: The visit.
        sessions: Sessions of each alert.
        rows: Rows of the session table of all these sessions that the visitor may see.
        is_risk: Whether the score of a row is a risk.
    """

    visit: Visit
    sessions: Mapping[int, frozenset[SessionKey]]
    rows: pl.DataFrame
    is_risk: pl.Expr

    @classmethod
    def of(
        cls, visit: Visit, alerts: Sequence[RaisedAlert], alert_ids: Collection[int]
    ) -> "_OfRisks":
        """Read what all of some alerts need."""
        ledger = visit.stores.ledger
        sessions = sessions_of_alerts(ledger, alerts, alert_ids)
        keys = sorted({key for of_alert in sessions.values() for _, key in of_alert})
        rows = visit.rows().filter(pl.col("session_key").is_in(keys))
        return cls(visit, sessions, rows, is_risk(ProfileStore(ledger).registry()))

    def need(self, raised: RaisedAlert) -> Need | None:
        """Return the sessions of an alert to look at that the visitor may see."""
        visit, keys = self.visit, self.sessions.get(raised.alert_id, ())
        seen = {key for key in keys if visit.organization in {None, key[0]}}
        if not seen:
            return None
        found = risks_of(self.rows, seen, self.is_risk)
        rows, fewer = found.rows, found.why_fewer()
        if rows.is_empty():
            return None
        first = rows["started_at"].min()
        return Need(
            f"Look at {found.title()}",
            [_RISK] if fewer is None else [_RISK, fewer],
            url=visit.frame.url("/sessions", alert=raised.alert_id),
            since=f"{first:%Y-%m-%d %H:%M}" if isinstance(first, datetime) else None,
            links=_links(visit, rows),
            links_title=_WORST,
            is_urgent=True,
        )


def _of_regression(visit: Visit, raised: RaisedAlert) -> Need | None:
    """Return which model got worse since when, and the worst sessions that show it.

    ``None`` if one organization is shown, and none of these sessions belongs to it.
    """
    alert, found = raised.alert, visit.stores.lake.read_whole(MODEL_REGRESSIONS)
    row = next((e for e in found.iter_rows(named=True) if regression_cause(e) == alert.cause), None)
    since = row["window_since"] if row else None
    worst = row["worst_sessions"] if row else []
    rows = visit.rows().filter(pl.col("session_key").is_in(worst))
    if rows.is_empty() and visit.organization is not None:
        return None
    label = row["classification_label"] if row else None
    return Need(
        f"See how {alert.title}",
        alert.text.splitlines()[:1],
        visit.frame.url("/models", label=label),
        f"{since or raised.raised_at:%Y-%m-%d}",
        _links(visit, rows.filter(~pl.col(WAITS))),
        _WORST,
        is_urgent=True,
    )


def _links(visit: Visit, rows: pl.DataFrame) -> list[NeedLink]:
    """Return links to the worst of some sessions."""
    worst = rows.sort("effective_100", nulls_last=True, maintain_order=True).head(_MOST_SESSIONS)
    return [
        NeedLink(
            f"{row['started_at']:%m-%d %H:%M} {_names(row)}",
            visit.frame.session_url(row["organization_id"], row["session_key"], "score"),
            why_low(row) or f"score {points(row['effective_100'])}",
        )
        for row in worst.iter_rows(named=True)
    ]


def _names(row: Mapping[str, Any]) -> str:
    return ", ".join(row[name] or "unknown" for name in ("agent_id", "model"))
