"""Requests without a newline between them, and beginnings of requests before whole ones."""

import json
from codecs import BOM_UTF8

import pytest

from evaluation_pipelines.telemetry.domain import joined
from evaluation_pipelines.telemetry.domain.joined import documents_end, pieces_of
from evaluation_pipelines.telemetry.domain.lenient_json import JsonState, json_state
from evaluation_pipelines.telemetry.unread_files import place_in_series
from evaluation_pipelines_tests.telemetry.domain.reading import read
from evaluation_pipelines_tests.telemetry.domain.test_sdk_records import sdk
from evaluation_pipelines_tests.world import claude, line

A, B = (line(claude("user_prompt", n, prompt='}{"x"')).strip() for n in range(2))
DON = b'{"session_id": "s", "masque": "M", "donned_at": "2026-06-01T11:00:00Z"}'
HALF = A[: len(A) // 2]
SNAKE_CASE = B.replace(b"resourceLogs", b"resource_logs").replace(b"scopeLogs", b"scope_logs")
RECORD = json.dumps(sdk()).encode()
HALF_RECORD = RECORD[: RECORD.index(b'{"event.name"')]
SPAN = json.dumps({"resource": {}, "kind": 0, "startTime": [1, 0], "_spanContext": {}}).encode()


@pytest.mark.parametrize(
    ("sent", "events", "quarantined"),
    [
        (A + B, 2, []),
        (A + b" \t" + B, 2, []),
        (A + DON + B, 3, []),
        # What a crash or a rotation left of a request does not take the next one with it.
        (HALF + B, 1, [0]),
        (A + HALF + B, 2, [len(A)]),
        (A + HALF, 1, [len(A)]),
        (A + b"\xff" + B, 2, [len(A)]),
        (A + b"xyz", 1, [len(A)]),
        (b"2026-06-01 INFO " + A, 1, [0]),
        (A + b"\0" * 50 + B, 2, [len(A)]),
        (A + BOM_UTF8 + B, 2, []),
        (b"\x1e" + A + b"\x1e" + B, 2, []),
        # A number that Python does not read, and values that are too deep for its parser.
        (A[:-1] + b',"n":' + b"9" * 5_000 + b"}" + B, 1, [0]),
        (A[:-1] + b',"n":' + b"[" * 2_000 + b"]" * 2_000 + b"}" + B, 2, []),
        # A broken array: its whole requests are read.
        (b"[" + A + b"," + HALF + b"," + B + b"]", 2, [1 + len(A) + 1]),
        (HALF, 0, [0]),
        # Documents with other names, behind halves that end where a value may follow.
        (HALF_RECORD + RECORD + B, 2, [0]),
        (RECORD + HALF_RECORD + SPAN + RECORD, 2, [len(RECORD)]),
        (HALF + DON, 1, [0]),
        (SNAKE_CASE[:100] + SNAKE_CASE, 1, [0]),
        # What is no object in an array is a broken record.
        (b"[" + A + b',5,null,"x",' + B + b"]", 2, [0, 0, 0]),
    ],
)
def test_every_whole_request_of_a_line_is_read(
    sent: bytes, events: int, quarantined: list[int]
) -> None:
    batch = read(sent)
    assert batch.events.height == events
    assert [quarantined_line.offset for quarantined_line in batch.quarantined] == quarantined
    assert batch.counts.quarantined == len(quarantined)


def test_a_document_may_still_grow_into_what_looks_like_the_next() -> None:
    assert documents_end(A + HALF_RECORD + RECORD) == len(A)
    assert documents_end(A + HALF_RECORD + RECORD + B) == len(A + HALF_RECORD + RECORD + B)
    assert documents_end(HALF + B + HALF) == len(HALF + B)


@pytest.mark.parametrize("start", [b'{"hrTime":', b'{"session_id":"x","a":', b'}{"x":['])
def test_a_long_line_that_is_broken_everywhere_is_read_a_few_times(
    monkeypatch: pytest.MonkeyPatch, start: bytes
) -> None:
    text, original, read_bytes, counted_bytes = start * 30_000 + b'"', joined._decoded, 0, 0

    def counting(readable: str, begin: int) -> tuple[object, int]:
        nonlocal read_bytes, counted_bytes
        document, end = original(readable, begin)
        read_bytes, counted_bytes = read_bytes + end - begin, counted_bytes + end
        return document, end

    monkeypatch.setattr(joined, "_decoded", counting)
    assert pieces_of(text) == [(0, text)]
    # 8 times in vain, and what is read last may be the whole text. 16 bytes count as one read.
    assert 0 < read_bytes <= (8 + 1) * len(text)
    assert counted_bytes <= (8 + 1) * len(text) * 16


def test_pieces_are_where_they_were() -> None:
    text = A + b"  " + B
    assert pieces_of(text) == [(0, A), (len(A) + 2, B)]
    assert [json.loads(piece) for _, piece in pieces_of(text)] == [json.loads(A), json.loads(B)]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("agents-2026-11-28T09-00-00.000-size.jsonl", "agents.jsonl"),
        ("agents-2026-11-28T09-00-00.000.jsonl", "agents-2026-11-28T10-00-00.000-size.jsonl"),
        ("x/agents.jsonl.2", "x/agents.jsonl.1"),
        ("x/agents.jsonl.1", "x/agents.jsonl"),
        ("agents_20261128T09.jsonl.gz", "agents_20261128T10.jsonl"),
        ("2026-11-27.json", "2026-11-28.json"),
    ],
)
def test_files_of_one_rotation_are_ranked_by_their_names(older: str, newer: str) -> None:
    (series, rank), (same, greater) = place_in_series(older), place_in_series(newer)
    assert series == same
    assert rank < greater


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a/x.jsonl", "b/x.jsonl"),
        ("x.jsonl", "y.jsonl"),
        ("v2.jsonl", "v.jsonl"),
        # Two that are live: a number alone tells no rotation.
        ("otel-collector-0.jsonl", "otel-collector-1.jsonl"),
        ("user_1.jsonl", "user_2.jsonl"),
        ("host-10.0.0.1.jsonl", "host-10.0.0.2.jsonl"),
        ("agents-2.jsonl", "agents.jsonl"),
    ],
)
def test_other_files_are_of_other_series(one: str, other: str) -> None:
    assert place_in_series(one)[0] != place_in_series(other)[0]


