"""Sessions as signals about an identity, and as evaluations of an agent."""

from collections.abc import Callable
from uuid import UUID

import polars as pl

from evaluation_pipelines.reputation.domain.identity import identity_id, session_event_id
from evaluation_pipelines.schemas import AGENT_EVALUATIONS, REPUTATION_EVENTS

FAILED_BELOW = 40.0
LATENCY_BUDGET_MS = 120_000.0
"""Latency budget of the mean API request of a session."""

_NEUTRAL = 50.0
_SURENESS = {"override": 1.0, "judge": 0.7, "composite": 0.5, "status": 0.5}
"""Confidence of a score by its source; a scorecard has its own."""


def session_signals(sessions: pl.DataFrame) -> pl.DataFrame:
    """Return one signal (REPUTATION_EVENTS) per session with an effective score.

    ``score_delta = (effective_100 - 50) / 50``; the event is ``task_failed`` if the session
    failed or scored below 40, otherwise ``task_completed``.

    Args:
        sessions: Rows of ``session_evaluations``.
    """
    scored = _scored(sessions)
    failed = (pl.col("status") == "failed") | (pl.col("effective_100") < FAILED_BELOW)
    return scored.select(
        event_id=_ids(scored, "session_key", session_event_id),
        timestamp=pl.col("ended_at").dt.cast_time_unit("ms"),
        identity_id=_ids(scored, "agent_id", identity_id),
        category=pl.lit("task_quality"),
        event_type=pl.when(failed).then(pl.lit("task_failed")).otherwise(pl.lit("task_completed")),
        score_delta=(pl.col("effective_100") - _NEUTRAL) / _NEUTRAL,
        confidence=_sureness(),
        reference_type=pl.lit("session"),
        reference_id=pl.col("session_key"),
        attributes=_attributes("agent_id", "effective_source", "organization_id", "session_date"),
    ).cast(REPUTATION_EVENTS.schema)


def session_ids(sessions: pl.DataFrame) -> pl.DataFrame:
    """Return ``session_date, event_id`` of the sessions with an effective score.

    Args:
        sessions: Rows of ``session_evaluations``.
    """
    scored = _scored(sessions)
    return scored.select("session_date", event_id=_ids(scored, "session_key", session_event_id))


def session_evaluations_of_agents(sessions: pl.DataFrame) -> pl.DataFrame:
    """Return one evaluation (AGENT_EVALUATIONS) per ended session with an effective score.

    Args:
        sessions: Rows of ``session_evaluations`` with ``mean_api_ms`` of ``agent_sessions`` and
            ``is_terminal``.
    """
    scored = _scored(sessions).filter("is_terminal")
    return scored.select(
        evaluation_id=_ids(scored, "session_key", session_event_id),
        organization_id=pl.col("organization_id"),
        agent_id=pl.col("agent_id"),
        evaluated_at=pl.col("ended_at"),
        passed=pl.col("passed"),
        latency_ms=pl.col("mean_api_ms"),
        latency_budget_ms=pl.lit(LATENCY_BUDGET_MS),
        model=pl.col("model"),
        source=pl.lit("session"),
        reference_id=pl.col("session_key"),
    ).cast(AGENT_EVALUATIONS.schema)


def _scored(sessions: pl.DataFrame) -> pl.DataFrame:
    """Return sessions with an effective score; without an agent, the program counts as one."""
    agent = pl.coalesce("agent_id", "source_cli", pl.lit("unknown"))
    return sessions.filter(pl.col("effective_100").is_not_null()).with_columns(agent_id=agent)


def _ids(sessions: pl.DataFrame, column: str, derive: Callable[[str, str], UUID]) -> pl.Series:
    pairs = zip(sessions["organization_id"], sessions[column], strict=True)
    return pl.Series([str(derive(*pair)) for pair in pairs], dtype=pl.String)


def _sureness() -> pl.Expr:
    by_source = pl.col("effective_source").replace_strict(
        _SURENESS, default=None, return_dtype=pl.Float64
    )
    return pl.coalesce(by_source, "confidence")


def _attributes(*names: str) -> pl.Expr:
    pairs = [
        pl.struct(key=pl.lit(name), value=pl.col(name).cast(pl.String).fill_null(""))
        for name in names
    ]
    return pl.concat_list(pairs)
