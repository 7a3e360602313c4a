"""OTLP log requests as JSON: their types, and how lines are read into them.

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
    SCOPE_LOGS,
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


class Line(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """One line of a landing file: an OTLP request of any signal, or an attribution line.

    ``sdk_time`` is the time of a record that the SDK wrote by itself. ``other_names`` are the names
    of an object that has none of the fields' names for them.
    """

    resource_logs: list[ResourceLogs] | None = msgspec.field(default=None, name="resourceLogs")
    resource_metrics: msgspec.Raw | msgspec.UnsetType = msgspec.field(
        default=msgspec.UNSET, name="resourceMetrics"
    )
    resource_spans: msgspec.Raw | msgspec.UnsetType = msgspec.field(
        default=msgspec.UNSET, name="resourceSpans"
    )
    session_id: Any = None
    masque: Any = None
    donned_at: Any = None
    doffed_at: Any = None
    sdk_time: str | None = msgspec.field(default=None, name="(sdk time)")  # never sent
    other_names: tuple[str, ...] = msgspec.field(default=(), name="(other)")  # never sent

    @property
    def other_signals(self) -> int:
        """Number of keys of metrics and traces in the line."""
        signals = (self.resource_metrics, self.resource_spans)
        return sum(signal is not msgspec.UNSET for signal in signals)


@dataclass(frozen=True, slots=True)
class Defect:
    """Why a line, or one record of it (``record_index``), could not be read."""

    reason: str
    record_index: int | None = None


_DECODER = msgspec.json.Decoder(Line)

_NAMES = frozenset(each.encode_name for each in msgspec.structs.fields(Line))
_SCOPE = ("scope", "instrumentationLibrary", "instrumentation_library")
_EXPECTED = {"resource", *_SCOPE, "schemaUrl", "schema_url"}
"""Names in a container that may stand without any record."""

_CAMEL_CASE = {
    "time_unix_nano": "timeUnixNano",
    "observed_time_unix_nano": "observedTimeUnixNano",
    "event_name": "eventName",
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

    @property
    def reason(self) -> str:
        names = ", ".join(sorted(map(str, self.content)))[:200]
        return f"not OTLP logs: {self.level} has no list of records, only: {names}"


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
    scopes, resources = 0, decoded.resource_logs or ()
    if decoded.session_id is None and line.count(b'"resourceLogs"') > 1:
        return False
    for resource_logs in resources:
        if resource_logs.scope_logs is None:
            return False
        scopes += len(resource_logs.scope_logs)
        for scope_logs in resource_logs.scope_logs:
            if scope_logs.log_records is None:
                return False
    return line.count(b'"logRecords"') <= scopes and line.count(b'"scopeLogs"') <= len(resources)


def _decode_leniently(line: bytes) -> tuple[list[Line], list[Defect]]:
    """Decode what the typed decoder rejects, keeping every good record."""
    defects: list[Defect] = []
    indices = count()
    return [_convert(each, indices, defects) for each in parse_leniently(line)], defects


def _convert(document: Any, indices: Iterator[int], defects: list[Defect]) -> Line:
    request = as_request(document)
    kept: list[ResourceLogs] = []
    # `indices` comes last: `zip` stops at the end of the records before it takes an index.
    for (resource, scope, record), index in zip(_records_of(request), indices, strict=False):
        if isinstance(record, _NotUnderstood):
            defects.append(Defect(record.reason, index))
            continue
        logs = {"scope": scope, "logRecords": [_in_camel_case(record)]}
        sent = {"resource": _in_camel_case(resource), "scopeLogs": [logs]}
        try:
            one = msgspec.convert(sent, ResourceLogs)
            one.first_record = index
            kept.append(one)
        except msgspec.ValidationError as error:
            defects.append(Defect(f"not an OTLP log record: {error}", index))
    present = msgspec.Raw(b"null")
    return Line(
        resource_logs=kept if any(name in request for name in RESOURCE_LOGS) else None,
        resource_metrics=present if "resourceMetrics" in request else msgspec.UNSET,
        resource_spans=present if "resourceSpans" in request else msgspec.UNSET,
        session_id=request.get("session_id"),
        masque=request.get("masque"),
        donned_at=request.get("donned_at"),
        doffed_at=request.get("doffed_at"),
        sdk_time=time_of(document),
        other_names=tuple(sorted(request.keys() - _NAMES)),
    )


def _in_camel_case(value: Any) -> Any:
    """Return a part of a request with the names of OTLP's JSON; keys of attributes are values."""
    if isinstance(value, list):
        return [_in_camel_case(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {_CAMEL_CASE.get(name, name): _in_camel_case(each) for name, each in value.items()}


def _records_of(request: dict[str, Any]) -> Iterator[tuple[Any, Any, Any]]:
    """Yield resource, scope and log record as sent, in the order of the line."""
    for resource_logs in _children(request, RESOURCE_LOGS) or ():
        resource = _first(resource_logs, ("resource",))
        scopes = _children(resource_logs, SCOPE_LOGS)
        if scopes is None:
            yield resource, None, _NotUnderstood(resource_logs, "a resource")
        for scope_logs in scopes or ():
            scope = _first(scope_logs, _SCOPE)
            records = _children(scope_logs, LOG_RECORDS)
            if records is None:
                yield resource, scope, _NotUnderstood(scope_logs, "a scope")
            for record in records or ():
                yield resource, scope, record


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
    return [child for each in lists for child in (each if isinstance(each, list) else [each])]


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
    chosen = [_single_record(*records[index]) for index in sorted(indices)]
    return json.dumps({"resourceLogs": chosen}).encode()


def _single_record(resource: Any, scope: Any, record: Any) -> dict[str, Any]:
    if isinstance(record, _NotUnderstood):
        is_scope = record.level == "a scope"
        return {"resource": resource, "scopeLogs": [record.content]} if is_scope else record.content
    return {"resource": resource, "scopeLogs": [{"scope": scope, "logRecords": [record]}]}
