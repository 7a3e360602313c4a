"""The daily tables, each after the tables it is built from.

The function of a table builds its partitions and can be repeated at any time: the same input
produces the same file. A partition that fails a check of severity ``error`` is not written.
"""

from evaluation_pipelines.judging import score_table
from evaluation_pipelines.outcomes.table import session_outcomes
from evaluation_pipelines.reporting import books
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    EVALUATION_BOOKS,
    JUDGE_SCORES,
    SCORECARDS,
    SESSION_EVALUATIONS,
    SESSION_OUTCOMES,
    SESSION_PERFORMANCE,
    TOOL_REPORTS,
)
from evaluation_pipelines.schemas.table import keys_are_unique
from evaluation_pipelines.scorecards.domain.scorecard import (
    cards_are_on_their_scale,
    effective_scores_have_a_source,
    every_card_has_its_session,
    every_criterion_is_known,
    profiles_are_sound,
)
from evaluation_pipelines.scorecards.scorecard_tables import (
    announce,
    scorecards,
    session_evaluations,
)
from evaluation_pipelines.sessions.domain.checks import (
    calls_add_up,
    every_event_is_in_a_session,
    every_report_has_its_session,
    every_score_has_its_session,
    scores_are_in_range,
    sequences_have_no_gaps,
)
from evaluation_pipelines.sessions.domain.performance import WEIGHTS
from evaluation_pipelines.sessions.session_tables import (
    agent_events,
    agent_sessions,
    session_performance,
    tool_reports,
)
from evaluation_pipelines.storage.daily_table import DailyTable

DAILY_TABLES: tuple[DailyTable, ...] = (
    DailyTable(
        AGENT_EVENTS,
        agent_events,
        checks=(keys_are_unique,),
        group="telemetry",
        engine="duckdb",
        upstream=(AGENT_EVENTS_LANDED.name,),
        preview=("session_id", "event_time", "event_name", "tool_name", "success", "model"),
        code_version="5",
        alone=True,
    ),
    DailyTable(
        AGENT_SESSIONS,
        agent_sessions,
        checks=(
            keys_are_unique,
            every_event_is_in_a_session,
            sequences_have_no_gaps,
        ),
        group="sessions",
        engine="duckdb",
        upstream=(AGENT_EVENTS.name,),
        preview=(
            "session_key",
            "source_cli",
            "model",
            "status",
            "total_tools",
            "tools_failed",
            "cost_usd",
        ),
        code_version="7",
        alone=True,
    ),
    DailyTable(
        SESSION_OUTCOMES,
        session_outcomes,
        checks=(keys_are_unique,),
        group="sessions",
        engine="polars",
        upstream=(AGENT_EVENTS.name, AGENT_SESSIONS.name),
        preview=("session_key", "kind", "value", "happened_at", "source", "reference"),
        code_version="1",
        alone=True,
    ),
    DailyTable(
        TOOL_REPORTS,
        tool_reports,
        checks=(
            keys_are_unique,
            every_report_has_its_session,
            calls_add_up,
        ),
        group="sessions",
        engine="polars",
        upstream=(AGENT_EVENTS.name, AGENT_SESSIONS.name),
        preview=(
            "session_key",
            "effectiveness_score",
            "total_calls",
            "lost_calls",
            "failed_calls",
            "repeated_calls",
            "wasted_calls",
        ),
        code_version="4",
        alone=True,
    ),
    DailyTable(
        SESSION_PERFORMANCE,
        session_performance,
        checks=(
            keys_are_unique,
            scores_are_in_range,
            every_score_has_its_session,
        ),
        group="sessions",
        engine="polars",
        upstream=(AGENT_SESSIONS.name,),
        preview=("session_key", "composite", "recommendation", *WEIGHTS),
        code_version="3",
    ),
    DailyTable(
        JUDGE_SCORES,
        score_table.judge_scores,
        checks=score_table.CHECKS,
        group="judging",
        engine="polars",
        upstream=(AGENT_SESSIONS.name, AGENT_EVENTS.name),
        preview=(
            "session_key",
            "status",
            "total_score",
            "failure_tags",
            "judge_cost_usd",
            "error_message",
        ),
        code_version="2",
        by_shard=False,
        own_step=True,
    ),
    DailyTable(
        SCORECARDS,
        scorecards,
        checks=(
            keys_are_unique,
            cards_are_on_their_scale,
            every_card_has_its_session,
            profiles_are_sound,
            every_criterion_is_known,
        ),
        group="scorecards",
        engine="polars",
        upstream=(
            AGENT_EVENTS.name,
            AGENT_SESSIONS.name,
            SESSION_PERFORMANCE.name,
            TOOL_REPORTS.name,
            JUDGE_SCORES.name,
        ),
        preview=(
            "session_key",
            "profile_id",
            "profile_version",
            "is_best_match",
            "overall_score",
            "effective_score",
            "confidence",
            "disqualified",
        ),
        code_version="1",
    ),
    DailyTable(
        SESSION_EVALUATIONS,
        session_evaluations,
        checks=(
            keys_are_unique,
            every_score_has_its_session,
            effective_scores_have_a_source,
        ),
        group="scorecards",
        engine="polars",
        upstream=(
            AGENT_SESSIONS.name,
            SESSION_PERFORMANCE.name,
            JUDGE_SCORES.name,
            SCORECARDS.name,
        ),
        preview=(
            "session_key",
            "effective_100",
            "effective_source",
            "colour",
            "quality_risk",
            "profile_id",
            "model",
        ),
        code_version="3",
        announce=announce,
    ),
    DailyTable(
        EVALUATION_BOOKS,
        books.evaluation_books,
        checks=books.CHECKS,
        group="reporting",
        engine="polars",
        upstream=(
            AGENT_EVENTS.name,
            AGENT_SESSIONS.name,
            SESSION_PERFORMANCE.name,
            JUDGE_SCORES.name,
            SCORECARDS.name,
            SESSION_EVALUATIONS.name,
        ),
        preview=("session_key", "state", "reason", "profile_id", "effective_100"),
        code_version="3",
        by_shard=False,
        own_step=True,
    ),
)

TELEMETRY_TABLES = tuple(table for table in DAILY_TABLES if not table.own_step)
"""Tables that are rebuilt when new telemetry lands."""

AFTER_BUILD = DAILY_TABLES[DAILY_TABLES.index(TELEMETRY_TABLES[-1]) + 1 :]
"""Tables that are built after a date counts as built: their failures do not change that."""
