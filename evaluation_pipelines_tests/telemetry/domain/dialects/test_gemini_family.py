"""Tool calls of Gemini CLI and Qwen Code: outcome, permission, name, class and parameters."""

import json
from typing import Any

import pytest

from evaluation_pipelines_tests.telemetry.domain.dialects.records import record, sent_by
from evaluation_pipelines_tests.telemetry.domain.reading import read_one


@pytest.fixture(params=["gemini_cli", "qwen-code"])
def program(request: pytest.FixtureRequest) -> str:
    """Return the prefix of a program's event names."""
    return str(request.param)


def call(program: str, tool: str = "read_file", **values: Any) -> dict[str, Any]:
    """Return the event of a tool call; ``metadata`` may be an object or a string."""
    metadata = values.pop("metadata", None)
    one = record(f"{program}.tool_call", function_name=tool, **values)
    if isinstance(metadata, dict):
        pairs = [{"key": k, "value": {"intValue": v}} for k, v in metadata.items()]
        one["attributes"].append({"key": "metadata", "value": {"kvlistValue": {"values": pairs}}})
    elif metadata is not None:
        one["attributes"].append({"key": "metadata", "value": {"stringValue": metadata}})
    return read_one(sent_by("", one))


def shell(program: str, command: str, **values: Any) -> dict[str, Any]:
    """Return the event of a shell call."""
    arguments = json.dumps({"command": command, "description": "x"}, indent=2)
    return call(program, "run_shell_command", function_args=arguments, **values)


# -- outcome ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "source"), [(True, "reported"), (False, "reported"), (None, None)]
)
def test_success_is_the_reported_success(
    program: str, sent: bool | None, source: str | None
) -> None:
    error = "File not found" if sent is False else None
    found = call(program, success=sent, duration_ms=26, tool_type="native", error=error)
    assert (found["event_name"], found["success"]) == ("tool_result", sent)
    assert (found["success_source"], found["exit_code"]) == (source, None)
    assert (found["duration_ms"], found["tool_type"]) == (26.0, "builtin")


@pytest.mark.parametrize(
    ("command", "metadata", "success", "code", "source"),
    [
        ("make check", '{\n  "exitCode": 2,\n  "isError": true\n}', False, 2, "exit_code"),
        ("make check", {"exitCode": "2"}, False, 2, "exit_code"),
        ("make check", {"exitCode": 1}, False, 1, "exit_code"),
        ("make check", {"exitCode": 0}, True, 0, "reported"),
        # Exit code 1 is an answer of these.
        ("grep -rn TODO src", {"exitCode": 1}, True, 1, "reported"),
        ("cd src && diff a b", {"exitCode": 1}, True, 1, "reported"),
        ("grep -rn TODO src", {"exitCode": 2}, False, 2, "exit_code"),
        # No exit code is shown.
        ("kill -9 $$", None, True, None, "reported"),
        ("make check", '{"exitCode": "none"}', True, None, "reported"),
        ("make check", '{"exitCode": null}', True, None, "reported"),
        ("make check", '{"exitCode": 2', True, None, "reported"),
        ("make check", '["exitCode", 2]', True, None, "reported"),
        ("make check", "{}", True, None, "reported"),
    ],
)
def test_an_exit_code_in_the_metadata_decides_over_a_reported_success(
    program: str, command: str, metadata: Any, success: bool, code: int | None, source: str
) -> None:
    found = shell(program, command, success=True, metadata=metadata)
    assert (found["success"], found["exit_code"], found["success_source"]) == (
        success,
        code,
        source,
    )


def shell_error(output: str, code: str) -> str:
    """Return the error of a command as Qwen Code writes it."""
    return (
        f"Command: x\nDirectory: (root)\nOutput: {output}\nError: (none)\nExit Code: {code}\n"
        "Signal: (none)\nProcess Group PGID: (none)"
    )


@pytest.mark.parametrize(
    ("command", "output", "shown", "success", "code"),
    [
        ("make check", "No rule", "2", False, 2),
        ("grep -rn TODO src", "(empty)", "1", True, 1),
        ("kill -9 $$", "(empty)", "(none)", False, None),
        # An exit code in the output of the command is not its exit code.
        ("make check", "Exit Code: 0", "2", False, 2),
        ("make check", "Exit Code: 7", "(none)", False, None),
        ("make check", "as printed: Exit Code: 7", "", False, None),
    ],
)
def test_the_last_exit_code_in_an_error_is_that_of_the_command(
    program: str, command: str, output: str, shown: str, success: bool, code: int | None
) -> None:
    found = shell(program, command, success=False, error=shell_error(output, shown))
    assert (found["success"], found["exit_code"]) == (success, code)
    assert found["success_source"] == ("exit_code" if success else "reported")


def test_an_exit_code_of_one_is_a_failure_if_the_command_is_unknown(program: str) -> None:
    """If prompts are not logged, the arguments of a call are also omitted."""
    found = call(program, "run_shell_command", success=True, metadata={"exitCode": 1})
    assert (found["success"], found["success_source"]) == (False, "exit_code")
    assert (found["tool_class"], found["tool_parameters"]) == ("shell", None)


def test_only_the_shell_has_exit_codes(program: str) -> None:
    found = call(program, "read_file", success=True, error=shell_error("x", "2"))
    assert (found["success"], found["exit_code"]) == (True, None)


