"""SQL queries from events to session windows and tool calls.

They read lake files or frames, so that the daily tables, ``score`` and ``as_of`` use the same ones.

A count is unknown if the agent program sends no such events.

Warm-up requests count in no figure. A request with ``generate=false`` fills the cache of the model
server before the first answer, and its response has no output. A later response without output is a
request like others.
"""

from collections import Counter
from dataclasses import replace

import polars as pl

from evaluation_pipelines.people.domain.identities import NO_IDENTITIES, Identities, with_people
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    EVENT_TEXTS_LANDED,
)
from evaluation_pipelines.schemas.sessions import ToolCalls
from evaluation_pipelines.sessions.domain.masques import masque_wearings
from evaluation_pipelines.sessions.domain.tool_reports.calls import CALL_WINDOWS, TOOL_CALLS
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.queries import Source, Steps, run_queries, run_query
from evaluation_pipelines.telemetry.domain.dialects.registry import DIALECTS
from evaluation_pipelines.telemetry.domain.organizations import with_organizations
from evaluation_pipelines.telemetry.domain.spans import (
    IS_TRANSCRIPT,
    Assembled,
    assemble,
    join_signals,
)
from evaluation_pipelines.telemetry.domain.subagents import TRACE

_PROGRAMS = [dialect.source_cli for dialect in DIALECTS if dialect.has_warm_ups]

_FIGURES = (
    *("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens"),
    *("reasoning_tokens", "cost_usd", "cost_source", "list_price_usd"),
)


def without_warm_ups(events: pl.DataFrame) -> pl.DataFrame:
    """Return deduplicated events in which warm-ups are no requests but ``other``, by that name.

    A sub-agent with a session of its own is warmed up before its own first answer.
    """
    is_request = pl.col("source_cli").is_in(_PROGRAMS) & (pl.col("event_name") == "api_request")
    responses = events.lazy().filter(is_request)
    if responses.filter(output_tokens=0).head(1).collect().is_empty():
        return events
    session = ("session_date", "organization_id", "session_id", "subagent_session_id")
    answers = responses.filter(pl.col("output_tokens") > 0)
    first_answers = answers.group_by(session).agg(answered_at=pl.min("event_time")).collect()
    joined = events.join(
        first_answers, on=session, how="left", nulls_equal=True, maintain_order="left"
    )
    is_warm_up = (
        joined.select(
            is_request
            & (pl.col("output_tokens") == 0)
            & (pl.col("answered_at").is_null() | (pl.col("event_time") < pl.col("answered_at")))
        )
        .to_series()
        .fill_null(value=False)
    )
    return events.with_columns(
        event_name=pl.when(is_warm_up).then(pl.lit("other")).otherwise("event_name"),
        source_event_name=pl.when(is_warm_up)
        .then(pl.lit("warm_up"))
        .otherwise("source_event_name"),
        **{name: pl.when(~is_warm_up).then(name) for name in _FIGURES},
    )


_COUNTS = ("prompts", "tools_denied")
"""Counts of events that not every program sends; sums of values that are not sent are null."""


def without_unknown_counts(sessions: pl.DataFrame) -> pl.DataFrame:
    """Replace 0 by null in counts that a program never sends."""
    return sessions.with_columns(
        pl.when((pl.col(name) != 0) | ~_lacks_events(name)).then(pl.col(name)).alias(name)
        for name in _COUNTS
    )


def _lacks_events(name: str) -> pl.Expr:
    """Return whether a session is of a program that does not send these events."""
    programs = {dialect.source_cli for dialect in DIALECTS if name in dialect.never_sends}
    return pl.col("source_cli").is_in(sorted(programs)).fill_null(value=False)


KEPT = pl.Schema({"row_no": pl.UInt32(), "session_date": pl.Date()})

# SQL alone cannot match nested dons and doffs.
SESSION_STEPS = Steps(AGENT_SESSIONS.name, {"masque_wearings": masque_wearings})
"""Steps from events to windows of sessions."""

_QUERIED = pl.Schema(
    {
        name: dtype
        for name, dtype in AGENT_SESSIONS.schema.items()
        if name not in {"person_id", "team"}
    }
)
"""Columns known only from telemetry."""

_OF_CALLS = {"call_windows": CALL_WINDOWS, "tool_calls": TOOL_CALLS}
"""Queries of tool calls, with their columns."""

DEDUPLICATION_COLUMNS = (
    *("session_date", "organization_id", "session_id", "event_name", "request_id"),
    *("event_time", "sequence", "event_id", "source_file_id", "source_offset"),
    "observed_time",
)
"""Columns of a landed event that identify copies and define the order."""


def kept_events(landed: pl.DataFrame, *, small: bool = False) -> pl.DataFrame:
    """Return which rows of AGENT_EVENTS_LANDED remain after copies are removed.

    Args:
        landed: Rows with the organization of their session, see ``with_organizations``.
        small: There are few rows.

    Returns:
        KEPT: ``row_no`` (from 0) and ``session_date``, in the order of AGENT_EVENTS.
    """
    views = {AGENT_EVENTS_LANDED.name: landed.select(DEDUPLICATION_COLUMNS)}
    return run_query(AGENT_EVENTS.name, views=views, schema=KEPT, small=small)