COMPLETE, TRUNCATED, BROKEN = JsonState.COMPLETE, JsonState.TRUNCATED, JsonState.BROKEN


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (b'{"a": 1}', COMPLETE),
        (b"[]", COMPLETE),
        (b" {} ", COMPLETE),
        (b'{"a": NaN, "b": 1e999, "c": "\\ud83d"}', COMPLETE),
        (b'{"a": "\\ud83d"}', COMPLETE),
        (b'{"a": ' * 5_000 + b"1" + b"}" * 5_000, COMPLETE),
        (b'{"a": 1\n', TRUNCATED),
        (b'{"a": NaN,\n', TRUNCATED),
        (b'{"a": NaN,\n "b": {\n', TRUNCATED),
        (b"[1, 2\n", TRUNCATED),
        (b"", TRUNCATED),
        (b"\n \n", TRUNCATED),
        (b'{"a": oops\n', BROKEN),
        (b'{"a": "x\n', BROKEN),
        (b'{"a": NaN, "b": "x\n', BROKEN),
        (b'{"session_id": "\xff"}', BROKEN),
        (b"17", BROKEN),
        (b'"text"', BROKEN),
        (b"{} {}", BROKEN),
        (b'{"a": NaN} {}', BROKEN),
    ],
)
def test_complete_truncated_and_broken_documents_are_told_apart(
    text: bytes, state: JsonState
) -> None:
    assert json_state(text) is state


@pytest.mark.parametrize("odd", ["1", "NaN", r"\"\\ud83d\""])
def test_all_lines_of_a_document_but_the_last_are_truncated(odd: str) -> None:
    text = json.dumps({"a": {"b": [1.5, -2, "x"], "c": "ODD"}, "d": "ODD"}, indent=1)
    lines = text.replace('"ODD"', odd.replace(r"\"", '"')).encode().splitlines(keepends=True)
    states = [json_state(b"".join(lines[:number])) for number in range(1, len(lines) + 1)]
    assert states == [TRUNCATED] * (len(lines) - 1) + [COMPLETE]
