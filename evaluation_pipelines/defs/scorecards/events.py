"""Events about effective scores, as the event log of the asset shows them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from evaluation_pipelines.schemas.announcement import Announcement

SHOWN_ONE_BY_ONE = 50
"""More new events of one run are counted with their date, as metadata of its materialization.

A backfill has thousands, and the interface's store takes each as slowly as a whole partition.
"""


@dataclass(slots=True)
class Observations:
    """What a run announces; every event is in the ledger's ``evaluation_events``."""

    asset: str
    _shown: int = 0

    def of(self, news: Sequence[Announcement]) -> list[dg.AssetObservation]:
        """The events of a date, one by one, while there is room for all of them."""
        if self._shown + len(news) > SHOWN_ONE_BY_ONE:
            return []
        self._shown += len(news)
        return [_one(self.asset, each) for each in news]


def counted(news: Sequence[Announcement]) -> dict[str, dg.MetadataValue]:
    """How many events of each kind are new, for the partition they belong to."""
    kinds = Counter(each.kind for each in news)
    return {f"new {kind}": dg.MetadataValue.int(number) for kind, number in sorted(kinds.items())}


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
