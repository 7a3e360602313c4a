"""The canonical event: its names, the columns that all dialects share, and its identity."""

import json
from dataclasses import replace
from itertools import permutations
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evaluation_pipelines.telemetry.domain import reader
from evaluation_pipelines.telemetry.domain.attributes import count, text
from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect
from evaluation_pipelines.telemetry.domain.dialects.registry import DIALECTS
from evaluation_pipelines.telemetry.domain.events import Clock
from evaluation_pipelines.telemetry.domain.otlp import Defect
from evaluation_pipelines.telemetry.domain.reader import EventReader
from evaluation_pipelines.telemetry.domain.shapes import Origin
from evaluation_pipelines_tests.telemetry.domain.reading import NOW_US, OnePrice, read, read_one
from evaluation_pipelines_tests.world import attributes, claude, line, request


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


def test_the_number_of_records_converted_together_does_not_change_the_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = [line(claude(name, n, n=n)) for n in range(21) for name in ("hook", "compaction")]
    whole = read(*lines)
    monkeypatch.setattr(reader, "_RECORDS_PER_CONVERSION", 3)
    pieces = read(*lines)
    assert pieces.events.equals(whole.events)
    assert (pieces.counts, pieces.names) == (whole.counts, whole.names)


def test_a_resource_value_is_used_where_a_record_has_none() -> None:
    """An empty value counts as none."""
    records = [claude("compaction", n) for n in range(3)]
    for record, team in zip(records, ("", "mine", ""), strict=True):
        record["attributes"] += attributes({"team.id": team})
    batch = read(line(*records[:2], team__id="theirs"), line(records[2]))
    assert batch.events["team_id"].to_list() == ["theirs", "mine", None]


def test_resources_with_equal_values_of_other_types_are_distinguished() -> None:
    """1, 1.0 and True are equal in Python, but their JSON texts differ."""
    records = [line(claude("compaction"), number=value) for value in (1, 1.0, True, "1")]
    kept = [json.loads(text)["number"] for text in read(*records).events["attributes"]]
    assert [repr(value) for value in kept] == ["1", "1.0", "True", "'1'"]


def test_attributes_of_the_resource_come_first_and_give_way_to_those_of_the_record() -> None:
    plain, same = claude("compaction"), claude("compaction")
    plain["attributes"] += attributes({"own": "1"})
    same["attributes"] += attributes({"own": "1", "b": "mine"})
    events = read(line(plain, a="x", b="theirs"), line(same, a="x", b="theirs")).events
    assert events["attributes"].to_list() == [
        '{"a":"x","b":"theirs","own":"1"}',
        '{"a":"x","b":"mine","own":"1"}',
    ]


@pytest.mark.parametrize("order", [*permutations([{"a": "1"}, {"a": "2"}, {"b": "1"}])])
def test_the_last_of_a_repeated_key_counts_in_every_shape(order: Any) -> None:
    record = claude("compaction")
    record["attributes"] += [attribute for values in order for attribute in attributes(values)]
    last = [values["a"] for values in order if "a" in values][-1]
    assert json.loads(read_one(line(record))["attributes"]) == {"a": last, "b": "1"}


@pytest.mark.parametrize(
    ("name", "expected"), [("gen_ai.choice", "choice"), ("src/main.rs:7", None), (7, None)]
)
def test_a_top_level_name_is_used_only_if_it_is_one_of_the_conventions(
    name: object, expected: str | None
) -> None:
    record = {**claude("x"), "body": {"kvlistValue": {"values": []}}, "eventName": name}
    record["attributes"] = attributes({"session.id": "s"})
    foreign = json.dumps(request([record], scope="any")).encode()
    assert read_one(foreign, keep_unknown_events=True)["source_event_name"] == expected


RECORDS = st.builds(
    lambda name, second, values: claude(name, second, **values),
    st.sampled_from(["user_prompt", "tool_result", "tool_decision", "api_request", "hook", "x"]),
    st.integers(0, 3),
    st.dictionaries(
        st.sampled_from(
            "session__id organization__id masque masque__name decision decision_type tool_name"
            " tool_input duration_ms total_duration_ms success cost_usd input_tokens prompt error k"
            " service__version event__timestamp event__name command_source".split()
        ),
        st.sampled_from(
            ["", "a", "true", "-1", "5", 5, -1, 0.5, True, "<REDACTED>", "Exit code 1", "builtin"]
        )
        | st.just([]),
        max_size=6,
    ),
)


@example([claude("user_prompt", command_source=kind) for kind in ("builtin", "custom")])
@example([claude("api_request", input_tokens=1, cache_read_tokens=2, cache_creation_tokens=3)])
@given(st.lists(RECORDS, min_size=1, max_size=8))
def test_rows_of_the_columns_that_a_dialect_uses_give_the_same_events(
    records: list[dict[str, Any]],
) -> None:
    whole_rows = [replace(dialect, uses=None) for dialect in DIALECTS]
    together = line(*records, team__id="t")
    assert read(together).events.equals(read(together, dialects=whole_rows).events)


@given(st.lists(RECORDS, min_size=1, max_size=8))
def test_records_read_together_are_the_same_events_as_each_alone(
    records: list[dict[str, Any]],
) -> None:
    together = read(line(*records, team__id="t", k="v"))
    alone = [read(line(record, team__id="t", k="v")) for record in records]
    ignored = ["source_offset", "event_id"]  # equal ones of a request are different events
    assert together.events.drop(ignored).equals(
        pl.concat([batch.events for batch in alone]).drop(ignored)
    )
    for name in ("value_anomalies", "time_anomalies", "unattributed", "repeated_records"):
        total = sum(getattr(batch.counts, name) for batch in alone)
        assert getattr(together.counts, name) == total
