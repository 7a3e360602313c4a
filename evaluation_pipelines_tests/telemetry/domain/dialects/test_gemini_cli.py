"""Dialect of Gemini CLI: events of its records."""

import json
from typing import Any

import pytest

from evaluation_pipelines_tests.telemetry.domain.dialects.records import record, sent_by
from evaluation_pipelines_tests.telemetry.domain.reading import read, read_one

SCOPE = "gemini-cli"


def event(name: str, **values: Any) -> dict[str, Any]:
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


def test_a_call_is_priced_by_all_its_tokens_including_thoughts() -> None:
    """The price table of the tests has a millionth of a dollar per token."""
    found = answer()
    # 3324 input + 4096 cached + 31 output + 60 thoughts
    assert found["cost_usd"] == pytest.approx(0.007511)
    assert (found["cost_source"], found["provider"]) == ("priced", "anthropic")


def test_the_price_of_broken_thoughts_is_unknown() -> None:
    sent: dict[str, Any] = {"model": "m", "input_token_count": 1, "output_token_count": 1}
    unclear: dict[str, Any] = {**sent, "thoughts_token_count": "undefined"}
    broken = record("gemini_cli.api_response", **unclear)
    (found,) = read(sent_by(SCOPE, broken)).events.to_dicts()
    assert (found["reasoning_tokens"], found["cost_source"]) == (None, "unknown")
    assert event("api_response", **sent)["cost_usd"] == pytest.approx(0.000002)


def tool_call(**values: Any) -> dict[str, Any]:
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
    arguments = json.dumps({"command": command, "description": "x"}, indent=2)
    return call(program, "run_shell_command", function_args=arguments, **values)


