"""Decoding of OTLP lines: both encodings, broken records, and values of every kind."""

import json
from typing import Any

import pytest

from evaluation_pipelines.telemetry.domain.attributes import TOO_DEEP, plain_value
from evaluation_pipelines.telemetry.domain.lenient_json import MalformedLineError
from evaluation_pipelines.telemetry.domain.otlp import decode_line, select_records
from evaluation_pipelines_tests.telemetry.domain.reading import NOW, read
from evaluation_pipelines_tests.world import SESSION, claude, request

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


@pytest.mark.parametrize(
    ("line", "has_metrics"),
    [
        (b'{"resourceMetrics": []}', True),
        (b'{"resourceMetrics": {"broken": 1}, "resourceSpans": null}', True),
        (b'{"resourceMetrics": NaN, "resourceSpans": []}', True),
        (b"{}", False),
    ],
)
def test_metrics_are_counted_without_being_decoded(*, line: bytes, has_metrics: bool) -> None:
    (decoded,), defects = decode_line(line)
    assert (decoded.has_metrics, defects) == (has_metrics, [])


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
    assert [len(log.scope_logs or ()) for log in decoded.resource_logs] == [1, 1]
    assert all(log.resource for log in decoded.resource_logs)


def test_invalid_json_as_written_by_javascript_is_read() -> None:
    """NaN, half of a surrogate pair, and a number too large for any integer."""
    text = json.dumps(request([RECORD])).replace("user_prompt", r"\ud83d", 1)
    for odd in (text, text.replace("{", '{"x": NaN, ', 1), text.replace("{", '{"x": 1e999, ', 1)):
        (decoded,), defects = decode_line(odd.encode())
        assert (len(decoded.resource_logs or ()), defects) == (1, [])


ATTRIBUTION = {"session_id": SESSION, "masque": "Codesmith", "donned_at": "2026-06-01T12:00:00Z"}


def attribution_line(**replaced: object) -> bytes:
    """Return an attribution line with some keys replaced."""
    return json.dumps({**ATTRIBUTION, **replaced}).encode()


def test_a_line_that_was_written_twice_is_the_same_event() -> None:
    batch = read(
        attribution_line() + b"\n", attribution_line() + b"\n", attribution_line(masque="Reviewer")
    )
    assert batch.events.height == 3
    assert batch.events["event_id"].n_unique() == 2


def test_an_array_can_have_several_lines() -> None:
    batch = read(b"[" + attribution_line() + b"," + attribution_line(session_id="other") + b"]")
    assert batch.events["session_id"].to_list() == [SESSION, "other"]


@pytest.mark.parametrize("when", ["1999-06-01T12:00:00Z", "2026-06-02T00:05:01Z"])
def test_an_impossible_time_is_replaced_and_counted(when: str) -> None:
    batch = read(attribution_line(donned_at=when))
    (row,) = batch.events.to_dicts()
    assert (row["event_time"], row["time_anomaly"]) == (NOW, True)
    assert batch.counts.time_anomalies == 1


def test_nul_is_removed_because_databases_reject_it() -> None:
    (row,) = read(attribution_line(session_id="a\0b", masque="Code\0smith")).events.to_dicts()
    assert (row["session_id"], row["masque"]) == ("ab", "Codesmith")


@pytest.mark.parametrize(
    ("replaced", "defect"),
    [
        ({"session_id": 5}, "session_id is not a non-empty string"),
        ({"session_id": ""}, "session_id is not a non-empty string"),
        ({"session_id": "\0"}, "session_id is not a non-empty string"),
        ({"masque": None}, "masque is not a non-empty string"),
        ({"masque": ["Codesmith"]}, "masque is not a non-empty string"),
        ({"masque": ""}, "masque is not a non-empty string"),
        ({"masque": "  "}, "masque is not a non-empty string"),
        # Its session may be another one than that of this id in another organization.
        ({"organization_id": "o"}, "no such name: organization_id"),
        ({"doffedAt": "2026-06-01T13:00:00Z", "why": 1}, "no such name: doffedAt, why"),
        ({"doffed_at": "2026-06-01T11:59:59Z"}, "doffed_at is before donned_at"),
        ({"donned_at": None}, "donned_at is not an ISO 8601 time"),
        ({"donned_at": 1_780_315_200}, "donned_at is not an ISO 8601 time"),
        ({"doffed_at": "later"}, "doffed_at is not an ISO 8601 time"),
    ],
)
def test_an_invalid_line_is_quarantined(replaced: dict[str, Any], defect: str) -> None:
    batch = read(attribution_line(**replaced))
    assert batch.events.is_empty()
    assert [line.reason for line in batch.quarantined] == [f"attribution line: {defect}"]


LARGE = claude("compaction", 1, **{f"a{n}": n for n in range(101)})
"""Record with 103 attributes, three more than the limit in these tests."""


def names(line: bytes, **settings: Any) -> list[str]:
    return read(line, **settings).events["source_event_name"].to_list()


@pytest.mark.parametrize(
    "document",
    [
        request([claude("user_prompt"), LARGE, claude("hook"), LARGE]),
        # A broken record, a broken scope and a broken resource are one record each.
        request([claude("user_prompt"), 5, LARGE, claude("hook")]),  # type: ignore[list-item]
        {"resourceLogs": [7, *request([claude("user_prompt"), LARGE])["resourceLogs"]]},
        # The index continues over the requests of an array.
        [request([LARGE, claude("hook")]), request([claude("hook"), LARGE])],
        [request([5, LARGE]), {"foo": 1}, request([LARGE, 6])],  # type: ignore[list-item]
        # So is what is no request.
        [request([LARGE]), 5, None, request([claude("hook"), LARGE])],
    ],
)
def test_the_indices_in_the_quarantine_select_the_same_records(document: object) -> None:
    line = json.dumps(document).encode()
    for quarantined_line in read(line).quarantined:
        if quarantined_line.record_index is None:
            continue
        selected = select_records(line, [quarantined_line.record_index])
        (again,) = read(selected).quarantined
        assert (again.record_index, again.reason) == (0, quarantined_line.reason)
        if "attributes" in quarantined_line.reason:
            assert names(selected, max_attributes=200) == ["compaction"]
    indices = [defect.record_index for defect in read(line).quarantined]
    assert len(set(indices)) == len(indices) > 0


def test_several_records_keep_their_order_resource_and_scope() -> None:
    line = json.dumps(
        request([claude("user_prompt"), claude("hook"), claude("tool_result")], {"team.id": "t"})
    ).encode()
    selected = select_records(line, {2, 0})
    assert names(selected) == ["user_prompt", "tool_result"]
    whole = read(line).events.filter(~read(line).events["source_event_name"].is_in(["hook"]))
    assert read(selected).events["event_id"].equals(whole["event_id"])
    assert read(selected).events["team_id"].to_list() == ["t", "t"]


def test_metrics_of_the_same_line_are_not_counted_again() -> None:
    document = {**request([claude("user_prompt")]), "resourceMetrics": []}
    line = json.dumps(document).encode()
    assert read(line).counts.skipped == 1
    assert read(select_records(line, [0])).counts.skipped == 0


def test_a_line_that_is_no_json_has_no_records() -> None:
    with pytest.raises(MalformedLineError, match="not JSON"):
        select_records(b"{", [0])


def test_a_missing_record_is_an_error() -> None:
    line = json.dumps(request([claude("user_prompt")])).encode()
    with pytest.raises(MalformedLineError, match="has no record 1, only 1"):
        select_records(line, [0, 1])
