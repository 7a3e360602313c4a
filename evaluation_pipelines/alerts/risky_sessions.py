"""The sessions that an alert of quality risks is about."""

from bisect import bisect_left
from collections.abc import Collection, Sequence
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
    return sessions_of_alerts(ledger, AlertStore(ledger).all(), {alert_id}).get(alert_id)


def sessions_of_alerts(
    ledger: Ledger, alerts: Sequence[RaisedAlert], alert_ids: Collection[int]
) -> dict[int, frozenset[SessionKey]]:
    """Return the sessions of some alerts of quality risks by id; other kinds have none.

    Args:
        ledger: The ledger.
        alerts: All alerts, the oldest first.
        alert_ids: Ids of those to look at.
    """
    risks = [each for each in alerts if each.alert.kind == QUALITY_RISKS]
    places = [at for at, each in enumerate(risks) if each.alert_id in alert_ids]
    if not places:
        return {}
    lasts = [_position(each) for each in risks]
    first_days = [each.raised_at.date() - timedelta(days=RISK_DAYS) for each in risks]
    start = lasts[places[0] - 1] if places[0] else 0
    found: dict[int, set[SessionKey]] = {place: set() for place in places}
    events = EventStore(ledger).of_kind(QUALITY_RISK, start, min(first_days[at] for at in places))
    for each in events:
        place = bisect_left(lasts, each.position)
        if place in found and each.session_date >= first_days[place]:
            found[place].add((each.organization_id, each.session_key))
    return {risks[place].alert_id: frozenset(keys) for place, keys in found.items()}


def _position(raised: RaisedAlert) -> int:
    return int(raised.alert.cause)
