"""Every table of the lake: its grain, key and columns with types and meaning.

The one source of types: writers refuse a frame that does not fit, the user interface shows the
descriptions, SQL results are cast to it. Times are UTC microseconds, durations carry their unit
in the name, money is USD, unknown is null and never 0.
"""

from dataclasses import dataclass

import polars as pl

UTC_TIME = pl.Datetime("us", "UTC")


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, Polars type and what it means (with unit)."""

    name: str
    dtype: pl.DataType
    description: str


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the lake; ``name`` is also its asset key, folder and SQL file.

    ``key`` names the columns that no two rows share, ``order`` how rows are sorted in the file.
    """

    name: str
    grain: str
    key: tuple[str, ...]
    order: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pl.Schema:
        """Column names and types in file order."""
        return pl.Schema({column.name: column.dtype for column in self.columns})


def _columns(*rows: tuple[str, pl.DataType | type[pl.DataType], str]) -> tuple[Column, ...]:
    return tuple(
        Column(name, dtype() if isinstance(dtype, type) else dtype, description)
        for name, dtype, description in rows
    )


_EVENT_COLUMNS = _columns(
    ("event_id", pl.Binary, "16-byte hash of the record's own content; equal for a re-sent record"),
    ("event_time", UTC_TIME, "when it happened"),
    ("observed_time", UTC_TIME, "when a collector or the SDK saw it"),
    ("session_id", pl.String, "session.id as sent by the agent"),
    ("session_date", pl.Date, "UTC day the session began: the partition"),
    ("organization_id", pl.String, "organization.id, else 'default'; null on attribution lines"),
    ("agent_id", pl.String, "agent.id as sent"),
    ("masque", pl.String, "persona named by the record, its resource, or a don / doff"),
    ("user_id", pl.String, "user.id as sent"),
    ("team_id", pl.String, "team.id as sent"),
    ("source_cli", pl.String, "claude_code, codex, gemini_cli, qwen_code, opencode or genai"),
    ("service_name", pl.String, "service.name of the resource"),
    ("service_version", pl.String, "service.version of the resource"),
    ("event_name", pl.String, "canonical name, one of EVENT_NAMES"),
    ("source_event_name", pl.String, "name as sent, vendor prefix stripped"),
    ("sequence", pl.Int64, "event.sequence; restarts at 0 with each process"),
    ("prompt_id", pl.String, "the prompt this event answers"),
    ("request_id", pl.String, "the provider's id of the API request"),
    ("tool_use_id", pl.String, "the id of the tool call"),
    ("query_source", pl.String, "what asked the model: main thread, subagent, compaction"),
    ("subagent", pl.String, "name of the subagent, when one did it"),
    ("model", pl.String, "model as named by the source"),
    ("provider", pl.String, "who serves the model: reported, else from the price table"),
    ("tool_name", pl.String, "tool as named by the source; MCP tools as mcp__server__tool"),
    ("tool_type", pl.String, "builtin or mcp"),
    ("tool_class", pl.String, "read, search, edit, write, shell, web, mcp, agent or other"),
    ("success", pl.Boolean, "outcome of the call; null when unknown"),
    ("success_source", pl.String, "reported, or exit_code where that overrules the report"),
    ("exit_code", pl.Int64, "exit code of a shell call, where shown"),
    ("decision", pl.String, "accept or reject"),
    ("error_type", pl.String, "class of the error as sent"),
    ("error", pl.String, "text of the error as sent"),
    ("duration_ms", pl.Float64, "how long the call took"),
    ("ttft_ms", pl.Float64, "time to the first token"),
    ("cost_usd", pl.Float64, "price of the API request"),
    ("cost_source", pl.String, "reported, priced or unknown"),
    ("input_tokens", pl.Int64, "input tokens, never counting cached ones"),
    ("output_tokens", pl.Int64, "output tokens"),
    ("cache_read_tokens", pl.Int64, "input tokens read from the cache"),
    ("cache_creation_tokens", pl.Int64, "input tokens written to the cache"),
    ("reasoning_tokens", pl.Int64, "output tokens spent on reasoning, where reported"),
    ("content", pl.String, "prompt, reply, result or request body, when logged"),
    ("tool_parameters", pl.String, "parameters of the call as JSON text, when logged"),
    ("classification_label", pl.String, "classification.label as sent"),
    ("attributes", pl.String, "JSON text of all attributes that have no column"),
    ("time_anomaly", pl.Boolean, "the time sent was impossible; event_time is a substitute"),
    ("source_file_id", pl.String, "identity of the landing file"),
    ("source_offset", pl.Int64, "byte offset of the line in that file"),
)

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
    "masque_don",
    "masque_doff",
    "other",
)

