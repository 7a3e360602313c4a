"""OTLP requests in protobuf, converted to the JSON that all other telemetry has.

https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding: names in camel case, bytes of
values in base64, ids of spans in hex. Numbers stay numbers. Fields that are not read (severities,
kinds of spans) are left out.
"""

import base64
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
    from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

_METRICS = b'{"resourceMetrics":[]}'
_FIRST_FIELD = b"\n"
"""Field 1, length-delimited: the list of resources of any request."""


def looks_like_request(content: bytes) -> bool:
    """Return True if bytes begin as a request in protobuf and not as JSON."""
    # The second byte is a length; a bracket would be one of 91 or 123, followed by a field.
    is_json = content[1:].lstrip()[:1] in (b"{", b"[") and content[2:3] not in (b"\n", b"\x12")
    return content.startswith(_FIRST_FIELD) and not is_json


def request_json(message: bytes) -> bytes:
    """Return a request in protobuf as OTLP JSON, metrics without content.

    Raises:
        ValueError: it is no OTLP request.
    """
    # Slow to import, and most telemetry is JSON.
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    try:
        request = ExportLogsServiceRequest.FromString(message)
    except DecodeError as error:
        if (other := _other_signal(message)) is None:
            raise ValueError(f"not an OTLP request in protobuf: {error}") from None
        return other
    if _has_other_records(request.resource_logs):
        return _other_signal(message) or _METRICS
    return msgspec.json.encode({"resourceLogs": [_resource(log) for log in request.resource_logs]})


def _other_signal(message: bytes) -> bytes | None:
    """Return a request of traces as JSON, one of metrics without its content, else None."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces

    with suppress(DecodeError):
        request = traces.ExportTraceServiceRequest.FromString(message)
        if _has_ids(request.resource_spans):
            sent = [_spans_resource(span) for span in request.resource_spans]
            return msgspec.json.encode({"resourceSpans": sent})
    with suppress(DecodeError):
        metrics.ExportMetricsServiceRequest.FromString(message)
        return _METRICS
    return None


def _has_ids(resources: "Iterable[ResourceSpans]") -> bool:
    """Return False for metrics, which have a name in the place of the id."""
    spans = (
        span for resource in resources for scope in resource.scope_spans for span in scope.spans
    )
    first = next(spans, None)
    return first is None or len(first.trace_id) == _TRACE_ID_BYTES or not first.trace_id


_TRACE_ID_BYTES = 16


def _has_other_records(resources: "Iterable[ResourceLogs]") -> bool:
    """Return True for spans and metrics, whose lists have the same numbers as those of logs.

    Spans begin with a trace id, metrics with a name; a log record has a fixed number there.
    """
    from google.protobuf.unknown_fields import UnknownFieldSet

    scopes = (scope for resource in resources for scope in resource.scope_logs)
    first = next((record for scope in scopes for record in scope.log_records), None)
    return first is not None and any(
        unknown_field.field_number == 1 for unknown_field in UnknownFieldSet(first)
    )


def _spans_resource(spans: "ResourceSpans") -> dict[str, Any]:
    return {
        "resource": {"attributes": _pairs(spans.resource.attributes)},
        "scopeSpans": [_spans_scope(span) for span in spans.scope_spans],
    }


def _spans_scope(spans: "ScopeSpans") -> dict[str, Any]:
    scope = {"name": spans.scope.name, "version": spans.scope.version}
    return {"scope": scope, "spans": [_span(span) for span in spans.spans]}


def _span(span: "Span") -> dict[str, Any]:
    events = [{"name": event.name, "attributes": _pairs(event.attributes)} for event in span.events]
    return {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        "parentSpanId": span.parent_span_id.hex(),
        "name": span.name,
        "startTimeUnixNano": span.start_time_unix_nano,
        "endTimeUnixNano": span.end_time_unix_nano,
        "attributes": _pairs(span.attributes),
        "events": events,
        "links": [{"traceId": link.trace_id.hex()} for link in span.links],
        "status": {"code": span.status.code, "message": span.status.message},
    }


def _resource(logs: "ResourceLogs") -> dict[str, Any]:
    return {
        "resource": {"attributes": _pairs(logs.resource.attributes)},
        "scopeLogs": [_scope(log) for log in logs.scope_logs],
    }


def _scope(logs: "ScopeLogs") -> dict[str, Any]:
    scope = {"name": logs.scope.name, "version": logs.scope.version}
    return {"scope": scope, "logRecords": [_record(record) for record in logs.log_records]}


def _record(record: "LogRecord") -> dict[str, Any]:
    times = {
        "timeUnixNano": record.time_unix_nano,
        "observedTimeUnixNano": record.observed_time_unix_nano,
    }
    fields: dict[str, Any] = {name: value for name, value in times.items() if value}
    if record.event_name:
        fields["eventName"] = record.event_name
    if record.trace_id:
        fields |= {"traceId": record.trace_id.hex(), "spanId": record.span_id.hex()}
    if record.HasField("body"):
        fields["body"] = _value(record.body)
    return {**fields, "attributes": _pairs(record.attributes)}


def _pairs(pairs: "Iterable[KeyValue]") -> list[dict[str, Any]]:
    return [_pair(pair) for pair in pairs]


def _pair(pair: "KeyValue") -> dict[str, Any]:
    if not pair.HasField("value"):
        return {"key": pair.key}
    return {"key": pair.key, "value": _value(pair.value)}


def _value(value: "AnyValue") -> dict[str, Any]:
    match value.WhichOneof("value"):
        case "string_value":
            return {"stringValue": value.string_value}
        case "int_value":
            return {"intValue": value.int_value}
        case "bool_value":
            return {"boolValue": value.bool_value}
        case "double_value":
            return {"doubleValue": _double(value.double_value)}
        case "bytes_value":
            return {"bytesValue": base64.b64encode(value.bytes_value).decode()}
        case "array_value":
            values = [_value(item) for item in value.array_value.values]
            return {"arrayValue": {"values": values}}
        case "kvlist_value":
            return {"kvlistValue": {"values": _pairs(value.kvlist_value.values)}}
    return {}


def _double(value: float) -> float | str:
    """Return a finite number, or its text in JSON for others."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
