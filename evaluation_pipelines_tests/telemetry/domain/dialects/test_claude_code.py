"""Dialect of Claude Code: events of the records of each version."""

import json
from typing import Any

import pytest

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


def tool_event(**values: Any) -> dict[str, Any]:
    return read_one(line(claude("tool_result", **values)))


def bash(command: str, **values: Any) -> dict[str, Any]:
    digest = json.dumps({"bash_command": command.split(maxsplit=1)[0], "full_command": command})
    return tool_event(tool_name="Bash", tool_parameters=digest, **values)


# -- tool calls: outcome ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "error", "reported", "success", "code", "source"),
    [
        ("make check", "Exit code 2", "true", False, 2, "exit_code"),
        ("make check", "Exit code 2", "false", False, 2, "reported"),
        ("make check", "Error: Exit code 127\nnot found", None, False, 127, "exit_code"),
        ("make check", "Command failed with exit code: 1", "true", False, 1, "exit_code"),
        ("make check", "Exit code 0", "true", True, 0, "reported"),
        # Exit code 1 is an answer of these: no match, a difference, false.
        ("grep -rn TODO src", "Exit code 1", "false", True, 1, "exit_code"),
        # No exit code is shown; other texts are not searched.
        ("make check", "the exit code 2 is not at the beginning", "true", True, None, "reported"),
        ("make check", "Exit code 4711", "true", True, None, "reported"),
        ("make check", "", "true", True, None, "reported"),
    ],
)
def test_a_shown_exit_code_decides_unless_one_is_an_answer(
    command: str, error: str, reported: str | None, success: bool, code: int | None, source: str
) -> None:
    event = bash(command, error=error, success=reported)
    assert (event["success"], event["exit_code"], event["success_source"]) == (
        success,
        code,
        source,
    )


@pytest.mark.parametrize("decision", ["accept", "reject"])
def test_a_decision_records_whether_the_call_was_denied(decision: str) -> None:
    sent: dict[str, Any] = {
        "decision": decision,
        "source": "user_reject",
        "tool_name": "Bash",
        "tool_use_id": "t",
    }
    event = read_one(line(claude("tool_decision", **sent)))
    assert (event["event_name"], event["decision"], event["success"]) == (
        "tool_decision",
        decision,
        None,
    )
    assert (event["tool_name"], event["tool_class"], event["tool_use_id"]) == ("Bash", "shell", "t")


# -- tool calls: name, class, parameters -----------------------------------------------------------


def test_every_tool_has_a_class() -> None:
    classes = {
        "read": "Read NotebookRead ReadMcpResourceTool",
        "search": "Grep Glob LS ToolSearch",
        "edit": "Edit MultiEdit NotebookEdit",
        "write": "Write",
        "shell": "Bash PowerShell BashOutput KillShell",
        "web": "WebFetch WebSearch",
        "agent": "Task Agent",
        "other": "TodoWrite ExitPlanMode a_tool_of_tomorrow",
    }
    for tool_class, tools in classes.items():
        for tool in tools.split():
            event = tool_event(tool_name=tool, decision_type="accept")
            assert (event["tool_name"], event["tool_class"]) == (tool, tool_class)
            assert (event["tool_type"], event["decision"]) == ("builtin", "accept")
    assert tool_event()["tool_class"] == "other"


MCP = '{"mcp_server_name": "github", "mcp_tool_name": "create_issue"}'


@pytest.mark.parametrize(
    ("tool", "details", "name"),
    [
        ("mcp_tool", MCP, "mcp__github__create_issue"),
        ("mcp__github__create_issue", None, "mcp__github__create_issue"),
        ("mcp_tool", None, "mcp_tool"),
        ("mcp_tool", '{"mcp_server_name": "github"}', "mcp_tool"),
        ("mcp_tool", MCP[:-5], "mcp_tool"),
        ("mcp_tool", '["no object"]', "mcp_tool"),
        # JSON inside JSON can contain characters that no file can.
        ("mcp_tool", r'{"mcp_server_name": "a\u0000b\ud83d", "mcp_tool_name": 5}', "mcp__ab?__5"),
    ],
)
def test_the_real_name_of_an_mcp_tool_is_in_its_parameters(
    tool: str, details: str | None, name: str
) -> None:
    event = tool_event(tool_name=tool, tool_parameters=details)
    assert (event["tool_name"], event["tool_type"], event["tool_class"]) == (name, "mcp", "mcp")


def test_the_parameters_are_the_full_arguments_or_else_the_digest() -> None:
    arguments, digest = '{"command": "ls -la"}', '{"full_command": "ls -la"}'
    whole = tool_event(tool_name="Bash", tool_input=arguments, tool_parameters=digest)
    assert whole["tool_parameters"] == arguments
    assert whole["attributes"] is None
    assert tool_event(tool_name="Bash", tool_parameters=digest)["tool_parameters"] == digest
    assert tool_event(tool_name="Bash")["tool_parameters"] is None


@pytest.mark.parametrize(
    ("values", "tool_class"),
    [
        ({"tool_input": '{"command": "cat app.py"}'}, "read"),
        ({"tool_parameters": '{"full_command": "rg TODO"}'}, "search"),
        # The digest has priority: tool_input is truncated at about 4,000 characters.
        ({"tool_parameters": '{"full_command": "rg x"}', "tool_input": '{"comm'}, "search"),
        ({"tool_input": '{"command": "cat app.p'}, "shell"),
        ({"tool_input": '{"command": ["cat"]}'}, "shell"),
        ({"tool_input": "[" * 100_000}, "shell"),
        ({}, "shell"),
    ],
)
def test_the_class_of_a_shell_call_depends_on_its_command(
    values: dict[str, str], tool_class: str
) -> None:
    event = tool_event(tool_name="Bash", success="true", **values)
    assert (event["tool_class"], event["success"]) == (tool_class, True)
