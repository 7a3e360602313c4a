"""Requests in protobuf without the records of what was forgotten."""

from collections.abc import Iterator
from typing import Any

from evaluation_pipelines.erasure.domain.prune import Pruner


def prune_message(content: bytes, pruner: Pruner) -> bytes | None:
    """Return a request without what was forgotten; None if nothing of it is left.

    One that has nothing of it, or is no request, is returned as it is. Requests of all signals have
    their records at the same place, so those of logs stand for all; what is not known stays.
    """
    # Slow to import, and most telemetry is JSON.
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    try:
        request = ExportLogsServiceRequest.FromString(content)
    except DecodeError:
        return content
    scopes = [(scope, entry) for entry in request.resource_logs for scope in entry.scope_logs]
    number = sum(_prune_records(scope, entry.resource, pruner) for scope, entry in scopes)
    if not number:
        return content
    for entry in list(request.resource_logs):
        for scope in [each for each in entry.scope_logs if not each.log_records]:
            entry.scope_logs.remove(scope)
        if not entry.scope_logs:
            request.resource_logs.remove(entry)
    return request.SerializeToString() if request.resource_logs else None


def _prune_records(scope: Any, resource: Any, pruner: Pruner) -> int:
    """Take records out of a scope; return how many."""
    from google.protobuf.json_format import MessageToDict

    context = MessageToDict(resource)
    kept = [each for each in scope.log_records if not pruner.is_gone(_as_any_signal(each), context)]
    number = len(scope.log_records) - len(kept)
    if number:
        del scope.log_records[:]
        scope.log_records.extend(kept)
    return number


def _as_any_signal(record: Any) -> dict[str, Any]:
    """Return a record read as one of logs, with the same read as a span and as a metric."""
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.message import DecodeError

    content = record.SerializeToString()
    read: dict[str, Any] = MessageToDict(record)
    for name, kind in _other_kinds():
        try:
            read[name] = MessageToDict(kind.FromString(content))
        except DecodeError:
            continue
    return read


def _other_kinds() -> Iterator[tuple[str, Any]]:
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    yield "span", Span
    yield "metric", Metric
