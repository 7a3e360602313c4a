"""Dialect of Codex: events of the records of each version."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.telemetry.domain.attributes import BROKEN
from evaluation_pipelines.telemetry.domain.dialects.codex import CODEX
from evaluation_pipelines_tests.telemetry.domain.dialects.codex_records import (
    SCOPE,
    SESSION,
    codex,
    codex_event,
    codex_line,
)
from evaluation_pipelines_tests.telemetry.domain.reading import read, read_one
from evaluation_pipelines_tests.world import attributes

# -- recognition and names -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scope",
    [
        "codex_otel::otel_event_manager",  # 0.58
        "codex_otel::traces::otel_manager",  # 0.104
        "codex",  # 0.139
        "codex_otel.log_only",  # 0.169
        "",  # removed by a collector
    ],
)
def test_a_record_of_every_version_is_recognized_and_named_by_its_attribute(scope: str) -> None:
    event = read_one(codex_line(codex("user_prompt"), scope=scope))
    assert (event["source_cli"], event["event_name"]) == ("codex", "user_prompt")
    assert event["source_event_name"] == "user_prompt"
    assert (event["service_name"], event["service_version"]) == ("codex_exec", "0.169.0")


@pytest.mark.parametrize(
    ("sent", "canonical"),
    [
        ("conversation_starts", "other"),
        ("user_prompt", "user_prompt"),
        ("agent_response", "assistant_response"),
        ("tool_decision", "tool_decision"),
        ("tool_result", "tool_result"),
        # A call is the stream event with its tokens.
        ("api_request", "other"),
        ("sse_event", "other"),
        ("websocket_event", "other"),
        ("sandbox_outcome", "other"),
        ("startup_phase", "other"),
        ("turn_ttft", "other"),
        ("an_event_of_tomorrow", "other"),
    ],
)
def test_every_event_has_a_canonical_name_and_its_source_name(sent: str, canonical: str) -> None:
    event = codex_event(sent, color="red")
    assert (event["event_name"], event["source_event_name"]) == (canonical, sent)
    assert json.loads(event["attributes"]) == {"color": "red"}


def test_the_top_level_name_is_a_source_location_and_not_used() -> None:
    record = codex("user_prompt")
    record["eventName"] = "codex.tool_result"
    assert read_one(codex_line(record))["event_name"] == "user_prompt"


@pytest.mark.parametrize("sent", ["0", 0, None])
def test_the_time_is_in_an_attribute_only(sent: object) -> None:
    record = codex("user_prompt", 1.5)
    record["timeUnixNano"] = sent
    event = read_one(codex_line(record))
    assert event["event_time"].isoformat() == "2026-06-01T12:00:01.500000+00:00"
    assert event["observed_time"].isoformat() == "2026-06-01T12:00:00.500000+00:00"
    assert event["time_anomaly"] is False


def test_the_session_is_the_conversation_and_the_user_is_the_email_address() -> None:
    # All members of a workspace share the id of its account.
    event = codex_event("user_prompt", user__email="dev@example.com", user__account_id="acc")
    assert (event["session_id"], event["user_email"]) == (SESSION, "dev@example.com")
    assert event["account_id"] is None
    assert json.loads(event["attributes"]) == {"user.account_id": "acc"}


def test_records_outside_of_any_session_are_counted_and_not_stored() -> None:
    flushing = {"timeUnixNano": "0", "body": {"stringValue": "flushing OTEL metrics"}}
    fetching = codex("api_request", endpoint="/models", conversation__id="")
    batch = read(
        codex_line(flushing, scope="codex_otel::metrics::client"), codex_line(fetching, scope=SCOPE)
    )
    assert batch.events.is_empty()
    assert (batch.counts.unattributed, batch.counts.unknown_records) == (2, 0)
    assert batch.names == {("codex", ""): 1, ("codex", "codex.api_request"): 1}


@pytest.mark.parametrize(("prompt", "content"), [("Fix it", "Fix it"), ("[REDACTED]", None)])
def test_the_text_of_a_prompt_is_content_unless_it_was_redacted(
    prompt: str, content: str | None
) -> None:
    event = codex_event("user_prompt", prompt=prompt, prompt_length="6")
    assert event["content"] == content
    assert json.loads(event["attributes"]) == {"prompt_length": "6"}


# -- calls to the model ----------------------------------------------------------------------------

COUNTS: dict[str, object] = {
    "event.kind": "response.completed",
    # Two are sent as numbers, three as strings.
    "input_token_count": "9420",
    "output_token_count": "31",
    "cached_token_count": 8704,
    "reasoning_token_count": 12,
    "tool_token_count": "9451",
}
TOKENS = (
    "input_tokens output_tokens cache_read_tokens cache_creation_tokens reasoning_tokens".split()
)


def completed(**changes: object) -> dict[str, Any]:
    """Return the event of a completed response; a change of None omits the attribute."""
    return codex_event("sse_event", **{**COUNTS, **changes})


def test_a_completed_response_with_token_counts_is_the_call() -> None:
    event = completed(ttft_ms=41)
    assert (event["event_name"], event["source_event_name"]) == ("api_request", "sse_event")
    # 9420 - 8704 of the input was not cached
    assert [event[name] for name in TOKENS] == [716, 31, 8704, 0, 12]
    assert (event["model"], event["provider"], event["ttft_ms"]) == ("gpt-5.5", "anthropic", 41.0)
    # tool_token_count is the total (9420 + 31), not a separate count
    assert json.loads(event["attributes"]) == {
        "event.kind": "response.completed",
        "tool_token_count": "9451",
    }


def test_a_reply_has_its_text() -> None:
    event = codex_event("agent_response", response="Done.", response_length=5)
    assert (event["event_name"], event["content"]) == ("assistant_response", "Done.")


def test_a_call_is_priced_from_its_tokens() -> None:
    event = completed()
    # a millionth of a dollar for each of 716 + 31 + 8704 tokens
    assert (event["cost_usd"], event["cost_source"]) == (pytest.approx(0.009451), "priced")
    unknown = completed(model="unknown")
    assert (unknown["cost_usd"], unknown["cost_source"]) == (None, "unknown")
    assert (unknown["model"], unknown["provider"]) == ("unknown", None)


@pytest.mark.parametrize(
    ("changes", "input_tokens", "cached", "written"),
    [
        ({"cached_token_count": None}, 9420, 0, 0),
        ({"cache_write_token_count": 16}, 700, 8704, 16),
        ({"cached_token_count": 9420}, 0, 9420, 0),
        # More cached tokens than input tokens, and invalid numbers: unknown.
        ({"cached_token_count": 9421}, None, 9421, 0),
        ({"cached_token_count": "NaN"}, None, None, 0),
        ({"input_token_count": None}, None, 8704, None),
    ],
)
def test_input_never_includes_cached_tokens(
    changes: dict[str, object], input_tokens: int | None, cached: int | None, written: int | None
) -> None:
    event = completed(**changes)
    assert event["event_name"] == "api_request"
    assert (event["input_tokens"], event["cache_read_tokens"]) == (input_tokens, cached)
    assert event["cache_creation_tokens"] == written
    assert (event["cost_source"] == "unknown") is (input_tokens is None)


@pytest.mark.parametrize(
    "values",
    [
        # the first of the two that end every stream
        {"event.kind": "response.completed", "duration_ms": "0"},
        {"event.kind": "response.completed", "error.message": "stream disconnected"},
        {"event.kind": "response.failed", "error.message": "{}"},
        {"event.kind": "response.output_text.delta"},
        {"event.kind": "response.created", "input_token_count": "5"},
        {},
    ],
)
def test_any_other_event_of_the_stream_is_no_call(values: dict[str, object]) -> None:
    event = codex_event("sse_event", **values)
    assert (event["event_name"], event["cost_source"]) == ("other", None)
    assert event["error"] == values.get("error.message")


@pytest.mark.parametrize(
    ("values", "success"),
    [
        ({"http.response.status_code": 200, "endpoint": "/responses"}, True),
        ({"http.response.status_code": 200}, True),
        ({"http.response.status_code": "503", "error.message": "http 503"}, False),
        ({"http.response.status_code": 500}, False),
        ({"error.message": "error sending request"}, False),
        ({"http.response.status_code": "undefined"}, False),
        ({}, None),
        # The list of models is requested in the background and often refused.
        ({"http.response.status_code": 404, "endpoint": "/models"}, None),
    ],
)
def test_a_try_is_no_call_and_records_whether_it_reached_the_model(
    values: dict[str, object], success: bool | None
) -> None:
    event = codex_event("api_request", duration_ms="12", attempt=1, **values)
    assert (event["event_name"], event["success"]) == ("other", success)
    assert (event["duration_ms"], event["cost_source"]) == (12.0, None)
    assert event["error"] == values.get("error.message")


# -- any values -----------------------------------------------------------------------------------


def test_every_conversion_of_the_dialect_returns_null_for_an_empty_string() -> None:
    """An empty attribute counts as missing."""
    for attribute, (_, convert) in CODEX.columns.items():
        assert convert("") is None, attribute
        assert convert(None) is None, attribute
        assert convert("text") is not None or convert("text") is BROKEN, attribute


TEXTS = st.text() | st.sampled_from(
    (
        *(
            "",
            "NaN",
            "-1",
            "9" * 30,
            "true",
            "exec",
            "shell",
            "mcp__",
            "/root",
            "response.completed",
        ),
        *('{"cmd": 5}', '{"command": [1]}', '{"metadata": {"exit_code": 1e400}}', "[[[", "{"),
        f'{{"metadata": {{"exit_code": {"9" * 30}}}}}',
        f"Exit code: {'9' * 30}\n",
    )
)
VALUES = st.one_of(
    TEXTS.map(lambda text: {"stringValue": text}),
    (st.integers() | TEXTS | st.floats()).map(lambda number: {"intValue": number}),
    (st.floats() | TEXTS).map(lambda number: {"doubleValue": number}),
    st.booleans().map(lambda value: {"boolValue": value}),
    st.lists(TEXTS).map(lambda texts: {"arrayValue": {"values": texts}}),
)
KEYS = (
    *CODEX.columns,
    *("event.kind", "http.response.status_code", "endpoint", "decision", "arguments"),
    *("agent_name", "tool_namespace", "mcp_server"),
)
NAMES = ("user_prompt", "tool_result", "tool_decision", "api_request", "sse_event")


@given(st.sampled_from(NAMES), st.dictionaries(st.sampled_from(sorted(KEYS)), VALUES))
def test_a_record_is_kept_for_any_value_of_any_attribute(
    name: str, values: dict[str, dict[str, Any]]
) -> None:
    record = codex(name)
    record["attributes"] = attributes({"event.name": f"codex.{name}", "conversation.id": SESSION})
    record["attributes"] += [{"key": key, "value": value} for key, value in values.items()]
    batch = read(codex_line(record))
    assert (batch.events.height, batch.quarantined) == (1, [])
