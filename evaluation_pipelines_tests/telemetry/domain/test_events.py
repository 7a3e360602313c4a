"""The canonical event: its names, the columns that all dialects share, and its identity."""

import json
from typing import Any

import pytest

from evaluation_pipelines.telemetry.domain.attributes import count, text
from evaluation_pipelines.telemetry.domain.counts import IngestCounts
from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect
from evaluation_pipelines.telemetry.domain.events import Clock
from evaluation_pipelines.telemetry.domain.otlp import Defect
from evaluation_pipelines.telemetry.domain.reader import EventReader
from evaluation_pipelines.telemetry.domain.shapes import Origin
from evaluation_pipelines_tests.telemetry.domain.reading import NOW_US, OnePrice, read, read_one
from evaluation_pipelines_tests.world import NOON_NS, attributes, claude, line, request


def with_attributes(**values: object) -> list[dict[str, Any]]:
    """Return a prompt with more attributes, in the given and in the reverse order."""
    more = attributes({key.replace("__", "."): value for key, value in values.items()})
    record = claude("user_prompt", session__id="")
    return [
        {**record, "attributes": [*record["attributes"], *order]} for order in (more, more[::-1])
    ]


@pytest.mark.parametrize(
    ("values", "column", "expected", "others"),
    [
        (
            {"session__id": "s", "conversation__id": "c", "gen_ai__conversation__id": "g"},
            "session_id",
            "s",
            {"conversation.id": "c", "gen_ai.conversation.id": "g"},
        ),
        ({"conversation__id": "c", "session__id": ""}, "session_id", "c", None),
        (
            {"session__id": "s", "masque__name": "Codesmith", "masque": "Reviewer"},
            "masque",
            "Codesmith",
            {"masque": "Reviewer"},
        ),
        (
            {"session__id": "s", "duration_ms": "-1", "total_duration_ms": "5"},
            "duration_ms",
            5.0,
            None,
        ),
    ],
)
def test_the_same_of_two_attributes_for_one_column_counts_in_any_order(
    values: dict[str, object], column: str, expected: object, others: dict[str, str] | None
) -> None:
    for record in with_attributes(**values):
        event = read_one(line(record))
        assert event[column] == expected
        assert (json.loads(event["attributes"]) if event["attributes"] else None) == others


def test_a_broken_value_does_not_hide_a_good_one_and_is_counted() -> None:
    for record in with_attributes(session__id="s", total_duration_ms="-1", duration_ms="5"):
        batch = read(line(record))
        assert batch.events["duration_ms"].to_list() == [5.0]
        assert batch.counts.value_anomalies == 1


@pytest.mark.parametrize(
    ("name", "body", "stored"),
    [
        ("claude_code.at_mention", {"stringValue": "anything at all"}, "at_mention"),
        ("", {"stringValue": "claude_code.at_mention"}, "at_mention"),
        ("at\0_mention", {}, "at_mention"),
        ("x" * 300, {}, "x" * 200),
        ("", {"stringValue": "a sentence, no name"}, None),
        ("", {"stringValue": "x" * 201}, None),
        ("", {"arrayValue": {"values": []}}, None),
        ("", ["no", "value"], None),
        ("", None, None),
    ],
)
def test_an_event_is_named_by_its_attribute_or_by_a_body_of_one_word(
    name: str, body: object, stored: str | None
) -> None:
    event = read_one(line({**claude("user_prompt", event__name=name), "body": body}))
    assert event["source_event_name"] == stored


def test_names_of_records_that_are_only_counted_have_no_nul() -> None:
    """They are stored in the ledger, and not every database accepts NUL."""
    record = {**claude("na\0me"), "body": {}}
    batch = read(json.dumps(request([record], scope="sco\0pe")).encode())
    assert batch.names == {("scope", "name"): 1}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"intValue": 5}, {"intValue": "5"}),
        ({}, None),
        ({"stringValue": ""}, {}),
        ({"kvlistValue": {"values": []}}, {"kvlistValue": {}}),
    ],
)
def test_a_body_re_encoded_by_a_collector_is_the_same_event(one: object, other: object) -> None:
    record = claude("user_prompt")
    batch = read(line({**record, "body": one}), line({**record, "body": other}))
    assert batch.events["event_id"].n_unique() == 1


def test_equal_records_of_two_sessions_are_different_events() -> None:
    record = claude("user_prompt", session__id="")
    batch = read(line(record, session__id="s"), line(record, session__id="other"))
    assert batch.events["event_id"].n_unique() == 2


def test_the_organization_is_default_if_it_is_not_sent() -> None:
    assert read_one(line(claude("user_prompt")))["organization_id"] == "default"
    named = read_one(line(claude("user_prompt"), organization__id="acme"))
    assert named["organization_id"] == "acme"


TWICE = Dialect(
    source_cli="twice",
    name_prefix="twice.",
    scopes=(),
    event_names={"call": "api_request"},
    columns={"tokens": ("output_tokens", count), "text": ("content", text)},
    refine=lambda row, _: row.get("content") != "again",
)


def test_a_repeated_record_is_only_counted_by_name() -> None:
    reader = EventReader([TWICE], OnePrice(), Clock(NOW_US, 0), max_attributes=9)
    records = [claude("twice.call", text=text_sent, tokens=5) for text_sent in ("once", "again")]
    reader.read(line(*records), Origin("file", 0))
    batch = reader.take(0)
    assert batch.events.select("source_cli", "event_name", "output_tokens").rows() == [
        ("twice", "api_request", 5)
    ]
    assert (batch.counts.repeated_records, batch.counts.events) == (1, 1)
    assert batch.names == {("twice", "twice.call"): 1}


def test_a_line_refused_after_its_beginning_has_its_full_length() -> None:
    reader = EventReader([], OnePrice(), Clock(NOW_US, 0), max_attributes=9)
    reader.refuse(b'{"resourceLogs": "\xff', 70, 5_000, Defect("too long"))
    batch = reader.take(5_000)
    (refused,) = batch.quarantined
    assert (refused.offset, refused.length_bytes, refused.reason) == (70, 5_000, "too long")
    assert refused.first_bytes == '{"resourceLogs": "\\xff'
    assert (batch.counts.lines, batch.counts.quarantined, batch.counts.bytes) == (1, 1, 5_000)


@pytest.mark.parametrize("time_ns", [None, "0", str(NOON_NS // 10), str(NOON_NS * 2)])
def test_a_record_without_a_possible_time_has_the_time_of_reading(time_ns: str | None) -> None:
    record = {**claude("user_prompt"), "timeUnixNano": time_ns, "observedTimeUnixNano": time_ns}
    event = read_one(line(record))
    assert (event["event_time"].timestamp() * 1e6, event["time_anomaly"]) == (NOW_US, True)


def test_counts_are_added_separately() -> None:
    total = IngestCounts(lines=2, events=5)
    total.add(IngestCounts(lines=1, quarantined=3))
    assert total == IngestCounts(lines=3, events=5, quarantined=3)
