"""Decoding of OTLP lines: both encodings, broken records, and values of every kind."""

import json
from typing import Any

import pytest

from evaluation_pipelines.telemetry.domain.attributes import TOO_DEEP, plain_value
from evaluation_pipelines.telemetry.domain.lenient_json import MalformedLineError
from evaluation_pipelines.telemetry.domain.otlp import decode_line
from evaluation_pipelines_tests.world import claude, request

RECORD = claude("user_prompt")


def logs(**replaced: object) -> bytes:
    """Return a request whose only ``resourceLogs`` has some keys replaced."""
    return json.dumps(
        {"resourceLogs": [{**request([RECORD])["resourceLogs"][0], **replaced}]}
    ).encode()


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ({"stringValue": "x"}, "x"),
        ({"stringValue": ""}, ""),
        ({"intValue": 5}, 5),
        ({"intValue": "5"}, 5),
        ({"intValue": "-5"}, -5),
        ({"intValue": 5.0}, 5),
        ({"intValue": 5.5}, 5.5),
        ({"intValue": float("inf")}, "inf"),
        ({"intValue": "five"}, "five"),
        ({"intValue": None}, "None"),
        ({"intValue": "9" * 5_000}, "9" * 5_000),
        ({"doubleValue": 0.5}, 0.5),
        ({"doubleValue": "0.5"}, 0.5),
        ({"doubleValue": 1}, 1.0),
        ({"doubleValue": "NaN"}, "nan"),
        ({"doubleValue": "-Infinity"}, "-inf"),
        ({"doubleValue": 10**400}, str(10**400)),
        ({"doubleValue": "half"}, "half"),
        ({"boolValue": False}, False),
        ({"bytesValue": "aGk="}, "aGk="),
        ({"arrayValue": {"values": [{"intValue": "1"}, {}]}}, [1, None]),
        ({"arrayValue": {}}, []),
        ({"arrayValue": {"values": 5}}, []),
        ({"arrayValue": [1]}, []),
        ({"arrayValue": {"values": [5]}}, [None]),
        ({"kvlistValue": {"values": [{"key": "k", "value": {"intValue": 1}}]}}, {"k": 1}),
        ({"kvlistValue": {"values": [{"value": {}}, "no pair"]}}, {"None": None}),
        ({"aKindOfTomorrow": 1}, None),
        ({}, None),
        (None, None),
        ("no value", None),
    ],
)
def test_every_kind_of_value_has_a_python_value(value: Any, plain: object) -> None:
    assert plain_value(value) == plain
    assert type(plain_value(value)) is type(plain)


def test_values_nested_too_deeply_are_replaced_by_a_note() -> None:
    value: dict[str, Any] = {"intValue": 1}
    for _ in range(5_000):
        value = {"arrayValue": {"values": [value]}}
    plain, depth = plain_value(value), 0
    while isinstance(plain, list):
        (plain,), depth = plain, depth + 1
    assert (plain, depth) == (TOO_DEEP, 51)


def test_a_request_is_decoded_with_its_scope_and_resource() -> None:
    (line,), defects = decode_line(json.dumps(request([RECORD, RECORD])).encode())
    assert defects == []
    assert line.resource_logs is not None
    (resource_logs,) = line.resource_logs
    assert resource_logs.scope_logs is not None
    (scope_logs,) = resource_logs.scope_logs
    assert scope_logs.scope is not None
    assert scope_logs.scope.name == "com.anthropic.claude_code.events"
    assert len(scope_logs.log_records or ()) == 2


@pytest.mark.parametrize(
    ("line", "signals"),
    [
        (b'{"resourceMetrics": []}', 1),
        (b'{"resourceMetrics": {"broken": 1}, "resourceSpans": null}', 2),
        (b'{"resourceMetrics": NaN, "resourceSpans": NaN}', 2),
        (b"{}", 0),
    ],
)
def test_metrics_and_traces_are_counted_without_being_decoded(line: bytes, signals: int) -> None:
    (decoded,), defects = decode_line(line)
    assert (decoded.other_signals, defects) == (signals, [])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "not JSON"),
        (b"nonsense", "not JSON"),
        (b'{"resourceLogs": [}', "not JSON"),
        (b"\xff{}", "not UTF-8 at byte 0"),
        (logs(scopeLogs=[{"logRecords": [RECORD]}]).replace(b"user_p", b"\xff"), "not UTF-8"),
        (b"[" * 200_000, "nested too deeply"),
        (b'"text"', "expected a JSON object"),
        (b"null", "expected a JSON object"),
        (b"[null, 5]", "expected a JSON object"),
    ],
)
def test_an_unreadable_line_has_a_reason(line: bytes, reason: str) -> None:
    with pytest.raises(MalformedLineError, match=reason):
        decode_line(line)


@pytest.mark.parametrize(
    "line",
    [
        logs(resource="text"),
        logs(resource={"attributes": [5]}),
        logs(scopeLogs=5),
        logs(scopeLogs=[5]),
        logs(scopeLogs=[{"scope": 5, "logRecords": [RECORD]}]),
        logs(scopeLogs=[{"logRecords": 5}]),
        logs(scopeLogs=[{"logRecords": [{"attributes": [{"value": {}}]}]}]),
        logs(scopeLogs=[{"logRecords": [{"attributes": [{"key": "k", "value": "text"}]}]}]),
        b'{"resourceLogs": [5]}',
        b'{"resourceLogs": 5}',
    ],
)
def test_a_broken_record_is_one_defect_and_no_record(line: bytes) -> None:
    (decoded,), (defect,) = decode_line(line)
    assert decoded.resource_logs == []
    assert defect.record_index == 0
    assert defect.reason.startswith("not an OTLP log record: ")


def test_the_good_records_of_a_broken_line_keep_their_resource_and_order() -> None:
    records: list[Any] = [RECORD, 5, RECORD]
    (decoded,), (defect,) = decode_line(json.dumps(request(records)).encode())
    assert defect.record_index == 1
    assert decoded.resource_logs is not None
    assert [len(each.scope_logs or ()) for each in decoded.resource_logs] == [1, 1]
    assert all(each.resource for each in decoded.resource_logs)


def test_invalid_json_as_written_by_javascript_is_read() -> None:
    """NaN, half of a surrogate pair, and a number too large for any integer."""
    text = json.dumps(request([RECORD])).replace("user_prompt", r"\ud83d", 1)
    for odd in (text, text.replace("{", '{"x": NaN, ', 1), text.replace("{", '{"x": 1e999, ', 1)):
        (decoded,), defects = decode_line(odd.encode())
        assert (len(decoded.resource_logs or ()), defects) == (1, [])
