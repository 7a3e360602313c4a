"""Low scores that messages may show: current ones, of sessions that do not await a blind review."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import polars as pl

from evaluation_pipelines.attention.alert_store import AlertStore, alert_risks
from evaluation_pipelines.attention.domain.messages import QUALITY_RISKS, RaisedAlert
from evaluation_pipelines.scorecards.blind_reviews import BlindReviews, open_samples
from evaluation_pipelines.scorecards.domain.withheld import SessionKey
from evaluation_pipelines.scorecards.store import EvaluationEvent
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.ledger.ingest_batches import SessionIndex
from evaluation_pipelines.views.sessions import sessions


def waiting_sessions(stores: Stores) -> Collection[SessionKey]:
    """Return the sessions that await a blind review; if a file is damaged, all that may do so."""
    try:
        return BlindReviews(stores).waiting()
    except LakeError:
        return {sample.key for sample in open_samples(stores)}


def current_risks(
    stores: Stores,
    events: Mapping[SessionKey, EvaluationEvent],
    waiting: Collection[SessionKey],
) -> list[dict[str, Any]]:
    """Return the sessions of events whose current score is a risk and not withheld.

    Returns:
        Rows of sessions, the oldest event first.

    Raises:
        LakeError: A file of their dates cannot be read.
    """
    session_ids = {key.rpartition("#")[0] for _, key in events}
    places = SessionIndex(stores.ledger).dates_by_session_id(session_ids).values()
    days = {event.session_date for event in events.values()}
    days.update(day for pairs in places for _, day in pairs)  # a session may have moved
    is_one = pl.col("session_key").is_in(sorted({key for _, key in events}))
    rows = sessions(stores, sorted(days), is_one, waiting=waiting).filter("quality_risk")
    found = {(row["organization_id"], row["session_key"]): row for row in rows.to_dicts()}
    return [found[key] for key in events if key in found and key not in waiting]


def alert_events(
    ledger: Ledger, raised: Sequence[RaisedAlert]
) -> dict[int, dict[SessionKey, EvaluationEvent]]:
    """Return the events of each alert of quality risks, by its id.

    A session that a later alert has, too, is left to that one.
    """
    ours = [row.alert_id for row in raised if row.alert.kind == QUALITY_RISKS]
    if not ours:
        return {}
    known = AlertStore(ledger).all()
    found = alert_risks(ledger, known, {row.alert_id for row in known if row.alert_id >= ours[0]})
    seen = set[SessionKey]()
    for alert_id in sorted(found, reverse=True):
        events, found[alert_id] = found[alert_id], {}
        found[alert_id] = {key: event for key, event in events.items() if key not in seen}
        seen.update(events)
    return found
