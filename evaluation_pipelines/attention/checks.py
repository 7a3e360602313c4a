"""Periodic alert checks: the items that are sent, new risks, and spending."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from logging import Logger

from evaluation_pipelines.attention.alert_store import RISK_DAYS, AlertStore
from evaluation_pipelines.attention.domain.items import alert_of, sent
from evaluation_pipelines.attention.domain.messages import (
    DAMAGED,
    NOT_CURRENT,
    PARKED,
    QUALITY_RISKS,
    REGRESSION,
    RISE,
    STALE,
    quality_risk_alert,
)
from evaluation_pipelines.attention.gather import gather_sent
from evaluation_pipelines.attention.send import raise_alert, send_pending
from evaluation_pipelines.attention.spending import check_spending
from evaluation_pipelines.scorecards.domain.evaluation_events import QUALITY_RISK
from evaluation_pipelines.scorecards.ledger.event_store import EventStore
from evaluation_pipelines.storage.damage import find_damage
from evaluation_pipelines.storage.lake import DamagedPartError
from evaluation_pipelines.storage.stores import Stores

_NAMES = {
    REGRESSION: "regressions",
    RISE: "rises",
    STALE: "silent sources",
    PARKED: "parked dates",
    DAMAGED: "damaged files",
}


def check_alerts(stores: Stores, now: datetime, log: Logger) -> dict[str, int]:
    """Run all checks once, raise new alerts, and end those whose cause is gone.

    A cause that returns raises a new alert.

    Returns:
        The number of new alerts of each kind and of undelivered alerts; zeros are left out.

    Raises:
        LakeError: A table cannot be read.
        LedgerError: The ledger cannot be used.
    """
    checks: dict[str, Callable[[Stores, datetime, Logger], int]] = {
        "quality risks": check_quality_risks,
        "spending": check_spending,
    }
    found = dict[str, int]()
    for name, check in checks.items():
        try:
            found[name] = check(stores, now, log)
        except DamagedPartError as error:
            log.warning("%s could not be checked: %s", name, error)
    found |= check_items(stores, now, log)  # at the end: the others may meet a damaged file
    unsent = send_pending(stores, now, log)
    return {name: number for name, number in {**found, "undelivered": unsent}.items() if number}


def check_items(stores: Stores, now: datetime, log: Logger) -> dict[str, int]:
    """Raise an alert for each item that is sent; return the number of new ones by kind.

    Raises:
        LakeError: A file cannot be read.
        LedgerError: The ledger cannot be used.
    """
    find_damage(stores)  # notes it in the queue
    found = dict[str, int]()
    facts = gather_sent(stores, now)
    if facts.silent is not None:  # whoever did it: all telemetry is read and built
        AlertStore(stores.ledger).end_except(NOT_CURRENT, (), now)
    for kind, items in sent(facts).items():
        if items is None:  # it is not known what has ended
            continue
        AlertStore(stores.ledger).end_except(kind, items, now)
        alerts = [alert_of(cause, item) for cause, item in items.items()]
        found[_NAMES[kind]] = sum(raise_alert(stores, each, now, log) for each in alerts)
    return found


def check_quality_risks(stores: Stores, now: datetime, log: Logger) -> int:
    """Raise one alert for all risks since the last such alert; return the number of new alerts.

    The cause of the alert is the position of its newest risk in the list of events.
    """
    last = AlertStore(stores.ledger).newest(QUALITY_RISKS)
    position = int(last.alert.cause) if last else 0
    first_day = now.date() - timedelta(days=RISK_DAYS)
    risks = EventStore(stores.ledger).of_kind(QUALITY_RISK, position, first_day)
    if not risks:
        return 0
    # A session that was scored again since has several events: its newest counts.
    newest = {(each.organization_id, each.session_key): json.loads(each.payload) for each in risks}
    alert = quality_risk_alert(str(risks[-1].position), list(newest.values()))
    return int(raise_alert(stores, alert, now, log))
