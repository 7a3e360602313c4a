"""OTLP requests of logs and traces as JSON: their types, and how lines are read into them.

Both encodings are read: that of the SDKs (integers as numbers) and that of the collector
(64-bit integers as strings, empty fields omitted). A line with a sound envelope and a broken record
yields the good records and a defect for each broken one. Every record ends up somewhere: lists
under the names of older versions or in snake_case are read, and a container with nothing that is
understood is a defect.
"""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import msgspec

from evaluation_pipelines.telemetry.domain.attributes import KeyValue
from evaluation_pipelines.telemetry.domain.joined import as_request, time_of
from evaluation_pipelines.telemetry.domain.lenient_json import (
    LOG_RECORDS,
    RESOURCE_LOGS,
    RESOURCE_SPANS,
    SCOPE_LOGS,
    SCOPE_SPANS,
    SPANS,
    MalformedLineError,
    parse_leniently,
)


class LogRecord(msgspec.Struct, gc=False, rename="camel"):
    """One log record. Times are nanoseconds as sent: a number, a decimal string, or absent.

    ``body`` is an AnyValue as a dictionary, or whatever was sent instead.
    """

    attributes: list[KeyValue] | None = None
    body: Any = None
    time_unix_nano: Any = None
    observed_time_unix_nano: Any = None
    event_name: Any = None
    trace_id: Any = None
    span_id: Any = None


class Scope(msgspec.Struct, gc=False):
    """Instrumentation scope: the library that wrote the records."""

    name: str | None = None
    version: str | None = None


class ScopeLogs(msgspec.Struct, gc=False, rename="camel", forbid_unknown_fields=True):
    """Records of one scope. Records under another name must not be overlooked."""

    log_records: list[LogRecord] | None = None
    scope: Scope | None = None
    schema_url: Any = None


class Resource(msgspec.Struct, gc=False):
    """Resource: attributes of the process."""

    attributes: list[KeyValue] | None = None


class ResourceLogs(msgspec.Struct, gc=False, rename="camel", forbid_unknown_fields=True):
    """Scopes of one resource.

    ``first_record`` is the index of its first record in the line if records before it are missing
    because they were broken.
    """

    scope_logs: list[ScopeLogs] | None = None
    resource: Resource | None = None
    schema_url: Any = None
    first_record: int | None = msgspec.field(default=None, name="(place)")  # never sent


class SpanEvent(msgspec.Struct, gc=False, rename="camel"):
    """Something that happened at one moment of a span, such as an exception."""

    name: Any = None
    attributes: list[KeyValue] | None = None


class SpanLink(msgspec.Struct, gc=False, rename="camel"):
    """Another span that caused this one."""

    trace_id: Any = None


class Status(msgspec.Struct, gc=False):
    """How a span ended: 0 unset, 1 OK, 2 error."""

    code: Any = None
    message: Any = None


class Span(msgspec.Struct, gc=False, rename="camel"):
    """One span. Ids and times are as sent, times in nanoseconds."""

    trace_id: Any = None
    span_id: Any = None
    parent_span_id: Any = None
    name: Any = None
    start_time_unix_nano: Any = None
    end_time_unix_nano: Any = None
    attributes: list[KeyValue] | None = None
    events: list[SpanEvent] | None = None
    links: list[SpanLink] | None = None
    status: Status | None = None


class ScopeSpans(msgspec.Struct, gc=False, rename="camel", forbid_unknown_fields=True):
    """Spans of one scope."""

    spans: list[Span] | None = None
    scope: Scope | None = None
    schema_url: Any = None


class ResourceSpans(msgspec.Struct, gc=False, rename="camel", forbid_unknown_fields=True):
    """Scopes of one resource. ``first_record`` is as in ResourceLogs."""

    scope_spans: list[ScopeSpans] | None = None
    resource: Resource | None = None
    schema_url: Any = None
    first_record: int | None = msgspec.field(default=None, name="(place)")  # never sent


