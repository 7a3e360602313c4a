"""Events about effective scores, as the event log of the asset shows them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date

import dagster as dg

from evaluation_pipelines.domain.scorecards.announcements import Announcement

SHOWN_ONE_BY_ONE = 50
"""More new events of one date are told in one line for each kind: a backfill has thousands."""


def observations(
    asset: str, day: date, news: Sequence[Announcement]
) -> Iterator[dg.AssetObservation]:
    """What was announced of a date; every event is in the ledger's ``evaluation_events``."""
    if len(news) <= SHOWN_ONE_BY_ONE:
        yield from (_one(asset, each) for each in news)
        return
    for kind, number in sorted(Counter(each.kind for each in news).items()):
        yield dg.AssetObservation(
            asset,
            partition=day.isoformat(),
            description=f"{number} x {kind}",
            metadata={"event": kind, "events": number},
            tags={"event": kind},
        )


def _one(asset: str, each: Announcement) -> dg.AssetObservation:
    return dg.AssetObservation(
        asset,
        partition=each.session_date.isoformat(),
        description=each.kind,
        metadata={
            "event": each.kind,
            "event_id": each.event_id,
            "session_key": each.session_key,
            "effective_100": each.effective_100,
            "payload": dg.MetadataValue.json(each.payload_values()),
        },
        tags={"event": each.kind},
    )
