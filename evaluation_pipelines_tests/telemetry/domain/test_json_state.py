"""Complete, truncated and broken JSON."""

import json

import pytest

from evaluation_pipelines.telemetry.domain.lenient_json import JsonState, json_state

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
