"""Dialect of Claude Code: events of the records of each version."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.telemetry.domain.attributes import BROKEN
from evaluation_pipelines.telemetry.domain.dialects.claude_code import CLAUDE_CODE
from evaluation_pipelines_tests.telemetry.domain.reading import read, read_one
from evaluation_pipelines_tests.world import attributes, claude, line, request

# -- recognition and names -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scope", "body", "name"),
    [
        ("com.anthropic.claude_code.events", "claude_code.user_prompt", "user_prompt"),
        # synthetic and older: the prefix in event.name, or no event.name
        ("com.anthropic.claude_code.events", "claude_code.user_prompt", "claude_code.user_prompt"),
        ("com.anthropic.claude_code.events", "claude_code.user_prompt", ""),
        ("com.anthropic.claude_code.events", None, "user_prompt"),
        # the scope removed or renamed by a collector
        ("", "claude_code.user_prompt", "user_prompt"),
        ("", None, "claude_code.user_prompt"),
        ("other", "claude_code.user_prompt", ""),
    ],
)
def test_a_record_is_recognized_by_scope_body_or_name(
    scope: str, body: str | None, name: str
) -> None:
    record = claude("user_prompt", event__name=name, prompt_length="53")
    record["body"] = {} if body is None else {"stringValue": body}
    event = read_one(json.dumps(request([record], scope=scope)).encode())
    assert (event["source_cli"], event["event_name"]) == ("claude_code", "user_prompt")
    assert event["source_event_name"] == "user_prompt"


@pytest.mark.parametrize("service", ["claude-code", "claude-code-desktop", "cowork", "my-agent"])
def test_the_service_name_is_stored_and_not_used_for_recognition(service: str) -> None:
    event = read_one(line(claude("user_prompt"), service__name=service, service__version="2.1.330"))
    assert (event["source_cli"], event["service_name"]) == ("claude_code", service)
    assert event["service_version"] == "2.1.330"


def test_a_service_named_claude_code_is_not_recognized_by_its_name() -> None:
    record = {**claude("user_prompt"), "body": {"stringValue": "session.created"}}
    batch = read(json.dumps(request([record], scope="opencode")).encode())
    assert batch.events.is_empty()
    assert batch.names == {("opencode", "user_prompt"): 1}


@pytest.mark.parametrize(
    ("sent", "canonical"),
    [
        ("user_prompt", "user_prompt"),
        ("assistant_response", "assistant_response"),
        ("tool_result", "tool_result"),
        ("tool_decision", "tool_decision"),
        ("api_request", "api_request"),
        ("api_error", "api_error"),
        ("api_refusal", "api_refusal"),
        ("compaction", "compaction"),
        ("hook_registered", "hook"),
        ("hook_execution_start", "hook"),
        ("hook_execution_complete", "hook"),
        ("hook_plugin_metrics", "hook"),
        # Neither is a separate error: an api_error is also sent.
        ("api_retries_exhausted", "other"),
        ("internal_error", "other"),
        ("managed_settings_resolved", "other"),
        ("an_event_of_tomorrow", "other"),
    ],
)
def test_every_event_has_a_canonical_name_and_its_source_name(sent: str, canonical: str) -> None:
    event = read_one(line(claude(sent, color="red")))
    assert (event["event_name"], event["source_event_name"]) == (canonical, sent)
    assert json.loads(event["attributes"]) == {"color": "red"}


# -- prompts and replies ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "content"),
    [
        ({"prompt": "Fix it"}, "Fix it"),
        ({"prompt": "Fix it", "prompt_text": "Fix it"}, "Fix it"),
        ({"prompt": "<REDACTED>"}, None),
        ({"prompt": "[REDACTED]", "prompt_text": "<REDACTED>"}, None),
        ({"prompt": "<REDACTED>", "prompt_text": "Fix it"}, "Fix it"),
        ({"prompt_length": "6"}, None),
        ({"prompt": "Fix\x00 it"}, "Fix it"),
    ],
)
def test_the_text_of_a_prompt_is_content_unless_it_was_redacted(
    values: dict[str, Any], content: str | None
) -> None:
    assert read_one(line(claude("user_prompt", **values)))["content"] == content


@pytest.mark.parametrize(("text", "content"), [("Done.", "Done."), ("<REDACTED>", None)])
def test_the_text_of_a_reply_is_content_unless_it_was_redacted(
    text: str, content: str | None
) -> None:
    event = read_one(line(claude("assistant_response", response=text, response_length=5)))
    assert event["content"] == content


@pytest.mark.parametrize(
    ("source", "is_prompt"),
    [("builtin", False), ("custom", True), ("mcp", True), (None, True)],
)
def test_a_builtin_slash_command_is_no_prompt(source: str | None, is_prompt: bool) -> None:
    event = read_one(line(claude("user_prompt", command_name="x", command_source=source)))
    assert event["event_name"] == ("user_prompt" if is_prompt else "other")
    assert event["source_event_name"] == "user_prompt"


def test_identities_of_the_record_are_columns() -> None:
    sent = {
        "event.sequence": 7,
        "prompt.id": "p-1",
        "user.id": "u-1",
        "organization.id": "acme",
        "agent.name": "Explore",
        "query_source": "agent:custom",
    }
    record = claude("user_prompt")
    record["attributes"] += attributes(sent)
    event = read_one(line(record))
    columns = "sequence prompt_id user_id organization_id subagent query_source".split()
    assert [event[name] for name in columns] == list(sent.values())
    # agent.name is the name of a subagent, not an identity.
    assert event["agent_id"] is None


# -- API requests ----------------------------------------------------------------------------------

NUMBERS = {
    "input_tokens": 3,
    "output_tokens": 564,
    "cache_read_tokens": 99714,
    "cache_creation_tokens": 1250,
    "cost_usd": 0.0336432,
    "duration_ms": 12934,
}


@pytest.mark.parametrize("version", ["2.1.121", "2.1.294"])
def test_numbers_are_strings_up_to_2_1_121_and_numbers_since(version: str) -> None:
    sent = {k: str(v) for k, v in NUMBERS.items()} if version == "2.1.121" else NUMBERS
    event = read_one(line(claude("api_request", model="claude-opus-4-6", request_id="r", **sent)))
    assert {name: event[name] for name in NUMBERS} == NUMBERS
    assert (event["model"], event["provider"]) == ("claude-opus-4-6", "anthropic")
    assert (event["request_id"], event["cost_source"]) == ("r", "reported")


def test_missing_cache_tokens_are_zero_and_broken_ones_unknown() -> None:
    """The API omits them if no cache was involved; "undefined" is a broken value."""
    absent = read_one(line(claude("api_request", input_tokens=1, output_tokens=2)))
    assert (absent["cache_read_tokens"], absent["cache_creation_tokens"]) == (0, 0)
    batch = read(line(claude("api_request", input_tokens=1, cache_read_tokens="undefined")))
    (broken,) = batch.events.to_dicts()
    assert (broken["cache_read_tokens"], broken["cache_creation_tokens"]) == (None, 0)
    assert batch.counts.value_anomalies == 1


def test_missing_input_tokens_are_unknown() -> None:
    """With them is how many of them came from the cache."""
    event = read_one(line(claude("api_request", output_tokens=2)))
    unknown = ("input_tokens", "cache_read_tokens", "cache_creation_tokens")
    assert [event[name] for name in unknown] == [None, None, None]


@pytest.mark.parametrize(("cost", "source"), [(0, "reported"), (None, "unknown")])
def test_the_cost_source_distinguishes_a_missing_and_a_zero_cost(
    cost: int | None, source: str
) -> None:
    event = read_one(line(claude("api_request", cost_usd=cost)))
    assert (event["cost_usd"], event["cost_source"]) == (cost, source)


def test_an_api_error_keeps_its_error_and_has_neither_tokens_nor_cost() -> None:
    event = read_one(line(claude("api_error", error="Overloaded", status_code="undefined")))
    assert (event["error"], event["cost_source"]) == ("Overloaded", None)
    assert (event["cache_read_tokens"], event["output_tokens"]) == (None, None)
    assert json.loads(event["attributes"]) == {"status_code": "undefined"}


def test_a_logged_request_body_is_the_content_of_another_event() -> None:
    """The payload is the attribute ``body``; the body of the record is the event's name."""
    event = read_one(line(claude("api_request_body", body='{"model": "x"}')))
    assert (event["event_name"], event["content"]) == ("other", '{"model": "x"}')


