"""How Claude Code words its telemetry, version by version, and what each record becomes."""

import json
from typing import Any

import pytest

from evaluation_pipelines.domain.telemetry.attributes import BROKEN
from evaluation_pipelines.domain.telemetry.dialects.claude_code import CLAUDE_CODE
from evaluation_pipelines_tests.domain.telemetry.reading import read, read_one
from evaluation_pipelines_tests.otlp_builders import attributes, claude, line, request


def tool_event(**values: object) -> dict[str, Any]:
    """The event of a ``tool_result``."""
    return read_one(line(claude("tool_result", **values)))


def bash(command: str, **values: object) -> dict[str, Any]:
    """The event of a shell call."""
    digest = json.dumps({"bash_command": command.split()[0], "full_command": command})
    return tool_event(tool_name="Bash", tool_parameters=digest, **values)


# -- who sent it, and what it is called ------------------------------------------------------------


@pytest.mark.parametrize(
    ("scope", "body", "name"),
    [
        ("com.anthropic.claude_code.events", "claude_code.user_prompt", "user_prompt"),
        # hand-made and older: the prefix in event.name, or no event.name at all
        ("com.anthropic.claude_code.events", "claude_code.user_prompt", "claude_code.user_prompt"),
        ("com.anthropic.claude_code.events", "claude_code.user_prompt", ""),
        ("com.anthropic.claude_code.events", None, "user_prompt"),
        # the scope lost or renamed on the way
        ("", "claude_code.user_prompt", "user_prompt"),
        ("", None, "claude_code.user_prompt"),
        ("other", "claude_code.user_prompt", ""),
    ],
)
def test_a_record_is_known_by_scope_body_or_name(scope: str, body: str | None, name: str) -> None:
    record = claude("user_prompt", event__name=name, prompt_length="53")
    record["body"] = {} if body is None else {"stringValue": body}
    event = read_one(json.dumps(request([record], scope=scope)).encode())
    assert (event["source_cli"], event["event_name"]) == ("claude_code", "user_prompt")
    assert event["source_event_name"] == "user_prompt"


@pytest.mark.parametrize("service", ["claude-code", "claude-code-desktop", "cowork", "my-agent"])
def test_the_service_name_is_kept_and_decides_nothing(service: str) -> None:
    event = read_one(line(claude("user_prompt"), service__name=service, service__version="2.1.330"))
    assert (event["source_cli"], event["service_name"]) == ("claude_code", service)
    assert event["service_version"] == "2.1.330"


def test_an_impostor_that_only_calls_its_service_claude_code_is_not_claude_code() -> None:
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
        # Neither is an error of its own: an api_error stands beside it.
        ("api_retries_exhausted", "other"),
        ("internal_error", "other"),
        ("managed_settings_resolved", "other"),
        ("an_event_of_tomorrow", "other"),
    ],
)
def test_every_event_has_a_canonical_name_and_keeps_its_own(sent: str, canonical: str) -> None:
    event = read_one(line(claude(sent, colour="red")))
    assert (event["event_name"], event["source_event_name"]) == (canonical, sent)
    assert json.loads(event["attributes"]) == {"colour": "red"}


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
    values: dict[str, str], content: str | None
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
    # agent.name names a subagent: it is no identity.
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
def test_numbers_came_as_texts_until_2_1_121_and_as_numbers_since(version: str) -> None:
    sent = {k: str(v) for k, v in NUMBERS.items()} if version == "2.1.121" else NUMBERS
    event = read_one(line(claude("api_request", model="claude-opus-4-6", request_id="r", **sent)))
    assert {name: event[name] for name in NUMBERS} == NUMBERS
    assert (event["model"], event["provider"]) == ("claude-opus-4-6", "anthropic")
    assert (event["request_id"], event["cost_source"]) == ("r", "reported")


