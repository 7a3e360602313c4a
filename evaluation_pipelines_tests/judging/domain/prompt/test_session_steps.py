"""Steps of a session by event; no step reveals the agent or model."""

import json

import pytest

from evaluation_pipelines.judging.domain.prompt.session_steps import (
    SessionStep,
    StepText,
    session_steps,
)
from evaluation_pipelines_tests.builders import (
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


def only(row: Row) -> SessionStep:
    (step,) = steps(row)
    return step


def sizes(**attributes: object) -> str:
    return json.dumps(attributes)


def test_no_event_is_no_step() -> None:
    assert steps() == []


def test_times_count_from_the_first_event() -> None:
    found = steps(event("session_start", 10), prompt(12, content="Go"), prompt(75.5, content="On"))

    assert [(step.seconds, step.parts[0].text) for step in found] == [(2.0, "Go"), (65.5, "On")]


def test_a_prompt_without_text_states_its_size() -> None:
    assert only(prompt(0, content="Fix it")) == SessionStep(
        "prompt", 0, "PROMPT", (StepText("", "Fix it"),)
    )
    assert only(prompt(0)) == SessionStep("prompt", 0, "PROMPT", (), ("text",))
    assert only(prompt(0, attributes=sizes(prompt_length="23"))).not_logged == (
        "text (23 characters)",
    )
    assert only(prompt(0, attributes=sizes(prompt_length="many"))).not_logged == ("text",)


def test_replies_come_from_either_event() -> None:
    assert only(event("assistant_response", content="Done.")) == SessionStep(
        "reply", 0, "REPLY", (StepText("", "Done."),)
    )
    assert only(event("assistant_response")).not_logged == ("text",)
    assert only(event("assistant_response", content="Short.", query_source="compact")).title == (
        "SUMMARY of the conversation"
    )
    gemini = '[{"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]}]'
    assert only(api_request(0, content=gemini)).parts == (StepText("", "Hi"),)
    assert only(api_request(0, content=gemini, subagent="explorer")).title == "REPLY (subagent)"


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


def test_a_tool_call_has_its_outcome_parameters_and_result() -> None:
    row = tool(0, tool_name="Bash", tool_parameters='{"command": "ls"}', content="a.py")

    assert only(row) == SessionStep(
        "tool",
        0,
        "TOOL Bash: ok, 100 ms",
        (
            StepText("parameters", '{"command": "ls"}', is_tool_text=True, is_json=True),
            StepText("result", "a.py", is_tool_text=True),
        ),
    )


def test_a_failed_tool_call_is_a_failure_with_its_error_as_result() -> None:
    row = tool(
        0,
        success=False,
        tool_name="Bash",
        exit_code=2,
        error_type="ShellError",
        error="no such rule",
        duration_ms=1500.0,
        subagent="helper",
    )

    assert only(row) == SessionStep(
        "tool",
        0,
        "TOOL Bash (subagent): FAILED, exit code 2, ShellError, 1.5 s",
        (StepText("error", "no such rule"),),
        ("parameters",),
        is_failure=True,
    )


def test_an_error_equal_to_the_result_is_shown_once() -> None:
    row = tool(0, success=False, error="not found", content="not found")

    assert [part.label for part in only(row).parts] == ["error"]


def test_a_tool_call_without_details_states_what_was_not_logged() -> None:
    row = tool(
        0,
        success=None,
        duration_ms=None,
        attributes=sizes(tool_input_size_bytes="57", tool_result_size_bytes="168"),
    )

    assert only(row) == SessionStep(
        "tool",
        0,
        "TOOL without a name: outcome unknown",
        (),
        ("parameters (57 bytes)", "result (168 bytes)"),
    )


def test_a_refused_call_is_a_failure_and_states_whether_the_user_refused() -> None:
    by_user = decision(
        0, "reject", tool_name="Bash", tool_parameters="{}", attributes=sizes(source="user_reject")
    )
    by_rule = decision(0, "reject", tool_name="Bash", error="forbidden")

    assert only(by_user) == SessionStep(
        "tool",
        0,
        "TOOL Bash: REFUSED by the user",
        (StepText("parameters", "{}", is_tool_text=True, is_json=True),),
        is_failure=True,
    )
    assert only(by_rule).title == "TOOL Bash: REFUSED"
    assert only(by_rule).parts == (StepText("error", "forbidden"),)


def test_an_allowed_call_has_a_step_only_without_a_result() -> None:
    allowed = decision(0, "accept", tool_name="Bash", tool_use_id="t1")

    assert only(allowed).title == "TOOL Bash: allowed, no result recorded"
    assert [step.title for step in steps(allowed, tool(1, tool_name="Bash", tool_use_id="t1"))] == [
        "TOOL Bash: ok, 100 ms"
    ]


@pytest.mark.parametrize(
    ("row", "title"),
    [
        (
            event("api_error", error="Overloaded", error_type="529"),
            "A CALL TO THE MODEL FAILED (529)",
        ),
        (event("api_refusal"), "THE MODEL REFUSED TO ANSWER"),
        (event("hook", success=False), "A HOOK FAILED"),
        (
            event("compaction", success=False),
            "COMPACTION of the conversation, to make room: FAILED",
        ),
        (
            event("other", source_event_name="api_retries_exhausted", error="Overloaded"),
            "CALLS TO THE MODEL GIVEN UP",
        ),
        (
            event("other", source_event_name="api_request", success=False, error="http 503"),
            "A CALL TO THE MODEL FAILED",
        ),
        (event("other", source_event_name="loop_detected"), "THE PROGRAM NOTICED A LOOP"),
    ],
)
def test_a_failed_operation_is_a_failure_with_its_error(row: Row, title: str) -> None:
    step = only(row)

    assert (step.title, step.is_failure) == (title, True)
    assert [part.text for part in step.parts] == ([row["error"]] if row["error"] else [])


def test_commands_and_compactions_are_notes() -> None:
    command = event("other", source_event_name="user_prompt", content="/compact")

    assert only(command) == SessionStep(
        "note", 0, "COMMAND to the program", (StepText("", "/compact"),)
    )
    assert only(event("compaction", success=True)) == SessionStep(
        "note", 0, "COMPACTION of the conversation, to make room"
    )
