"""Length-prefixed protobuf, as the collector's file exporter and OTLP/HTTP clients write it."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from evaluation_pipelines.telemetry.domain.protobuf import looks_like_request, request_json
from evaluation_pipelines_tests.telemetry.domain.reading import read
from evaluation_pipelines_tests.workplace import Workplace
from evaluation_pipelines_tests.world import any_value, claude, request

CAPTURES = sorted((Path(__file__).parents[1] / "data").glob("*/logs.pbjson.jsonl"))
PLACE = ("source_file_id", "source_offset")


def in_protobuf(document: dict[str, Any]) -> bytes:
    """Encode an OTLP request by the library of Google, without the ids that OTLP writes in hex."""
    text = json.dumps(document)
    bare = json.loads(text, object_hook=lambda span: without(span, "traceId", "spanId"))
    message: bytes = ParseDict(bare, ExportLogsServiceRequest()).SerializeToString()
    return message


def without(values: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


def prefixed(*messages: bytes) -> bytes:
    """Return messages, each after its length."""
    return b"".join(len(message).to_bytes(4) + message for message in messages)


def zstd(content: bytes) -> bytes:
    packed: bytes = pa.compress(content, codec="zstd", asbytes=True)
    return packed


def prompt(n: int) -> bytes:
    return in_protobuf(request([claude("user_prompt", n, n=n, prompt="Fix it")]))


def events(workplace: Workplace) -> pl.DataFrame:
    """Return what was landed, without its place in a file."""
    return workplace.landed().drop(PLACE).sort("event_id")


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.parent.name)
def test_captured_telemetry_gives_the_same_events_in_protobuf_as_in_json(capture: Path) -> None:
    lines = capture.read_bytes().splitlines()
    same = read(*lines)
    found = read(*(request_json(in_protobuf(json.loads(line))) for line in lines))
    assert found.counts.lines == len(lines) > 0
    assert found.events.drop(PLACE).equals(same.events.drop(PLACE))
    assert found.names == same.names


@pytest.mark.parametrize("pack", [bytes, zstd], ids=["plain", "zstd"])
def test_a_file_of_messages_is_read_while_it_grows_each_message_once(
    workplace: Workplace, pack: Any
) -> None:
    whole = prefixed(*(pack(prompt(n)) for n in range(3)))
    for at in range(0, len(whole), 97):
        workplace.land("received.pb", whole[at : at + 97], "ab")
        workplace.ingest()
    assert workplace.ingest().counts.lines == 0
    attributes = [json.loads(attribute)["n"] for attribute in workplace.landed()["attributes"]]
    assert sorted(attributes) == [0, 1, 2]
    assert workplace.quarantined().is_empty()


def test_a_message_that_is_no_request_is_quarantined_and_those_around_it_are_read(
    workplace: Workplace,
) -> None:
    # A field of 255 bytes, of which there are two.
    workplace.land("received.pb", prefixed(prompt(0), b"\n\xff\x01ab", prompt(1)))
    counts = workplace.ingest().counts
    assert (counts.events, counts.quarantined) == (2, 1)
    assert "not an OTLP request in protobuf" in workplace.quarantined()["reason"].item()


def test_metrics_are_counted_and_spans_of_other_programs_by_name() -> None:
    span = {"name": "GET /", "traceId": "AAAAAAAAAAAAAAAAAAAAAQ==", "spanId": "AAAAAAAAAAE="}
    traces = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    metric = {"name": "tokens", "sum": {"dataPoints": [{"asInt": "5"}]}}
    metrics = {"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric]}]}]}
    of_metrics = ParseDict(metrics, ExportMetricsServiceRequest()).SerializeToString()
    batch = read(request_json(of_metrics))
    assert (batch.counts.skipped, batch.counts.events, batch.quarantined) == (1, 0, [])
    batch = read(request_json(ParseDict(traces, ExportTraceServiceRequest()).SerializeToString()))
    assert (batch.names, batch.counts.spans, batch.quarantined) == ({("", "GET /"): 1}, 1, [])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"stringValue": ""}, {"stringValue": ""}),
        ({"intValue": "-9223372036854775808"}, {"intValue": -(2**63)}),
        ({"boolValue": False}, {"boolValue": False}),
        ({"doubleValue": 0.5}, {"doubleValue": 0.5}),
        ({"doubleValue": "NaN"}, {"doubleValue": "NaN"}),
        ({"doubleValue": "-Infinity"}, {"doubleValue": "-Infinity"}),
        ({"bytesValue": "AP8="}, {"bytesValue": "AP8="}),
        (any_value([1, "x"]), {"arrayValue": {"values": [{"intValue": 1}, {"stringValue": "x"}]}}),
        (
            {
                "kvlistValue": {
                    "values": [{"key": "k", "value": {"intValue": "1"}}, {"key": "none"}]
                }
            },
            {"kvlistValue": {"values": [{"key": "k", "value": {"intValue": 1}}, {"key": "none"}]}},
        ),
        ({}, {}),
    ],
    ids=str,
)
def test_every_kind_of_value_has_its_json(value: dict[str, Any], expected: dict[str, Any]) -> None:
    record = {"attributes": [{"key": "a", "value": value}], "eventName": "e"}
    decoded = json.loads(request_json(in_protobuf(request([record]))))
    (found,) = decoded["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    assert found == {"eventName": "e", "attributes": [{"key": "a", "value": expected}]}


@pytest.mark.parametrize(
    ("content", "is_request"),
    [
        (prompt(0), True),
        (b"\n{\n" + b"x" * 122, True),  # a field of 123 bytes, whose number is a bracket
        (b'\n{"resourceLogs": []}', False),
        (b'\n\n {"resourceLogs": []}', False),
        (b'{"resourceLogs": []}', False),
        (b"", False),
    ],
)
def test_protobuf_is_told_from_json_by_its_beginning(content: bytes, is_request: bool) -> None:
    assert looks_like_request(content) is is_request
