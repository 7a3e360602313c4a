"""Events about effective scores, as the event log of the asset shows them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

import dagster as dg

from evaluation_pipelines.domain.scorecards.announcements import Announcement

SHOWN_ONE_BY_ONE = 50
"""More new events of one run are told in one line for each date and kind.

A backfill has thousands, and the interface's store takes each as slowly as a whole partition.
"""


@dataclass(slots=True)
class Observations:
    """What a run announces; every event is in the ledger's ``evaluation_events``."""

    asset: str
    _shown: int = 0

    def of(self, day: date, news: Sequence[Announcement]) -> Iterator[dg.AssetObservation]:
        """The events of a date, one by one while there is room for all of them."""
        if self._shown + len(news) <= SHOWN_ONE_BY_ONE:
            self._shown += len(news)
            yield from (_one(self.asset, each) for each in news)
        else:
            yield from _counted(self.asset, day, news)


def _counted(asset: str, day: date, news: Sequence[Announcement]) -> Iterator[dg.AssetObservation]:
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
