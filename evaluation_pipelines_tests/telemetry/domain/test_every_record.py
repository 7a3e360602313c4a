"""No record of a line vanishes: it is an event, counted by name, or in quarantine."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation_pipelines.telemetry.domain.reader import EventBatch
from evaluation_pipelines_tests.telemetry.domain.reading import read
from evaluation_pipelines_tests.world import claude, request

SCOPE = {"name": "com.anthropic.claude_code.events"}
PROMPT = claude("user_prompt")


def records_in(batch: EventBatch) -> int:
    """All that became of the records of a batch."""
    counts = batch.counts
    left_out = counts.unknown_records + counts.repeated_records + counts.unattributed
    assert left_out == sum(batch.names.values())
    return counts.events + left_out + counts.quarantined


SNAKE = {
    "resourceLogs": "resource_logs",
    "scopeLogs": "scope_logs",
    "logRecords": "log_records",
    "timeUnixNano": "time_unix_nano",
    "observedTimeUnixNano": "observed_time_unix_nano",
    "stringValue": "string_value",
    "intValue": "int_value",
}
LIST_NAMES = ("resourceLogs", "scopeLogs", "logRecords")
OLD = {"scopeLogs": "instrumentationLibraryLogs", "scope": "instrumentationLibrary"}


def renamed(document: object, names: dict[str, str]) -> bytes:
    text = json.dumps(document)
    for name, other in names.items():
        text = text.replace(f'"{name}"', f'"{other}"')
    return text.encode()


@pytest.mark.parametrize(
    "names",
    [SNAKE, OLD, OLD | {"logRecords": "logs"}, *({name: SNAKE[name]} for name in LIST_NAMES)],
    ids=str,
)
def test_other_names_of_the_lists_and_values_are_read(names: dict[str, str]) -> None:
    document = request([claude("user_prompt", prompt="x"), claude("api_request", output_tokens=5)])
    same = read(json.dumps(document).encode()).events
    found = read(renamed(document, names))
    assert (records_in(found), found.counts.events) == (2, 2)
    assert found.events.equals(same)


def test_the_time_of_a_record_has_another_name_too() -> None:
    record = claude("user_prompt") | {"timeUnixNano": "1780315201000000000"}  # observed at noon
    (event,) = read(renamed(request([record]), SNAKE)).events.to_dicts()
    assert event["event_time"] == datetime(2026, 6, 1, 12, 0, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("container", "events"),
    [
        # Both lists of a name that is there twice.
        ('{"resourceLogs": [R], "resourceLogs": [R]}', 4),
        ('{"resourceLogs": [{"scopeLogs": [S], "scopeLogs": [S]}]}', 4),
        ('{"resourceLogs": [{"scopeLogs": [{"logRecords": [P], "logRecords": [P, P]}]}]}', 3),
        ('{"resourceLogs": [R], "resource_logs": [R]}', 4),
        ('{"resourceLogs": [{"scopeLogs": [S], "scope_logs": [S]}]}', 4),
        ('{"resourceLogs": [R], "resourceLogs": null}', 2),
        ('{"resourceLogs": [{"scopeLogs": [S], "scopeLogs": null}]}', 2),
    ],
)
def test_lists_that_are_there_twice_are_read_together(container: str, events: int) -> None:
    scope = {"scope": SCOPE, "logRecords": [PROMPT, PROMPT]}
    given_texts = {"P": PROMPT, "S": scope, "R": {"scopeLogs": [scope]}}
    text = container
    for letter, content in given_texts.items():
        text = text.replace(f"[{letter}", f"[{json.dumps(content)}").replace(
            f" {letter}]", f" {json.dumps(content)}]"
        )
    text = text.replace(
        '{"logRecords": [{', '{"scope": ' + json.dumps(SCOPE) + ', "logRecords": [{'
    )
    batch = read(text.encode())
    assert (batch.counts.events, records_in(batch)) == (events, events)


@pytest.mark.parametrize(
    ("text", "records"),
    [
        ('{"resourceLogs":[{"scopeLogs":"a","scopeLogs":"b"}]}', 2),
        ('{"resourceLogs":[{"scopeLogs":[{"logRecords":{"a":1},"logRecords":[{}]}]}]}', 2),
        ('{"resourceLogs":[{"scopeLogs":[{"logRecords":[{}],"logRecords":null}]}]}', 1),
    ],
)
def test_what_is_no_list_is_one_broken_record_beside_a_list(text: str, records: int) -> None:
    assert records_in(read(text.encode())) == records


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"scopes": [{}], "resource": {}}, "a resource has no list of records, only: resource, sc"),
        ({"scopeLogs": [{"scope": SCOPE, "entries": []}]}, "a scope has no list of records, only"),
    ],
)
def test_a_container_of_which_nothing_is_understood_is_quarantined(
    entry: dict[str, Any], reason: str
) -> None:
    good = request([PROMPT])["resourceLogs"][0]
    batch = read(json.dumps({"resourceLogs": [entry, good]}).encode())
    (quarantined,) = batch.quarantined
    assert reason in quarantined.reason
    assert (batch.counts.events, quarantined.record_index) == (1, 0)


@pytest.mark.parametrize(
    "entry", [{}, {"resource": {}}, {"schemaUrl": "x"}, {"scopeLogs": []}, {"scopeLogs": None}]
)
def test_a_container_without_records_is_no_record(entry: dict[str, Any]) -> None:
    assert records_in(read(json.dumps({"resourceLogs": [entry]}).encode())) == 0


def test_invalid_utf8_in_a_field_that_is_not_used_is_quarantined() -> None:
    line = json.dumps(request([PROMPT | {"severityText": "?"}])).encode().replace(b'"?"', b'"\xff"')
    batch = read(line)
    assert (batch.counts.events, batch.counts.quarantined) == (0, 1)
    assert "not UTF-8" in batch.quarantined[0].reason


def test_a_value_that_is_nested_very_deeply_costs_no_other_record() -> None:
    deep: dict[str, Any] = {"stringValue": "end"}
    for _ in range(3_000):
        deep = {"arrayValue": {"values": [deep]}}
    text = json.dumps(request([PROMPT, PROMPT | {"attributes": [*PROMPT["attributes"], "DEEP"]}]))
    line = text.replace('"DEEP"', '{"key": "deep", "value": ' + dumped(deep) + "}")
    batch = read(line.encode())
    assert (batch.counts.events, batch.counts.quarantined) == (2, 0)
    assert "(nested too deeply)" in batch.events["attributes"][1]


def dumped(deep: dict[str, Any]) -> str:
    """The JSON of arrays in arrays; the standard library cannot write it."""
    depth = 0
    while "arrayValue" in deep:
        (deep,), depth = deep["arrayValue"]["values"], depth + 1
    return '{"arrayValue":{"values":[' * depth + json.dumps(deep) + "]}}" * depth


RECORDS: st.SearchStrategy[Any] = st.sampled_from(
    [
        PROMPT,
        claude("user_prompt", session__id=""),
        claude("unheard_of"),
        {"body": {"stringValue": "a sentence of a program"}},
        {},
        5,
        "text",
        None,
        {"attributes": 5},
        {"attributes": [{"value": {}}]},
        {"time_unix_nano": "1780315200000000000", "body": {"string_value": "claude_code.x"}},
    ]
)
LISTS = st.lists(RECORDS, max_size=4)
SCOPE_NAMES = ("scopeLogs", "scope_logs", "instrumentationLibraryLogs")
RECORD_NAMES = ("logRecords", "log_records", "logs")


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, int]:
    """The text of a request with its lists under all names, some twice; and its records."""
    total = 0

    def listed(names: tuple[str, ...], texts: list[str]) -> str:
        cut = draw(st.integers(0, len(texts)))
        pairs = [
            f'"{draw(st.sampled_from(names))}": [{", ".join(part)}]'
            for part in (texts[:cut], texts[cut:])
        ]
        return ", ".join(pairs[: draw(st.integers(1, 2))] if not texts[cut:] else pairs)

    resources = []
    for _ in range(draw(st.integers(1, 3))):
        scopes = []
        for _ in range(draw(st.integers(0, 3))):
            records = draw(LISTS)
            total += len(records)
            texts = [json.dumps(record) for record in records]
            scope = f'"scope": {json.dumps(SCOPE)}, ' if draw(st.booleans()) else ""
            scopes.append(f"{{{scope}{listed(RECORD_NAMES, texts)}}}")
        resources.append(f"{{{listed(SCOPE_NAMES, scopes)}}}")
    return f"{{{listed(('resourceLogs', 'resource_logs'), resources)}}}", total


@settings(max_examples=5 * settings().max_examples)
@given(requests())
def test_every_record_of_a_request_of_any_shape_is_in_one_number(sent: tuple[str, int]) -> None:
    text, total = sent
    assert records_in(read(text.encode())) == total
