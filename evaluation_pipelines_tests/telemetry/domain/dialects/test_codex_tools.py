"""Tool calls of Codex: outcome, permission, name, class and parameters."""

import json
from typing import Any

import pytest

from evaluation_pipelines_tests.telemetry.domain.dialects.codex_records import codex_event


def call(**values: object) -> dict[str, Any]:
    """Return the event of a ``codex.tool_result``."""
    return codex_event("tool_result", **values)


def header(code: int) -> str:
    """Return the text that exec_command adds before the output."""
    return (
        "Chunk ID: 8e87cf\nWall time: 0.0000 seconds\n"
        f"Process exited with code {code}\nOriginal token count: 13\nOutput:\nProcess exited with"
    )


def freeform(code: int) -> str:
    """Return the text that shell_command and apply_patch add before the output."""
    return f"Exit code: {code}\nWall time: 0 seconds\nOutput:\nExit code: 7\n"


def structured(code: int) -> str:
    """Return the output of the tool ``shell``."""
    return json.dumps({"output": "", "metadata": {"exit_code": code, "duration_seconds": 0.0}})


# -- outcome ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shows", [header, freeform, structured])
@pytest.mark.parametrize("tool", ["exec_command", "shell_command", "shell", "local_shell"])
@pytest.mark.parametrize(
    ("reported", "code", "success", "source"),
    [
        ("true", 0, True, "reported"),
        # A command that exited non-zero is a success to newer versions ...
        ("true", 2, False, "exit_code"),
        ("true", 137, False, "exit_code"),
        ("true", -1, False, "exit_code"),
        # ... and was a failure to older ones.
        ("false", 5, False, "reported"),
        (None, 3, False, "exit_code"),
    ],
)
def test_the_exit_code_in_the_output_decides(
    shows: Any, tool: str, reported: str | None, code: int, success: bool, source: str
) -> None:
    event = call(tool_name=tool, arguments='{"cmd": "make"}', success=reported, output=shows(code))
    assert (event["success"], event["success_source"]) == (success, source)
    assert (event["exit_code"], event["content"]) == (code, shows(code))


@pytest.mark.parametrize(
    ("command", "code", "reported", "success", "source"),
    [
        ("grep -rn TODO src", 1, "true", True, "reported"),
        ("grep -rn TODO src", 1, "false", True, "exit_code"),
        ("grep -rn TODO src", 2, "true", False, "exit_code"),
        ("grep x f && make", 1, "true", False, "exit_code"),
    ],
)
def test_an_exit_code_of_one_is_no_failure_if_it_is_an_answer(
    command: str, code: int, reported: str, success: bool, source: str
) -> None:
    arguments = json.dumps({"cmd": command})
    event = call(
        tool_name="exec_command", arguments=arguments, success=reported, output=header(code)
    )
    assert (event["success"], event["success_source"], event["exit_code"]) == (
        success,
        source,
        code,
    )


@pytest.mark.parametrize(
    "output",
    [
        # still running when the model got its answer
        "Chunk ID: 085324\nWall time: 0.5011 seconds\nProcess running with session ID 1\nOutput:\n",
        "unsupported call: exec_command",
        'the command printed this\nExit code: 2\n{"metadata": {"exit_code": 2}}',
        "Exit code: 12345678901\n",
        '{"output": "", "metadata": {"exit_code": 99999999999}}',
        '{"output": "", "metadata": {"exit_code": true}}',
        '{"output": "", "metadata": 2}',
        '{"output": "cut off by the prev',
        None,
    ],
)
@pytest.mark.parametrize(("reported", "success"), [("true", True), ("false", False)])
def test_the_outcome_is_the_reported_one_without_an_exit_code(
    output: str | None, reported: str, success: bool
) -> None:
    event = call(tool_name="exec_command", success=reported, output=output)
    assert (event["success"], event["success_source"]) == (success, "reported")
    assert event["exit_code"] is None


