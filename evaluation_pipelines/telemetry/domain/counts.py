"""Counts of ingest: every line and every record is in exactly one of them."""

from dataclasses import dataclass, fields


@dataclass(slots=True)
class IngestCounts:
    """Sums over any amount of telemetry.

    Attributes:
        bytes: Bytes consumed, including newlines.
        lines: Lines that were not empty.
        skipped: Metrics, which are not used.
        quarantined: Lines or single records that could not be read.
        attribution_lines: Attribution lines.
        events: Rows stored.
        unknown_records: Records that no dialect recognizes; counted by name.
        repeated_records: Records that repeat another one, as determined by their dialect.
        unattributed: Records without a session.
        time_anomalies: Events with an unreadable or impossible time that was replaced.
        times_observed: Those of them that have the observed time.
        times_of_ingest: Those of them that have the time of ingest.
        value_anomalies: Invalid single values that became null.
        out_of_range: Events of sessions that began before the first partition.
        forgotten: Events of sessions that were forgotten, and are left out.
        spans: Spans read: each gives one or more events, or is counted by name.
    """

    bytes: int = 0
    lines: int = 0
    skipped: int = 0
    quarantined: int = 0
    attribution_lines: int = 0
    events: int = 0
    unknown_records: int = 0
    repeated_records: int = 0
    unattributed: int = 0
    time_anomalies: int = 0
    times_observed: int = 0
    times_of_ingest: int = 0
    value_anomalies: int = 0
    out_of_range: int = 0
    forgotten: int = 0
    spans: int = 0

    def add(self, other: "IngestCounts") -> None:
        """Add other counts."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))
