"""Every table of the lake: grain, key, and columns with types and meanings.

This is the only source of types: writers reject a frame that does not fit, the user interface shows
the descriptions, and SQL results are cast to it. Times are UTC microseconds, durations have their
unit in the name, money is USD, unknown is null and never 0.
"""

from evaluation_pipelines.schemas.judge_score import (
    JUDGE_ANCHORS,
    JUDGE_CHANGES,
    JUDGE_SCORES,
    MISSING_TOOLS,
    SCORE_FLAGS,
)
from evaluation_pipelines.schemas.outcomes import OUTCOME_KINDS, SESSION_OUTCOMES
from evaluation_pipelines.schemas.relations import (
    AGENTS,
    ALERTS,
    EVALUATION_EVENTS,
    EXTERNAL_EVALUATIONS,
    SESSIONS,
)
from evaluation_pipelines.schemas.reports import (
    EVALUATION_BOOKS,
    LIFT_MEASURES,
    MASQUE_LIFT,
    MODEL_COMPARISON,
    MODEL_COMPARISON_PAIRS,
    MODEL_REGRESSIONS,
)
from evaluation_pipelines.schemas.reputation import (
    AGENT_EVALUATIONS,
    AGENT_SCORES,
    AGENT_WINDOWS,
    EXTERNAL_SIGNALS,
    REPUTATION_EVENTS,
    REPUTATION_SCORES,
    SIGNAL_CATEGORIES,
)
from evaluation_pipelines.schemas.scorecards import OVERRIDES, SCORECARDS, SESSION_EVALUATIONS
from evaluation_pipelines.schemas.sessions import (
    AGENT_SESSIONS,
    DEMO_JUDGE,
    MIXED,
    RANKED_PERFORMANCE,
    SESSION_PERFORMANCE,
    TOOL_REPORT_TEXTS,
    TOOL_REPORTS,
)
from evaluation_pipelines.schemas.table import (
    CONTENT_KEY,
    SESSION_KEY,
    UTC_TIME,
    Column,
    Table,
)
from evaluation_pipelines.schemas.telemetry import (
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    EVENT_NAMES,
    EVENT_TEXTS_LANDED,
    EVENTS_WITH_TEXTS,
    QUARANTINE,
    TEXT_KEY,
    TEXTS,
    TOOL_CLASSES,
)

TABLES = (
    AGENT_EVENTS_LANDED,
    EVENT_TEXTS_LANDED,
    AGENT_EVENTS,
    AGENT_SESSIONS,
    SESSION_OUTCOMES,
    SESSION_PERFORMANCE,
    JUDGE_SCORES,
    MISSING_TOOLS,
    JUDGE_CHANGES,
    JUDGE_ANCHORS,
    SCORECARDS,
    SESSION_EVALUATIONS,
    EVALUATION_BOOKS,
    OVERRIDES,
    TOOL_REPORTS,
    MASQUE_LIFT,
    MODEL_COMPARISON,
    MODEL_COMPARISON_PAIRS,
    MODEL_REGRESSIONS,
    REPUTATION_EVENTS,
    AGENT_EVALUATIONS,
    EXTERNAL_SIGNALS,
    REPUTATION_SCORES,
    AGENT_SCORES,
    AGENT_WINDOWS,
    QUARANTINE,
)

__all__ = [
    "AGENTS",
    "AGENT_EVALUATIONS",
    "AGENT_EVENTS",
    "AGENT_EVENTS_LANDED",
    "AGENT_SCORES",
    "AGENT_SESSIONS",
    "AGENT_WINDOWS",
    "ALERTS",
    "CONTENT_KEY",
    "DEMO_JUDGE",
    "EVALUATION_BOOKS",
    "EVALUATION_EVENTS",
    "EVENTS_WITH_TEXTS",
    "EVENT_NAMES",
    "EVENT_TEXTS_LANDED",
    "EXTERNAL_EVALUATIONS",
    "EXTERNAL_SIGNALS",
    "JUDGE_ANCHORS",
    "JUDGE_CHANGES",
    "JUDGE_SCORES",
    "LIFT_MEASURES",
    "MASQUE_LIFT",
    "MISSING_TOOLS",
    "MIXED",
    "MODEL_COMPARISON",
    "MODEL_COMPARISON_PAIRS",
    "MODEL_REGRESSIONS",
    "OUTCOME_KINDS",
    "OVERRIDES",
    "QUARANTINE",
    "RANKED_PERFORMANCE",
    "REPUTATION_EVENTS",
    "REPUTATION_SCORES",
    "SCORECARDS",
    "SCORE_FLAGS",
    "SESSIONS",
    "SESSION_EVALUATIONS",
    "SESSION_KEY",
    "SESSION_OUTCOMES",
    "SESSION_PERFORMANCE",
    "SIGNAL_CATEGORIES",
    "TABLES",
    "TEXTS",
    "TEXT_KEY",
    "TOOL_CLASSES",
    "TOOL_REPORTS",
    "TOOL_REPORT_TEXTS",
    "UTC_TIME",
    "Column",
    "Table",
]
