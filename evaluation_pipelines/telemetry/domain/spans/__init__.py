"""Spans as events: read one by one at ingest, assembled per trace at build.

At ingest ``EventReader`` reads each span alone into rows of EVENTS_WITH_TEXTS (``reading.py``). The
column ``span_role`` has the role of a row.

| role | row | when it is kept |
|---|---|---|
| ``call`` | ``api_request`` or ``api_error`` | the innermost of nested calls |
| ``reply`` | ``assistant_response`` of a call | as its call |
| ``asked`` | ``user_prompt``: last user message of a call | first call, if the turn has no prompt |
| ``agent``, ``chain`` | ``user_prompt`` of a turn | the outermost |
| ``answer`` | ``assistant_response`` of a turn | turns whose calls have no replies |
| ``tool`` | ``tool_result`` | always |
| ``outcome`` | ``outcome``: a commit, or a decision of a person | always |
| ``execution``, ``approval`` | ``other``: outcome of the tool above it | never |
| ``part`` | ``other``: any other span | never |
"""

from evaluation_pipelines.telemetry.domain.spans.assemble import (
    TRACE_COLUMNS,
    Assembled,
    assemble,
    trace_sessions,
)
from evaluation_pipelines.telemetry.domain.spans.join import IS_TRANSCRIPT, join_signals

SPAN_COLUMNS = (
    *("trace_id", "span_id", "parent_span_id", "span_role", "span_session_id"),
    *("span_scope", "error_event_id"),
)
"""Columns of AGENT_EVENTS_LANDED for spans."""

__all__ = [
    "IS_TRANSCRIPT",
    "SPAN_COLUMNS",
    "TRACE_COLUMNS",
    "Assembled",
    "assemble",
    "join_signals",
    "trace_sessions",
]