TOOL_CLASSES = ("read", "search", "edit", "write", "shell", "web", "mcp", "agent", "other")

AGENT_EVENTS_LANDED = Table(
    name="agent_events_landed",
    grain="one row per event as filed by ingest; a re-sent event appears again",
    key=(),
    order=(),
    columns=_EVENT_COLUMNS,
)

AGENT_EVENTS = Table(
    name="agent_events",
    grain="one row per event, deduplicated",
    key=("event_id",),
    order=("organization_id", "session_id", "event_time", "sequence", "event_id"),
    columns=_EVENT_COLUMNS,
)

AGENT_SESSIONS = Table(
    name="agent_sessions",
    grain="one row per session window (one masque worn once, or the baseline)",
    key=("organization_id", "session_key"),
    order=("organization_id", "session_key"),
    columns=_columns(
        ("session_key", pl.String, "session.id#slug-n: slug of masque or baseline, and a count"),
        ("session_id", pl.String, "session.id as sent by the agent"),
        ("organization_id", pl.String, "organization, 'default' when none is sent"),
        ("user_id", pl.String, "user"),
        ("team_id", pl.String, "team"),
        ("agent_id", pl.String, "agent.id, else the masque, else service.name"),
        ("masque", pl.String, "persona worn; null for a baseline window"),
        ("attribution", pl.String, "baseline, clean, mixed or remainder"),
        ("source_cli", pl.String, "agent program"),
        ("service_version", pl.String, "newest version of the agent program in the window"),
        ("model", pl.String, "model with at least 80 % of the output tokens, else 'mixed'"),
        ("provider", pl.String, "provider of the models, 'mixed' when there are several"),
        ("models", pl.List(pl.String), "all models that answered, sorted"),
        ("classification_label", pl.String, "newest label sent, else 'general'"),
        ("task_class", pl.String, "kind of task by the tool mix alone"),
        ("started_at", UTC_TIME, "don time, else the first event"),
        ("ended_at", UTC_TIME, "doff time, else the last event"),
        ("explicit_end", pl.Boolean, "ended by a doff or session_end, not by silence"),
        ("duration_s", pl.Float64, "ended_at - started_at, seconds"),
        ("active_s", pl.Float64, "seconds between events, each gap capped at the idle limit"),
        ("status", pl.String, "completed, failed or cancelled"),
        ("prompts", pl.Int64, "prompts by the user; built-in slash commands are none"),
        ("total_tools", pl.Int64, "tools_ok + tools_failed"),
        ("tools_ok", pl.Int64, "tool calls that succeeded"),
        ("tools_failed", pl.Int64, "tool calls that failed"),
        ("tools_denied", pl.Int64, "tool calls that were refused"),
        ("tools_unknown", pl.Int64, "tool calls whose outcome is not known"),
        ("api_requests", pl.Int64, "API requests that were answered"),
        ("api_errors", pl.Int64, "API requests that failed after all retries"),
        ("input_tokens", pl.Int64, "uncached input tokens; null when unknown"),
        ("output_tokens", pl.Int64, "output tokens; null when unknown"),
        ("cache_read_tokens", pl.Int64, "tokens read from the cache; null when unknown"),
        ("cache_creation_tokens", pl.Int64, "tokens written to the cache; null when unknown"),
        ("reasoning_tokens", pl.Int64, "reasoning tokens, where any were reported"),
        ("total_tokens", pl.Int64, "input + output + cache read + cache creation"),
        ("cost_usd", pl.Float64, "cost; null unless every API request has one"),
        ("cost_known_calls", pl.Int64, "API requests that have a cost"),
        ("median_tool_ms", pl.Float64, "median duration of tool calls"),
        ("p95_tool_ms", pl.Float64, "95th percentile of the duration of tool calls"),
        ("api_ms", pl.Float64, "sum of the durations of API requests"),
        ("mean_api_ms", pl.Float64, "mean duration of an API request"),
        (
            "tool_mix",
            pl.List(pl.Struct({"key": pl.String, "value": pl.Int64})),
            "tool class -> calls that succeeded or failed, sorted by class",
        ),
        ("missing_events", pl.Int64, "gaps in event.sequence; null when none was sent"),
        ("content_level", pl.String, "full, prompts or none: how much text was logged"),
        ("content_hash", pl.String, "SHA-256 over the ids of the events that carry the work"),
        ("session_date", pl.Date, "UTC day the session began: the partition"),
    ),
)

