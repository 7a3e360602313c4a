"""From the lines of landing files to rows of ``agent_events``.

``EventReader`` is fed line by line and gives a batch: the events as a frame, what was defective,
and counts of everything that is not an event, so that nothing disappears without a number.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from evaluation_pipelines.domain.schemas import AGENT_EVENTS_LANDED
from evaluation_pipelines.domain.telemetry.attributes import read_attributes, text
from evaluation_pipelines.domain.telemetry.attribution import attribution_rows
from evaluation_pipelines.domain.telemetry.counts import IngestCounts
from evaluation_pipelines.domain.telemetry.dialects.dialect import Dialect
from evaluation_pipelines.domain.telemetry.events import (
    MASQUE_EVENTS,
    Clock,
    Origin,
    Producer,
    event_row,
    source_names,
)
from evaluation_pipelines.domain.telemetry.otlp import (
    Defect,
    Line,
    LogRecord,
    MalformedLineError,
    ResourceLogs,
    decode_line,
    plain_value,
)
from evaluation_pipelines.domain.telemetry.prices import Prices, priced

_SCHEMA = AGENT_EVENTS_LANDED.schema
_NAMES = tuple(_SCHEMA)


@dataclass(frozen=True, slots=True)
class QuarantinedLine:
    """A line, or one record of it, that could not be read."""

    offset: int
    length_bytes: int
    record_index: int | None
    reason: str
    first_bytes: str


@dataclass(frozen=True, slots=True)
class EventBatch:
    """What one stretch of a file holds.

    Attributes:
        events: AGENT_EVENTS columns, in the order read; ``session_date`` is still null.
        quarantined: What could not be read.
        counts: Everything in numbers.
        names: (source_cli or scope, event name) -> records that were not stored.
    """

    events: pl.DataFrame
    quarantined: list[QuarantinedLine]
    counts: IngestCounts
    names: Counter[tuple[str, str]]


@dataclass(slots=True)
class EventReader:
    """Reads lines of one file into event rows.

    Args:
        dialects: The agents that are understood, asked in this order.
        prices: Tells the provider of a model, and the cost where a program sends none.
        clock: What counts as now, and how far ahead of it a time may lie.
        max_attributes: A record with more attributes is quarantined.
        keep_unknown_events: Store records of unknown agents as ``other`` when they have a session.
    """

    dialects: Sequence[Dialect]
    prices: Prices
    clock: Clock
    max_attributes: int
    keep_unknown_events: bool = False
    _rows: list[tuple[Any, ...]] = field(default_factory=list)
    _quarantined: list[QuarantinedLine] = field(default_factory=list)
    _counts: IngestCounts = field(default_factory=IngestCounts)
    _names: Counter[tuple[str, str]] = field(default_factory=Counter)

    def read(self, line: bytes, origin: Origin) -> None:
        """Read one line without its newline; what cannot be read is noted, never raised."""
        if not line.strip():
            return
        self._counts.lines += 1
        try:
            requests, defects = decode_line(line)
        except MalformedLineError as error:
            self._quarantine(line, origin.offset, len(line), Defect(str(error)))
            return
        for defect in defects:
            self._quarantine(line, origin.offset, len(line), defect)
        for request in requests:
            self._read_request(request, line, origin)

    def refuse(self, beginning: bytes, offset: int, length_bytes: int, defect: Defect) -> None:
        """Quarantine a line of which only the beginning was read."""
        self._counts.lines += 1
        self._quarantine(beginning, offset, length_bytes, defect)

    def take(self, size_bytes: int) -> EventBatch:
        """The batch read so far, from that many bytes; the reader is empty afterwards."""
        columns = zip(*self._rows, strict=True) if self._rows else ((),) * len(_NAMES)
        events = pl.DataFrame(
            [
                pl.Series(name, values, dtype=_SCHEMA[name])
                for name, values in zip(_NAMES, columns, strict=True)
            ]
        )
        self._counts.bytes = size_bytes
        self._counts.events = events.height
        batch = EventBatch(events, self._quarantined, self._counts, self._names)
        self._rows, self._quarantined = [], []
        self._counts, self._names = IngestCounts(), Counter()
        return batch

    def _quarantine(self, line: bytes, offset: int, length_bytes: int, defect: Defect) -> None:
        first = line[:256].decode("utf-8", "backslashreplace")
        self._counts.quarantined += 1
        self._quarantined.append(
            QuarantinedLine(offset, length_bytes, defect.record_index, defect.reason, first)
        )

    def _read_request(self, request: Line, line: bytes, origin: Origin) -> None:
        if request.resource_logs is not None:
            index = 0
            for resource_logs in request.resource_logs:
                index = self._read_resource(resource_logs, line, origin, index)
        elif request.session_id is not None:
            rows = attribution_rows(request, origin, self.clock)
            if isinstance(rows, str):
                self._quarantine(line, origin.offset, len(line), Defect(rows))
            else:
                self._counts.attribution_lines += 1
                self._counts.time_anomalies += sum(row["time_anomaly"] for row in rows)
                self._rows.extend(tuple(map(row.get, _NAMES)) for row in rows)
        elif not request.other_signals and line.strip() != b"{}":
            reason = "neither an OTLP request nor an attribution line"
            self._quarantine(line, origin.offset, len(line), Defect(reason))
        self._counts.skipped += request.other_signals

    def _read_resource(
        self, resource_logs: ResourceLogs, line: bytes, origin: Origin, index: int
    ) -> int:
        resource = resource_logs.resource
        producer = Producer.of(read_attributes(resource.attributes if resource else None))
        for scope_logs in resource_logs.scope_logs or ():
            scope = text(scope_logs.scope.name if scope_logs.scope else None) or ""
            for record in scope_logs.log_records or ():
                if len(record.attributes or ()) > self.max_attributes:
                    reason = f"{len(record.attributes or ())} attributes, limit is "
                    defect = Defect(f"{reason}{self.max_attributes}", index)
                    self._quarantine(line, origin.offset, len(line), defect)
                else:
                    self._read_record(record, scope, producer, origin)
                index += 1
        return index

    def _read_record(
        self, record: LogRecord, scope: str, producer: Producer, origin: Origin
    ) -> None:
        values = read_attributes(record.attributes)
        record.body = plain_value(record.body)
        name, body = source_names(record, values)
        dialect = next((d for d in self.dialects if d.recognises(scope, name, body)), None)
        if dialect is None and name not in MASQUE_EVENTS and not self.keep_unknown_events:
            self._counts.unknown_records += 1
            self._names[scope or producer.columns.get("service_name") or "", name] += 1
            return
        row, anomalies = event_row(record, name, values, producer, dialect, origin, self.clock)
        self._counts.value_anomalies += anomalies
        source = dialect.source_cli if dialect else scope
        if row is None:
            self._counts.repeated_records += 1
            self._names[source, name] += 1
        elif row.get("session_id") is None:
            self._counts.unattributed += 1
            self._names[source, name] += 1
        else:
            self._counts.time_anomalies += bool(row["time_anomaly"])
            if dialect and not dialect.sends_cost and row["event_name"] == "api_request":
                priced(row, self.prices, reasoning_is_output=dialect.reasoning_is_output)
            if row.get("provider") is None and row.get("model") is not None:
                row["provider"] = self.prices.provider_of(row["model"])
            self._rows.append(tuple(map(row.get, _NAMES)))
