"""Extraction of reply texts and tool results from logged JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.judging.domain.prompt.logged_json import (
    LoggedToolResult,
    logged_tool_results,
    reply_text,
)

GEMINI = [
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "It "}]}}]},
    {
        "candidates": [
            {"content": {"parts": [{"text": "plans", "thought": True}, {"text": "greets."}]}}
        ],
        "modelVersion": "m-1",
    },
]
GEMINI_CALL = [
    {"candidates": [{"content": {"parts": [{"functionCall": {"name": "ls", "args": {}}}]}}]}
]
OPENAI = {"choices": [{"message": {"role": "assistant", "content": "Done."}}]}
CONVENTIONS = [{"role": "assistant", "parts": [{"type": "text", "content": "Hello"}]}]


def nested(levels: int) -> str:
    return '{"parts":[' * levels + '{"text":"deep"}' + "]}" * levels


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("It greets.", "It greets."),
        ("  plain", "  plain"),
        (json.dumps(GEMINI), "It greets."),
        (json.dumps(GEMINI_CALL), None),
        (json.dumps(OPENAI), "Done."),
        (json.dumps(CONVENTIONS), "Hello"),
        (json.dumps(GEMINI)[:-60], "It plans"),  # truncated: the complete texts
        ('[{"candidates": [{"content": {"parts": [{"func', None),
        ('{"greeting": "hi"}', '{"greeting": "hi"}'),  # a reply that is JSON
        ("[1, 2]", "[1, 2]"),
        ("[]", "[]"),
        ("{not json", "{not json"),
        (nested(3), "deep"),
        (nested(300), None),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_the_words_of_a_reply_are_returned(content: str, text: str | None) -> None:
    assert reply_text(content) == text


@pytest.mark.parametrize(
    ("part", "result"),
    [
        (
            {"functionResponse": {"id": "c1", "name": "ls", "response": {"output": "a b"}}},
            LoggedToolResult("c1", "ls", "a b"),
        ),
        (
            {"functionResponse": {"id": "c1", "name": "ls", "response": {"error": "no"}}},
            LoggedToolResult("c1", "ls", "no"),
        ),
        (
            {"functionResponse": {"id": "c1", "name": "ls", "response": {"rows": 3}}},
            LoggedToolResult("c1", "ls", '{"rows": 3}'),
        ),
        (
            {"functionResponse": {"id": "c1", "name": 7, "response": "plain"}},
            LoggedToolResult("c1", None, "plain"),
        ),
        (
            {"type": "tool_result", "tool_use_id": "c1", "content": "a b"},
            LoggedToolResult("c1", None, "a b"),
        ),
        (
            {
                "type": "tool_result",
                "tool_use_id": "c1",
                "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            },
            LoggedToolResult("c1", None, "ab"),
        ),
        ({"role": "tool", "tool_call_id": "c1", "content": "x"}, LoggedToolResult("c1", None, "x")),
    ],
)
def test_results_are_found_in_requests_of_each_provider(
    part: dict[str, object], result: LoggedToolResult
) -> None:
    body = {"messages": [{"role": "user", "parts": [{"text": "hi"}, part]}]}

    assert logged_tool_results(json.dumps(body)) == [result]
    assert logged_tool_results(json.dumps([body, body])) == [result, result]


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{cut",
        '{"role": "tool", "content": "no id"}',
        '{"functionResponse": "odd"}',
        "[" * 50 + '{"role":"tool","tool_call_id":"c","content":"x"}' + "]" * 50,
    ],
)
def test_without_an_id_or_a_complete_body_no_result_is_found(body: str) -> None:
    assert logged_tool_results(body) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "candidates content parts text thought functionResponse response role type "
                "tool_use_id tool_call_id id name output".split()
            ),
            inner | st.sampled_from(["tool", "tool_result"]),
            max_size=4,
        )
    ),
)


@given(JSON)
def test_any_json_is_accepted(document: object) -> None:
    body = json.dumps(document)

    reply_text(body)
    reply_text(body[: len(body) // 2])
    assert all(isinstance(each.text, str) for each in logged_tool_results(body))
