"""The sessions that an alert of quality risks is about."""

from datetime import timedelta

from evaluation_pipelines.alerts.alert_store import AlertStore, RaisedAlert
from evaluation_pipelines.alerts.domain.messages import QUALITY_RISKS
from evaluation_pipelines.scorecards.domain.evaluation_events import QUALITY_RISK
from evaluation_pipelines.scorecards.domain.withheld import SessionKey
from evaluation_pipelines.scorecards.ledger.event_store import EventStore
from evaluation_pipelines.storage.ledger.ledger import Ledger

RISK_DAYS = 7
"""Risks of sessions older than this raise no alert; they are among the evaluation events."""


def risky_sessions(ledger: Ledger, alert_id: int) -> frozenset[SessionKey] | None:
    """Return the sessions of an alert; ``None`` if there is no such alert of quality risks.

    Its cause is the position of its newest event, and it has all events since the alert before.
    """
    alerts = [each for each in AlertStore(ledger).all() if each.alert.kind == QUALITY_RISKS]
    place = next((at for at, each in enumerate(alerts) if each.alert_id == alert_id), None)
    if place is None:
        return None
    first = _position(alerts[place - 1]) if place else 0
    found, last = alerts[place], _position(alerts[place])
    first_day = found.raised_at.date() - timedelta(days=RISK_DAYS)
    events = EventStore(ledger).of_kind(QUALITY_RISK, first, first_day)
    return frozenset(
        (each.organization_id, each.session_key) for each in events if each.position <= last
    )


def _position(raised: RaisedAlert) -> int:
    return int(raised.alert.cause)
