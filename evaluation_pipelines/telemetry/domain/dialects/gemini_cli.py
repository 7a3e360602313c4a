"""Gemini CLI, to 0.61.

Each API call is logged twice, by ``gemini_cli.api_response`` (or ``api_error``) and by a record of
the OpenTelemetry GenAI conventions. Output tokens exclude thought tokens, which are billed as
output. A command that exited with an error is a success; its code is in the metadata. Records
have no sequence and no call id, and the version sent is that of Node.js.
"""

from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import text
from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect, Row
from evaluation_pipelines.telemetry.domain.dialects.gemini_family import (
    COLUMNS,
    EVENT_NAMES,
    refine_call,
    refine_request,
)


def _refine(row: Row, rest: dict[str, Any]) -> bool:
    version = row.get("service_version")
    if version is not None and version.startswith("v"):
        # v20.20.2 is the version of Node.js; the version of the program is never sent.
        rest["service.version"] = row.pop("service_version")
    match row["source_event_name"]:
        case "api_response":
            refine_request(row, rest)
        case "tool_call":
            refine_call(row, rest)
        case "gen_ai.client.inference.operation.details":
            return False
    return True


GEMINI_CLI = Dialect(
    source_cli="gemini_cli",
    name_prefix="gemini_cli.",
    scopes=("gemini-cli",),
    event_names=EVENT_NAMES,
    columns={
        **COLUMNS,
        "user.email": ("user_id", text),
        "role": ("query_source", text),
        "agent_name": ("subagent", text),
    },
    refine=_refine,
    sends_cost=False,
    reasoning_is_output=False,
)
