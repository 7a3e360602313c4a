"""What is looked at from time to time, to tell people of it: risks, regressions, silent sources.

What comes to an end is noted as well, so that it is told again when it comes back.
"""

import json
from datetime import datetime, timedelta
from logging import Logger

import polars as pl

from evaluation_pipelines.alerts.alert_store import AlertStore
from evaluation_pipelines.alerts.domain.messages import (
    PARKED,
    QUALITY_RISKS,
    REGRESSION,
    STALE,
    of_quality_risks,
    of_regression,
    of_stale_source,
    regression_cause,
)
from evaluation_pipelines.alerts.send import alert, send_pending
from evaluation_pipelines.schemas import AGENT_SESSIONS, MODEL_REGRESSIONS
from evaluation_pipelines.scorecards.domain.evaluation_events import QUALITY_RISK
from evaluation_pipelines.scorecards.ledger.event_store import EventStore
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.unread_files import find_unread_files, holds_complete_line

RISK_DAYS = 7
"""Risks of older sessions are history, scored late: they are in the events and in no alert."""

SOURCE_DAYS = 30
"""A source that was silent for longer is not expected any more."""


def check_alerts(stores: Stores, now: datetime, log: Logger) -> dict[str, int]:
    """Look at everything once and tell what is new; gives how many alerts of each kind.

    Raises:
        LakeError: a table cannot be read.
        LedgerError: the ledger cannot be used.
    """
    parked = [
        each for each in RebuildQueue(stores.ledger).all() if each.parked and not each.is_built
    ]
    AlertStore(stores.ledger).end(PARKED, {str(each.session_date) for each in parked}, now)
    found = {
        "quality risks": alert_quality_risks(stores, now, log),
        "regressions": alert_regressions(stores, now, log),
        "silent sources": alert_silent_sources(stores, now, log),
    }
    waiting = send_pending(stores, now, log)
    return {name: number for name, number in {**found, "undelivered": waiting}.items() if number}


def alert_quality_risks(stores: Stores, now: datetime, log: Logger) -> int:
    """One alert about all risks since the last one; gives how many alerts were raised.

    The place in the list of events up to which was told is the cause of that alert.
    """
    last = AlertStore(stores.ledger).newest(QUALITY_RISKS)
    position = int(last.alert.cause) if last else 0
    first_day = now.date() - timedelta(days=RISK_DAYS)
    risks = EventStore(stores.ledger).of_kind(QUALITY_RISK, position, first_day)
    if not risks:
        return 0
    payloads = [json.loads(each.payload) for each in risks]
    return int(alert(stores, of_quality_risks(str(risks[-1].position), payloads), now, log))


def alert_regressions(stores: Stores, now: datetime, log: Logger) -> int:
    """One alert for each model that the last comparison found to be worse than before."""
    rows = stores.lake.read_whole(MODEL_REGRESSIONS).filter(state="alert").rows(named=True)
    AlertStore(stores.ledger).end(REGRESSION, {regression_cause(row) for row in rows}, now)
    return sum(alert(stores, of_regression(row), now, log) for row in rows)


def alert_silent_sources(stores: Stores, now: datetime, log: Logger) -> int:
    """One alert for each agent program of which nothing has come for too long.

    Not while something that came is still to be read or built: the tables are behind then.
    """
    if _is_behind(stores, now):
        return 0
    limit = timedelta(hours=stores.settings.stale_telemetry_hours)
    newest = _newest_events(stores, now)
    silent = {source: at for source, at in newest.items() if now - at > limit}
    # One that is not expected any more stays told.
    known = {
        each.alert.cause for each in AlertStore(stores.ledger).all() if each.alert.kind == STALE
    }
    AlertStore(stores.ledger).end(STALE, silent.keys() | (known - newest.keys()), now)
    return sum(
        alert(stores, of_stale_source(source, at, limit), now, log)
        for source, at in sorted(silent.items())
    )


def _is_behind(stores: Stores, now: datetime) -> bool:
    """Whether there is telemetry that the tables do not show yet."""
    if RebuildQueue(stores.ledger).pending(now):
        return True
    arrivals, _ = find_unread_files(stores)
    return any(holds_complete_line(stores, each) for each in arrivals)


def _newest_events(stores: Stores, now: datetime) -> dict[str, datetime]:
    """Time of the newest event of each agent program that was heard of lately."""
    since = now.date() - timedelta(days=SOURCE_DAYS)
    days = [day for day in stores.lake.partitions(AGENT_SESSIONS) if day >= since]
    sessions = stores.lake.read(AGENT_SESSIONS, days, ("source_cli", "ended_at"))
    newest = sessions.group_by("source_cli").agg(pl.max("ended_at")).drop_nulls()
    return dict(newest.iter_rows())