# -- outcome ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "metadata", "success", "code", "source"),
    [
        ("make check", '{\n  "exitCode": 2,\n  "isError": true\n}', False, 2, "exit_code"),
        ("make check", {"exitCode": "2"}, False, 2, "exit_code"),
        ("make check", {"exitCode": 0}, True, 0, "reported"),
        # Exit code 1 is an answer of these.
        ("grep -rn TODO src", {"exitCode": 1}, True, 1, "reported"),
        # No exit code is shown.
        ("kill -9 $$", None, True, None, "reported"),
        ("make check", '{"exitCode": "none"}', True, None, "reported"),
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


def test_a_call_that_succeeded_was_not_refused(program: str) -> None:
    """The answer "yes, and save that" is sent as a refusal."""
    found = call(program, success=True, decision="reject")
    assert (found["event_name"], found["success"]) == ("tool_result", True)
    assert found["decision"] == "accept"
    assert json.loads(found["attributes"])["decision"] == "reject"


# -- name, class, parameters -----------------------------------------------------------------------


def test_every_tool_has_a_class(program: str) -> None:
    classes = {
        "read": "read_file read_many_files",
        "search": "search_file_content grep_search glob list_directory",
        "edit": "replace edit",
        "write": "write_file",
        "shell": "run_shell_command",
        "web": "web_fetch google_web_search web_search",
        "agent": "agent task codebase_investigator",
        "other": "save_memory write_todos a_tool_of_tomorrow",
    }
    for tool_class, tools in classes.items():
        for tool in tools.split():
            found = call(program, tool)
            assert (found["tool_name"], found["tool_class"]) == (tool, tool_class)
            assert found["tool_type"] == "builtin"
    unnamed = read_one(sent_by("", record(f"{program}.tool_call", success=True)))
    assert (unnamed["tool_name"], unnamed["tool_class"]) == (None, "other")


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


QWEN = "qwen-code"


def qwen_event(name: str, **values: Any) -> dict[str, Any]:
    return read_one(sent_by(QWEN, record(name, **values), service__version="0.24.4"))


@pytest.mark.parametrize(
    ("sent", "canonical"),
    [
        ("session.start", "session_start"),
        ("session.end", "session_end"),
        ("qwen-code.user_prompt", "user_prompt"),
        ("qwen-code.api_request", "other"),
        ("qwen-code.api_response", "api_request"),
        ("qwen-code.api_error", "api_error"),
        ("qwen-code.tool_call", "tool_result"),
        ("qwen-code.chat_compression", "compaction"),
        # Neither a command to the program nor a second try is a prompt.
        ("qwen-code.slash_command", "other"),
        ("qwen-code.user_retry", "other"),
        # The calls of a subagent are logged one by one.
        ("qwen-code.subagent_execution", "other"),
    ],
)
def test_every_event_of_qwen_code_has_a_canonical_name(sent: str, canonical: str) -> None:
    assert qwen_event(sent)["event_name"] == canonical


def test_output_includes_thought_tokens_which_are_billed_once() -> None:
    found = qwen_event(
        "qwen-code.api_response",
        model="qwen3-coder-plus",
        input_token_count=7590,
        output_token_count=83,
        cached_content_token_count=6120,
        thoughts_token_count=44,
        total_token_count=7673,
        ttft_ms=21,
        subagent_name="general-purpose",
    )
    assert found["input_tokens"] == 1470  # 7590 - 6120
    assert (found["output_tokens"], found["reasoning_tokens"]) == (83, 44)
    # 1470 + 6120 + 83 tokens at a millionth of a dollar
    assert found["cost_usd"] == pytest.approx(0.007673)
    assert (found["cost_source"], found["ttft_ms"]) == ("priced", 21.0)
    assert found["subagent"] == "general-purpose"


def test_all_responses_of_a_server_that_repeats_its_ids_are_requests() -> None:
    """A response id is no request id: only the first of equal ones would count."""
    answers = [
        record("qwen-code.api_response", response_id="chatcmpl-1", duration_ms=ms) for ms in (1, 2)
    ]
    events = read(sent_by(QWEN, *answers)).events
    assert events["request_id"].to_list() == [None, None]
    kept = [json.loads(text)["response_id"] for text in events["attributes"]]
    assert kept == ["chatcmpl-1", "chatcmpl-1"]


def test_a_tool_call_has_its_id_and_a_cancelled_one_has_failed() -> None:
    found = qwen_event(
        "qwen-code.tool_call",
        call_id="toolu_1",
        function_name="run_shell_command",
        function_args='{"command": "sleep 40"}',
        status="cancelled",
        execution_status="cancelled",
        success=False,
        decision="auto_accept",
    )
    assert (found["tool_use_id"], found["event_name"]) == ("toolu_1", "tool_result")
    assert (found["success"], found["decision"]) == (False, "accept")
    assert json.loads(found["attributes"])["status"] == "cancelled"


def qwen_tool_call(**values: Any) -> dict[str, Any]:
    return qwen_event("qwen-code.tool_call", function_name="write_file", success=False, **values)


@pytest.mark.parametrize(
    "values",
    [
        {"error_type": "execution_denied", "error": 'Tool "write_file" is denied.'},
        {"error_type": "execution_denied", "error": "No", "decision": "auto_accept"},
        {"error_type": "execution_denied", "error": "No", "decision": "reject"},
        {
            "error": "Qwen Code requires permission to use write_file, but that permission was "
            "declined (non-interactive mode cannot prompt for confirmation)."
        },
        {"error": 'Plan mode is active. The tool "write_file" cannot be executed because it'},
        {"status": "error", "tool_type": "native"},
    ],
)
def test_a_call_of_qwen_code_that_was_not_allowed_is_refused(values: dict[str, Any]) -> None:
    found = qwen_tool_call(**values)
    assert (found["event_name"], found["decision"]) == ("tool_decision", "reject")
    assert (found["success"], found["error"]) == (None, values.get("error"))


def test_a_hook_that_stops_the_agent_after_a_call_is_no_refusal() -> None:
    hook = {"error_type": "execution_denied", "error": "Execution stopped by hook"}
    found = qwen_tool_call(**hook, decision="auto_accept")
    assert (found["event_name"], found["success"]) == ("tool_result", False)
