"""Qwen Code, 0.15 to 0.24: a fork of Gemini CLI.

It tells each API call once, counts tokens of thoughts among the output tokens, and sends the
beginning and the end of a session, under bare names. Since 0.24 a command that exited with an
error has failed, and calls have ids.
"""

from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import amount, text
from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect, Row
from evaluation_pipelines.telemetry.domain.dialects.gemini_family import (
    COLUMNS,
    EVENT_NAMES,
    refine_call,
    refine_request,
)


def _refine(row: Row, rest: dict[str, Any]) -> bool:
    match row["source_event_name"]:
        case "api_response":
            refine_request(row, rest)
        case "tool_call":
            refine_call(row, rest)
    return True


# `response_id` is no request id: it is made up by whatever model server answers, and many give
# the same one to several answers. Of requests with the same id only the first would count.
QWEN_CODE = Dialect(
    source_cli="qwen_code",
    name_prefix="qwen-code.",
    scopes=("qwen-code",),
    event_names={
        **EVENT_NAMES,
        "session.start": "session_start",
        "session.end": "session_end",
    },
    columns={
        **COLUMNS,
        "call_id": ("tool_use_id", text),
        "ttft_ms": ("ttft_ms", amount),
        "subagent_name": ("subagent", text),
    },
    refine=_refine,
    sends_cost=False,
)
