"""Log records and spans of Gemini CLI.

Each API call is logged twice, by ``gemini_cli.api_response`` (or ``api_error``) and by a record of
the OpenTelemetry GenAI conventions. Output tokens exclude thought tokens, which are output like any
other and are added. A command that exited with an error is a success; its code is rarely in the
metadata. Records have no sequence and no call id, and the version sent is that of Node.js.
"""

import re
from dataclasses import replace
from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import text
from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect, Row
from evaluation_pipelines.telemetry.domain.dialects.gemini.family import (
    COLUMNS,
    EVENT_NAMES,
    IDENTIFIED_BY,
    TOOL_CLASSES,
    ended_before_it_ran,
    refine_call,
    refine_request,
)
from evaluation_pipelines.telemetry.domain.dialects.genai import CONVENTIONS, MESSAGES
from evaluation_pipelines.telemetry.domain.dialects.messages import parsed_object
from evaluation_pipelines.telemetry.domain.dialects.span_source import SpanView


def _refine(row: Row, rest: dict[str, Any]) -> bool:
    version = row.get("service_version")
    if version is not None and version.startswith("v"):
        # v20.20.2 is the version of Node.js; the version of the program is never sent.
        rest["service.version"] = row.pop("service_version")
    match row["source_event_name"]:
        case "api_response":
            refine_request(row, rest)
            _add_thoughts(row)
        case "tool_call":
            refine_call(row, rest, _was_refused)
        case "slash_command":
            row["slash_command"] = text(rest.get("command"))
        case "gen_ai.client.inference.operation.details":
            return False
    return True


def _add_thoughts(row: Row) -> None:
    output, thoughts = row.get("output_tokens"), row.get("reasoning_tokens", 0)
    row["output_tokens"] = None if None in (output, thoughts) else output + thoughts


_REFUSAL = re.compile(
    r'Tool execution for ".*" (?:denied by policy\.'
    r"|requires user confirmation, which is not supported in non-interactive mode\.)\s*\Z"
    r'|Tool ".*" was canceled by the user\.\s*\Z',
    re.DOTALL,
)


def _was_refused(row: Row, rest: dict[str, Any]) -> bool:
    if row.get("error_type") == "policy_violation" or ended_before_it_ran(row, rest):
        return True
    if row.get("decision") is None:
        is_stopped = row.get("error_type") == "stop_execution"
        return is_stopped or _REFUSAL.match(row.get("error") or "") is not None
    # With an error it did run: allowed for good, which is sent as a refusal, it failed.
    has_error = row.get("error") is not None or row.get("error_type") is not None
    return row["decision"] == "reject" and not has_error


GEMINI_CLI = Dialect(
    source_cli="gemini_cli",
    name_prefix="gemini_cli.",
    scopes=("gemini-cli",),
    event_names=EVENT_NAMES,
    columns={
        **COLUMNS,
        "role": ("query_source", text),
        "agent_name": ("subagent", text),
    },
    refine=_refine,
    sends_cost=False,
    identified_by=IDENTIFIED_BY,
    never_sends=frozenset({"missing_events"}),
    sends_exit_codes=False,
)


def _tool_details(view: SpanView) -> dict[str, Any]:
    """Return parameters and result of a tool."""
    if view.attributes.get("gen_ai.operation.name") != "tool_call":
        return {}
    sent, told = (
        parsed_object(text(view.attributes.get(name)))
        for name in (MESSAGES, "gen_ai.output.messages")
    )
    return {"parameters": sent.get("args"), "result": told.get("response")}


def _span_outcome(view: SpanView, success: bool | None) -> bool | None:  # noqa: FBT001 - three values
    output = text(view.attributes.get("gen_ai.output.messages")) or ""
    return False if success and output.startswith('{"status":"error"') else success


GEMINI_CLI_SPANS = replace(
    CONVENTIONS,
    scopes=("gemini-cli",),
    parameters=("parameters",),
    results=("result",),
    outcome=_span_outcome,
    completes=_tool_details,
    cached=("gen_ai.usage.cache_read.input_tokens",),
    tool_classes=TOOL_CLASSES,
)
