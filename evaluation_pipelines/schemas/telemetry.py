"""Tables of events and of the quarantine."""

import polars as pl

from evaluation_pipelines.schemas.table import (
    PERSON,
    SESSION_ATTRIBUTES,
    TEAM,
    UTC_TIME,
    Table,
    columns,
)

_EVENT_COLUMNS = columns(
    (
        "event_id",
        pl.Binary,
        "16-byte hash of what names the record in any organization",
    ),
    ("event_time", UTC_TIME, "when it happened"),
    ("observed_time", UTC_TIME, "when a collector or the SDK saw it"),
    ("session_id", pl.String, "session.id as sent, of a subagent that of its parent, if named"),
    ("session_date", pl.Date, "UTC day the session started: the partition"),
    (
        "organization_id",
        pl.String,
        "organization.id, else its session's, else 'default', null on attribution lines",
    ),
    ("agent_id", pl.String, "agent.id as sent"),
    ("masque", pl.String, "persona named by the record, its resource, or a don / doff"),
    ("user_id", pl.String, "enduser.id, else user.id, as sent, never an anonymous hash", PERSON),
    ("user_email", pl.String, "user.email as sent", PERSON),
    (
        "account_id",
        pl.String,
        "anonymous id that the agent program made of account or machine",
        PERSON,
    ),
    ("host_user", pl.String, "process.owner: user of the operating system", PERSON),
    ("team_id", pl.String, "team.id as sent", TEAM),
    ("repository", pl.String, "vcs.repository.name, else its URL without credentials"),
    ("branch", pl.String, "vcs.ref.head.name, else branch, as sent"),
    ("environment", pl.String, "deployment.environment.name as sent"),
    ("session_attributes", SESSION_ATTRIBUTES, "attributes named in EVAL_SESSION_ATTRIBUTES"),
    (
        "source_cli",
        pl.String,
        "agent program, such as claude_code, or genai (any that follows the GenAI conventions)",
    ),
    ("service_name", pl.String, "service.name of the resource"),
    ("service_version", pl.String, "service.version of the resource"),
    ("event_name", pl.String, "canonical name, one of EVENT_NAMES"),
    ("source_event_name", pl.String, "name as sent, vendor prefix stripped"),
    ("sequence", pl.Int64, "event.sequence. Restarts at 0 with each process"),
    ("prompt_id", pl.String, "the prompt this event answers"),
    ("request_id", pl.String, "the provider's id of the API request"),
    ("tool_use_id", pl.String, "the id of the tool call"),
    ("query_source", pl.String, "what asked the model: main thread, subagent, compaction"),
    ("subagent", pl.String, "name of the subagent, when one did it"),
    ("subagent_session_id", pl.String, "session.id sent by a subagent filed under session_id"),
    ("is_subagent", pl.Boolean, "sent by a subagent that does not name the session it works for"),
    ("skill", pl.String, "skill invoked, or for which the model was asked"),
    ("slash_command", pl.String, "slash command entered"),
    ("model", pl.String, "model, by one name for all providers"),
    ("model_as_sent", pl.String, "model as named by the source"),
    ("model_variant", pl.String, "unusual options it ran with: context, effort, tier, speed"),
    ("provider", pl.String, "who serves the model: reported, else by its name or the price table"),
    ("tool_name", pl.String, "tool as named by the source. MCP tools as mcp__server__tool"),
    ("tool_type", pl.String, "builtin or mcp"),
    ("tool_class", pl.String, "read, search, edit, write, shell, web, mcp, agent or other"),
    ("success", pl.Boolean, "outcome of the call, null when unknown"),
    ("success_source", pl.String, "reported, or exit_code if that overrules the report"),
    ("exit_code", pl.Int64, "exit code of a shell call, where shown"),
    ("decision", pl.String, "accept or reject"),
    ("error_type", pl.String, "class of the error as sent"),
    ("duration_ms", pl.Float64, "how long the call took"),
    ("ttft_ms", pl.Float64, "time to the first token"),
    ("cost_usd", pl.Float64, "price of the API request"),
    ("cost_source", pl.String, "reported, priced or unknown"),
    ("list_price_usd", pl.Float64, "list price of the API request, null if unknown"),
    ("input_tokens", pl.Int64, "input tokens without cached ones, all if those are unknown"),
    ("output_tokens", pl.Int64, "output tokens"),
    ("cache_read_tokens", pl.Int64, "input tokens read from the cache"),
    ("cache_creation_tokens", pl.Int64, "input tokens written to the cache"),
    ("reasoning_tokens", pl.Int64, "output tokens spent on reasoning, where reported"),
    ("has_content", pl.Boolean, "a prompt, reply, result or request body was logged"),
    ("has_parameters", pl.Boolean, "the parameters of the call were logged"),
    ("classification_label", pl.String, "classification.label as sent"),
    (
        "time_anomaly",
        pl.Boolean,
        "the time sent was unreadable or impossible, so event_time is a substitute",
    ),
    ("trace_id", pl.String, "trace of its span"),
    ("span_id", pl.String, "its span"),
    ("parent_span_id", pl.String, "parent of its span"),
    ("span_role", pl.String, "role of the row: call, reply, tool, agent ..."),
    ("span_session_id", pl.String, "session named by the span itself"),
    ("span_scope", pl.String, "instrumentation scope of its span: the library"),
    ("error_event_id", pl.Binary, "span within the call that has the text of its error"),
    ("source_file_id", pl.String, "identity of the landing file"),
    ("source_offset", pl.Int64, "byte offset of the line in that file"),
)

