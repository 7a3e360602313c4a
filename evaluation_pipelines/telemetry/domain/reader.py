"""Read lines of landing files into rows of ``agent_events``.

``EventReader`` takes lines and returns a batch: the events as a frame, defects, and counts of
everything that is not an event, so that every record is counted.

Attribution lines say which masque a session wore, and when:
``{"session_id": ..., "masque": ..., "donned_at": ..., "doffed_at": ...}``; ``doffed_at`` may be
missing. Each becomes a ``masque_don`` event and, if ``doffed_at`` is set, a ``masque_doff`` event.
Outcomes from outside (``outcome_lines``) are no events.
"""

import hashlib
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice
from typing import Any

import polars as pl

from evaluation_pipelines import times
from evaluation_pipelines.schemas import EVENTS_WITH_TEXTS
from evaluation_pipelines.telemetry.domain.attributes import text
from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect
from evaluation_pipelines.telemetry.domain.event_ids import content_id, with_ordinal
from evaluation_pipelines.telemetry.domain.events import (
    MASQUE_EVENTS,
    NAMES_ITSELF,
    OBSERVED_TIME,
    REPLACED_BY,
    TIME_OF_INGEST,
    Clock,
    events_of,
)
from evaluation_pipelines.telemetry.domain.joined import pieces_of
from evaluation_pipelines.telemetry.domain.lenient_json import MalformedLineError, object_reason
from evaluation_pipelines.telemetry.domain.model_columns import Columns
from evaluation_pipelines.telemetry.domain.otlp import (
    Defect,
    Line,
    LogRecord,
    ResourceLogs,
    ResourceSpans,
    decode_line,
)
from evaluation_pipelines.telemetry.domain.outcome_lines import (
    OUTCOME_NAMES,
    LateOutcome,
    outcome_of,
)
from evaluation_pipelines.telemetry.domain.prices import Prices
from evaluation_pipelines.telemetry.domain.shapes import (
    IngestCounts,
    Origin,
    Producer,
    Producers,
    Shape,
    Shapes,
)
from evaluation_pipelines.telemetry.domain.spans.reading import Spans
from evaluation_pipelines.telemetry.domain.subagents import name_traces

_MAX_NAMES_SHOWN = 200


def attribution_rows(line: Line, origin: Origin, clock: Clock) -> list[dict[str, Any]] | str:
    """Return rows of ``agent_events`` for an attribution line, or its defect."""
    session_id = text(line.session_id) if isinstance(line.session_id, str) else None
    masque = text(line.masque) if isinstance(line.masque, str) else None
    if line.other_names:
        return f"attribution line: no such name: {', '.join(line.other_names)[:_MAX_NAMES_SHOWN]}"
    if session_id is None:
        return "attribution line: session_id is not a non-empty string"
    if masque is None or not masque.strip():
        return "attribution line: masque is not a non-empty string"
    moments = {"masque_don": times.from_iso(line.donned_at)}
    if moments["masque_don"] is None:
        return "attribution line: donned_at is not an ISO 8601 time"
    if line.doffed_at is not None:
        moments["masque_doff"] = times.from_iso(line.doffed_at)
        if moments["masque_doff"] is None:
            return "attribution line: doffed_at is not an ISO 8601 time"
        if moments["masque_doff"] < moments["masque_don"]:
            return "attribution line: doffed_at is before donned_at"
    return [
        {
            "event_id": content_id("attribution", session_id, masque, name, time_us),
            "event_time": clock.possible(time_us) or clock.now_us,
            "session_id": session_id,
            "masque": masque,
            "event_name": name,
            "source_event_name": "attribution",
            "time_anomaly": clock.possible(time_us) is None,
            REPLACED_BY: TIME_OF_INGEST if clock.possible(time_us) is None else None,
            "source_file_id": origin.file_id,
            "source_offset": origin.offset,
        }
        for name, time_us in moments.items()
    ]


_SCHEMA = EVENTS_WITH_TEXTS
_NULLS = pl.DataFrame({name: [None] for name in _SCHEMA}, schema=_SCHEMA)
"""One row; a null column of any length is made from it much faster than from nothing."""
_RECORDS_PER_CONVERSION = 512
"""Records of a shape converted together: fewer cost more calls, more exceed the processor cache."""


def first_bytes(line: bytes) -> str:
    """Return the beginning of a line as it is kept in the quarantine."""
    return line[:256].decode("utf-8", "backslashreplace")


