"""Words of replies and results of tools are found inside what went over the wire."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.judging.domain.prompt.logged_json import (
    ToolAnswer,
    reply_text,
    tool_answers,
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
        (json.dumps(GEMINI)[:-60], "It plans"),  # cut off: what is whole of it
        ('[{"candidates": [{"content": {"parts": [{"func', None),
        ('{"greeting": "hi"}', '{"greeting": "hi"}'),  # a reply that happens to be JSON
        ("[1, 2]", "[1, 2]"),
        ("[]", "[]"),
        ("{not json", "{not json"),
        (nested(3), "deep"),
        (nested(300), None),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_a_reply_is_its_words(content: str, text: str | None) -> None:
    assert reply_text(content) == text


@pytest.mark.parametrize(
    ("part", "answer"),
    [
        (
            {"functionResponse": {"id": "c1", "name": "ls", "response": {"output": "a b"}}},
            ToolAnswer("c1", "ls", "a b"),
        ),
        (
            {"functionResponse": {"id": "c1", "name": "ls", "response": {"error": "no"}}},
            ToolAnswer("c1", "ls", "no"),
        ),
        (
            {"functionResponse": {"id": "c1", "name": "ls", "response": {"rows": 3}}},
            ToolAnswer("c1", "ls", '{"rows": 3}'),
        ),
        (
            {"functionResponse": {"id": "c1", "name": 7, "response": "plain"}},
            ToolAnswer("c1", None, "plain"),
        ),
        (
            {"type": "tool_result", "tool_use_id": "c1", "content": "a b"},
            ToolAnswer("c1", None, "a b"),
        ),
        (
            {
                "type": "tool_result",
                "tool_use_id": "c1",
                "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            },
            ToolAnswer("c1", None, "ab"),
        ),
        ({"role": "tool", "tool_call_id": "c1", "content": "x"}, ToolAnswer("c1", None, "x")),
    ],
)
def test_a_result_is_found_in_the_request_of_each_provider(
    part: dict[str, object], answer: ToolAnswer
) -> None:
    body = {"messages": [{"role": "user", "parts": [{"text": "hi"}, part]}]}

    assert tool_answers(json.dumps(body)) == [answer]
    assert tool_answers(json.dumps([body, body])) == [answer, answer]


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
def test_without_an_id_or_a_whole_body_there_is_no_result(body: str) -> None:
    assert tool_answers(body) == []


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
def test_no_json_breaks_it(document: object) -> None:
    body = json.dumps(document)

    reply_text(body)
    reply_text(body[: len(body) // 2])
    assert all(isinstance(each.text, str) for each in tool_answers(body))
