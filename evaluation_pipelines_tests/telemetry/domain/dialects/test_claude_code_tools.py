"""Tool calls of Claude Code: outcome, name, class and parameters."""

import json
from typing import Any

import pytest

from evaluation_pipelines_tests.telemetry.domain.reading import read, read_one
from evaluation_pipelines_tests.world import claude, line


def tool_event(**values: Any) -> dict[str, Any]:
    """Return the event of a ``tool_result``."""
    return read_one(line(claude("tool_result", **values)))


def bash(command: str, **values: Any) -> dict[str, Any]:
    """Return the event of a shell call."""
    digest = json.dumps({"bash_command": command.split(maxsplit=1)[0], "full_command": command})
    return tool_event(tool_name="Bash", tool_parameters=digest, **values)


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
def test_success_is_the_reported_success(
    sent: object, success: bool | None, source: str | None
) -> None:
    event = tool_event(tool_name="Read", success=sent, duration_ms="35", tool_use_id="t")
    assert (event["success"], event["success_source"]) == (success, source)
    assert (event["duration_ms"], event["tool_use_id"]) == (35.0, "t")


def test_an_outcome_that_is_no_boolean_is_unknown_and_counted() -> None:
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
        # Exit code 1 is an answer of these: no match, a difference, false.
        ("grep -rn TODO src", "Exit code 1", "false", True, 1, "exit_code"),
        ("rg TODO", "Exit code 1", "true", True, 1, "reported"),
        ("cd src && diff a b", "Exit code 1", "false", True, 1, "exit_code"),
        ("test -f a", "Exit code 1", None, True, 1, "exit_code"),
        ("grep -rn TODO src", "Exit code 2", "true", False, 2, "exit_code"),
        ("grep x f && make", "Exit code 1", "false", False, 1, "reported"),
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


def test_an_exit_code_of_one_is_a_failure_if_the_command_is_unknown() -> None:
    event = tool_event(tool_name="Bash", error="Exit code 1", success="true")
    assert (event["success"], event["success_source"]) == (False, "exit_code")


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
