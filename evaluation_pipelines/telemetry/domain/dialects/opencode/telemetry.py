"""OpenCode, by its plugins.

Two plugins are read: ``opencode-plugin-otel`` (scope ``com.opencode``, bare names) and
``opencode-otel`` (names that begin with ``opencode.``). OpenCode itself logs for its
developers, without event names; these records are counted and not stored. The profile
``claude-code`` of ``opencode-otel`` cannot be distinguished from Claude Code and is read as such.
"""

import re
from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import (
    dollars,
    flag,
    json_object,
    milliseconds,
    text,
    tokens,
)
from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect, Row, names
from evaluation_pipelines.telemetry.domain.tool_calls import settle_outcome, shell_class

_EVENT_NAMES = {
    "user_prompt": "user_prompt",
    "tool_result": "tool_result",
    "tool_decision": "tool_decision",
    "api_request": "api_request",
    "api_error": "api_error",
    "session.created": "session_start",
    "commit": "outcome",
}

_TOOL_CLASSES = {
    "read": "read",
    **dict.fromkeys(("grep", "glob", "list", "lsp"), "search"),
    **dict.fromkeys(("edit", "multiedit", "patch", "apply_patch"), "edit"),
    "write": "write",
    **dict.fromkeys(("webfetch", "websearch", "codesearch"), "web"),
    "task": "agent",
}

# No `event.sequence`: it numbers the events of the process, which runs several sessions.
_COLUMNS = {
    "prompt.id": ("prompt_id", text),
    "skill_name": ("skill", text),
    "command_name": ("slash_command", text),
    "model": ("model", text),
    "provider": ("provider", text),
    "duration_ms": ("duration_ms", milliseconds),
    "error": ("error", text),
    "cost_usd": ("cost_usd", dollars),
    "input_tokens": ("input_tokens", tokens),
    "output_tokens": ("output_tokens", tokens),
    "cache_read_tokens": ("cache_read_tokens", tokens),
    "cache_creation_tokens": ("cache_creation_tokens", tokens),
    "reasoning_tokens": ("reasoning_tokens", tokens),
    "prompt": ("content", text),
    "tool_name": ("tool_name", text),
    "tool_args": ("tool_parameters", text),
    "success": ("success", flag),
    "decision": ("decision", text),
}

_IDENTIFIED_BY = names("""
    event.sequence prompt.id model provider agent.name agent.type duration_ms error status_code
    cost_usd input_tokens output_tokens cache_read_tokens cache_creation_tokens reasoning_tokens
    prompt prompt_length tool_name tool_type tool_args success decision source
""")

# Texts that OpenCode sends to the model when the user or a rule refused a call. Version 1.2 sends
# the names of its errors.
REFUSED_BY_USER = re.compile(
    r"The user rejected permission to use this specific|Permission(?:Rejected|Corrected)Error\("
)
REFUSED_BY_RULE = re.compile(
    r"The user has specified a rule which prevents you from using this specific"
    r"|The user has specifically restricted access to this command|PermissionDeniedError\("
)


def _refine(row: Row, rest: dict[str, Any]) -> bool:
    _refine_agent(row, rest)
    match row["source_event_name"]:
        case "api_request":
            _refine_request(row)
        case "tool_decision":
            _refine_decision(row, rest)
        case "tool_result":
            _refine_result(row)
            # The user's answer has a separate record.
            return REFUSED_BY_USER.search(row.get("error") or "") is None
    return True


def _refine_agent(row: Row, rest: dict[str, Any]) -> None:
    """Read whether the session is of a sub-agent; ``subtask_invoked`` only tells that one starts.

    Sub-agents have sessions of their own.
    """
    kind = rest.get("agent.type")
    if kind == "subagent":
        row["subagent"] = text(rest.get("agent.name"))
    is_known = row.get("is_subagent") is not None or kind is None
    if not is_known and row["source_event_name"] != "subtask_invoked":
        row["is_subagent"] = kind == "subagent"


def _refine_request(row: Row) -> None:
    # 0 is also sent if no price is known: for a subscription or a local or new model.
    row["cost_usd"] = row.get("cost_usd") or None
    row["cost_source"] = "unknown" if row["cost_usd"] is None else "reported"
    if row.get("model") == "unknown":
        row["model"] = None


def _refine_decision(row: Row, rest: dict[str, Any]) -> None:
    """Read the permission from ``tool_type``; ``tool_name`` is a title for the user."""
    permission = rest.get("tool_type")
    row["tool_type"] = "builtin"
    row["tool_class"] = tool_class(permission if isinstance(permission, str) else None, None)
    # The plugin reads any answer but "allow" and "allowAlways" as a no; OpenCode sends "once".
    if rest.get("source") in ("once", "always"):
        row["decision"] = "accept"


def _refine_result(row: Row) -> None:
    if row.get("tool_name") == "redacted":
        row["tool_name"] = None
    command = json_object(row.get("tool_parameters")).get("command")
    command = command if isinstance(command, str) else None
    row["tool_type"] = "builtin"
    row["tool_class"] = tool_class(row.get("tool_name"), command)
    settle_outcome(row, None, command)
    if REFUSED_BY_RULE.search(row.get("error") or ""):
        row["event_name"], row["decision"] = "tool_decision", "reject"
        row["success"] = row["success_source"] = None


def tool_class(tool: str | None, command: str | None) -> str:
    """Return the class of a tool, by its command if it is the shell."""
    return shell_class(command) if tool == "bash" else _TOOL_CLASSES.get(tool or "", "other")


OPENCODE = Dialect(
    source_cli="opencode",
    name_prefix="opencode.",
    scopes=("com.opencode",),
    event_names=_EVENT_NAMES,
    columns=_COLUMNS,
    refine=_refine,
    identified_by=_IDENTIFIED_BY,
    never_sends=frozenset({"missing_events"}),
)
