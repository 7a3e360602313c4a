"""Alerts in the ledger: raised, sent and ended; and the sessions of those about risks."""

import json
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta

import sqlalchemy as sa

from evaluation_pipelines.attention.domain.messages import (
    QUALITY_RISKS,
    Alert,
    RaisedAlert,
    quality_risk_alert,
    without_sessions,
)
from evaluation_pipelines.scorecards.domain.evaluation import QUALITY_RISK
from evaluation_pipelines.scorecards.domain.withheld import SessionKey
from evaluation_pipelines.scorecards.store import EvaluationEvent, EventStore
from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.service_events import append_events
from evaluation_pipelines.storage.ledger.tables.people import ALERTS
from evaluation_pipelines.times import to_us

_ALERT = ALERTS.c

RISK_DAYS = 7
"""Risks of sessions older than this raise no alert; they are among the evaluation events."""


class AlertStore:
    """Operations on the table ``alerts``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def put(self, alert: Alert, now: datetime) -> bool:
        """Store an alert, unless one of the same kind and cause is open.

        Returns:
            True if the alert is new.
        """
        known = sa.select(_ALERT.alert_id).where(
            _ALERT.kind == alert.kind, _ALERT.cause == alert.cause, _ALERT.over_at.is_(None)
        )
        with reading(self._engine) as connection:
            if connection.scalar(known) is not None:  # the usual case: do not take the write lock
                return False
        with writing(self._engine) as connection:
            row = asdict(alert) | {"raised_at": now}
            insert = insert_into(connection, ALERTS).values(row).on_conflict_do_nothing()
            is_new = connection.scalar(insert.returning(_ALERT.alert_id)) is not None
            if is_new:
                append_events(connection, [_event("alert.raised", alert, now)])
            return is_new

    def reopen(self, alert: Alert, now: datetime) -> bool:
        """Open an ended alert of the same kind and cause again, with its new text.

        It is not sent again. Returns False if there is no such alert.
        """
        same = _ALERT.kind == alert.kind, _ALERT.cause == alert.cause
        newest = sa.select(sa.func.max(_ALERT.alert_id)).where(*same).scalar_subquery()
        update = (
            sa.update(ALERTS)
            .where(_ALERT.alert_id == newest, _ALERT.over_at.is_not(None))
            .values(title=alert.title, text=alert.text, over_at=None)
        )
        with writing(self._engine) as connection:
            is_found = connection.execute(update).rowcount > 0
            if is_found:
                append_events(connection, [_event("alert.raised", alert, now)])
            return is_found

    def unsent(self) -> list[RaisedAlert]:
        """Return the alerts that the webhook has not accepted yet, oldest first."""
        return self._select(_ALERT.told_at.is_(None))

    def all(self) -> list[RaisedAlert]:
        """Return every alert, ended ones included, oldest first."""
        return self._select()

    def newest(self, kind: str) -> RaisedAlert | None:
        """Return the alert of a kind that was raised last."""
        query = sa.select(sa.func.max(_ALERT.alert_id)).where(_ALERT.kind == kind)
        return next(iter(self._select(_ALERT.alert_id == query.scalar_subquery())), None)

    def mark_sent(self, alert_id: int, now: datetime) -> None:
        """Note that the webhook has accepted an alert."""
        update = sa.update(ALERTS).where(_ALERT.alert_id == alert_id).values(told_at=now)
        with writing(self._engine) as connection:
            connection.execute(update)

    def end(self, kind: str, causes: Collection[str], now: datetime) -> None:
        """End the open alerts of a kind whose cause is in ``causes``.

        When an ended cause returns, a new alert is raised.
        """
        matching = _ALERT.kind == kind, _ALERT.cause.in_(causes), _ALERT.over_at.is_(None)
        if not self._select(*matching):  # the usual case: do not take the write lock
            return
        update = sa.update(ALERTS).where(*matching).values(over_at=now)
        columns = _ALERT.kind, _ALERT.cause, _ALERT.title, _ALERT.text
        with writing(self._engine) as connection:
            ended = [Alert(*row) for row in connection.execute(update.returning(*columns))]
            append_events(connection, [_event("alert.ended", alert, now) for alert in ended])

    def end_except(self, kind: str, lasting: Collection[str], now: datetime) -> None:
        """End the open alerts of a kind whose cause is not in ``lasting``."""
        still_open = self._select(_ALERT.kind == kind, _ALERT.over_at.is_(None))
        self.end(kind, {alert.alert.cause for alert in still_open}.difference(lasting), now)

    def _select(self, *conditions: sa.ColumnElement[bool]) -> list[RaisedAlert]:
        query = sa.select(ALERTS).where(*conditions).order_by(_ALERT.alert_id)
        with reading(self._engine) as connection:
            return [
                RaisedAlert(
                    row["alert_id"],
                    Alert(row["kind"], row["cause"], row["title"], row["text"]),
                    row["raised_at"],
                    sent_at=row["told_at"],
                    ended_at=row["over_at"],
                )
                for row in connection.execute(query).mappings()
            ]


def _event(type_: str, alert: Alert, now: datetime) -> dict[str, object]:
    payload = json.dumps(asdict(alert))
    return {"type": type_, "timestamp_us": to_us(now), "payload": payload}


def visible_alerts(
    ledger: Ledger,
    alerts: Sequence[Alert],
    waiting: Collection[SessionKey],
    known: Sequence[RaisedAlert] | None = None,
) -> list[Alert | None]:
    """Return alerts without the sessions ``waiting``; ``None`` for one that has no others.

    A session listed as below its threshold reveals its score, so neither the text nor the count
    includes it. An alert of quality risks whose sessions are not known is left out.

    Args:
        ledger: The ledger.
        alerts: The alerts.
        waiting: Sessions that await a blind review.
        known: Alerts with all of quality risks, the oldest first. Default: from the ledger.
    """
    if not waiting:
        return list(alerts)
    causes = {alert.cause for alert in alerts if alert.kind == QUALITY_RISKS}
    if known is None:
        known = AlertStore(ledger).all() if causes else ()
    ids = {row.alert_id: row.alert.cause for row in known if row.alert.cause in causes}
    risks = {ids[found]: keys for found, keys in alert_risks(ledger, known, ids).items()}
    return [_visible(alert, risks.get(alert.cause, {}), waiting) for alert in alerts]


def _visible(
    alert: Alert, risks: Mapping[SessionKey, EvaluationEvent], waiting: Collection[SessionKey]
) -> Alert | None:
    if alert.kind != QUALITY_RISKS:
        return without_sessions(alert, waiting)
    shown = [json.loads(event.payload) for key, event in risks.items() if key not in waiting]
    if shown and len(shown) == len(risks):
        return alert
    return quality_risk_alert(alert.cause, shown) if shown else None


def risky_sessions(ledger: Ledger, alert_id: int) -> Collection[SessionKey] | None:
    """Return the sessions of an alert; ``None`` if there is no such alert of quality risks."""
    return alert_risks(ledger, AlertStore(ledger).all(), {alert_id}).get(alert_id)


def alert_risks(
    ledger: Ledger, alerts: Sequence[RaisedAlert], alert_ids: Collection[int]
) -> dict[int, dict[SessionKey, EvaluationEvent]]:
    """Return the newest events of the sessions of some alerts of quality risks, by alert id.

    Alerts of other kinds have none. The cause of an alert is the position of its newest event, and
    it has all events since the alert before.

    Args:
        ledger: The ledger.
        alerts: All alerts, the oldest first.
        alert_ids: Ids of those to look at.
    """
    risks = [alert for alert in alerts if alert.alert.kind == QUALITY_RISKS]
    places = [at for at, risk in enumerate(risks) if risk.alert_id in alert_ids]
    if not places:
        return {}
    lasts = [int(risk.alert.cause) for risk in risks]
    first_days = [risk.raised_at.date() - timedelta(days=RISK_DAYS) for risk in risks]
    start = lasts[places[0] - 1] if places[0] else 0
    found: dict[int, dict[SessionKey, EvaluationEvent]] = {place: {} for place in places}
    events = EventStore(ledger).of_kind(QUALITY_RISK, start, min(first_days[at] for at in places))
    for event in events:
        place = bisect_left(lasts, event.position)
        if place in found and event.session_date >= first_days[place]:
            found[place][event.organization_id, event.session_key] = event
    return {risks[place].alert_id: keys for place, keys in found.items()}