class Line(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """One line of a landing file: an OTLP request of any signal, an attribution, or an outcome.

    ``transcript_defect`` names an unreadable line of a transcript, with the reason.
    ``sdk_time`` is the time of a record that the SDK wrote by itself. ``other_names`` are the names
    of an object that has none of the fields' names for them.
    """

    resource_logs: list[ResourceLogs] | None = msgspec.field(default=None, name="resourceLogs")
    resource_metrics: msgspec.Raw | msgspec.UnsetType = msgspec.field(
        default=msgspec.UNSET, name="resourceMetrics"
    )
    resource_spans: list[ResourceSpans] | None = msgspec.field(default=None, name="resourceSpans")
    session_id: Any = None
    masque: Any = None
    donned_at: Any = None
    doffed_at: Any = None
    kind: Any = None
    value: Any = None
    at: Any = None
    reference: Any = None
    organization: Any = None
    session_key: Any = None
    transcript_defect: str | None = msgspec.field(default=None, name="transcriptDefect")
    sdk_time: str | None = msgspec.field(default=None, name="(sdk time)")  # never sent
    other_names: tuple[str, ...] = msgspec.field(default=(), name="(other)")  # never sent

    @property
    def has_metrics(self) -> bool:
        """True if the line has the key of metrics."""
        return self.resource_metrics is not msgspec.UNSET


@dataclass(frozen=True, slots=True)
class Defect:
    """Why a line, or one record of it (``record_index``), could not be read."""

    reason: str
    record_index: int | None = None


_DECODER = msgspec.json.Decoder(Line)

_NAMES = frozenset(field.encode_name for field in msgspec.structs.fields(Line))
_PLAIN = (
    *("session_id", "masque", "donned_at", "doffed_at"),
    *("kind", "value", "at", "reference", "organization", "session_key"),
)
"""Names of attribution lines and outcomes."""

_SCOPE = ("scope", "instrumentationLibrary", "instrumentation_library")
_EXPECTED = {"resource", *_SCOPE, "schemaUrl", "schema_url"}
"""Names in a container that may stand without any record."""

_CAMEL_CASE = {
    "time_unix_nano": "timeUnixNano",
    "observed_time_unix_nano": "observedTimeUnixNano",
    "event_name": "eventName",
    "trace_id": "traceId",
    "span_id": "spanId",
    "parent_span_id": "parentSpanId",
    "start_time_unix_nano": "startTimeUnixNano",
    "end_time_unix_nano": "endTimeUnixNano",
    "string_value": "stringValue",
    "int_value": "intValue",
    "double_value": "doubleValue",
    "bool_value": "boolValue",
    "bytes_value": "bytesValue",
    "array_value": "arrayValue",
    "kvlist_value": "kvlistValue",
}


@dataclass(frozen=True, slots=True)
class _NotUnderstood:
    """A resource or scope of which nothing is understood, in the place of its records."""

    content: dict[str, Any]
    level: str
    signal: str

    @property
    def reason(self) -> str:
        names = ", ".join(sorted(map(str, self.content)))[:200]
        return f"not OTLP {self.signal}: {self.level} has no list of records, only: {names}"


def decode_line(line: bytes) -> tuple[list[Line], list[Defect]]:
    """Decode one line (or one whole document) of JSON.

    Args:
        line: Bytes without the final newline.

    Returns:
        Its requests (several for an array) and a defect for each broken record.

    Raises:
        MalformedLineError: The line is not UTF-8, not JSON, or neither an object nor an array with
            any.
    """
    try:
        if not line.isascii():
            line.decode("utf-8")  # the decoder does not look into what it skips
        decoded = _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decode_leniently(line)
    return ([decoded], []) if _has_all_records(decoded, line) else _decode_leniently(line)


def _has_all_records(decoded: Line, line: bytes) -> bool:
    """Return False if a list was not decoded: it has another name, or one that is there twice."""
    if decoded.session_id is None and line.count(b'"resourceLogs"') > 1:
        return False
    if decoded.resource_spans is not None and not _has_all_spans(decoded.resource_spans, line):
        return False
    if decoded.resource_logs is None and decoded.resource_spans is not None:
        return True
    scopes, resources = 0, decoded.resource_logs or ()
    for resource_logs in resources:
        if resource_logs.scope_logs is None:
            return False
        scopes += len(resource_logs.scope_logs)
        for scope_logs in resource_logs.scope_logs:
            if scope_logs.log_records is None:
                return False
    return line.count(b'"logRecords"') <= scopes and line.count(b'"scopeLogs"') <= len(resources)


def _has_all_spans(resources: list[ResourceSpans], line: bytes) -> bool:
    scopes = [scope for resource in resources for scope in resource.scope_spans or ()]
    return (
        all(resource.scope_spans is not None for resource in resources)
        and all(scope.spans is not None for scope in scopes)
        # "resourceSpans", "scopeSpans", "spans": each decoded list has one of them.
        and line.count(b'pans"') <= 1 + len(resources) + len(scopes)
    )


def _decode_leniently(line: bytes) -> tuple[list[Line], list[Defect]]:
    """Decode what the typed decoder rejects, keeping every good record."""
    defects: list[Defect] = []
    indices = count()
    return [_convert(document, indices, defects) for document in parse_leniently(line)], defects


def _convert(document: Any, indices: Iterator[int], defects: list[Defect]) -> Line:
    request = as_request(document)
    kept: dict[_Signal, list[Any]] = {_LOGS: [], _TRACES: []}
    # `indices` comes last: `zip` stops at the end of the records before it takes an index.
    for found, index in zip(_records_of(request), indices, strict=False):
        if isinstance(found.record, _NotUnderstood):
            defects.append(Defect(found.record.reason, index))
            continue
        try:
            one = msgspec.convert(found.as_sent(in_camel_case=True), found.signal.type)
            one.first_record = index
            kept[found.signal].append(one)
        except msgspec.ValidationError as error:
            defects.append(Defect(f"not an OTLP {found.signal.record}: {error}", index))
    present = msgspec.Raw(b"null")
    return Line(
        resource_logs=kept[_LOGS] if any(name in request for name in RESOURCE_LOGS) else None,
        resource_metrics=present if "resourceMetrics" in request else msgspec.UNSET,
        resource_spans=kept[_TRACES] if any(name in request for name in RESOURCE_SPANS) else None,
        sdk_time=time_of(document),
        **{name: request.get(name) for name in _PLAIN},
        other_names=tuple(sorted(request.keys() - _NAMES)),
    )


def _in_camel_case(value: Any) -> Any:
    """Return a part of a request with the names of OTLP's JSON; keys of attributes are values."""
    if isinstance(value, list):
        return [_in_camel_case(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {_CAMEL_CASE.get(name, name): _in_camel_case(inner) for name, inner in value.items()}


@dataclass(frozen=True, slots=True)
class _Signal:
    """Names of the lists of one signal, and the type of its records with their resource."""

    signal: str
    record: str
    resources: tuple[str, ...]
    scopes: tuple[str, ...]
    records: tuple[str, ...]
    type: Any


_LOGS = _Signal("logs", "log record", RESOURCE_LOGS, SCOPE_LOGS, LOG_RECORDS, ResourceLogs)
_TRACES = _Signal("traces", "span", RESOURCE_SPANS, SCOPE_SPANS, SPANS, ResourceSpans)


@dataclass(frozen=True, slots=True)
class _Record:
    """A record as sent, with its scope and resource."""

    signal: _Signal
    resource: Any
    scope: Any
    record: Any

    def as_sent(self, *, in_camel_case: bool = False) -> Any:
        """Return the record alone with its scope and resource."""
        if isinstance(self.record, _NotUnderstood):
            if self.record.level != "a scope":
                return self.record.content
            scope = self.record.content
        else:
            record = _in_camel_case(self.record) if in_camel_case else self.record
            scope = {"scope": self.scope, self.signal.records[0]: [record]}
        resource = _in_camel_case(self.resource) if in_camel_case else self.resource
        return {"resource": resource, self.signal.scopes[0]: [scope]}


def _records_of(request: dict[str, Any]) -> Iterator[_Record]:
    """Yield the records of logs and then the spans, in the order of the line."""
    for signal in (_LOGS, _TRACES):
        for resource_records in _children(request, signal.resources) or ():
            resource = _first(resource_records, ("resource",))
            scopes = _children(resource_records, signal.scopes)
            if scopes is None:
                lost = _NotUnderstood(resource_records, "a resource", signal.signal)
                yield _Record(signal, resource, None, lost)
            for scope_records in scopes or ():
                scope = _first(scope_records, _SCOPE)
                records = _children(scope_records, signal.records)
                if records is None:
                    lost = _NotUnderstood(scope_records, "a scope", signal.signal)
                    yield _Record(signal, resource, scope, lost)
                for record in records or ():
                    yield _Record(signal, resource, scope, record)


def _first(parent: Any, names: tuple[str, ...]) -> Any:
    if not isinstance(parent, dict):
        return None
    return next((parent[name] for name in names if name in parent), None)


def _children(parent: Any, names: tuple[str, ...]) -> list[Any] | None:
    """Return the lists under some names together; any other value becomes one (broken) child.

    None if there is none of them, but something else that is not expected.
    """
    if not isinstance(parent, dict):
        return [parent]
    lists = [parent[name] for name in names if parent.get(name) is not None]
    is_empty = any(name in parent for name in names) or parent.keys() <= _EXPECTED
    if not lists and not is_empty:
        return None
    return [child for value in lists for child in (value if isinstance(value, list) else [value])]


def select_records(line: bytes, indices: Collection[int]) -> bytes:
    """Return an OTLP request with the records at some indices of a line, counted from 0.

    Each record keeps its resource and scope; everything else is omitted.

    Raises:
        MalformedLineError: The line cannot be read, or has no record at one of the indices.
    """
    records = [
        found
        for request in map(as_request, parse_leniently(line))
        for found in _records_of(request)
    ]
    if missing := [index for index in indices if index >= len(records)]:
        raise MalformedLineError(f"has no record {missing[0]}, only {len(records)}")
    chosen = [records[index] for index in sorted(indices)]
    return json.dumps(
        {
            signal.resources[0]: [record.as_sent() for record in chosen if record.signal is signal]
            for signal in {export.signal: None for export in chosen}
        }
    ).encode()
