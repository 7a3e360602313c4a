"""Rows of ``otel_logs`` as OTLP lines, and ids that do not depend on how values are stored."""

import json
from typing import Any

import pytest

from evaluation_pipelines.telemetry.domain.event_ids import event_ids
from evaluation_pipelines.telemetry.ledger.otel_log_reads import OtelLogRow, otlp_line, row_hash

NOON_NS = 1_780_315_200_000_000_000
RECORD = ("organization", "session", "name", 5)


def row(**values: Any) -> OtelLogRow:
    """Return a row at noon without texts, but for what is given."""
    texts = ("trace_id", "span_id", "severity_text", "body", "scope_name", "scope_version")
    empty = dict.fromkeys((*texts, "event_name"), "")
    given = {"time_ns": NOON_NS, "sent_ns": NOON_NS, "resource": [], "attributes": [], **empty}
    return OtelLogRow(**{**given, **values})


def test_a_row_with_all_values() -> None:
    line = otlp_line(
        row(
            trace_id="ab",
            span_id="cd",
            severity_text="INFO",
            body='{"a":1}',
            scope_name="a scope",
            scope_version="2",
            event_name="a.name",
            resource=[("service", "x")],
            attributes=[("b", "1"), ("a", "true")],
        )
    )
    assert line.endswith(b"\n")
    assert json.loads(line) == {
        "resourceLogs": [
            {
                "resource": {"attributes": [{"key": "service", "value": {"stringValue": "x"}}]},
                "scopeLogs": [
                    {
                        "scope": {"name": "a scope", "version": "2"},
                        "logRecords": [
                            {
                                "timeUnixNano": str(NOON_NS),
                                "severityText": "INFO",
                                "eventName": "a.name",
                                "traceId": "ab",
                                "spanId": "cd",
                                "body": {"stringValue": '{"a":1}'},
                                "attributes": [
                                    {"key": "a", "value": {"stringValue": "true"}},
                                    {"key": "b", "value": {"stringValue": "1"}},
                                ],
                            }
                        ],
                    }
                ],
            }
        ]
    }


def test_a_program_that_sends_no_time_has_its_observed_time() -> None:
    line = otlp_line(row(attributes=[("event.name", "codex.user_prompt")]))
    (scope,) = json.loads(line)["resourceLogs"][0]["scopeLogs"]
    (record,) = scope["logRecords"]
    assert record["observedTimeUnixNano"] == str(NOON_NS)
    assert "timeUnixNano" not in record


def test_a_row_that_was_inserted_again_in_another_order_has_the_same_hash() -> None:
    one, other = row(attributes=[("a", "1"), ("b", "2")]), row(attributes=[("b", "2"), ("a", "1")])
    assert row_hash(otlp_line(one)) == row_hash(otlp_line(other))
    assert row_hash(otlp_line(one)) != row_hash(otlp_line(row(attributes=[("a", "12")])))
    assert len(row_hash(b"")) == 16


@pytest.mark.parametrize(
    ("value", "spelled"),
    [
        (7, "7"),
        (0.01, "0.01"),
        (True, "true"),
        ([1, "a"], '[1,"a"]'),
        ({"b": 1, "a": None}, '{"a":null,"b":1}'),
        (None, ""),
    ],
)
def test_a_value_and_the_text_that_spells_it_have_one_id(value: Any, spelled: str) -> None:
    (typed,) = event_ids([RECORD], [value], {"x": [value]})
    (as_text,) = event_ids([RECORD], [spelled], {"x": [spelled]})
    (another,) = event_ids([RECORD], [spelled], {"x": [f"{spelled} "]})
    assert typed == as_text != another


def test_values_that_are_null_make_no_other_event() -> None:
    (sent,) = event_ids([RECORD], [None], {"x": ["a"], "y": [None]})
    (left_out,) = event_ids([RECORD], [""], {"x": ["a"]})
    (elsewhere,) = event_ids([RECORD], [None], {"x": [None], "y": ["a"]})
    assert sent == left_out != elsewhere
    assert event_ids([RECORD], [None], {}) == event_ids([RECORD], [None], {"x": [""]})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (
            '{"values":[{"stringValue":"a"},{"intValue":"1"},{}]}',
            {"arrayValue": {"values": [{"stringValue": "a"}, {"intValue": "1"}, {}]}},
        ),
        (
            '{"values":[{"key":"a","value":{"boolValue":true}}]}',
            {"kvlistValue": {"values": [{"key": "a", "value": {"boolValue": True}}]}},
        ),
        ('{"values":[]}', {"arrayValue": {"values": []}}),
        *(
            (text, {"stringValue": text})
            for text in (
                '{"values":[1]}',
                '{"values":[{"price":1}]}',
                '{"values":[{"stringValue":"a"}],"more":1}',
                '{"values":[{"stringValue":"a"',
                '["a"]',
                "[" * 10_000,
                '{"values":[' * 10_000,
            )
        ),
    ],
)
def test_arrays_and_lists_as_otlp_encodes_them(text: str, value: dict[str, Any]) -> None:
    line = otlp_line(row(attributes=[("x", text)], body=text))
    (scope,) = json.loads(line)["resourceLogs"][0]["scopeLogs"]
    (record,) = scope["logRecords"]
    assert record["attributes"] == [{"key": "x", "value": value}]
    assert record["body"] == value
