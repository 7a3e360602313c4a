"""Periodic alert checks: risks, regressions, silent sources, spending, parked and damaged dates.

A check also ends alerts whose cause is gone, so that a cause that returns raises a new alert.
"""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from logging import Logger

import polars as pl

from evaluation_pipelines.alerts.alert_store import AlertStore
from evaluation_pipelines.alerts.domain.messages import (
    DAMAGED,
    NOT_CURRENT,
    PARKED,
    QUALITY_RISKS,
    REGRESSION,
    STALE,
    damaged_date_alert,
    quality_risk_alert,
    regression_alert,
    regression_cause,
    stale_source_alert,
)
from evaluation_pipelines.alerts.risky_sessions import RISK_DAYS
from evaluation_pipelines.alerts.send import raise_alert, send_pending
from evaluation_pipelines.alerts.spending import check_spending
from evaluation_pipelines.schemas import AGENT_SESSIONS, MODEL_REGRESSIONS
from evaluation_pipelines.scorecards.domain.evaluation_events import QUALITY_RISK
from evaluation_pipelines.scorecards.ledger.event_store import EventStore
from evaluation_pipelines.storage.damage import find_damage
from evaluation_pipelines.storage.lake import DamagedPartError
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.unread_files import find_unread_files, has_complete_line

SOURCE_DAYS = 30
"""A source that was silent for longer is no longer expected to send telemetry."""


def check_alerts(stores: Stores, now: datetime, log: Logger) -> dict[str, int]:
    """Run all checks once and raise new alerts.

    Returns:
        The number of new alerts of each kind and of undelivered alerts; zeros are left out.

    Raises:
        LakeError: A table cannot be read.
        LedgerError: The ledger cannot be used.
    """
    parked = [
        each for each in RebuildQueue(stores.ledger).all() if each.parked and not each.is_built
    ]
    AlertStore(stores.ledger).end_except(PARKED, {str(each.session_date) for each in parked}, now)
    checks: dict[str, Callable[[Stores, datetime, Logger], int]] = {
        "quality risks": check_quality_risks,
        "regressions": check_regressions,
        "silent sources": check_silent_sources,
        "spending": check_spending,
        "damaged dates": check_damage,  # at the end: the others may meet a damaged file
    }
    found = dict[str, int]()
    for name, check in checks.items():
        try:
            found[name] = check(stores, now, log)
        except DamagedPartError as error:
            log.warning("%s could not be checked: %s", name, error)
    unsent = send_pending(stores, now, log)
    return {name: number for name, number in {**found, "undelivered": unsent}.items() if number}


def check_damage(stores: Stores, now: datetime, log: Logger) -> int:
    """Raise an alert for each date with a damaged file; return the number of new alerts."""
    find_damage(stores)  # notes it in the queue
    damage = {each.session_date: each.damage for each in RebuildQueue(stores.ledger).all()}
    alerts = [damaged_date_alert(day, what) for day, what in damage.items() if what]
    AlertStore(stores.ledger).end_except(DAMAGED, {each.cause for each in alerts}, now)
    return sum(raise_alert(stores, each, now, log) for each in alerts)


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


def check_regressions(stores: Stores, now: datetime, log: Logger) -> int:
    """Raise an alert for each model that got worse; return the number of new alerts."""
    rows = stores.lake.read_whole(MODEL_REGRESSIONS).filter(state="alert").rows(named=True)
    AlertStore(stores.ledger).end_except(REGRESSION, {regression_cause(row) for row in rows}, now)
    # Rows of an earlier version do not say since when; the next comparison replaces them.
    told = [row for row in rows if row["window_since"] is not None]
    return sum(raise_alert(stores, regression_alert(row), now, log) for row in told)


def check_silent_sources(stores: Stores, now: datetime, log: Logger) -> int:
    """Raise an alert for each agent program that is silent; return the number of new alerts.

    Does nothing while telemetry waits to be read or built: the tables are not up to date then.
    """
    if _is_behind(stores, now):
        return 0
    # Whoever did it: nothing is left that a service failed to read and build.
    AlertStore(stores.ledger).end_except(NOT_CURRENT, (), now)
    limit = timedelta(hours=stores.settings.stale_telemetry_hours)
    newest = _newest_events(stores, now)
    silent = {source: at for source, at in newest.items() if now - at > limit}
    # The alert of a source that is no longer expected stays open, so that it is not sent again.
    alerted = {
        each.alert.cause for each in AlertStore(stores.ledger).all() if each.alert.kind == STALE
    }
    AlertStore(stores.ledger).end_except(STALE, silent.keys() | (alerted - newest.keys()), now)
    return sum(
        raise_alert(stores, stale_source_alert(source, at, limit), now, log)
        for source, at in sorted(silent.items())
    )


def _is_behind(stores: Stores, now: datetime) -> bool:
    """True if some telemetry is not in the tables yet."""
    if RebuildQueue(stores.ledger).pending(now):
        return True
    unread, _ = find_unread_files(stores)
    return any(has_complete_line(stores, each) for each in unread)


def _newest_events(stores: Stores, now: datetime) -> dict[str, datetime]:
    """Return the time of the newest event of each agent program seen within SOURCE_DAYS."""
    since = now.date() - timedelta(days=SOURCE_DAYS)
    days = [day for day in stores.lake.partitions(AGENT_SESSIONS) if day >= since]
    sessions = stores.lake.read(AGENT_SESSIONS, days, ("source_cli", "ended_at"))
    newest = sessions.group_by("source_cli").agg(pl.max("ended_at")).drop_nulls()
    return dict(newest.iter_rows())