@pytest.mark.parametrize("tool", ["apply_patch", "write_stdin"])
def test_a_patch_and_a_running_program_show_exit_codes_too(tool: str) -> None:
    event = call(tool_name=tool, success="true", output=freeform(1))
    assert (event["success"], event["exit_code"]) == (False, 1)


@pytest.mark.parametrize("values", [{"mcp_server": "calc"}, {}])
def test_the_output_of_other_tools_is_not_searched_for_exit_codes(values: dict[str, str]) -> None:
    event = call(tool_name="answer", success="true", output=freeform(1), **values)
    assert (event["success"], event["exit_code"]) == (True, None)


# -- permission ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "decision"),
    [
        ("approved", "accept"),
        ("approved_for_session", "accept"),
        ("approved_execpolicy_amendment", "accept"),
        ("denied", "reject"),
        ("denied_with_network_policy_deny", "reject"),
        ("abort", "reject"),
        ("timed_out", "reject"),
        ("a_future_value", None),
        (None, None),
    ],
)
def test_a_decision_is_accept_or_reject_and_the_sent_value_is_kept(
    sent: str | None, decision: str | None
) -> None:
    event = codex_event("tool_decision", decision=sent, call_id="c", tool_name="apply_patch")
    assert (event["event_name"], event["decision"]) == ("tool_decision", decision)
    assert (event["tool_use_id"], event["tool_class"]) == ("c", "edit")
    assert json.loads(event["attributes"] or "{}").get("decision") == sent
    assert (event["success"], event["success_source"]) == (None, None)


REFUSED = (
    "exec_command failed: CreateProcess { message: \"Rejected(\\\"`/bin/bash -lc 'rm x'` rejected:"
    ' policy forbids commands starting with `rm`\\")" }'
)


def wrapped(reason: str, command: str = "") -> str:
    """The output of exec_command; newer versions name the command."""
    of = f" for `{command}`" if command else ""
    return f'exec_command failed{of}: CreateProcess {{ message: "Rejected(\\"{reason}\\")" }}'


NEVER = "approval policy is Never; reject command \u2014 you "


@pytest.mark.parametrize(
    ("tool", "output"),
    [
        ("exec_command", REFUSED),
        ("exec_command", wrapped("rejected by user", "/bin/bash -lc 'echo `date`\nrm x'")),
        ("exec_command", wrapped("execpolicy forbids this command")),
        ("exec_command", wrapped("a reason that a hook of the team gives", "rm x")),
        ("exec_command", f"{NEVER}cannot ask for escalated permissions if it is Never"),
        ("shell", f"{NEVER}should not ask for escalated permissions if it is Never"),
        ("shell", "exec command rejected by user"),
        ("shell_command", "approval required by policy, but AskForApproval is set to Never"),
        ("shell", "`rm -rf build` rejected: not in this repository"),
        ("shell", "This action was rejected due to unacceptable risk.\nReason: it deletes"),
        ("shell", "automatic approval reviewer denied the action"),
        ("apply_patch", "patch rejected by user"),
        (
            "apply_patch",
            "patch rejected: writing outside of the project; rejected by user approval settings",
        ),
        (
            "apply_patch",
            "patch rejected: writing is blocked by sandbox; rejected by user approval settings",
        ),
        ("mcp__log__tail", 'Err("user rejected MCP tool call")'),
        ("mcp__log__tail", '[{"type":"text","text":"user cancelled MCP tool call"}]'),
        (
            "mcp__log__tail",
            'Wall time: 0.0 seconds\nOutput:\n[{"text":"user rejected MCP tool call"}]',
        ),
    ],
)
def test_a_call_that_was_refused_was_denied_and_did_not_fail(tool: str, output: str) -> None:
    event = call(tool_name=tool, call_id="c", success="false", output=output)
    assert (event["event_name"], event["decision"]) == ("tool_decision", "reject")
    assert (event["source_event_name"], event["content"]) == ("tool_result", output)
    assert (event["success"], event["success_source"], event["tool_use_id"]) == (None, None, "c")


