"""Cline in VS Code, JetBrains and the terminal, after its sources (extension 3.x to 4.x, SDK).

Records are named by their body, ``task.<name>``; attributes without a value are the texts
``undefined`` and ``null``. A session is a task, named by ``ulid``. Texts, parameters and ids of
calls are never sent. ``tokensIn`` excludes cached tokens; costs are those of a request, and 0 where
the price of the model is not known.

The SDK (``agentId`` on its records) tells a call to the model by ``task.tokens`` and a prompt by
the turn of the user; a refused tool call looks like a failed one, and calls of sub-agents to the
model are not told. The extension before it tells a call by the turn of the assistant, and repeats a
part of it as ``task.tokens``; its last versions send no tokens with the turn, and ``task.tokens``
for each part of an answer. It sends a turn of the user with each call, so that prompts are unknown,
and ``task.tool_used`` when a tool call is approved or refused, so that its outcome is unknown,
except that of MCP tools, by ``task.mcp_tool_called``.
"""

from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import (
    Convert,
    dollars,
    flag,
    text,
    tokens,
)
from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect, Row, names
from evaluation_pipelines.telemetry.domain.dialects.program import AgentProgram
from evaluation_pipelines.telemetry.domain.dialects.setup import (
    Receiver,
    SettingsFile,
    env_file,
    given,
)
from evaluation_pipelines.telemetry.domain.tool_calls import settle_outcome

_EVENT_NAMES = {
    "task.created": "session_start",
    "task.restarted": "session_start",
    "task.tokens": "api_request",
    "task.tool_used": "tool_result",
    "task.mcp_tool_called": "tool_result",
    "task.provider_api_error": "api_error",
    "task.summarize_task": "compaction",
    "task.compaction_executed": "compaction",
    "task.feedback": "outcome",
    "task.ai_output.accepted": "outcome",
    "task.ai_output.rejected": "outcome",
}

_TOOL_CLASSES = {
    **dict.fromkeys(("read_file", "read_files"), "read"),
    **dict.fromkeys(("list_files", "search_files", "search_codebase"), "search"),
    "list_code_definition_names": "search",
    **dict.fromkeys(("replace_in_file", "apply_patch", "editor"), "edit"),
    **dict.fromkeys(("write_to_file", "new_rule"), "write"),
    **dict.fromkeys(("execute_command", "run_commands"), "shell"),
    **dict.fromkeys(("web_fetch", "web_search", "fetch_web_content", "browser_action"), "web"),
    **dict.fromkeys(("use_subagents", "spawn_agent", "new_task"), "agent"),
}
_MCP_TOOLS = ("use_mcp_tool", "access_mcp_resource")
_NOTHING = ("undefined", "null")


def _sent(convert: Convert) -> Convert:
    return lambda value: None if value in _NOTHING else convert(value)


_COLUMNS = {
    name: (column, _sent(convert))
    for name, (column, convert) in {
        "ulid": ("session_id", text),
        "organization_id": ("organization_id", text),
        "account_email": ("user_email", text),
        "user_id": ("account_id", text),
        "distinct_id": ("account_id", text),
        "model": ("model", text),
        "modelId": ("model", text),
        "provider": ("provider", text),
        "tokensIn": ("input_tokens", tokens),
        "tokensOut": ("output_tokens", tokens),
        "cacheReadTokens": ("cache_read_tokens", tokens),
        "cacheWriteTokens": ("cache_creation_tokens", tokens),
        "totalCost": ("cost_usd", dollars),
        "tool": ("tool_name", text),
        "success": ("success", flag),
        "errorMessage": ("error", text),
    }.items()
}

_IDENTIFIED_BY = names("""
    agentId agentKind source mode timestamp tool success autoApproved serverName toolName status
    model modelId provider tokensIn tokensOut cacheReadTokens cacheWriteTokens totalCost
    errorMessage errorStatus errorType requestId feedbackType linesAdded linesDeleted linesChanged
""")


