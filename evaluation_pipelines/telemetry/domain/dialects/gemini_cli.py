"""Gemini CLI, to 0.61.

Each API call is told twice, by ``gemini_cli.api_response`` (or ``api_error``) and by a record of
the OpenTelemetry GenAI conventions. Tokens of thoughts are not among the output tokens, yet are
billed as such. A command that exited with an error is a success, its code stands in the metadata.
There is no sequence, no id of a call, and the version sent is the one of Node.js.
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
        # v20.20.2 runs the program and is not its version: that one is never sent.
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