@pytest.mark.parametrize(
    ("tool", "success", "output"),
    [
        ("exec_command", "false", "write_stdin failed: Unknown process id 1"),
        ("exec_command", "false", f"> {REFUSED}"),
        ("exec_command", "true", REFUSED),
        ("mcp__log__tail", "false", REFUSED),
        ("mcp__log__tail", "false", "tail: this user rejected MCP tool calls"),
        ("list_dir", "false", "exec command rejected by user"),
        # They were allowed, and could not be started or were stopped while they ran.
        ("exec_command", "false", wrapped("Failed to create unified exec process: No such file")),
        ("exec_command", "false", wrapped("missing command line for PTY", "x")),
        ("exec_command", "false", wrapped('Network access to \\"x.org\\" was blocked by policy.')),
        ("apply_patch", "false", "patch rejected: empty patch"),
        # What a command printed comes after its exit code.
        ("shell", "false", "Exit code: 1\nWall time: 0 seconds\nexec command rejected by user"),
        ("exec_command", "false", "Chunk ID: 1\nexec command rejected by user"),
        ("shell", "false", "the exec command rejected by user"),
    ],
)
def test_any_other_failure_is_no_refusal(tool: str, success: str, output: str) -> None:
    event = call(tool_name=tool, success=success, output=output)
    assert (event["event_name"], event["decision"]) == ("tool_result", None)
    assert event["success"] is (success == "true")


@pytest.mark.parametrize(
    ("sent", "decision"),
    [
        ("approvedexecpolicyamendment", "accept"),
        ("timedout", "reject"),
        ("abort", "reject"),
        ("networkpolicyamendment", None),
    ],
)
def test_the_names_of_decisions_have_no_separators(sent: str, decision: str | None) -> None:
    assert codex_event("tool_decision", tool_name="shell", decision=sent)["decision"] == decision


# -- code mode -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tool_result", "tool_decision"])
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("exec", "const a = await tools.exec_command({cmd: 'ls'}); text(a);"),
        # Whether it failed before it called the tool is not known from this record.
        ("exec", "throw new Error('early'); await tools.exec_command({cmd: 'ls'})"),
        ("exec", "import { exec_command } from 'tools.js'"),
        ("exec", "const [first] = ALL_TOOLS; await globalThis['to' + 'ols'][first.name]({})"),
        ("exec", None),  # an unknown program
        ("wait", '{"cell_id": "3", "yield_time_ms": 1000}'),
    ],
)
def test_the_wrapper_of_code_mode_is_no_call(name: str, tool: str, arguments: str | None) -> None:
    event = codex_event(name, tool_name=tool, arguments=arguments, success="false", call_id="c")
    assert (event["event_name"], event["source_event_name"]) == ("other", name)
    assert (event["tool_parameters"] is None) is (arguments is None)


@pytest.mark.parametrize(
    ("program", "success"),
    [("throw new Error('nothing was called')", "false"), ("text(6 * 7)", "true")],
)
def test_a_program_that_names_no_tool_wraps_nothing_and_is_a_call_itself(
    program: str, success: str
) -> None:
    event = call(tool_name="exec", arguments=program, success=success, call_id="c")
    assert (event["event_name"], event["tool_class"]) == ("tool_result", "other")
    assert event["success"] is (success == "true")
    assert event["tool_parameters"] == json.dumps({"input": program}, separators=(",", ":"))


@pytest.mark.parametrize(
    ("tool", "values", "tool_class"),
    [
        # a call of the wrapped program
        ("exec_command", {"call_id": "exec-05a0d412", "arguments": '{"cmd":"make"}'}, "shell"),
        # waiting for another agent
        ("wait", {"arguments": '{"ids": ["a"]}'}, "agent"),
        # a tool of a server with the same name
        ("exec", {"tool_namespace": "mcp__calc"}, "mcp"),
    ],
)
def test_calls_of_the_wrapped_program_and_tools_with_the_same_name_count(
    tool: str, values: dict[str, str], tool_class: str
) -> None:
    event = call(tool_name=tool, success="true", **values)
    assert (event["event_name"], event["tool_class"]) == ("tool_result", tool_class)


