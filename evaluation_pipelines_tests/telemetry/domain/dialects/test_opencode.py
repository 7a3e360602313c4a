"""Dialect of OpenCode: events of its plugins, and its log lines for developers."""

import json
from typing import Any

import pytest

from evaluation_pipelines_tests.telemetry.domain.dialects.records import record, sent_by
from evaluation_pipelines_tests.telemetry.domain.reading import read, read_one


def bare(name: str, **values: object) -> dict[str, Any]:
    """Return a record of opencode-plugin-otel: the body and ``event.name`` are the bare name."""
    return record(name, body=name, **values)


def prefixed(name: str, **values: object) -> dict[str, Any]:
    """Return a record of opencode-otel: the body has the prefix."""
    return record(name, body=f"opencode.{name}", **values)


def event(one: dict[str, Any], scope: str = "com.opencode") -> dict[str, Any]:
    return read_one(sent_by(scope, one, service__name="opencode"))


# -- recognition and names -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scope", "name", "body"),
    [
        ("com.opencode", "user_prompt", "user_prompt"),
        ("com.opencode.telemetry", "user_prompt", "opencode.user_prompt"),
        ("com.opencode.telemetry", "opencode.user_prompt", "opencode.user_prompt"),
        ("", "user_prompt", "opencode.user_prompt"),
        ("", "opencode.user_prompt", "A sentence."),
        ("other", None, "opencode.user_prompt"),
    ],
)
def test_a_record_is_recognized_by_scope_name_or_body(
    scope: str, name: str | None, body: str
) -> None:
    found = event(record(name, body=body, prompt="Fix it", prompt_length=6), scope)
    assert (found["source_cli"], found["event_name"]) == ("opencode", "user_prompt")
    assert (found["source_event_name"], found["content"]) == ("user_prompt", "Fix it")


@pytest.mark.parametrize(
    ("sent", "canonical"),
    [
        ("user_prompt", "user_prompt"),
        ("api_request", "api_request"),
        ("api_error", "api_error"),
        ("tool_result", "tool_result"),
        ("tool_decision", "tool_decision"),
        ("session.created", "session_start"),
        # A session goes idle after every answer.
        ("session.idle", "other"),
        # An api_error is also sent.
        ("session.error", "other"),
        ("commit", "outcome"),
        ("subtask_invoked", "other"),
    ],
)
def test_every_event_has_a_canonical_name_and_its_source_name(sent: str, canonical: str) -> None:
    for one in (bare(sent), prefixed(sent)):
        found = event(one)
        assert (found["event_name"], found["source_event_name"]) == (canonical, sent)


def test_records_in_the_claude_code_format_are_read_as_claude_code() -> None:
    copy = record("user_prompt", body="claude_code.user_prompt")
    assert event(copy, "com.anthropic.claude_code")["source_cli"] == "claude_code"


def test_the_sequence_of_a_process_is_not_the_sequence_of_a_session() -> None:
    found = event(prefixed("user_prompt", event__sequence=7, prompt__id="p-1"))
    assert (found["sequence"], found["prompt_id"]) == (None, "p-1")
    assert json.loads(found["attributes"]) == {"event.sequence": 7}


@pytest.mark.parametrize(("kind", "subagent"), [("subagent", "explore"), ("primary", None)])
def test_an_agent_is_a_subagent_by_its_type(kind: str, subagent: str | None) -> None:
    found = event(bare("user_prompt", agent__name="explore", agent__type=kind))
    assert (found["subagent"], found["agent_id"]) == (subagent, None)


# -- API requests ----------------------------------------------------------------------------------


def test_a_request_has_its_tokens_and_cost() -> None:
    tokens = {
        "input_tokens": 3,
        "output_tokens": 564,
        "reasoning_tokens": 12,
        "cache_read_tokens": 99714,
        "cache_creation_tokens": 1250,
    }
    found = event(
        bare(
            "api_request",
            model="glm-5",
            provider="zai",
            cost_usd=0.0336432,
            duration_ms=1293,
            **tokens,
        )
    )
    assert {name: found[name] for name in tokens} == tokens
    assert (found["cost_usd"], found["cost_source"]) == (0.0336432, "reported")
    assert (found["model"], found["provider"], found["duration_ms"]) == ("glm-5", "zai", 1293.0)


