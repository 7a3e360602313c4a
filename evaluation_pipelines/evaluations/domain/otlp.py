"""Evaluations in OpenTelemetry: the names of their attributes, and requests of OTLP."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import polars as pl
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from evaluation_pipelines.schemas import SESSION_KEY
from evaluation_pipelines.times import to_us

EVENT_NAME = "gen_ai.evaluation.result"
SCOPE = "evaluation-pipelines"

STANDARD = {
    "gen_ai.evaluation.name": "name",
    "gen_ai.evaluation.score.value": "value",
    "gen_ai.evaluation.score.label": "label",
    "gen_ai.evaluation.explanation": "explanation",
    "gen_ai.conversation.id": "session_id",
    "gen_ai.agent.id": "agent_id",
    "session.id": "session_id",
}
"""Attribute of the semantic conventions -> column of EVALUATION_EVENTS."""

OWN = {
    "gen_ai.evaluation.evaluator.id": "evaluator_id",
    "gen_ai.evaluation.evaluator.version": "evaluator_version",
    "gen_ai.evaluation.evaluator.type": "evaluator_type",
    "evaluation_pipelines.evaluation.id": "event_id",
    "evaluation_pipelines.evaluation.position": "position",
    "evaluation_pipelines.score.lowest": "lowest",
    "evaluation_pipelines.score.highest": "highest",
    "evaluation_pipelines.session.key": "session_key",
    "organization.id": "organization_id",
    "evaluation_pipelines.agent.model": "model",
}
"""Attributes that the conventions do not have, or only propose: they may be renamed with them."""

_ANNOTATION = {
    "name": "name",
    "score": "value",
    "label": "label",
    "explanation": "explanation",
    "annotator_kind": "evaluator_type",
    "identifier": "evaluator_id",
}
"""Field of an evaluation in OpenInference -> column of EVALUATION_EVENTS."""


def logs_request(events: pl.DataFrame) -> ExportLogsServiceRequest:
    """Return EVALUATION_EVENTS as log records."""
    request = ExportLogsServiceRequest()
    resource = request.resource_logs.add()
    resource.resource.attributes.extend(_attributes({"service.name": SCOPE}))
    scope = resource.scope_logs.add()
    scope.scope.name = SCOPE
    for row in events.iter_rows(named=True):
        named = {name: row[column] for name, column in (STANDARD | OWN).items()}
        scope.log_records.add(
            time_unix_nano=_nanoseconds(row["evaluated_at"] or row["noted_at"]),
            observed_time_unix_nano=_nanoseconds(row["noted_at"]),
            event_name=EVENT_NAME,
            attributes=_attributes({"event.name": EVENT_NAME, **named}),
            trace_id=bytes.fromhex(row["trace_id"] or ""),
            span_id=bytes.fromhex(row["span_id"] or ""),
        )
    return request


def logs_line(events: pl.DataFrame) -> bytes:
    """Return EVALUATION_EVENTS as a line of OTLP in JSON, whose ids are hexadecimal."""
    request = MessageToDict(logs_request(events))
    rows = zip(
        request["resourceLogs"][0]["scopeLogs"][0]["logRecords"],
        events.select("trace_id", "span_id").iter_rows(),
        strict=True,
    )
    for record, ids in rows:
        for name, value in zip(("traceId", "spanId"), ids, strict=True):
            if value is not None:
                record[name] = value
    return json.dumps(request).encode() + b"\n"


def spans_request(events: pl.DataFrame) -> ExportTraceServiceRequest:
    """Return EVALUATION_EVENTS as spans of OpenInference, one per session and position.

    They have ``session.evaluations``. A withdrawn evaluation has no score and the label withdrawn.
    """
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.extend(_attributes({"service.name": SCOPE}))
    scope = resource.scope_spans.add()
    scope.scope.name = SCOPE
    for session in events.partition_by(*SESSION_KEY, "position", maintain_order=True):
        first = session.row(0, named=True)
        named: dict[str, Any] = {
            "openinference.span.kind": "EVALUATOR",
            "session.id": first["session_id"],
        }
        for number, row in enumerate(session.iter_rows(named=True)):
            row["evaluator_type"] = (row["evaluator_type"] or "code").upper()
            for field, column in _ANNOTATION.items():
                named[f"session.evaluations.{number}.evaluation.{field}"] = row[column]
        at, trace = _nanoseconds(first["noted_at"]), first["event_id"].replace("-", "")
        scope.spans.add(
            # The same ids when it is sent again.
            trace_id=bytes.fromhex(trace),
            span_id=bytes.fromhex(trace[:16]),
            name="evaluation",
            kind=Span.SPAN_KIND_INTERNAL,
            start_time_unix_nano=at,
            end_time_unix_nano=at,
            attributes=_attributes(named),
        )
    return request


def _attributes(named: Mapping[str, Any]) -> Iterator[KeyValue]:
    for name, value in named.items():
        match value:
            case str():
                yield KeyValue(key=name, value=AnyValue(string_value=value))
            case int():
                yield KeyValue(key=name, value=AnyValue(int_value=value))
            case float():
                yield KeyValue(key=name, value=AnyValue(double_value=value))


def _nanoseconds(time: datetime) -> int:
    return to_us(time) * 1000
