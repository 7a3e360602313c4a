"""Dialect of Qwen Code: differences from Gemini CLI."""

import json
from typing import Any

import pytest

from evaluation_pipelines_tests.telemetry.domain.dialects.records import record, sent_by
from evaluation_pipelines_tests.telemetry.domain.reading import read, read_one

SCOPE = "qwen-code"


def event(name: str, **values: Any) -> dict[str, Any]:
    """Return the event of one record."""
    return read_one(sent_by(SCOPE, record(name, **values), service__version="0.24.4"))


@pytest.mark.parametrize(
    ("scope", "name"),
    [("qwen-code", "qwen-code.user_prompt"), ("qwen-code", "user_prompt"), ("", "qwen-code.auth")],
)
def test_a_record_is_recognized_by_scope_or_name(scope: str, name: str) -> None:
    found = read_one(sent_by(scope, record(name), service__version="0.24.4"))
    assert (found["source_cli"], found["service_version"]) == ("qwen_code", "0.24.4")
    assert found["source_event_name"] == name.removeprefix("qwen-code.")


@pytest.mark.parametrize(
    ("sent", "canonical"),
    [
        ("session.start", "session_start"),
        ("session.end", "session_end"),
        ("qwen-code.user_prompt", "user_prompt"),
        ("qwen-code.api_request", "other"),
        ("qwen-code.api_response", "api_request"),
        ("qwen-code.api_error", "api_error"),
        ("qwen-code.tool_call", "tool_result"),
        ("qwen-code.chat_compression", "compaction"),
        # Neither a command to the program nor a second try is a prompt.
        ("qwen-code.slash_command", "other"),
        ("qwen-code.user_retry", "other"),
        # The calls of a subagent are logged one by one.
        ("qwen-code.subagent_execution", "other"),
    ],
)
def test_every_event_has_a_canonical_name(sent: str, canonical: str) -> None:
    assert event(sent)["event_name"] == canonical


def test_the_end_of_a_session_has_no_outcome() -> None:
    assert event("session.end")["success"] is None


def test_output_includes_thought_tokens_which_are_billed_once() -> None:
    found = event(
        "qwen-code.api_response",
        model="qwen3-coder-plus",
        input_token_count=7590,
        output_token_count=83,
        cached_content_token_count=6120,
        thoughts_token_count=44,
        total_token_count=7673,
        ttft_ms=21,
        subagent_name="general-purpose",
    )
    assert found["input_tokens"] == 1470  # 7590 - 6120
    assert (found["output_tokens"], found["reasoning_tokens"]) == (83, 44)
    # 1470 + 6120 + 83 tokens at a millionth of a dollar
    assert found["cost_usd"] == pytest.approx(0.007673)
    assert (found["cost_source"], found["ttft_ms"]) == ("priced", 21.0)
    assert found["subagent"] == "general-purpose"


def test_all_responses_of_a_server_that_repeats_its_ids_are_requests() -> None:
    """A response id is no request id: only the first of equal ones would count."""
    answers = [
        record("qwen-code.api_response", response_id="chatcmpl-1", duration_ms=ms) for ms in (1, 2)
    ]
    events = read(sent_by(SCOPE, *answers)).events
    assert events["request_id"].to_list() == [None, None]
    kept = [json.loads(text)["response_id"] for text in events["attributes"]]
    assert kept == ["chatcmpl-1", "chatcmpl-1"]


def test_a_tool_call_has_its_id_and_a_cancelled_one_has_failed() -> None:
    found = event(
        "qwen-code.tool_call",
        call_id="toolu_1",
        function_name="run_shell_command",
        function_args='{"command": "sleep 40"}',
        status="cancelled",
        execution_status="cancelled",
        success=False,
        decision="auto_accept",
    )
    assert (found["tool_use_id"], found["event_name"]) == ("toolu_1", "tool_result")
    assert (found["success"], found["decision"]) == (False, "accept")
    assert json.loads(found["attributes"])["status"] == "cancelled"


def tool_call(**values: Any) -> dict[str, Any]:
    """Return the event of a call that did not succeed."""
    return event("qwen-code.tool_call", function_name="write_file", success=False, **values)


@pytest.mark.parametrize(
    "values",
    [
        {"error_type": "execution_denied", "error": 'Tool "write_file" is denied.'},
        {"error_type": "execution_denied", "error": "No", "decision": "auto_accept"},
        {"error_type": "execution_denied", "error": "No", "decision": "reject"},
        {
            "error": "Qwen Code requires permission to use write_file, but that permission was "
            "declined (non-interactive mode cannot prompt for confirmation)."
        },
        {"error": 'Plan mode is active. The tool "write_file" cannot be executed because it'},
        {"status": "error", "tool_type": "native"},
    ],
)
def test_a_call_that_was_not_allowed_is_refused(values: dict[str, Any]) -> None:
    found = tool_call(**values)
    assert (found["event_name"], found["decision"]) == ("tool_decision", "reject")
    assert (found["success"], found["error"]) == (None, values.get("error"))


def test_a_hook_that_stops_the_agent_after_a_call_is_no_refusal() -> None:
    hook = {"error_type": "execution_denied", "error": "Execution stopped by hook"}
    found = tool_call(**hook, decision="auto_accept")
    assert (found["event_name"], found["success"]) == ("tool_result", False)


def test_an_api_error_has_its_message() -> None:
    found = event(
        "qwen-code.api_error",
        error_message="401 Incorrect API key provided",
        error__message="401 Incorrect API key provided",
        error_type="AuthenticationError",
        response_id="",
        status_code=401,
    )
    assert (found["error"], found["error_type"]) == (
        "401 Incorrect API key provided",
        "AuthenticationError",
    )