_TEXT_COLUMNS = columns(
    ("content", pl.String, "prompt, reply, result or request body, when logged"),
    ("tool_parameters", pl.String, "parameters of the call as JSON text, when logged"),
    ("error", pl.String, "text of the error as sent"),
    ("attributes", pl.String, "JSON text of all attributes that have no column"),
)
TEXTS = tuple(column.name for column in _TEXT_COLUMNS)
"""Columns with what people, models and tools wrote."""

_BUCKET = columns(("bucket", pl.UInt8, "0-255: hash of session_id. Parts are sorted by it"))

EVENT_NAMES = (
    "user_prompt",
    "assistant_response",
    "tool_result",
    "tool_decision",
    "api_request",
    "api_error",
    "api_refusal",
    "compaction",
    "hook",
    "session_start",
    "session_end",
    "outcome",
    "evaluation",
    "masque_don",
    "masque_doff",
    "other",
)

TOOL_CLASSES = ("read", "search", "edit", "write", "shell", "web", "mcp", "agent", "other")

TEXT_KEY = ("event_id", "source_file_id", "source_offset")
"""Columns that join an event with its texts: of several copies, those of the copy that is kept.

One line may have the event for several organizations: then its organization decides as well, or if
no record of the session named one then, NO_ORGANIZATION.
"""

_OF_TEXTS = (*TEXT_KEY, "organization_id", "session_id", "session_date")

AGENT_EVENTS_LANDED = Table(
    name="agent_events_landed",
    grain="one row per event as filed by ingest. A re-sent event appears again",
    columns=(*_EVENT_COLUMNS, *_BUCKET),
)

EVENT_TEXTS_LANDED = Table(
    name="event_texts_landed",
    grain="one row per event with text as filed by ingest. A re-sent event appears again",
    has_texts=True,
    columns=(
        *(column for column in _EVENT_COLUMNS if column.name in _OF_TEXTS),
        *_TEXT_COLUMNS,
        *_BUCKET,
    ),
)

AGENT_EVENTS = Table(
    name="agent_events",
    grain="one row per event, deduplicated",
    key=("organization_id", "event_id"),
    order=("organization_id", "session_id", "event_time", "sequence", "event_id"),
    columns=_EVENT_COLUMNS,
)

EVENTS_WITH_TEXTS = pl.Schema(
    [(column.name, column.dtype) for column in (*_EVENT_COLUMNS, *_TEXT_COLUMNS)]
)
"""Columns of events as they are decoded, and as the judge reads them."""

QUARANTINE = Table(
    name="quarantine",
    grain="one row per unreadable line or record. Equal ones are together",
    has_texts=True,
    columns=columns(
        ("file_id", pl.String, "identity of the landing file"),
        ("path", pl.String, "path of the file when it was read, inside the landing folder"),
        ("offset", pl.Int64, "byte offset of the line"),
        ("length_bytes", pl.Int64, "bytes of the line"),
        ("record_index", pl.Int64, "which log record of the line, null for the whole line"),
        ("reason", pl.String, "the fault, in words"),
        ("first_bytes", pl.String, "the first 256 bytes, undecodable ones escaped"),
        ("quarantined_at", UTC_TIME, "when it was read"),
        ("lines", pl.Int64, "equal lines of the file that the row counts. The first is named"),
    ),
)