def test_cache_tokens_that_were_not_sent_are_none_and_broken_ones_unknown() -> None:
    """The API leaves them out when no cache was involved; "undefined" is another matter."""
    absent = read_one(line(claude("api_request", input_tokens=1, output_tokens=2)))
    assert (absent["cache_read_tokens"], absent["cache_creation_tokens"]) == (0, 0)
    batch = read(line(claude("api_request", cache_read_tokens="undefined")))
    (broken,) = batch.events.to_dicts()
    assert (broken["cache_read_tokens"], broken["cache_creation_tokens"]) == (None, 0)
    assert batch.counts.value_anomalies == 1


def test_input_tokens_that_were_not_sent_stay_unknown() -> None:
    event = read_one(line(claude("api_request", output_tokens=2)))
    assert event["input_tokens"] is None


@pytest.mark.parametrize(("cost", "source"), [(0, "reported"), (None, "unknown")])
def test_a_request_without_a_cost_says_so_and_one_that_was_free_too(
    cost: int | None, source: str
) -> None:
    event = read_one(line(claude("api_request", cost_usd=cost)))
    assert (event["cost_usd"], event["cost_source"]) == (cost, source)


def test_an_api_error_keeps_its_error_and_has_neither_tokens_nor_cost() -> None:
    event = read_one(line(claude("api_error", error="Overloaded", status_code="undefined")))
    assert (event["error"], event["cost_source"]) == ("Overloaded", None)
    assert (event["cache_read_tokens"], event["output_tokens"]) == (None, None)
    assert json.loads(event["attributes"]) == {"status_code": "undefined"}


def test_a_logged_request_body_is_content_of_an_event_that_is_no_request() -> None:
    """The payload is the attribute ``body``; the body of the record is the event's name."""
    event = read_one(line(claude("api_request_body", body='{"model": "x"}')))
    assert (event["event_name"], event["content"]) == ("other", '{"model": "x"}')


def test_the_duration_of_hooks_has_a_name_of_its_own() -> None:
    event = read_one(line(claude("hook_execution_complete", total_duration_ms="41", num_hooks="1")))
    assert (event["event_name"], event["duration_ms"]) == ("hook", 41.0)
    assert json.loads(event["attributes"]) == {"num_hooks": "1"}


# -- tool calls: outcome ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "success", "source"),
    [
        ("true", True, "reported"),
        ("false", False, "reported"),
        (True, True, "reported"),
        (None, None, None),
    ],
)
def test_success_is_what_was_reported(
    sent: object, success: bool | None, source: str | None
) -> None:
    event = tool_event(tool_name="Read", success=sent, duration_ms="35", tool_use_id="t")
    assert (event["success"], event["success_source"]) == (success, source)
    assert (event["duration_ms"], event["tool_use_id"]) == (35.0, "t")


def test_an_outcome_that_is_no_truth_value_is_unknown_and_counted() -> None:
    batch = read(line(claude("tool_result", tool_name="Read", success="maybe")))
    assert batch.events["success"].to_list() == [None]
    assert batch.counts.value_anomalies == 1


