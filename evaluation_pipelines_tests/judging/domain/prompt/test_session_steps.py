"""Steps of a session: calls, results and replies of every agent, also those in logged JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.judging.domain.prompt import session_steps as module
from evaluation_pipelines.judging.domain.prompt.session_steps import (
    LoggedToolResult,
    SessionStep,
    StepText,
    logged_tool_results,
    reply_text,
    results_from_requests,
    session_steps,
)
from evaluation_pipelines_tests.world.rows import (
    Row,
    api_request,
    decision,
    doff,
    don,
    event,
    prompt,
    tool,
)


def steps(*rows: Row) -> list[SessionStep]:
    return session_steps(rows)


def sizes(**attributes: object) -> str:
    return json.dumps(attributes)


def test_times_count_from_the_first_event() -> None:
    found = steps(event("session_start", 10), prompt(12, content="Go"), prompt(75.5, content="On"))

    assert [(step.seconds, step.parts[0].text) for step in found] == [(2.0, "Go"), (65.5, "On")]


GEMINI_HI = '[{"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]}]'
COMPACTED = "COMPACTION of the conversation, to make room"
BY_USER = {"tool_name": "Bash", "tool_parameters": "{}", "attributes": sizes(source="user_reject")}
BROKEN = {"exit_code": 2, "error_type": "ShellError", "error": "no such rule"}
SIZES = sizes(tool_input_size_bytes="57", tool_result_size_bytes="168")


def parameters(text: str) -> StepText:
    return StepText("parameters", text, is_tool_text=True, is_json=True)


def failure(title: str, error: str | None = None) -> SessionStep:
    texts = () if error is None else (StepText("", error),)
    return SessionStep("failure", 0, title, texts, is_failure=True)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (
            prompt(0, content="Fix it"),
            SessionStep("prompt", 0, "PROMPT", (StepText("", "Fix it"),)),
        ),
        # What was not logged is stated, with its size if that was.
        (prompt(0), SessionStep("prompt", 0, "PROMPT", (), ("text",))),
        (
            prompt(0, attributes=sizes(prompt_length="23")),
            SessionStep("prompt", 0, "PROMPT", (), ("text (23 characters)",)),
        ),
        (
            prompt(0, attributes=sizes(prompt_length="many")),
            SessionStep("prompt", 0, "PROMPT", (), ("text",)),
        ),
        # Replies come from either event.
        (
            event("assistant_response", content="Done."),
            SessionStep("reply", 0, "REPLY", (StepText("", "Done."),)),
        ),
        (event("assistant_response"), SessionStep("reply", 0, "REPLY", (), ("text",))),
        (
            event("assistant_response", content="Short.", query_source="compact"),
            SessionStep("reply", 0, "SUMMARY of the conversation", (StepText("", "Short."),)),
        ),
        (
            api_request(0, content=GEMINI_HI),
            SessionStep("reply", 0, "REPLY", (StepText("", "Hi"),)),
        ),
        (
            api_request(0, content=GEMINI_HI, subagent="explorer"),
            SessionStep("reply", 0, "REPLY (subagent)", (StepText("", "Hi"),)),
        ),
        # A call has its outcome, parameters and result, which may be an error.
        (
            tool(0, tool_name="Bash", tool_parameters='{"command": "ls"}', content="a.py"),
            SessionStep("tool", 0, "TOOL Bash: ok, 100 ms", (
                parameters('{"command": "ls"}'), StepText("result", "a.py", is_tool_text=True)
            )),
        ),
        (
            tool(0, success=False, tool_name="Bash", duration_ms=1500.0, subagent="x", **BROKEN),
            SessionStep(
                "tool", 0, "TOOL Bash (subagent): FAILED, exit code 2, ShellError, 1.5 s",
                (StepText("error", "no such rule"),), ("parameters",), is_failure=True,
            ),
        ),
        (
            tool(0, tool_name="Bash", tool_parameters="{}", content="x", duration_ms=1000.0),
            SessionStep("tool", 0, "TOOL Bash: ok, 1.0 s", (
                parameters("{}"), StepText("result", "x", is_tool_text=True)
            )),
        ),
        (  # An error that is the result is shown once.
            tool(0, success=False, tool_name="Bash", error="lost", content="lost"),
            SessionStep("tool", 0, "TOOL Bash: FAILED, 100 ms", (StepText("error", "lost"),),
                        ("parameters",), is_failure=True),
        ),
        (
            tool(0, success=None, duration_ms=None, attributes=SIZES),
            SessionStep("tool", 0, "TOOL without a name: outcome unknown", (),
                        ("parameters (57 bytes)", "result (168 bytes)")),
        ),
        (
            decision(0, "reject", **BY_USER),
            SessionStep("tool", 0, "TOOL Bash: REFUSED by the user", (parameters("{}"),),
                        is_failure=True),
        ),
        (
            decision(0, "reject", tool_name="Bash", error="forbidden"),
            SessionStep("tool", 0, "TOOL Bash: REFUSED", (StepText("error", "forbidden"),),
                        is_failure=True),
        ),
        (
            decision(0, "accept", tool_name="Bash", tool_use_id="t1"),
            SessionStep("tool", 0, "TOOL Bash: allowed, no result recorded"),
        ),
        # A failed operation is a failure with its error.
        (
            event("api_error", error="Overloaded", error_type="529"),
            failure("A CALL TO THE MODEL FAILED (529)", "Overloaded"),
        ),
        (event("api_refusal"), failure("THE MODEL REFUSED TO ANSWER")),
        (event("hook", success=False), failure("A HOOK FAILED")),
        (event("compaction", success=False), failure(f"{COMPACTED}: FAILED")),
        (
            event("other", source_event_name="api_retries_exhausted", error="Overloaded"),
            failure("CALLS TO THE MODEL GIVEN UP", "Overloaded"),
        ),
        (
            event("other", source_event_name="api_request", success=False, error="http 503"),
            failure("A CALL TO THE MODEL FAILED", "http 503"),
        ),
        # Notes.
        (
            event("other", source_event_name="loop_detected"),
            SessionStep("note", 0, "THE PROGRAM NOTICED A LOOP", is_failure=True),
        ),
        (
            event("other", source_event_name="user_prompt", content="/compact"),
            SessionStep("note", 0, "COMMAND to the program", (StepText("", "/compact"),)),
        ),
        (event("compaction", success=True), SessionStep("note", 0, COMPACTED)),
    ],
)  # fmt: skip
def test_an_event_is_a_step(row: Row, expected: SessionStep) -> None:
    assert steps(row) == [expected]


def test_a_call_that_was_allowed_and_has_a_result_is_one_step() -> None:
    allowed = decision(0, "accept", tool_name="Bash", tool_use_id="t1")
    found = steps(allowed, tool(1, tool_name="Bash", tool_use_id="t1"))
    assert [step.title for step in found] == ["TOOL Bash: ok, 100 ms"]
    assert steps() == []


@pytest.mark.parametrize(
    "row",
    [
        api_request(0),
        api_request(0, content='[{"candidates": [{"content": {"parts": []}}]}]'),
        api_request(0, content="{}", query_source="utility_router"),
        event("assistant_response", content="A title", query_source="generate_session_title"),
        event("session_start"),
        event("session_end"),
        event("hook", success=True),
        event("other", source_event_name="config", error="odd"),
        event("other", source_event_name="api_request", content="[]"),
        don("reviewer", 0),
        doff(0, "reviewer"),
        decision(0, "accept"),
        decision(0, "accept", tool_name="Bash"),
    ],
)
def test_events_unrelated_to_the_work_have_no_step(row: Row) -> None:
    assert steps(row) == []


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


@pytest.mark.parametrize(("lists", "found"), [(12, True), (13, False)])
def test_results_are_looked_for_in_twelve_levels(lists: int, found: bool) -> None:
    result = '{"role": "tool", "tool_call_id": "c1", "content": "3 files"}'
    expected = [LoggedToolResult("c1", None, "3 files")] if found else []
    assert logged_tool_results("[" * lists + result + "]" * lists) == expected


def gemini(response: object, name: object = "ls") -> dict[str, object]:
    return {"functionResponse": {"id": "c1", "name": name, "response": response}}


def anthropic(content: object) -> dict[str, object]:
    return {"type": "tool_result", "tool_use_id": "c1", "content": content}


@pytest.mark.parametrize(
    ("part", "tool_name", "text"),
    [
        (gemini({"output": "a b"}), "ls", "a b"),
        (gemini({"error": "no"}), "ls", "no"),
        (gemini({"rows": 3}), "ls", '{"rows": 3}'),
        (gemini("plain", name=7), None, "plain"),
        (anthropic("a b"), None, "a b"),
        (anthropic([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), None, "ab"),
        ({"role": "tool", "tool_call_id": "c1", "content": "x"}, None, "x"),
    ],
)
def test_results_are_found_in_requests_of_each_provider(
    part: dict[str, object], tool_name: str | None, text: str
) -> None:
    result = LoggedToolResult("c1", tool_name, text)
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
    assert all(isinstance(result.text, str) for result in logged_tool_results(body))


def request(seconds: float, *answers: tuple[str, str | None, str]) -> Row:
    """Return a request to the model that repeats results, given as id, tool and text."""
    parts = [
        {"functionResponse": {"id": call, "name": name, "response": {"output": text}}}
        for call, name, text in answers
    ]
    return event("other", seconds, content=json.dumps([{"role": "user", "parts": parts}]))


ONE, TWO = ("c1", "ls", "one"), ("c2", "ls", "two")


@pytest.mark.parametrize(
    ("rows", "results"),
    [
        # No result is missing.
        ([request(0, ONE), tool(1, tool_use_id="c1", content="b")], {}),
        # By id, or in order if the numbers are equal: one call and two results are ambiguous.
        (
            [*(tool(n, tool_use_id=f"c{n + 1}") for n in range(3)), request(3, TWO, ONE)],
            {0: "one", 1: "two"},
        ),
        (
            [
                *(tool(0, tool_name="ls"), request(1, ONE)),
                *(tool(2, tool_name="ls"), tool(3, tool_name="cat")),
                request(4, ONE, TWO, ("c3", "cat", "x"), ("c4", "cat", "y")),
            ],
            {0: "one", 2: "two"},
        ),
        # Requests before a compaction are read.
        (
            [
                *(tool(0, tool_name="ls"), request(1, ONE), tool(2, tool_name="ls")),
                *(request(3, TWO), event("other", 4), event("other", 5, content="{cut off")),
            ],
            {0: "one", 2: "two"},
        ),
    ],
)
def test_results_in_requests_are_those_of_their_calls(
    rows: list[Row], results: dict[int, str]
) -> None:
    assert results_from_requests(rows) == results


def test_the_latest_requests_are_read_up_to_a_limit() -> None:
    rows = [
        tool(0, tool_use_id="c1"),
        tool(1, tool_use_id="c2"),
        request(2, ("c1", None, "old")),
        request(3, ("c2", None, "x" * 21_000_000)),
    ]

    assert module._MAX_CHARACTERS < 21_000_000
    assert set(results_from_requests(rows)) == {1}