def _refine(row: Row, rest: dict[str, Any]) -> bool:
    is_of_sdk = rest.get("agentId") not in (None, *_NOTHING)
    if rest.get("agentKind") in ("subagent", "team_teammate"):
        row["subagent"] = text(rest.get("agentId"))
    match row["source_event_name"]:
        case "task.conversation_turn":
            _refine_turn(row, rest, is_of_sdk=is_of_sdk)
        case "task.tokens":
            if not is_of_sdk and row.get("provider") is None:
                return False  # the turn has it all
            _refine_request(row)
        case "task.tool_used":
            _refine_call(row, rest)
        case "task.mcp_tool_called":
            return _refine_mcp_call(row, rest)
    return True


def _refine_turn(row: Row, rest: dict[str, Any], *, is_of_sdk: bool) -> None:
    if rest.get("source") == "assistant" and row.get("input_tokens") is not None:
        _refine_request(row)
    elif rest.get("source") == "user" and is_of_sdk:
        row["event_name"] = "user_prompt"


def _refine_request(row: Row) -> None:
    row["event_name"] = "api_request"
    for name in ("model", "provider"):
        row[name] = None if row.get(name) == "unknown" else row.get(name)
    row["cost_usd"] = row.get("cost_usd") or None
    row["cost_source"] = "unknown" if row["cost_usd"] is None else "reported"
    if row.get("input_tokens") is not None:
        # Not sent by providers without a cache.
        row.setdefault("cache_read_tokens", 0)
        row.setdefault("cache_creation_tokens", 0)


def _refine_call(row: Row, rest: dict[str, Any]) -> None:
    tool = row.get("tool_name") or ""
    # Of an MCP server, by the SDK: server__tool.
    is_mcp = tool in _MCP_TOOLS or "__" in tool
    row["tool_type"] = "mcp" if is_mcp else "builtin"
    row["tool_class"] = "mcp" if is_mcp else _TOOL_CLASSES.get(tool, "other")
    if "__" in tool:
        row["tool_name"] = f"mcp__{tool}"
    if tool.startswith("team_"):
        row["tool_class"] = "agent"
    if isinstance(flag(rest.get("autoApproved")), bool):  # the extension: no outcome yet
        rest["success"] = row.pop("success", None)
        row["decision"] = "accept" if rest["success"] else "reject"
        if row["decision"] == "reject" or tool == "use_mcp_tool":
            row["event_name"] = "tool_decision"
    settle_outcome(row, None, None)


def _refine_mcp_call(row: Row, rest: dict[str, Any]) -> bool:
    server, tool = text(rest.get("serverName")), text(rest.get("toolName"))
    row["tool_name"] = f"mcp__{server}__{tool}" if server and tool else tool
    row["tool_type"] = row["tool_class"] = "mcp"
    status = rest.get("status")
    if status in ("success", "error"):
        row["success"] = status == "success"
    settle_outcome(row, None, None)
    return status != "started"


def _settings(receiver: Receiver) -> list[SettingsFile]:
    env = {
        "CLINE_OTEL_TELEMETRY_ENABLED": "true",
        "CLINE_OTEL_LOGS_EXPORTER": "otlp",
        "CLINE_OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
        "CLINE_OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint,
        "CLINE_OTEL_EXPORTER_OTLP_HEADERS": receiver.headers,
    }
    where = "the environment in which VS Code or JetBrains starts. Cline sends no attributes"
    return [env_file(given(env), where)]


CLINE = Dialect(
    source_cli="cline",
    name_prefix="cline.",
    scopes=("cline",),
    event_names=_EVENT_NAMES,
    columns=_COLUMNS,
    refine=_refine,
    identified_by=_IDENTIFIED_BY,
    never_sends=frozenset(
        {"prompts", "tools_denied", "missing_events", "reasoning_tokens", "api_ms", "mean_api_ms"}
        | {"median_tool_ms", "p95_tool_ms"}
    ),
)
PROGRAM = AgentProgram(
    title="Cline",
    versions="3 and 4 in VS Code, JetBrains, terminal",
    name="cline",
    logs=CLINE,
    settings=_settings,
    set_by="`CLINE_OTEL_*`",
    notes="written from its source, not tested with real telemetry. Sends no text, parameters, "
    "call ids or `OTEL_RESOURCE_ATTRIBUTES`. Versions before its SDK send neither prompts nor "
    "outcomes, later ones neither refusals nor requests of sub-agents",
    sends={
        "(some versions)": "tool_decision.decision",
        "(yes)": "api_request.cost_usd api_error.error api_request.subagent user_prompt.account_id "
        "user_prompt.user_email",
    },
)
