"""Log records of Qwen Code, a fork of Gemini CLI.

It logs each API call once, includes thought tokens in the output tokens, and sends start and end
of a session under bare names. Since 0.24 a command that exited with an error has failed, and calls
have ids. A call that plan mode forbids has neither a decision nor an error.
"""

import re
from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import milliseconds, text
from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect, Row
from evaluation_pipelines.telemetry.domain.dialects.gemini.family import (
    COLUMNS,
    EVENT_NAMES,
    IDENTIFIED_BY,
    ended_before_it_ran,
    refine_call,
    refine_request,
)


def _refine(row: Row, rest: dict[str, Any]) -> bool:
    match row["source_event_name"]:
        case "api_response":
            refine_request(row, rest)
        case "tool_call":
            refine_call(row, rest, _was_refused)
        case "slash_command":
            row["slash_command"] = text(rest.get("command"))
        case "subagent_execution" if (status := rest.get("status")) != "started":
            row["success"] = status == "completed"
    return True


_REFUSAL = re.compile(
    r"Qwen Code requires permission to use .*, but that permission was declined"
    r'|Tool ".*" (?:is denied|was canceled by the user\.)'
    r'|Tool ".*" requires permission, but background agents'
    r"|Plan mode is active\. The tool "
    r"|Permission denied by hook for ",
    re.DOTALL,
)


def _was_refused(row: Row, rest: dict[str, Any]) -> bool:
    decision, error = row.get("decision"), row.get("error") or ""
    if decision == "reject" or ended_before_it_ran(row, rest):
        return True
    if row.get("error_type") == "execution_denied":
        # A hook that stops the agent after an allowed call sends the same type.
        return decision is None or error != "Execution stopped by hook"
    return decision is None and _REFUSAL.match(error) is not None


# `response_id` is no request id: model servers invent it, and many repeat it. Of requests with
# the same id only the first would count.
QWEN_CODE = Dialect(
    source_cli="qwen_code",
    name_prefix="qwen-code.",
    scopes=("qwen-code",),
    event_names={
        **EVENT_NAMES,
        "session.start": "session_start",
        "session.end": "session_end",
        "user_feedback": "outcome",
    },
    columns={
        **COLUMNS,
        "call_id": ("tool_use_id", text),
        "ttft_ms": ("ttft_ms", milliseconds),
        "subagent_name": ("subagent", text),
        "skill_name": ("skill", text),
    },
    refine=_refine,
    sends_cost=False,
    identified_by=IDENTIFIED_BY,
    never_sends=frozenset({"missing_events"}),
    sends_exit_codes=False,
)