@dataclass(slots=True)
class QuarantinedLine:
    """A line, or one record of it, that could not be read, and the number of equal ``lines``."""

    offset: int
    length_bytes: int
    record_index: int | None
    reason: str
    first_bytes: str
    lines: int = 1


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Content of one byte range of a file.

    Attributes:
        events: EVENTS_WITH_TEXTS, in the order read; ``session_date`` is still null.
        quarantined: Lines and records that could not be read.
        counts: Counts of all lines and records.
        names: (source_cli or scope, event name) -> records that were not stored.
        span_names: The same for spans, as part of it.
        outcomes: Outcomes from outside, in the order read.
    """

    events: pl.DataFrame
    quarantined: list[QuarantinedLine]
    counts: IngestCounts
    names: Counter[tuple[str, str]]
    span_names: Counter[tuple[str, str]] = field(default_factory=Counter)
    outcomes: Sequence[LateOutcome] = ()


@dataclass(slots=True)
class EventReader:
    """Reader of the lines of one file.

    Args:
        dialects: Dialects, tried in this order.
        prices: Providers of models, and costs for programs that send none.
        clock: Current time, and how far in the future an event may be.
        max_attributes: A record with more attributes is quarantined.
        keep_unknown_events: Store records of unknown programs as ``other`` if they have a session.
        session_attributes: Attributes that become columns of sessions.
        organization: Whose all records are, whatever they say; None: theirs.
    """

    dialects: Sequence[Dialect]
    prices: Prices
    clock: Clock
    max_attributes: int
    keep_unknown_events: bool = False
    session_attributes: Sequence[str] = ()
    organization: str | None = None
    _producers: Producers = field(init=False)
    _shapes: Shapes = field(init=False)
    _spans: Spans = field(init=False)
    _numbers: Iterator[int] = field(init=False)
    _order: list[int] = field(init=False)
    _requests: list[int] = field(init=False)
    _sdk_time: str | None = field(init=False)
    _converted: list[tuple[int, Columns]] = field(init=False)
    _quarantined: list[QuarantinedLine] = field(init=False)
    _known_defects: dict[tuple[bytes, Defect], QuarantinedLine] = field(init=False)
    _counts: IngestCounts = field(init=False)
    _names: Counter[tuple[str, str]] = field(init=False)
    _outcomes: list[LateOutcome] = field(init=False)

    def __post_init__(self) -> None:
        self._begin()

    def read(self, line: bytes, origin: Origin, *, is_piece: bool = False) -> None:
        """Read one line without its newline; defects are recorded, never raised.

        Requests that follow each other without a newline, and what is broken between them, are
        lines of their own: each ``is_piece`` of one.
        """
        if not line.strip():
            return
        try:
            requests, defects = decode_line(line)
        except MalformedLineError as error:
            pieces = pieces_of(line) if error.is_not_json and not is_piece else [(0, line)]
            if pieces == [(0, line)]:
                self.refuse(line, origin.offset, len(line), Defect(str(error)))
                return
            for start, piece in pieces:
                self.read(piece, replace(origin, offset=origin.offset + start), is_piece=True)
            return
        self._counts.lines += 1
        for defect in defects:
            self._quarantine(line, origin.offset, len(line), defect)
        index = 0
        for request in requests:
            index = self._read_request(request, line, origin, index)

    def refuse(self, beginning: bytes, offset: int, length_bytes: int, defect: Defect) -> None:
        """Quarantine a line, of which perhaps only the beginning was read."""
        self._counts.lines += 1
        self._quarantine(beginning, offset, length_bytes, defect)

    def take(self, size_bytes: int) -> EventBatch:
        """Return the batch read so far, from ``size_bytes`` bytes, and reset the reader."""
        for shape in (*self._shapes, *self._spans):
            if shape.records:
                self._finish(shape)
        self._number_equal_records()
        events = pl.DataFrame([self._column(name) for name in _SCHEMA])
        events = events[pl.Series(self._order, dtype=pl.UInt32).arg_sort()].with_columns(
            has_content=pl.col("content").is_not_null(),
            has_parameters=pl.col("tool_parameters").is_not_null(),
        )
        self._names.update(self._spans.unread)
        self._counts.unknown_records += self._spans.unread.total()
        self._counts.bytes = size_bytes
        self._counts.events = events.height
        replaced = Counter(self._values(REPLACED_BY))
        self._counts.time_anomalies = replaced.total() - replaced[None]
        self._counts.times_observed = replaced[OBSERVED_TIME]
        self._counts.times_of_ingest = replaced[TIME_OF_INGEST]
        found = self._quarantined, self._counts, self._names, self._spans.unread, self._outcomes
        batch = EventBatch(name_traces(events), *found)
        self._begin()
        return batch

    def _begin(self) -> None:
        self._producers, self._shapes = Producers(), Shapes(self.dialects)
        self._spans = Spans(self.max_attributes)
        self._numbers = count()
        self._order, self._requests, self._sdk_time, self._converted = [], [], None, []
        self._quarantined, self._known_defects = [], {}
        self._counts, self._names, self._outcomes = IngestCounts(), Counter(), []

    def _quarantine(self, line: bytes, offset: int, length_bytes: int, defect: Defect) -> None:
        """Keep a defect; of equal lines the first is kept, with their number."""
        self._counts.quarantined += 1
        entry = QuarantinedLine(
            offset, length_bytes, defect.record_index, defect.reason, first_bytes(line)
        )
        if len(line) < length_bytes:  # the rest of the line is not known
            self._quarantined.append(entry)
            return
        key = (hashlib.blake2b(line, digest_size=16).digest(), defect)
        known = self._known_defects.get(key)
        if known is None:
            self._known_defects[key] = entry
            self._quarantined.append(entry)
        else:
            known.lines += 1

    def _read_request(self, request: Line, line: bytes, origin: Origin, index: int) -> int:
        """Read one request; ``index`` is that of its first record. Return the next index.

        Records of one time that the SDK wrote one after another are one request: calls made at one
        time. What is written again later follows records of another time. Where a batch ends
        between two equal ones, they count once.
        """
        has_logs = request.resource_logs is not None or request.session_id is not None
        if has_logs and (request.sdk_time is None or request.sdk_time != self._sdk_time):
            self._requests.append(next(self._numbers))
            self._sdk_time = request.sdk_time
        if request.resource_logs is not None:
            for resource_logs in request.resource_logs:
                index = self._read_resource(resource_logs, line, origin, index)
        elif request.kind is not None:
            self._read_outcome(request, line, origin)
        elif request.session_id is not None:
            rows = attribution_rows(request, origin, self.clock)
            if isinstance(rows, str):
                self._quarantine(line, origin.offset, len(line), Defect(rows))
            else:
                self._counts.attribution_lines += 1
                if self.organization is not None:
                    rows = [{**row, "organization_id": self.organization} for row in rows]
                numbers = [next(self._numbers) for _ in rows]
                self._add(numbers, {name: [row.get(name) for row in rows] for name in rows[0]})
        elif request.resource_spans is None and not request.has_metrics and line.strip() != b"{}":
            reason = request.transcript_defect or object_reason(request.other_names)
            reason = reason or "neither an OTLP request nor an attribution or outcome line"
            self._quarantine(line, origin.offset, len(line), Defect(reason))
        for resource_spans in request.resource_spans or ():
            index = self._read_spans(resource_spans, line, origin, index)
        self._counts.skipped += request.has_metrics
        return index

    def _read_outcome(self, request: Line, line: bytes, origin: Origin) -> None:
        sent = {name: getattr(request, name) for name in OUTCOME_NAMES}
        found = outcome_of(sent, times.from_us(self.clock.now_us), self.organization)
        if request.other_names:
            found = f"outcome: no such name: {', '.join(request.other_names)[:_MAX_NAMES_SHOWN]}"
        if isinstance(found, str):
            self._quarantine(line, origin.offset, len(line), Defect(found))
        else:
            self._counts.attribution_lines += 1
            self._outcomes.append(found)

    def _read_resource(
        self, resource_logs: ResourceLogs, line: bytes, origin: Origin, index: int
    ) -> int:
        if resource_logs.first_record is not None:
            index = resource_logs.first_record
        producer = self._producers.of(resource_logs.resource)
        for scope_logs in resource_logs.scope_logs or ():
            scope = text(scope_logs.scope.name if scope_logs.scope else None) or ""
            for record in scope_logs.log_records or ():
                if len(record.attributes or ()) > self.max_attributes:
                    reason = f"{len(record.attributes or ())} attributes, limit is "
                    defect = Defect(f"{reason}{self.max_attributes}", index)
                    self._quarantine(line, origin.offset, len(line), defect)
                else:
                    shape = self._add_record(producer, origin, scope, record)
                    for told in shape.told(record) if shape.told else ():
                        self._add_record(producer, origin, scope, told)
                index += 1
        return index

    def _read_spans(
        self, resource_spans: ResourceSpans, line: bytes, origin: Origin, index: int
    ) -> int:
        if resource_spans.first_record is not None:
            index = resource_spans.first_record
        producer = self._producers.of(resource_spans.resource)
        for scope_spans in resource_spans.scope_spans or ():
            scope = text(scope_spans.scope.name if scope_spans.scope else None) or ""
            for span in scope_spans.spans or ():
                found = self._spans.add(self._numbers, producer, origin, scope, span)
                if isinstance(found, str):
                    self._quarantine(line, origin.offset, len(line), Defect(found, index))
                else:
                    self._counts.spans += 1
                    for shape in found:
                        if len(shape.records) >= _RECORDS_PER_CONVERSION:
                            self._finish(shape)
                index += 1
        return index

    def _add_record(
        self, producer: Producer, origin: Origin, scope: str, record: LogRecord
    ) -> Shape:
        shape = self._shapes.add(next(self._numbers), producer, origin, scope, record)
        if len(shape.records) >= _RECORDS_PER_CONVERSION:
            self._finish(shape)
        return shape

    def _finish(self, shape: Shape) -> None:
        """Convert the records of a shape to events, or only count them."""
        if (
            shape.dialect is None
            and shape.name not in MASQUE_EVENTS
            and not self.keep_unknown_events
        ):
            self._counts.unknown_records += len(shape.records)
            for _, producer, *_ in shape.records:
                source = shape.scope or producer.columns.get("service_name") or ""
                self._names[source, shape.name] += 1
            shape.records = []
            return
        found = events_of(
            shape, self.clock, self.prices, self.session_attributes, self.organization
        )
        shape.records = []
        self._counts.value_anomalies += found.broken
        self._counts.repeated_records += found.repeated
        self._counts.unattributed += found.unattributed
        if left_out := found.repeated + found.unattributed:
            source = shape.dialect.source_cli if shape.dialect else shape.scope
            self._names[source, shape.name] += left_out
        self._add(found.numbers, found.columns)

    def _add(self, numbers: Sequence[int], columns: Columns) -> None:
        self._order += numbers
        self._converted.append((len(numbers), columns))

    def _column(self, name: str) -> pl.Series:
        """Return a column of all events that were converted."""
        if not any(name in columns for _, columns in self._converted):
            return _NULLS[name].new_from_index(0, len(self._order))
        return pl.Series(name, self._values(name), dtype=_SCHEMA[name])

    def _values(self, name: str) -> list[Any]:
        values: list[Any] = []
        for height, columns in self._converted:
            values.extend(columns.get(name) or [None] * height)
        return values

    def _number_equal_records(self) -> None:
        """Give equal records of one request different ids: they are calls made at one time.

        Those that name themselves are copies, and so are equal records of two requests, or of two
        organizations.
        """
        ids, name_themselves = self._values("event_id"), self._values(NAMES_ITSELF)
        organizations = self._values("organization_id")
        if len(set(ids)) == len(ids):
            return
        number_of = Counter(ids)
        equal = [
            (number, index)
            for index, number in enumerate(self._order)
            if name_themselves[index] is False and number_of[ids[index]] > 1
        ]
        seen = Counter[tuple[int, str | None, bytes]]()
        for number, index in sorted(equal):
            key = bisect_right(self._requests, number), organizations[index], ids[index]
            ids[index] = with_ordinal(ids[index], seen[key])
            seen[key] += 1
        rest = iter(ids)
        for height, columns in self._converted:
            columns["event_id"] = list(islice(rest, height))


_PLAIN = re.compile(r"[A-Za-z0-9_.:#+-]+", re.ASCII)
_NUMBER = re.compile(r"[0-9.eE+-]+|-?inf|nan")
_ESCAPED = re.compile(rb"\\u00(?:[2-7]|00)")
"""Beginnings of JSON escapes of these characters, and of NUL, which is removed from ids."""


def line_filter(key: str) -> Callable[[bytes], bool] | None:
    """Return a predicate that is False for JSON lines that cannot belong to a session key or id.

    None if the bytes cannot decide: other characters can be escaped in other ways, and numbers have
    many spellings.
    """
    shortest = min(session_ids_of(key), key=len)  # the other one starts with it
    if not _PLAIN.fullmatch(shortest) or _NUMBER.fullmatch(shortest):
        return None
    wanted = shortest.encode()
    return lambda line: wanted in line or _ESCAPED.search(line) is not None


def session_ids_of(key: str) -> set[str]:
    """Return the ids that a session with this key or id can have; a key is ``id#masque-n``."""
    return {key, key.rpartition("#")[0] or key}
