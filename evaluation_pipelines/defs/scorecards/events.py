"""Events about effective scores as observations of their asset."""

from dataclasses import dataclass

import dagster as dg

from evaluation_pipelines.schemas.scorecards import MAX_SHOWN, Announced, Announcement

MAX_OBSERVATIONS = MAX_SHOWN
"""Observations of one run. If there would be more, the events of a date are only counted, in the
metadata of its materialization.

A backfill has thousands of events, and Dagster stores each as slowly as a whole partition.
"""


@dataclass(slots=True)
class Observations:
    """Observations of a run; the ledger has every event in ``service_events``."""

    asset: str
    _count: int = 0

    def of(self, announced: Announced) -> list[dg.AssetObservation]:
        """Return an observation for each event of a date, or none if they would be too many."""
        number = announced.counts.total()
        if self._count + number > MAX_OBSERVATIONS:
            return []
        self._count += number
        return [_observation(self.asset, each) for each in announced.events]


def event_counts(announced: Announced) -> dict[str, dg.MetadataValue]:
    """Return the number of new events of each kind as metadata of their partition."""
    kinds = sorted(announced.counts.items())
    return {f"new {kind}": dg.MetadataValue.int(number) for kind, number in kinds}


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