@pytest.mark.parametrize("cost", [0, 0.0, None])
def test_a_cost_of_zero_is_unknown(cost: float | None) -> None:
    found = event(bare("api_request", model="unknown", input_tokens=3, cost_usd=cost))
    assert (found["cost_usd"], found["cost_source"]) == (None, "unknown")
    assert found["model"] is None


def test_an_api_error_keeps_its_text() -> None:
    found = event(bare("api_error", error="APIError: Overloaded", model="glm-5"))
    assert (found["error"], found["cost_source"]) == ("APIError: Overloaded", None)


# -- tool calls ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "tool_class"),
    [
        ("read", "read"),
        ("grep", "search"),
        ("glob", "search"),
        ("list", "search"),
        ("edit", "edit"),
        ("apply_patch", "edit"),
        ("write", "write"),
        ("bash", "shell"),
        ("webfetch", "web"),
        ("task", "agent"),
        ("todowrite", "other"),
        ("github_create_issue", "other"),
        ("redacted", "other"),
    ],
)
def test_every_tool_has_a_class_and_a_redacted_one_no_name(tool: str, tool_class: str) -> None:
    found = event(prefixed("tool_result", tool_name=tool, success=True, duration_ms=31))
    assert found["tool_name"] == (None if tool == "redacted" else tool)
    assert (found["tool_class"], found["tool_type"]) == (tool_class, "builtin")
    assert (found["success"], found["success_source"]) == (True, "reported")


@pytest.mark.parametrize(
    ("arguments", "tool_class"),
    [
        ('{"command":"rg TODO"}', "search"),
        ('{"command":["rg"]}', "shell"),
        ('{"command":"rg TO', "shell"),
    ],
)
def test_the_class_of_a_shell_call_depends_on_its_command(arguments: str, tool_class: str) -> None:
    found = event(prefixed("tool_result", tool_name="bash", tool_args=arguments, success=True))
    assert (found["tool_class"], found["tool_parameters"]) == (tool_class, arguments)


REJECTED = "The user rejected permission to use this specific tool call"


@pytest.mark.parametrize(
    "error",
    [
        f"{REJECTED}.",
        f"{REJECTED}. You may try again with different parameters.",
        f"PermissionRejectedError: {REJECTED} with the following feedback: no",
    ],
)
def test_a_call_that_the_user_refused_counts_once(error: str) -> None:
    answer = {"tool_name": "rm -r build", "tool_type": "bash", "source": "reject"}
    decision = bare("tool_decision", decision="reject", **answer)
    result = bare("tool_result", tool_name="bash", success=False, error=error)
    batch = read(sent_by("com.opencode", decision, result))
    (found,) = batch.events.to_dicts()
    assert (found["event_name"], found["decision"]) == ("tool_decision", "reject")
    assert (found["tool_name"], found["tool_class"]) == ("rm -r build", "shell")
    assert batch.counts.repeated_records == 1


def test_a_call_that_a_rule_forbids_is_refused() -> None:
    error = (
        "The user has specified a rule which prevents you from using this specific tool call. "
        "Here are some of the relevant rules []"
    )
    found = event(bare("tool_result", tool_name="bash", success=False, error=error))
    assert (found["event_name"], found["decision"]) == ("tool_decision", "reject")
    assert (found["success"], found["success_source"]) == (None, None)


@pytest.mark.parametrize(
    ("sent", "source", "decision"),
    [
        ("accept", "allow", "accept"),
        # The plugin does not handle the values that OpenCode sends for yes.
        ("reject", "once", "accept"),
        ("reject", "always", "accept"),
        ("reject", "reject", "reject"),
    ],
)
def test_the_answer_of_the_user_decides(sent: str, source: str, decision: str) -> None:
    found = event(bare("tool_decision", decision=sent, source=source, tool_name="Edit app.py"))
    assert (found["decision"], found["tool_class"]) == (decision, "other")
    assert json.loads(found["attributes"]) == {"source": source}
