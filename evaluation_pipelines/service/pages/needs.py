"""What there is to do, for the overview: alerts, books, quarantine, reviews."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from evaluation_pipelines.alerts.alert_store import AlertStore, RaisedAlert
from evaluation_pipelines.alerts.domain.messages import (
    JUDGE_DOWN,
    OPEN_BOOKS,
    PARKED,
    QUALITY_RISKS,
    REGRESSION,
    STALE,
    regression_cause,
)
from evaluation_pipelines.alerts.risky_sessions import risky_sessions
from evaluation_pipelines.formatting import points
from evaluation_pipelines.reputation.external_signals import loaded_files
from evaluation_pipelines.schemas import EVALUATION_BOOKS, MODEL_REGRESSIONS
from evaluation_pipelines.scorecards.domain.why_low import why_low
from evaluation_pipelines.scorecards.domain.withheld import WAITS
from evaluation_pipelines.scorecards.open_samples import waiting_samples
from evaluation_pipelines.service.pages.domain.session_lines import those_at_risk
from evaluation_pipelines.service.pages.rendering import Visit
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.telemetry.quarantine.entries import count_unresolved

_WEEK = timedelta(days=7)
_MOST_ALERTS, _MOST_SESSIONS = 5, 5


@dataclass(frozen=True, slots=True)
class SessionLink:
    """A link to a session by start, agent and model, and why its score is low, or the score."""

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
        sessions: Sessions to look at.
        is_urgent: Whether it comes first.
    """

    what: str
    lines: Sequence[str] = ()
    url: str | None = None
    since: str | None = None
    sessions: Sequence[SessionLink] = ()
    is_urgent: bool = False


def needs(visit: Visit) -> list[Need]:
    """Return what there is to do, what is urgent first."""
    found = [*_for_all(visit), *_of_books(visit)]
    if number := len(waiting_samples(visit.stores, visit.organization)):
        lines = ["scores of people, without seeing the judge's"]
        found.append(Need(f"Reviews that are due: {number}", lines, visit.frame.url("/reviews")))
    return sorted(found, key=lambda each: not each.is_urgent)


def _of_books(visit: Visit) -> Iterator[Need]:
    """Yield what the books of the last week say of scorings, each with the newest day of it."""
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
            number = of_state.filter(session_date=newest).height
            before = of_state.height - number
            more = f"; {before} more on the {_WEEK.days} days before" if before else ""
            what = f"Sessions of {newest} whose scoring {meaning}: {number}"
            lines = [f"why, and what helps{more}"]
            yield Need(what, lines, visit.frame.url(f"/books/{newest}", state=state))


def _for_all(visit: Visit) -> Iterator[Need]:
    """Yield what concerns all organizations, for those who see all."""
    if visit.caller.organization is not None:
        return
    ledger, now = visit.stores.ledger, visit.installation.clock()
    alerts = [each for each in AlertStore(ledger).all() if each.ended_at is None]
    for each in reversed(alerts[-_MOST_ALERTS:]):
        if (need := _of_alert(visit, each)) is not None:
            yield need
    queue = [each for each in RebuildQueue(ledger).all() if not each.is_built]
    if parked := [f"{each.session_date}" for each in queue if each.parked]:
        yield Need(
            f"Dates that cannot be built: {len(parked)}", [", ".join(parked)], is_urgent=True
        )
    elif queue:
        yield Need(
            f"Dates to build: {len(queue)}",
            ["make dev builds them; or: evaluation-pipelines build"],
        )
    since = now.date() - _WEEK
    lines = count_unresolved(visit.stores, since)
    signals = int(loaded_files(visit.stores)["rejected"].sum())
    if lines + signals:
        parts = f"{lines} of telemetry, of the last 7 days, and {signals} of signals or evaluations"
        parts += "" if visit.organization is None else ", of all organizations"
        yield Need(
            f"Entries in quarantine: {lines + signals}",
            [f"{parts}: what was not counted, why, and what to do"],
            visit.frame.url("/quarantine", since=f"{since}"),
        )


def _of_alert(visit: Visit, raised: RaisedAlert) -> Need | None:
    """Return what an alert is about; ``None`` if there is nothing to show of it."""
    alert = raised.alert
    if alert.kind == QUALITY_RISKS:
        return _of_risks(visit, raised)
    if alert.kind == REGRESSION:
        return _of_regression(visit, raised)
    since, url = f"{raised.raised_at:%Y-%m-%d %H:%M}", None
    if alert.kind == STALE:
        rows = visit.rows().filter(source_cli=alert.cause)
        if rows.is_empty() and visit.organization is not None:
            return None
        newest = rows["ended_at"].max()
        since = f"{newest:%Y-%m-%d %H:%M}" if isinstance(newest, datetime) else since
        url = visit.frame.url("/sessions", program=alert.cause)
    elif alert.kind == JUDGE_DOWN:
        url = visit.frame.url("/sessions", judge="unscored")
    elif alert.kind in {OPEN_BOOKS, PARKED}:
        since, url = alert.cause, visit.frame.url(f"/books/{alert.cause}")
    return Need(alert.title, alert.text.splitlines(), url, since, is_urgent=True)


def _of_risks(visit: Visit, raised: RaisedAlert) -> Need | None:
    """Return the sessions of an alert that the visitor may see."""
    keys = risky_sessions(visit.stores.ledger, raised.alert_id) or frozenset()
    rows = those_at_risk(visit.rows(), keys)
    if rows.is_empty():
        return None
    number, first = rows.height, rows["started_at"].min()
    return Need(
        "1 session is a quality risk" if number == 1 else f"{number} sessions are a quality risk",
        url=visit.frame.url("/sessions", alert=raised.alert_id),
        since=f"{first:%Y-%m-%d %H:%M}" if isinstance(first, datetime) else None,
        sessions=_links(visit, rows),
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
        alert.title,
        alert.text.splitlines()[:1],
        visit.frame.url("/models", label=label),
        f"{since or raised.raised_at:%Y-%m-%d}",
        _links(visit, rows.filter(~pl.col(WAITS))),
        is_urgent=True,
    )


def _links(visit: Visit, rows: pl.DataFrame) -> list[SessionLink]:
    """Return links to the worst of some sessions."""
    worst = rows.sort("effective_100", nulls_last=True, maintain_order=True).head(_MOST_SESSIONS)
    return [
        SessionLink(
            f"{row['started_at']:%m-%d %H:%M} {_names(row)}",
            visit.frame.session_url(row["organization_id"], row["session_key"], "score"),
            why_low(row) or f"score {points(row['effective_100'])}",
        )
        for row in worst.iter_rows(named=True)
    ]


def _names(row: Mapping[str, Any]) -> str:
    return ", ".join(row[name] or "unknown" for name in ("agent_id", "model"))