def test_the_duration_of_hooks_has_another_attribute() -> None:
    event = read_one(line(claude("hook_execution_complete", total_duration_ms="41", num_hooks="1")))
    assert (event["event_name"], event["duration_ms"]) == ("hook", 41.0)
    assert json.loads(event["attributes"]) == {"num_hooks": "1"}


def test_every_conversion_of_the_dialect_returns_null_for_an_empty_string() -> None:
    """An empty attribute counts as missing."""
    for attribute, (_, convert) in CLAUDE_CODE.columns.items():
        assert convert("") is None, attribute
        assert convert(None) is None, attribute
        assert convert("text") is not None or convert("text") is BROKEN, attribute


# Worst-case attribute values: JSON in strings, unpaired surrogates, numbers of any size.
TEXTS = st.text() | st.sampled_from(
    (
        *("", "NaN", "-1", "9" * 30, "1e400", "true", "builtin", "mcp_tool", "Bash", "Exit code 1"),
        *(
            r'{"mcp_server_name": "\ud83d", "mcp_tool_name": "x"}',
            '{"full_command": 5}',
            "[[[",
            "{",
        ),
    )
)
KEYS = sorted({*CLAUDE_CODE.columns, "tool_parameters", "prompt_text", "command_source"})
VALUES = st.one_of(
    TEXTS.map(lambda text: {"stringValue": text}),
    (st.integers() | TEXTS | st.floats()).map(lambda number: {"intValue": number}),
    (st.floats() | TEXTS).map(lambda number: {"doubleValue": number}),
    st.booleans().map(lambda value: {"boolValue": value}),
    st.lists(TEXTS).map(lambda texts: {"arrayValue": {"values": texts}}),
)
NAMES = ("user_prompt", "tool_result", "tool_decision", "api_request", "hook_registered")


@given(
    st.sampled_from(NAMES), st.dictionaries(st.sampled_from(sorted(CLAUDE_CODE.columns)), VALUES)
)
def test_a_record_is_kept_for_any_value_of_any_attribute(
    name: str, values: dict[str, dict[str, Any]]
) -> None:
    record = claude(name)
    record["attributes"] += [{"key": key, "value": value} for key, value in values.items()]
    batch = read(line(record))
    assert (batch.events.height, batch.quarantined) == (1, [])