@pytest.mark.parametrize(
    ("command", "error", "reported", "success", "code", "source"),
    [
        ("make check", "Exit code 2", "true", False, 2, "exit_code"),
        ("make check", "Exit code 2", "false", False, 2, "reported"),
        ("make check", "Error: Exit code 127\nnot found", None, False, 127, "exit_code"),
        ("make check", "Command failed with exit code: 1", "true", False, 1, "exit_code"),
        ("make check", "Exit code 0", "true", True, 0, "reported"),
        # 1 is an answer of these: nothing found, they differ, it is not so.
        ("grep -rn TODO src", "Exit code 1", "false", True, 1, "exit_code"),
        ("rg TODO", "Exit code 1", "true", True, 1, "reported"),
        ("cd src && diff a b", "Exit code 1", "false", True, 1, "exit_code"),
        ("test -f a", "Exit code 1", None, True, 1, "exit_code"),
        ("grep -rn TODO src", "Exit code 2", "true", False, 2, "exit_code"),
        ("grep x f && make", "Exit code 1", "false", False, 1, "reported"),
        # No exit code is shown: nothing is read out of other texts.
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


def test_an_exit_code_of_one_is_a_failure_where_the_command_is_not_known() -> None:
    event = tool_event(tool_name="Bash", error="Exit code 1", success="true")
    assert (event["success"], event["success_source"]) == (False, "exit_code")


@pytest.mark.parametrize("decision", ["accept", "reject"])
def test_a_decision_says_whether_the_call_was_denied(decision: str) -> None:
    sent = {"decision": decision, "source": "user_reject", "tool_name": "Bash", "tool_use_id": "t"}
    event = read_one(line(claude("tool_decision", **sent)))
    assert (event["event_name"], event["decision"], event["success"]) == (
        "tool_decision",
        decision,
        None,
    )
    assert (event["tool_name"], event["tool_class"], event["tool_use_id"]) == ("Bash", "shell", "t")


def test_the_decision_on_a_result_is_the_same_column() -> None:
    assert tool_event(tool_name="Edit", decision_type="accept")["decision"] == "accept"


# -- tool calls: name, class, parameters -----------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "tool_class"),
    [
        ("Read", "read"),
        ("NotebookRead", "read"),
        ("ReadMcpResourceTool", "read"),
        ("Grep", "search"),
        ("Glob", "search"),
        ("LS", "search"),
        ("ToolSearch", "search"),
        ("Edit", "edit"),
        ("MultiEdit", "edit"),
        ("NotebookEdit", "edit"),
        ("Write", "write"),
        ("Bash", "shell"),
        ("PowerShell", "shell"),
        ("BashOutput", "shell"),
        ("KillShell", "shell"),
        ("WebFetch", "web"),
        ("WebSearch", "web"),
        ("Task", "agent"),
        ("Agent", "agent"),
        ("TodoWrite", "other"),
        ("ExitPlanMode", "other"),
        ("a_tool_of_tomorrow", "other"),
        (None, "other"),
    ],
)
def test_every_tool_has_a_class(tool: str | None, tool_class: str) -> None:
    event = tool_event(tool_name=tool)
    assert (event["tool_name"], event["tool_class"]) == (tool, tool_class)
    assert event["tool_type"] == "builtin"


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
        # JSON inside JSON can spell what no file can hold.
        ("mcp_tool", r'{"mcp_server_name": "a\u0000b\ud83d", "mcp_tool_name": 5}', "mcp__ab?__5"),
    ],
)
def test_the_real_name_of_an_mcp_tool_stands_in_its_parameters(
    tool: str, details: str | None, name: str
) -> None:
    event = tool_event(tool_name=tool, tool_parameters=details)
    assert (event["tool_name"], event["tool_type"], event["tool_class"]) == (name, "mcp", "mcp")


def test_the_full_arguments_are_the_parameters_and_the_digest_stands_in_for_them() -> None:
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
        # The digest is asked first: tool_input is cut at some 4 000 characters.
        ({"tool_parameters": '{"full_command": "rg x"}', "tool_input": '{"comm'}, "search"),
        ({"tool_input": '{"command": "cat app.p'}, "shell"),
        ({"tool_input": '{"command": ["cat"]}'}, "shell"),
        ({"tool_input": "[" * 100_000}, "shell"),
        ({}, "shell"),
    ],
)
def test_a_shell_call_that_only_looks_is_told_by_its_command(
    values: dict[str, str], tool_class: str
) -> None:
    event = tool_event(tool_name="Bash", success="true", **values)
    assert (event["tool_class"], event["success"]) == (tool_class, True)


def test_no_conversion_of_the_dialect_gives_anything_for_an_empty_text() -> None:
    """An attribute that is there and empty says nothing."""
    for attribute, (_, convert) in CLAUDE_CODE.columns.items():
        assert convert("") is None, attribute
        assert convert(None) is None, attribute
        assert convert("text") is not None or convert("text") is BROKEN, attribute
