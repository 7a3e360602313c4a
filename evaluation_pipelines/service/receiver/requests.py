"""OTLP requests: checked as ingest will read them, and made ready to be appended to a file."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from evaluation_pipelines.service.errors import ServiceError
from evaluation_pipelines.telemetry.domain.lenient_json import MalformedLineError
from evaluation_pipelines.telemetry.domain.otlp import Line, decode_line
from evaluation_pipelines.telemetry.domain.protobuf import looks_like_request

_LENGTH = struct.Struct(">I")
_MAX_MESSAGE_BYTES = 2**24 - 1
"""By a first byte of zero ingest tells such a file from others."""


class Signal(StrEnum):
    """What a request carries."""

    LOGS = "logs"
    TRACES = "traces"
    METRICS = "metrics"


RECEIVER_PATHS = frozenset(f"/v1/{signal}" for signal in Signal)
"""Where requests of the signals are posted."""

_MESSAGES: dict[Signal, Any] = {  # protobuf ships no types
    Signal.LOGS: ExportLogsServiceRequest,
    Signal.TRACES: ExportTraceServiceRequest,
    Signal.METRICS: ExportMetricsServiceRequest,
}
_NAMES = {
    Signal.LOGS: "resourceLogs",
    Signal.TRACES: "resourceSpans",
    Signal.METRICS: "resourceMetrics",
}


@dataclass(frozen=True, slots=True)
class Checked:
    """A request that can be read.

    Attributes:
        content: What is appended to a file; empty if there is nothing in it.
        records: Number of its log records; 0 for other signals.
        rejected: How many of them will go to quarantine.
    """

    content: bytes
    records: int = 0
    rejected: int = 0


def check_json(body: bytes, signal: Signal, max_attributes: int) -> Checked:
    """Check a request in JSON; its content is one line, otherwise as it came.

    Raises:
        ServiceError: 400, it is no request of the signal.
    """
    if not body.lstrip().startswith(b"{"):
        raise _not_decoded("it is no JSON object")
    # In JSON an end of line is blank space: within a string it is written as an escape.
    line = body.replace(b"\r", b" ").replace(b"\n", b" ")
    try:
        (request,), defects = decode_line(line)
    except (MalformedLineError, RecursionError) as error:
        raise _not_decoded(str(error)) from None
    if not _has(request, signal):
        if line.translate(None, b" \t") == b"{}":
            return Checked(b"")
        raise _not_decoded(f"it has no {_NAMES[signal]}")
    counts = _attribute_counts(request.resource_logs or ())
    rejected = sum(count > max_attributes for count in counts) + len(defects)
    return Checked(line + b"\n", len(counts) + len(defects), rejected)


def check_protobuf(body: bytes, signal: Signal, max_attributes: int) -> Checked:
    """Check a request in protobuf; its content is the body after its length.

    Raises:
        ServiceError: 400, it is no request of the signal; 413, it is too large for a file.
    """
    if not body:
        return Checked(b"")
    if len(body) > _MAX_MESSAGE_BYTES:
        raise ServiceError(413, "too_large", f"A message may have {_MAX_MESSAGE_BYTES} bytes.")
    try:
        request = _MESSAGES[signal].FromString(body)
    except DecodeError as error:
        raise _not_decoded(str(error)) from None
    if not looks_like_request(body):
        raise _not_decoded("it does not begin with a resource")
    counts = _attribute_counts(request.resource_logs) if signal is Signal.LOGS else []
    rejected = sum(count > max_attributes for count in counts)
    return Checked(_LENGTH.pack(len(body)) + body, len(counts), rejected)


def _has(request: Line, signal: Signal) -> bool:
    if signal is Signal.LOGS:
        return request.resource_logs is not None
    sent = request.resource_spans if signal is Signal.TRACES else request.resource_metrics
    return sent is not msgspec.UNSET


def _attribute_counts(resources: Iterable[Any]) -> list[int]:
    return [
        len(record.attributes or ())
        for resource in resources
        for scope in resource.scope_logs or ()
        for record in scope.log_records or ()
    ]


def _not_decoded(reason: str) -> ServiceError:
    return ServiceError(400, "not_otlp", f"This is no OTLP request: {reason}.")