SESSION_PERFORMANCE = Table(
    name="session_performance",
    grain="one row per session window with its five dimensions",
    key=("organization_id", "session_key"),
    order=("organization_id", "session_key"),
    columns=_columns(
        ("session_key", pl.String, "session.id#slug-n: slug of masque or baseline, and a count"),
        ("session_id", pl.String, "session.id as sent by the agent"),
        ("organization_id", pl.String, "organization"),
        ("agent_id", pl.String, "agent.id, else the masque, else service.name"),
        ("masque", pl.String, "persona worn; null for a baseline window"),
        ("attribution", pl.String, "baseline, clean, mixed or remainder"),
        ("source_cli", pl.String, "agent program"),
        ("model", pl.String, "model with at least 80 % of the output tokens, else 'mixed'"),
        ("task_class", pl.String, "kind of task by the tool mix alone"),
        ("started_at", UTC_TIME, "start of the window"),
        ("ended_at", UTC_TIME, "end of the window"),
        ("quality", pl.Float64, "0-10: share of tool calls that succeeded"),
        ("autonomy", pl.Float64, "0-10: tool calls per prompt"),
        ("productivity", pl.Float64, "0-10: successful tool calls per active minute"),
        ("token_efficiency", pl.Float64, "0-10: share of tokens read from the cache"),
        ("cost_efficiency", pl.Float64, "0-10: cost per successful tool call"),
        ("composite", pl.Float64, "0-10: weighted sum of the known dimensions, unrounded"),
        ("recommendation", pl.String, "keep, review or doff; null when unscorable"),
        ("scorable", pl.Boolean, "there was evidence to score"),
        ("partial", pl.Boolean, "a dimension is unknown; the other weights were scaled up"),
        ("reason", pl.String, "why it is unscorable or partial"),
        ("percentile_in_class", pl.Float64, "0-100 among 28 days of its class; null under 20"),
        ("content_hash", pl.String, "content the score belongs to"),
        ("session_date", pl.Date, "UTC day the session began: the partition"),
    ),
)

QUARANTINE = Table(
    name="quarantine",
    grain="one row per line or record that could not be read",
    key=(),
    order=(),
    columns=_columns(
        ("file_id", pl.String, "identity of the landing file"),
        ("path", pl.String, "path of the file when it was read, inside the landing folder"),
        ("offset", pl.Int64, "byte offset of the line"),
        ("length_bytes", pl.Int64, "bytes of the line"),
        ("record_index", pl.Int64, "which log record of the line; null for the whole line"),
        ("reason", pl.String, "what is wrong, in words"),
        ("first_bytes", pl.String, "the first 256 bytes, undecodable ones escaped"),
        ("quarantined_at", UTC_TIME, "when it was read"),
    ),
)

TABLES = (AGENT_EVENTS_LANDED, AGENT_EVENTS, AGENT_SESSIONS, SESSION_PERFORMANCE, QUARANTINE)
