"""Dialect of Gemini CLI: events of its records."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.telemetry.domain.dialects.gemini_cli import GEMINI_CLI
from evaluation_pipelines_tests.telemetry.domain.dialects.records import record, sent_by
from evaluation_pipelines_tests.telemetry.domain.reading import read, read_one

SCOPE = "gemini-cli"


def event(name: str, **values: Any) -> dict[str, Any]:
    """Return the event of one record."""
    return read_one(sent_by(SCOPE, record(f"gemini_cli.{name}", **values)))


# -- recognition and names -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scope", "name"),
    [
        ("gemini-cli", "gemini_cli.user_prompt"),
        ("gemini-cli", "user_prompt"),
        ("", "gemini_cli.user_prompt"),
    ],
)
def test_a_record_is_recognized_by_scope_or_name(scope: str, name: str) -> None:
    found = read_one(sent_by(scope, record(name), service__name="whatever"))
    assert (found["source_cli"], found["event_name"]) == ("gemini_cli", "user_prompt")
    assert (found["source_event_name"], found["service_name"]) == ("user_prompt", "whatever")


@pytest.mark.parametrize(
    ("sent", "canonical"),
    [
        ("gemini_cli.user_prompt", "user_prompt"),
        ("gemini_cli.api_response", "api_request"),
        ("gemini_cli.api_error", "api_error"),
        ("gemini_cli.tool_call", "tool_result"),
        ("gemini_cli.chat_compression", "compaction"),
        ("gemini_cli.hook_call", "hook"),
        # It only marks the start of a call.
        ("gemini_cli.api_request", "other"),
        # A command to the program is no prompt.
        ("gemini_cli.slash_command", "other"),
        ("gemini_cli.config", "other"),
        ("loop_detected", "other"),
        ("gemini_cli.an_event_of_tomorrow", "other"),
    ],
)
def test_every_event_has_a_canonical_name_and_its_source_name(sent: str, canonical: str) -> None:
    found = read_one(sent_by(SCOPE, record(sent, color="red")))
    assert found["event_name"] == canonical
    assert found["source_event_name"] == sent.removeprefix("gemini_cli.")
    assert json.loads(found["attributes"])["color"] == "red"


def test_each_api_call_counts_once_although_it_is_logged_twice() -> None:
    again = "gen_ai.client.inference.operation.details"
    tokens: dict[str, Any] = {"input_token_count": 7, "output_token_count": 2}
    answered = record("gemini_cli.api_response", model="gemini-2.5-pro", **tokens)
    repeated = record(again, gen_ai__usage__input_tokens=7, gen_ai__usage__output_tokens=2)
    batch = read(sent_by(SCOPE, record(again), answered, repeated))
    assert batch.events["event_name"].to_list() == ["api_request"]
    assert (batch.counts.events, batch.counts.repeated_records) == (1, 2)
    assert batch.names == {("gemini_cli", again): 2}


def test_the_version_of_node_is_not_the_version_of_the_program() -> None:
    node = read_one(sent_by(SCOPE, record("gemini_cli.config"), service__version="v20.20.2"))
    assert node["service_version"] is None
    assert json.loads(node["attributes"]) == {"service.version": "v20.20.2"}
    program = read_one(sent_by(SCOPE, record("gemini_cli.config"), service__version="0.61.0"))
    assert program["service_version"] == "0.61.0"


def test_the_sequence_is_unknown() -> None:
    assert event("user_prompt")["sequence"] is None


def test_user_role_and_agent_are_columns() -> None:
    called = event("api_response", user__email="dev@example.com", role="utility_router")
    assert (called["user_email"], called["query_source"]) == ("dev@example.com", "utility_router")
    assert event("agent.start", agent_name="cli_help")["subagent"] == "cli_help"


# -- prompts, requests and replies -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "attribute"),
    [("user_prompt", "prompt"), ("api_request", "request_text"), ("api_response", "response_text")],
)
def test_logged_texts_are_content(name: str, attribute: str) -> None:
    found = event(name, prompt_id="p########0", **{attribute: "Fix it"})
    assert (found["content"], found["prompt_id"]) == ("Fix it", "p########0")
    assert event(name)["content"] is None


def answer(**values: Any) -> dict[str, Any]:
    """Return the event of an answered call with all its attributes."""
    counts = {
        "input_token_count": 7420,
        "output_token_count": 31,
        "cached_content_token_count": 4096,
        "thoughts_token_count": 60,
        "tool_token_count": 0,
        "total_token_count": 7511,
    }
    sent = {"model": "gemini-2.5-pro", "duration_ms": 24, **counts, **values}
    return event("api_response", **sent)


def test_input_excludes_cached_tokens_and_output_includes_thoughts() -> None:
    found = answer()
    assert found["input_tokens"] == 3324  # 7420 - 4096
    assert (found["cache_read_tokens"], found["cache_creation_tokens"]) == (4096, 0)
    assert (found["output_tokens"], found["reasoning_tokens"]) == (91, 60)  # 31 + 60
    assert (found["model"], found["duration_ms"]) == ("gemini-2.5-pro", 24.0)


def test_tokens_from_a_tool_of_the_api_are_input() -> None:
    assert answer(tool_token_count=100)["input_tokens"] == 3424  # 7420 - 4096 + 100


def test_impossible_tokens_are_unknown() -> None:
    assert answer(cached_content_token_count=7421)["input_tokens"] is None
    broken: dict[str, Any] = {"input_token_count": "undefined", "cached_content_token_count": 1}
    batch = read(sent_by(SCOPE, record("gemini_cli.api_response", **broken)))
    assert batch.events["input_tokens"].to_list() == [None]
    assert batch.counts.value_anomalies == 1


def test_missing_cached_tokens_are_zero() -> None:
    found = answer(cached_content_token_count=None)
    assert (found["input_tokens"], found["cache_read_tokens"]) == (7420, 0)


def test_a_call_is_priced_by_all_its_tokens_including_thoughts() -> None:
    """The price table of the tests has a millionth of a dollar per token."""
    found = answer()
    # 3324 input + 4096 cached + 31 output + 60 thoughts
    assert found["cost_usd"] == pytest.approx(0.007511)
    assert (found["cost_source"], found["provider"]) == ("priced", "anthropic")


@pytest.mark.parametrize(
    "values",
    [
        {"model": "unknown"},
        {"model": None},
        {"output_token_count": None},
        {"cached_content_token_count": 9999},
    ],
)
def test_the_price_of_unknown_tokens_is_unknown(values: dict[str, Any]) -> None:
    found = answer(**values)
    assert (found["cost_usd"], found["cost_source"]) == (None, "unknown")


def test_the_price_of_broken_thoughts_is_unknown() -> None:
    sent: dict[str, Any] = {"model": "m", "input_token_count": 1, "output_token_count": 1}
    unclear: dict[str, Any] = {**sent, "thoughts_token_count": "undefined"}
    broken = record("gemini_cli.api_response", **unclear)
    (found,) = read(sent_by(SCOPE, broken)).events.to_dicts()
    assert (found["reasoning_tokens"], found["cost_source"]) == (None, "unknown")
    assert event("api_response", **sent)["cost_usd"] == pytest.approx(0.000002)


def tool_call(**values: Any) -> dict[str, Any]:
    """Return the event of a call that did not succeed."""
    return event("tool_call", function_name="write_file", success=False, **values)


@pytest.mark.parametrize(
    "values",
    [
        {"error_type": "policy_violation", "error": "Tool execution denied by policy."},
        {"error_type": "policy_violation", "error": "Tool execution blocked: no", "decision": None},
        {"error_type": "stop_execution", "error": "Agent execution stopped by hook: enough"},
        {
            "error_type": "unhandled_exception",
            "error": 'Tool execution for "write_file" requires user confirmation, which is not '
            "supported in non-interactive mode.",
        },
        {
            "error_type": "unhandled_exception",
            "error": 'Tool execution for "write_file" denied by policy.',
        },
        {"error": 'Tool "write_file" was canceled by the user.'},
    ],
)
def test_a_call_that_was_not_allowed_is_refused(values: dict[str, Any]) -> None:
    found = tool_call(**values)
    assert (found["event_name"], found["decision"]) == ("tool_decision", "reject")
    assert (found["success"], found["error"]) == (None, values["error"])


@pytest.mark.parametrize(
    "values",
    [
        # A hook stopped the agent after the call, or the user allowed it for good and it failed.
        {"error_type": "stop_execution", "error": "Stopped by hook", "decision": "accept"},
        {"error_type": "edit_no_occurrence_found", "error": "0 found", "decision": "reject"},
        {"error_type": "sandbox_expansion_required", "error": "x", "decision": "accept"},
        {"error": "cat: Tool execution for a denied by policy."},
        {"error": "no such file", "tool_type": "native"},
    ],
)
def test_a_call_that_ran_and_failed_is_no_refusal(values: dict[str, Any]) -> None:
    found = tool_call(**values)
    assert (found["event_name"], found["success"]) == ("tool_result", False)
    assert found["decision"] == ("accept" if "decision" in values else None)


def test_an_api_error_has_its_text_and_class_and_no_price() -> None:
    found = event(
        "api_error",
        error="overloaded",
        error__message="overloaded",
        error__type="ApiError",
        model="gemini-2.5-pro",
        model_name="gemini-2.5-pro",
        status_code=503,
        duration_ms=19,
    )
    assert (found["error"], found["error_type"]) == ("overloaded", "ApiError")
    assert (found["duration_ms"], found["cost_source"]) == (19.0, None)
    assert json.loads(found["attributes"])["status_code"] == 503


def test_an_error_under_its_dotted_name_is_read() -> None:
    assert event("chat.invalid_chunk", error__message="no candidates")["error"] == "no candidates"


# Worst-case attribute values.
TEXTS = st.text() | st.sampled_from(("", "NaN", "-1", "9" * 30, "reject", "mcp", "v", "[[[", "{"))
VALUES = st.one_of(
    TEXTS.map(lambda text: {"stringValue": text}),
    (st.integers() | TEXTS | st.floats()).map(lambda number: {"intValue": number}),
    (st.floats() | TEXTS).map(lambda number: {"doubleValue": number}),
    st.booleans().map(lambda value: {"boolValue": value}),
    st.lists(TEXTS).map(lambda texts: {"arrayValue": {"values": texts}}),
)
KEYS = sorted({*GEMINI_CLI.columns, "tool_type", "mcp_server_name", "metadata", "tool_token_count"})


@given(
    st.sampled_from(("gemini_cli", "qwen-code")),
    st.sampled_from(("api_response", "tool_call")),
    st.sampled_from(("read_file", "run_shell_command")),
    st.dictionaries(st.sampled_from(KEYS), VALUES),
)
def test_a_record_is_kept_for_any_value_of_any_attribute(
    program: str, name: str, tool: str, values: dict[str, dict[str, Any]]
) -> None:
    one = record(f"{program}.{name}", function_name=tool)
    one["attributes"] += [{"key": key, "value": value} for key, value in values.items()]
    batch = read(sent_by("", one))
    assert (batch.events.height, batch.quarantined) == (1, [])