# -- name, class, parameters -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "tool_class"),
    [
        ("exec_command", "shell"),
        ("write_stdin", "shell"),
        ("apply_patch", "edit"),
        ("read_file", "read"),
        ("list_dir", "read"),
        ("view_image", "read"),
        ("grep_files", "search"),
        ("web_search", "web"),
        ("spawn_agent", "agent"),
        ("update_plan", "other"),
        ("no_such_tool", "other"),
        (None, "other"),
    ],
)
def test_every_tool_has_a_class(tool: str | None, tool_class: str) -> None:
    event = call(tool_name=tool, tool_namespace="functions", mcp_server="")
    assert (event["tool_name"], event["tool_class"]) == (tool, tool_class)
    assert event["tool_type"] == "builtin"


@pytest.mark.parametrize(
    ("tool", "arguments", "tool_class"),
    [
        ("exec_command", '{"cmd": "cat app.py"}', "read"),
        ("shell_command", '{"command": "rg TODO"}', "search"),
        ("shell", '{"command": ["bash", "-lc", "cat app.py"]}', "read"),
        ("shell", '{"command": ["grep", "a > b", "f"]}', "search"),
        ("shell", '{"command": ["bash", "-lc", "make"]}', "shell"),
        ("local_shell", "bash -lc cat app.py", "read"),
        ("local_shell", "/usr/bin/zsh -c rg TODO", "search"),
        ("local_shell", "make check", "shell"),
        ("shell", '{"command": ["apply_patch", "*** Begin Patch"]}', "edit"),
        ("exec_command", '{"cmd": "cd src && apply_patch <<EOF"}', "edit"),
        ("exec_command", '{"cmd": "man apply_patch"}', "shell"),
        ("exec_command", '{"wrong": 1}', "shell"),
        ("exec_command", '{"cmd": ["cat", 5]}', "shell"),
        ("exec_command", '{"cmd": "cat app.p', "shell"),
        ("exec_command", None, "shell"),
    ],
)
def test_the_class_of_a_shell_call_depends_on_its_command(
    tool: str, arguments: str | None, tool_class: str
) -> None:
    assert call(tool_name=tool, arguments=arguments)["tool_class"] == tool_class


@pytest.mark.parametrize(
    ("tool", "values", "name"),
    [
        ("mcp__calc__add", {}, "mcp__calc__add"),
        ("mcp__calc__add", {"mcp_server": "calc"}, "mcp__calc__add"),
        ("add", {"mcp_server": "calc"}, "mcp__calc__add"),
        ("add", {"tool_namespace": "mcp__calc", "mcp_server": "calc"}, "mcp__calc__add"),
        ("add", {"tool_namespace": "mcp__apps__calc__"}, "mcp__apps__calc__add"),
    ],
)
def test_the_tool_of_an_mcp_server_is_named_with_its_server(
    tool: str, values: dict[str, str], name: str
) -> None:
    event = call(tool_name=tool, arguments='{"a": 1}', **values)
    assert (event["tool_name"], event["tool_type"], event["tool_class"]) == (name, "mcp", "mcp")
    assert event["tool_parameters"] == '{"a": 1}'


@pytest.mark.parametrize(
    ("arguments", "parameters"),
    [
        ('{"cmd": "ls"}', '{"cmd": "ls"}'),
        ('{"cmd": "cut o', '{"cmd": "cut o'),
        ("*** Begin Patch\n", '{"input":"*** Begin Patch\\n"}'),
        ("", None),
    ],
)
def test_parameters_are_json_also_for_tools_that_take_bare_text(
    arguments: str, parameters: str | None
) -> None:
    event = call(tool_name="apply_patch", arguments=arguments)
    assert (event["tool_parameters"], event["attributes"]) == (parameters, None)


@pytest.mark.parametrize(
    ("agent", "subagent"), [("/root", None), ("/root/reviewer", "reviewer"), (None, None)]
)
def test_a_call_has_the_name_of_its_subagent(agent: str | None, subagent: str | None) -> None:
    event = call(tool_name="view_image", agent_name=agent)
    assert (event["subagent"], event["attributes"]) == (subagent, None)
