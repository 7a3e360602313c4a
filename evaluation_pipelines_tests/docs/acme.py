"""Acme Agent 3.1.

Each call of a tool is told when it begins and when it is done; ``ok`` only says that the tool ran.
Input tokens count cached ones in, and there is no cost. Durations are in seconds.
"""

from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import (
    count,
    flag,
    json_object,
    milliseconds,
    text,
    tokens,
)
from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect, Row, leave_out_cached
from evaluation_pipelines.telemetry.domain.dialects.program import AgentProgram
from evaluation_pipelines.telemetry.domain.tool_calls import settle_outcome, shell_class

_EVENT_NAMES = {
    "prompt": "user_prompt",
    "tool.done": "tool_result",
    "model.answered": "api_request",
}

_TOOL_CLASSES = {"open": "read", "look": "search", "change": "edit", "create": "write"}

_COLUMNS = {
    "acme.session": ("session_id", text),
    "model": ("model", text),
    "tokens.in": ("input_tokens", tokens),
    "tokens.cached": ("cache_read_tokens", tokens),
    "tokens.out": ("output_tokens", tokens),
    "tool": ("tool_name", text),
    "call": ("tool_use_id", text),
    "arguments": ("tool_parameters", text),
    "ok": ("success", flag),
}


def _refine(row: Row, rest: dict[str, Any]) -> bool:
    match row["source_event_name"]:
        case "tool.begun":
            return False  # `tool.done` tells it again
        case "tool.done":
            _refine_call(row, rest)
        case "model.answered":
            leave_out_cached(row)
    return True


def _refine_call(row: Row, rest: dict[str, Any]) -> None:
    command = json_object(row.get("tool_parameters")).get("command")
    command = command if isinstance(command, str) else None
    is_shell = row.get("tool_name") == "terminal"
    row["tool_type"] = "builtin"
    row["tool_class"] = (
        shell_class(command) if is_shell else _TOOL_CLASSES.get(row.get("tool_name") or "", "other")
    )
    seconds = milliseconds(rest.pop("seconds", None))
    row["duration_ms"] = seconds * 1000 if isinstance(seconds, float) else None
    code = count(rest.pop("exit", None))
    settle_outcome(row, code if isinstance(code, int) else None, command)


ACME = Dialect(
    source_cli="acme",
    name_prefix="acme.",
    scopes=("acme.agent",),
    event_names=_EVENT_NAMES,
    columns=_COLUMNS,
    refine=_refine,
    sends_cost=False,
)

PROGRAM = AgentProgram(
    title="Acme Agent",
    versions="3.1",
    logs=ACME,
    set_by="`acme --telemetry URL`",
    sends={
        "yes": "tool_result.duration_ms tool_result.tool_use_id tool_result.exit_code",
        "(if logged)": "tool_result.tool_parameters",
        "priced": "api_request.cost_usd",
    },
)
