"""Dialect of Codex: events of the records of each version."""

import json
from typing import Any

import pytest

from evaluation_pipelines_tests.telemetry.domain.dialects.codex_records import (
    SCOPE,
    SESSION,
    codex,
    codex_event,
    codex_line,
)
from evaluation_pipelines_tests.telemetry.domain.reading import read, read_one

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


def call(**values: object) -> dict[str, Any]:
    """Return the event of a ``codex.tool_result``."""
    return codex_event("tool_result", **values)


def freeform(code: int) -> str:
    """Return the text that shell_command and apply_patch add before the output."""
    return f"Exit code: {code}\nWall time: 0 seconds\nOutput:\nExit code: 7\n"


# -- outcome ---------------------------------------------------------------------------------------


HEADER = (
    "Chunk ID: 8e87cf\nWall time: 0.0000 seconds\nProcess exited with code {}\n"
    "Original token count: 13\nOutput:\nProcess exited with"
)
FREEFORM = "Exit code: {}\nWall time: 0 seconds\nOutput:\nExit code: 7\n"
STRUCTURED = '{{"output": "", "metadata": {{"exit_code": {}, "duration_seconds": 0.0}}}}'


@pytest.mark.parametrize(
    ("tool", "shows", "code", "reported", "success", "source"),
    [
        ("exec_command", HEADER, 0, "true", True, "reported"),
        # A command that exited non-zero is a success to newer versions ...
        ("shell_command", FREEFORM, 2, "true", False, "exit_code"),
        ("local_shell", STRUCTURED, -1, "true", False, "exit_code"),
        # ... and was a failure to older ones.
        ("shell", STRUCTURED, 5, "false", False, "reported"),
        ("exec_command", HEADER, 137, None, False, "exit_code"),
        ("apply_patch", FREEFORM, 1, "true", False, "exit_code"),
        ("write_stdin", FREEFORM, 1, "true", False, "exit_code"),
    ],
)
def test_the_exit_code_in_the_output_decides(
    tool: str, shows: str, code: int, reported: str | None, success: bool, source: str
) -> None:
    output = shows.format(code)
    event = call(tool_name=tool, arguments='{"cmd": "make"}', success=reported, output=output)
    assert (event["success"], event["success_source"]) == (success, source)
    assert (event["exit_code"], event["content"]) == (code, output)


def test_an_exit_code_of_one_is_no_failure_if_it_is_an_answer() -> None:
    """Which commands answer with it is tested in ``test_tool_calls``."""
    sent = {"tool_name": "exec_command", "success": "false", "output": HEADER.format(1)}
    event = call(arguments='{"cmd": "grep -rn TODO src"}', **sent)
    assert (event["success"], event["success_source"]) == (True, "exit_code")


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


@pytest.mark.parametrize("values", [{"mcp_server": "calc"}, {}])
def test_the_output_of_other_tools_is_not_searched_for_exit_codes(values: dict[str, str]) -> None:
    event = call(tool_name="answer", success="true", output=freeform(1), **values)
    assert (event["success"], event["exit_code"]) == (True, None)


# -- permission ------------------------------------------------------------------------------------


def test_a_decision_is_accept_or_reject_and_the_sent_value_is_kept() -> None:
    accepted = "approved approved_for_session approved_execpolicy_amendment"
    decisions = {
        "accept": f"{accepted} approvedexecpolicyamendment",
        "reject": "denied denied_with_network_policy_deny abort timed_out timedout",
        None: "a_future_value networkpolicyamendment",
    }
    for decision, names in decisions.items():
        for sent in names.split():
            event = codex_event("tool_decision", decision=sent, call_id="c", tool_name="shell")
            assert (event["event_name"], event["decision"]) == ("tool_decision", decision), sent
            assert (event["tool_use_id"], event["tool_class"]) == ("c", "shell")
            assert json.loads(event["attributes"])["decision"] == sent
            assert (event["success"], event["success_source"]) == (None, None)
    assert codex_event("tool_decision", tool_name="shell")["decision"] is None


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


def test_every_tool_has_a_class() -> None:
    classes = {
        "shell": "exec_command write_stdin",
        "edit": "apply_patch",
        "read": "read_file list_dir view_image",
        "search": "grep_files",
        "web": "web_search",
        "agent": "spawn_agent",
        "other": "update_plan no_such_tool",
    }
    for tool_class, tools in classes.items():
        for tool in tools.split():
            event = call(tool_name=tool, tool_namespace="functions", mcp_server="")
            assert (event["tool_name"], event["tool_class"]) == (tool, tool_class)
            assert event["tool_type"] == "builtin"
    assert call(tool_name=None)["tool_class"] == "other"


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
