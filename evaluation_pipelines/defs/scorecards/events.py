"""Events about effective scores as observations of their asset."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from evaluation_pipelines.schemas.announcement import Announcement

MAX_OBSERVATIONS = 50
"""Observations of one run. If there would be more, the events of a date are only counted, in the
metadata of its materialization.

A backfill has thousands of events, and Dagster stores each as slowly as a whole partition.
"""


@dataclass(slots=True)
class Observations:
    """Observations of a run; the ledger has every event in ``evaluation_events``."""

    asset: str
    _count: int = 0

    def of(self, events: Sequence[Announcement]) -> list[dg.AssetObservation]:
        """Return an observation for each event of a date, or none if they would be too many."""
        if self._count + len(events) > MAX_OBSERVATIONS:
            return []
        self._count += len(events)
        return [_observation(self.asset, each) for each in events]


def event_counts(events: Sequence[Announcement]) -> dict[str, dg.MetadataValue]:
    """Return the number of new events of each kind as metadata of their partition."""
    kinds = Counter(each.kind for each in events)
    return {f"new {kind}": dg.MetadataValue.int(number) for kind, number in sorted(kinds.items())}


def _observation(asset: str, event: Announcement) -> dg.AssetObservation:
    return dg.AssetObservation(
        asset,
        partition=event.session_date.isoformat(),
        description=event.kind,
        metadata={
            "event": event.kind,
            "event_id": event.event_id,
            "session_key": event.session_key,
            "effective_100": event.effective_100,
            "payload": dg.MetadataValue.json(event.payload_values()),
        },
        tags={"event": event.kind},
    )
