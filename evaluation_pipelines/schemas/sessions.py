"""Tables of session windows and their performance."""

from dataclasses import dataclass, replace
from typing import TypeAlias

import polars as pl

from evaluation_pipelines.schemas.table import (
    BLIND,
    PERSON,
    SESSION_ATTRIBUTES,
    TEAM,
    UTC_TIME,
    WINDOW,
    Table,
    columns,
)

MIXED = "mixed"
"""``model`` of a session without a model of at least 80% of the output tokens."""

DEMO_JUDGE = "demo-script"
"""Judge model of the demo: a script in place of a model."""

USED = pl.Struct(
    {
        "kind": pl.String,
        "name": pl.String,
        "uses": pl.Int64,
        "calls": pl.Int64,
        "api_requests": pl.Int64,
        "total_tokens": pl.Int64,
        "cost_usd": pl.Float64,
    }
)
USED_KINDS = ("subagent", "skill", "command")
"""What ``used`` has: sub-agents, skills and slash commands."""

AGENT_SESSIONS = Table(
    name="agent_sessions",
    grain="one row per session window (one masque worn once, or the baseline)",
    key=("organization_id", "session_key"),
    order=("organization_id", "session_key"),
    columns=columns(
        ("session_key", pl.String, "session.id#slug-n: slug of masque or baseline, and a count"),
        ("session_id", pl.String, "session.id as sent by the agent"),
        ("organization_id", pl.String, "organization, 'default' when none is sent"),
        (
            "person_id",
            pl.String,
            "who that is by the identities, else email, user or account id",
            PERSON,
        ),
        ("team", pl.String, "team of the person on that day by the identities, else team_id", TEAM),
        ("user_id", pl.String, "user id that was given to the telemetry, else the email", PERSON),
        ("user_email", pl.String, "newest user.email sent", PERSON),
        ("account_id", pl.String, "newest anonymous id that the agent program made up", PERSON),
        ("host_user", pl.String, "user of the operating system", PERSON),
        ("team_id", pl.String, "newest team.id sent", TEAM),
        ("repository", pl.String, "newest repository sent: name, or URL without credentials"),
        ("branch", pl.String, "newest branch sent"),
        ("environment", pl.String, "newest deployment.environment.name sent"),
        ("session_attributes", SESSION_ATTRIBUTES, "newest values of EVAL_SESSION_ATTRIBUTES"),
        ("agent_id", pl.String, "agent.id, else the masque, else service.name"),
        (
            "is_subagent",
            pl.Boolean,
            "of a sub-agent that does not name the session it works for: in no count of sessions",
        ),
        ("masque", pl.String, "persona worn; null for a baseline window"),
        ("attribution", pl.String, "baseline, clean, mixed or remainder"),
        ("source_cli", pl.String, "agent program"),
        ("service_version", pl.String, "newest version of the agent program in the window"),
        ("model", pl.String, "model with at least 80% of the output tokens, else 'mixed'"),
        (
            "model_variant",
            pl.String,
            "what the model ran with for 80% of its output, else 'mixed'; null: the usual",
        ),
        ("provider", pl.String, "provider of the models, 'mixed' when there are several"),
        ("models", pl.List(pl.String), "all models that answered, sorted"),
        ("classification_label", pl.String, "newest label sent, else 'general'"),
        ("task_class", pl.String, "kind of task by the tool mix alone"),
        (
            "started_at",
            UTC_TIME,
            "the later of the don and the session's first event; without a don the first event",
        ),
        ("ended_at", UTC_TIME, "doff time, else the last event"),
        ("explicit_end", pl.Boolean, "ended by a doff or session_end, not by silence"),
        ("duration_s", pl.Float64, "ended_at - started_at, seconds"),
        ("active_s", pl.Float64, "seconds between events, each gap capped at the idle limit"),
        ("status", pl.String, "completed, failed or cancelled"),
        ("prompts", pl.Int64, "prompts by users: no built-in slash command; null when unknown"),
        ("total_tools", pl.Int64, "tools_ok + tools_failed; null when unknown"),
        ("tools_ok", pl.Int64, "tool calls that succeeded; null when unknown"),
        ("tools_failed", pl.Int64, "tool calls that failed; null when unknown"),
        ("tools_denied", pl.Int64, "tool calls that were refused; null when unknown"),
        ("tools_unknown", pl.Int64, "tool calls whose outcome is not known; null when unknown"),
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
        (
            "used",
            pl.List(USED),
            "sub-agents, skills and slash commands with their use, tokens and cost; null: not told",
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
    columns=columns(
        *WINDOW,
        ("attribution", pl.String, "baseline, clean, mixed or remainder"),
        ("source_cli", pl.String, "agent program"),
        ("model", pl.String, "model with at least 80% of the output tokens, else 'mixed'"),
        ("task_class", pl.String, "kind of task by the tool mix alone"),
        ("started_at", UTC_TIME, "start of the window"),
        ("ended_at", UTC_TIME, "end of the window"),
        ("quality", pl.Float64, "0-10: share of tool calls that succeeded", BLIND),
        ("autonomy", pl.Float64, "0-10: tool calls per prompt; null when unknown", BLIND),
        ("productivity", pl.Float64, "0-10: successful tool calls per active minute", BLIND),
        ("token_efficiency", pl.Float64, "0-10: share of tokens read from the cache", BLIND),
        ("cost_efficiency", pl.Float64, "0-10: cost per successful tool call", BLIND),
        ("composite", pl.Float64, "0-10: weighted sum of the known dimensions, unrounded", BLIND),
        ("recommendation", pl.String, "keep, review or doff; null when unscorable", BLIND),
        ("scorable", pl.Boolean, "there was evidence to score"),
        ("partial", pl.Boolean, "a dimension is unknown; the other weights were scaled up"),
        ("reason", pl.String, "why it is unscorable or partial", BLIND),
        ("content_hash", pl.String, "content the score belongs to"),
        ("session_date", pl.Date, "UTC day the session began: the partition"),
    ),
)

RANKED_PERFORMANCE = replace(
    SESSION_PERFORMANCE,
    columns=(
        *SESSION_PERFORMANCE.columns[:-2],
        *columns(
            (
                "percentile_in_class",
                pl.Float64,
                "0-100 among 28 days of its class; null under 20",
                BLIND,
            ),
        ),
        *SESSION_PERFORMANCE.columns[-2:],
    ),
)
"""SESSION_PERFORMANCE as readers get it, with the rank of each window; no file has that."""


_Fields: TypeAlias = dict[str, pl.DataType | type[pl.DataType]]

_PLACE: _Fields = {
    "call": pl.Int64,
    "called_at": UTC_TIME,
    "tool": pl.String,
    "parameters": pl.String,
}

BY_TOOL = pl.Struct(
    {
        "tool": pl.String,
        "tool_class": pl.String,
        "calls": pl.Int64,
        "failed": pl.Int64,
        "denied": pl.Int64,
        "repeated": pl.Int64,
        "corrected": pl.Int64,
        "wasted": pl.Int64,
        "lost_calls": pl.Float64,
        "p50_ms": pl.Float64,
        "p95_ms": pl.Float64,
        "bytes_returned": pl.Int64,
        "bytes_known_calls": pl.Int64,
        "lost_tokens": pl.Float64,
        "lost_usd": pl.Float64,
    }
)
_TEXTS = ("parameters", "correcting_parameters", "error")
FAILURE = pl.Struct({**_PLACE, "error": pl.String})
REPEAT = pl.Struct(
    {
        **_PLACE,
        "original": pl.Int64,
        "original_at": UTC_TIME,
        "similarity": pl.Float64,
        "distance": pl.Int64,
    }
)
CORRECTION = pl.Struct(
    {
        **_PLACE,
        "corrected_by": pl.Int64,
        "corrected_at": UTC_TIME,
        "correcting_tool": pl.String,
        "correcting_parameters": pl.String,
        "similarity": pl.Float64,
    }
)
UNUSED = pl.Struct({**_PLACE, "new_tokens": pl.Int64, "bytes_returned": pl.Int64})
LOOP = pl.Struct(
    {
        "first_call": pl.Int64,
        "last_call": pl.Int64,
        "calls": pl.Int64,
        "called_at": UTC_TIME,
        "last_called_at": UTC_TIME,
        "tool": pl.String,
        "parameters": pl.String,
    }
)

TOOL_REPORTS = Table(
    has_texts=True,
    name="tool_reports",
    grain="one row per session window with tool calls: what they were worth",
    key=("organization_id", "session_key"),
    order=("organization_id", "session_key"),
    columns=columns(
        *WINDOW,
        ("source_cli", pl.String, "agent program"),
        ("model", pl.String, "model with at least 80% of the output tokens, else 'mixed'"),
        ("task_class", pl.String, "kind of task by the tool mix alone"),
        ("started_at", UTC_TIME, "start of the window"),
        ("total_calls", pl.Int64, "calls that succeeded or failed; places count these from 1"),
        ("failed_calls", pl.Int64, "calls that failed"),
        ("denied_calls", pl.Int64, "calls that were refused; not in total_calls"),
        ("unknown_calls", pl.Int64, "calls of unknown outcome; not in total_calls"),
        ("calls_with_parameters", pl.Int64, "of total_calls, those with logged parameters"),
        ("results_logged", pl.Int64, "of the successful calls, those whose result is logged"),
        ("repeated_calls", pl.Int64, "calls like an earlier one, nothing changed in between"),
        ("corrected_calls", pl.Int64, "failed calls that another tool corrected soon after"),
        ("wasted_calls", pl.Int64, "successful calls whose result was used by nothing later"),
        ("looping_calls", pl.Int64, "calls in loops of three or more similar ones that all failed"),
        ("lost_calls", pl.Float64, "sum of the penalties: 1 failed or wasted, 0.5 corrected, ..."),
        ("effectiveness_score", pl.Float64, "0-100: 100 * (1 - lost_calls / total_calls)", BLIND),
        ("is_flagged", pl.Boolean, "effectiveness_score is below 60", BLIND),
        ("basis", pl.String, "what the score counts, what is unknown and why, what was cut short"),
        ("unknown", pl.List(pl.String), "classes that are not known and left out of the score"),
        (
            "bytes_returned",
            pl.Int64,
            "bytes that calls gave back, of those that tell; without a result those of the error",
        ),
        ("bytes_known_calls", pl.Int64, "of total_calls, those whose size is known"),
        ("lost_tokens", pl.Float64, "estimate, 4 bytes each, of what lost calls gave back"),
        (
            "lost_usd",
            pl.Float64,
            "lost_tokens at the session's mean price; null if it has fewer",
        ),
        ("by_tool", pl.List(BY_TOOL), "one entry per tool, the most called first"),
        ("failures", pl.List(FAILURE), "failed calls with what their errors say"),
        ("repeats", pl.List(REPEAT), "repeated calls with the earliest call each repeats"),
        ("corrections", pl.List(CORRECTION), "failed calls with the call that made each good"),
        ("wasted", pl.List(UNUSED), "wasted calls; new_tokens: words that were new in the result"),
        ("untraced", pl.List(UNUSED), "used by no later call, but replies are not logged"),
        ("loops", pl.List(LOOP), "failing loops, first and last call of each"),
        ("content_hash", pl.String, "content the report belongs to"),
        ("session_date", pl.Date, "UTC day the session began: the partition"),
    ),
)

TOOL_REPORT_TEXTS = {
    each.name: texts
    for each in TOOL_REPORTS.columns
    if isinstance(each.dtype, pl.List) and isinstance(each.dtype.inner, pl.Struct)
    if (texts := [text.name for text in each.dtype.inner.fields if text.name in _TEXTS])
}
"""Fields that are texts of sessions, by column of ``tool_reports``."""


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """Tool calls of whole sessions: ``rows`` are TOOL_CALLS, ``windows`` their CALL_WINDOWS."""

    rows: pl.DataFrame
    windows: pl.DataFrame