_IN_SESSION = ("organization_id", "session_id")
_IS_SPAN = pl.col("trace_id").is_not_null()
_IS_OF_TRACE = pl.col("subagent_session_id").str.starts_with(TRACE).fill_null(value=False)
NEEDS_ALL = ((_IS_SPAN | _IS_OF_TRACE).any() | (IS_TRANSCRIPT.any() & (~IS_TRANSCRIPT).any())).over(
    _IN_SESSION
)
"""True for events of sessions with spans or several signals: ``put_together`` changes them."""

SIGNAL_COLUMNS = ("trace_id", "source_event_name", "subagent_session_id")
"""Columns of NEEDS_ALL, plus ``_IN_SESSION``."""


def put_together(landed: pl.DataFrame) -> Assembled:
    """Return events in which spans are put together and signals joined, and the rows left out.

    Args:
        landed: AGENT_EVENTS with the organization of their session, whole sessions.
    """
    own = pl.when(~_IS_OF_TRACE).then("subagent_session_id")  # a trace is no session
    logs = landed.filter(~_IS_SPAN).with_columns(subagent_session_id=own)
    spans, events, dropped = landed.filter(_IS_SPAN), logs, Counter[str]()
    if not spans.is_empty():
        together = assemble(spans)
        is_own = pl.col("subagent").is_not_null() & (
            pl.col("span_session_id") != pl.col("session_id")
        )
        of_spans = together.events.with_columns(
            subagent_session_id=pl.when(is_own).then("span_session_id")
        )
        joined = join_signals(pl.concat([logs, of_spans]))
        events, dropped = joined.events, Counter(together.dropped) + Counter(joined.dropped)
    if not events.filter(IS_TRANSCRIPT).is_empty():
        joined = join_signals(events, IS_TRANSCRIPT)
        events, dropped = joined.events, dropped + Counter(joined.dropped)
    return Assembled(events, dropped)


def query_events(landed: pl.DataFrame) -> pl.DataFrame:
    """Return landed events without copies: AGENT_EVENTS."""
    events = put_together(with_organizations(landed)).events
    return without_warm_ups(events[kept_events(events)["row_no"]])


def query_sessions(
    events: Source,
    settings: Settings,
    identities: Identities = NO_IDENTITIES,
    *,
    small: bool = False,
) -> pl.DataFrame:
    """Return session windows (AGENT_SESSIONS) of deduplicated events in lake files or a frame."""
    sessions = run_query(
        AGENT_SESSIONS.name,
        views={AGENT_EVENTS.name: events},
        params=_session_params(settings),
        schema=_QUERIED,
        steps=SESSION_STEPS,
        small=small,
    )
    return _completed(sessions, identities)


def query_tool_calls(events: Source, texts: Source) -> ToolCalls:
    """Return tool calls of deduplicated events and their texts."""
    windows, rows = run_queries(
        _OF_CALLS,
        views={AGENT_EVENTS.name: events, EVENT_TEXTS_LANDED.name: texts},
        steps=replace(SESSION_STEPS, last="call_outcomes"),
    )
    return ToolCalls(rows, windows)


def query_sessions_and_calls(
    events: Source,
    texts: Source,
    settings: Settings,
    identities: Identities = NO_IDENTITIES,
    *,
    small: bool = False,
) -> tuple[pl.DataFrame, ToolCalls]:
    """Return session windows and tool calls; the steps that both need run once."""
    sessions, windows, rows = run_queries(
        {AGENT_SESSIONS.name: _QUERIED, **_OF_CALLS},
        views={AGENT_EVENTS.name: events, EVENT_TEXTS_LANDED.name: texts},
        params=_session_params(settings),
        steps=SESSION_STEPS,
        small=small,
    )
    return _completed(sessions, identities), ToolCalls(rows, windows)


def _completed(sessions: pl.DataFrame, identities: Identities) -> pl.DataFrame:
    known = without_unknown_counts(sessions)
    return with_people(known, identities).select(AGENT_SESSIONS.schema.names())


def _session_params(settings: Settings) -> dict[str, object]:
    return {"session_idle_minutes": settings.session_idle_minutes}


WINDOW_EVENTS = pl.Schema(
    {
        "session_date": pl.Date(),
        "organization_id": pl.String(),
        "session_key": pl.String(),
        "content_hash": pl.String(),
        "position": pl.Int64(),
        "event_id": pl.Binary(),
    }
)

WINDOW_COLUMNS = (
    *("session_date", "organization_id", "session_id", "event_id", "event_time", "sequence"),
    *("event_name", "masque", "success", "has_content"),
)
"""Columns of ``agent_events`` that decide on windows."""


def window_events(events: pl.DataFrame) -> pl.DataFrame:
    """Return WINDOW_EVENTS of whole sessions, split in the same way as ``agent_sessions``.

    Args:
        events: Rows of ``agent_events`` with WINDOW_COLUMNS; dons and doffs become no rows.

    Raises:
        QueryError: The SQL failed.
    """
    return run_query(
        "window_events",
        views={AGENT_EVENTS.name: events},
        schema=WINDOW_EVENTS,
        steps=replace(SESSION_STEPS, last="content_hashes"),
        small=True,
    )
