"""Notes of ``ingest`` and ``score``: records that are no events, and values that were changed."""

from collections.abc import Iterator

from evaluation_pipelines.settings import Settings
from evaluation_pipelines.telemetry.domain.shapes import IngestCounts


def ingest_notes(counts: IngestCounts, settings: Settings) -> Iterator[str]:
    """Yield the numbers of records that are not events and of values that were changed."""
    of_record = counts.time_anomalies - counts.times_observed - counts.times_of_ingest
    for what, number in (
        ("attribution lines", counts.attribution_lines),
        ("metrics, not used", counts.skipped),
        ("unrecognized records", counts.unknown_records),
        ("repeated records", counts.repeated_records),
        ("records without a session", counts.unattributed),
        ("events of what was forgotten, left out", counts.forgotten),
        ("unreadable event.timestamp, replaced by the time of the record", of_record),
        ("times unreadable or impossible, replaced by the observed time", counts.times_observed),
        ("times missing or impossible, replaced by the time of ingest", counts.times_of_ingest),
        ("impossible values, set to null", counts.value_anomalies),
        (f"events before {settings.start_date}, assigned to that date", counts.out_of_range),
    ):
        if number:
            yield f"{what}: {number}"
