"""What ingest counts: every line and every record ends in exactly one of these numbers."""

from dataclasses import dataclass, fields


@dataclass(slots=True)
class IngestCounts:
    """Sums over any stretch of telemetry.

    Attributes:
        bytes: Bytes consumed, newlines included.
        lines: Lines that were not empty.
        skipped: Metrics and traces among the signals of those lines: not used here.
        quarantined: Lines or single records that could not be read.
        attribution_lines: Lines that tell who wore which masque.
        events: Rows stored.
        unknown_records: Records of agents that are not understood; counted by name.
        repeated_records: Records that a dialect knows to repeat another one.
        unattributed: Records that name no session.
        time_anomalies: Events whose time was impossible and was replaced.
        value_anomalies: Single values that could not be what their name says and became null.
        out_of_range: Events of sessions that began before the first partition.
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
    value_anomalies: int = 0
    out_of_range: int = 0

    def add(self, other: "IngestCounts") -> None:
        """Add the numbers of another stretch."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))