# -- permission ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "decision"),
    [("accept", "accept"), ("auto_accept", "accept"), ("modify", "accept"), ("ask", None)],
)
def test_a_call_is_accepted_in_every_way_of_allowing_it(
    program: str, sent: str, decision: str | None
) -> None:
    found = call(program, success=True, decision=sent)
    assert (found["event_name"], found["decision"]) == ("tool_result", decision)
    kept = json.loads(found["attributes"] or "{}").get("decision")
    assert kept == (None if sent == decision else sent)


@pytest.mark.parametrize("success", [False, None])
def test_a_refused_call_is_a_decision_and_has_no_outcome(
    program: str, success: bool | None
) -> None:
    found = call(program, "write_file", success=success, decision="reject")
    assert (found["event_name"], found["decision"]) == ("tool_decision", "reject")
    assert (found["success"], found["success_source"]) == (None, None)
    assert (found["tool_name"], found["tool_class"]) == ("write_file", "write")


@pytest.mark.parametrize("error_type", ["invalid_tool_params", "permission_denied", None])
def test_a_call_that_could_not_run_has_failed(program: str, error_type: str | None) -> None:
    found = call(program, success=False, error="Not in workspace", error_type=error_type)
    assert (found["event_name"], found["success"]) == ("tool_result", False)
    assert (found["decision"], found["error_type"]) == (None, error_type)


def test_a_call_that_was_canceled_before_it_ran_is_refused(program: str) -> None:
    """It waited behind a refused one, or plan mode forbids it: nothing else is sent."""
    found = call(program, success=False, tool_type="native", duration_ms=0)
    assert (found["event_name"], found["decision"]) == ("tool_decision", "reject")
    assert (found["success"], found["success_source"]) == (None, None)


def test_a_call_that_was_interrupted_while_it_ran_has_failed(program: str) -> None:
    found = call(program, success=False, tool_type="native", decision="auto_accept")
    assert (found["event_name"], found["success"]) == ("tool_result", False)


def test_a_command_with_an_exit_code_was_not_refused(program: str) -> None:
    found = shell(program, "make", success=True, tool_type="native", metadata={"exitCode": 2})
    assert (found["event_name"], found["success"]) == ("tool_result", False)


def test_a_call_that_succeeded_was_not_refused(program: str) -> None:
    """The answer "yes, and save that" is sent as a refusal."""
    found = call(program, success=True, decision="reject")
    assert (found["event_name"], found["success"]) == ("tool_result", True)
    assert found["decision"] == "accept"
    assert json.loads(found["attributes"])["decision"] == "reject"


# -- name, class, parameters -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "tool_class"),
    [
        ("read_file", "read"),
        ("read_many_files", "read"),
        ("search_file_content", "search"),
        ("grep_search", "search"),
        ("glob", "search"),
        ("list_directory", "search"),
        ("replace", "edit"),
        ("edit", "edit"),
        ("write_file", "write"),
        ("run_shell_command", "shell"),
        ("web_fetch", "web"),
        ("google_web_search", "web"),
        ("web_search", "web"),
        ("agent", "agent"),
        ("task", "agent"),
        ("codebase_investigator", "agent"),
        ("save_memory", "other"),
        ("write_todos", "other"),
        ("a_tool_of_tomorrow", "other"),
    ],
)
def test_every_tool_has_a_class(program: str, tool: str, tool_class: str) -> None:
    found = call(program, tool)
    assert (found["tool_name"], found["tool_class"]) == (tool, tool_class)
    assert found["tool_type"] == "builtin"


def test_a_call_without_a_name_is_a_call(program: str) -> None:
    found = read_one(sent_by("", record(f"{program}.tool_call", success=True)))
    assert (found["tool_name"], found["tool_class"], found["success"]) == (None, "other", True)


@pytest.mark.parametrize(
    ("command", "tool_class"),
    [("cat app.py", "read"), ("rg TODO", "search"), ("make", "shell"), ("cat a > b", "shell")],
)
def test_the_class_of_a_shell_call_depends_on_its_command(
    program: str, command: str, tool_class: str
) -> None:
    assert shell(program, command)["tool_class"] == tool_class


@pytest.mark.parametrize("arguments", ['{"command": "cat a', '{"command": ["cat"]}', "[[["])
def test_arguments_without_a_command_are_kept(program: str, arguments: str) -> None:
    found = call(program, "run_shell_command", function_args=arguments)
    assert (found["tool_class"], found["tool_parameters"]) == ("shell", arguments)


@pytest.mark.parametrize(
    ("tool", "server", "name"),
    [
        ("add", "calc", "mcp__calc__add"),
        ("calc__add", "calc", "mcp__calc__add"),
        ("mcp_calc_add", "calc", "mcp__calc__add"),
        ("mcp__calc__add", "calc", "mcp__calc__add"),
        ("mcp_my_server_add", "my_server", "mcp__my_server__add"),
        ("add", None, "add"),
    ],
)
def test_mcp_tools_have_one_spelling(
    program: str, tool: str, server: str | None, name: str
) -> None:
    found = call(program, tool, tool_type="mcp", mcp_server_name=server, success=True)
    assert (found["tool_name"], found["tool_type"], found["tool_class"]) == (name, "mcp", "mcp")


def test_an_mcp_tool_with_the_name_of_a_builtin_tool_is_an_mcp_tool(program: str) -> None:
    found = call(program, "run_shell_command", tool_type="mcp", metadata={"exitCode": 2})
    assert (found["tool_class"], found["success"]) == ("mcp", None)
