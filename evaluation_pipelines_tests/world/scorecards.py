"""Builders of profiles, judge results and overrides with defaults, for tests of scorecards."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

import polars as pl

from evaluation_pipelines.profiles.domain.profile import JudgeProfile
from evaluation_pipelines.profiles.domain.registry import Registered, Registry
from evaluation_pipelines.schemas import SCORECARDS, SESSION_EVALUATIONS, SESSION_PERFORMANCE
from evaluation_pipelines.scorecards.domain.criteria import JUDGE_RESULTS, evidence
from evaluation_pipelines.scorecards.domain.overrides import OVERRIDE_ROWS
from evaluation_pipelines.scorecards.store import NewOverride
from evaluation_pipelines_tests.world.rows import (
    START,
    Row,
    at,
    frame,
    row,
    session,
    sessions_frame,
)

REGISTERED_AT = datetime(2026, 11, 1, tzinfo=UTC)
"""Before every session of the builders."""

ANSWERED: Row = {
    "status": "completed",
    "api_requests": 5,
    "tools_unknown": 0,
    "classification_label": "simple",
    "agent_id": "claude-code",
    "explicit_end": True,
}


def profile(**fields: Any) -> JudgeProfile:
    """Return a heuristic profile ``p`` version 1 for all labels: response time alone, 0-100."""
    defaults: dict[str, Any] = {
        "id": "p",
        "version": 1,
        "name": "P",
        "match_labels": ["*"],
        "method": "heuristic",
        "criteria": [{"id": "response_time"}],
    }
    return JudgeProfile.model_validate(defaults | fields)


def judged_profile(**fields: Any) -> JudgeProfile:
    """Return an llm profile ``j`` version 1 with the criteria of its rubric."""
    defaults: dict[str, Any] = {
        "id": "j",
        "method": "llm",
        "rubric": "agent-methodology",
        "criteria": [],
    }
    return profile(**(defaults | fields))


def criteria(**weights: float) -> list[dict[str, Any]]:
    """Return criteria by id and weight; ``__`` in an id is a dot."""
    return [{"id": name.replace("__", "."), "weight": weight} for name, weight in weights.items()]


def registered(
    *profiles: JudgeProfile, at: datetime = REGISTERED_AT, rescore_history: bool = False
) -> list[Registered]:
    """Return profile versions registered at a time."""
    return [Registered(judge_profile, at, rescore_history) for judge_profile in profiles]


def registry(*profiles: JudgeProfile) -> Registry:
    """Return a registry of profiles that were registered before every session."""
    return Registry.of(registered(*profiles))


def answered(**columns: object) -> Row:
    """Return a session that has ended and has answers."""
    return session(**(ANSWERED | columns))


def evidence_of(
    rows: Iterable[Mapping[str, object]],
    performance: Sequence[Mapping[str, object]] = (),
    effectiveness: Mapping[str, float | None] | None = None,
) -> pl.DataFrame:
    """Return evidence of sessions with ``is_best_match``; performance rows by ``session_key``."""
    sessions = sessions_frame(rows)
    scores = [{"organization_id": "default", **told} for told in performance]
    tools = [
        {"organization_id": "default", "session_key": key, "effectiveness_score": score}
        for key, score in (effectiveness or {}).items()
    ]
    schema = {
        "organization_id": pl.String,
        "session_key": pl.String,
        "effectiveness_score": pl.Float64,
    }
    return evidence(
        sessions,
        pl.DataFrame(scores, schema=SESSION_PERFORMANCE.schema),
        pl.DataFrame(tools, schema=schema),
    ).with_columns(is_best_match=pl.lit(value=True))


def result(**columns: object) -> Row:
    """Return a completed scoring of session ``s1#baseline-1`` by ``j``: 25, 20, 15 and 10."""
    defaults: Row = {
        "organization_id": "default",
        "session_key": "s1#baseline-1",
        "content_hash": "0",
        "judge_profile_id": "j",
        "judge_profile_version": 1,
        "status": "completed",
        "total_score": 70.0,
        "criteria_scores": {
            "logical_flow": 25,
            "consistency": 20,
            "tool_relevance": 15,
            "synthesis_quality": 10,
        },
        "sample_totals": [70],
        "score_analysis": "Too hasty.",
        "completed_at": REGISTERED_AT,
    }
    told = row(JUDGE_RESULTS, defaults, columns)
    for name in ("criteria_scores", "sample_totals"):
        told[name] = None if told[name] is None else json.dumps(told[name])
    return told


def results(*rows: Mapping[str, object]) -> pl.DataFrame:
    """Return JUDGE_RESULTS."""
    return frame(JUDGE_RESULTS, rows)


def said(override_id: int, score: float, **columns: object) -> Row:
    """Return an override of session ``s1#baseline-1`` under profile ``p``, whose score was 50."""
    defaults: Row = {
        "override_id": override_id,
        "organization_id": "default",
        "session_key": "s1#baseline-1",
        "session_date": date(2026, 11, 2),
        "profile_id": "p",
        "profile_version": 1,
        "content_hash": "0",
        "override_score": score,
        "scale_min": 0.0,
        "scale_max": 100.0,
        "automatic_score": 50.0,
        "is_confirmation": False,
        "source": "person",
        "annotator": "Ada",
        "reason": "because",
        "criterion_id": None,
        "made_at": REGISTERED_AT,
    }
    return defaults | columns


def evaluated_session(score: float | None = 80.0, /, **columns: object) -> Row:
    """Return a row of SESSION_EVALUATIONS: session ``s1`` by its scorecard of ``p``."""
    source = "none" if score is None else "scorecard"
    defaults: Row = {
        "session_key": "s1#baseline-1",
        "session_id": "s1",
        "organization_id": "default",
        "agent_id": "agent",
        "model": "model-a",
        "provider": "provider-a",
        "classification_label": "code",
        "task_class": "debug",
        "started_at": at(0),
        "ended_at": at(300),
        "effective_100": score,
        "effective_source": source,
        "automatic_100": score,
        "automatic_source": source,
        "scorecard_100": score,
        "disqualified": False,
        "profile_id": "p",
        "profile_version": 1,
        "content_hash": "0",
        "session_date": START.date(),
    }
    return row(SESSION_EVALUATIONS.schema, defaults, columns)


def evaluated_sessions(rows: Iterable[Mapping[str, object]]) -> pl.DataFrame:
    """Return SESSION_EVALUATIONS."""
    return frame(SESSION_EVALUATIONS.schema, rows)


def scorecard(score: float, /, **columns: object) -> Row:
    """Return a row of SCORECARDS: ``card`` of session ``s1`` by ``p``, on a scale of 0 to 10."""
    defaults: Row = {
        "card_id": "card",
        "organization_id": "default",
        "session_key": "s1#baseline-1",
        "content_hash": "0",
        "profile_id": "p",
        "profile_version": 1,
        "is_best_match": True,
        "scale_min": 0.0,
        "scale_max": 10.0,
        "overall_score": score,
        "confidence": 0.9,
        "fallback": False,
        "disqualified": False,
        "model": "model-a",
        "provider": "provider-a",
        "classification_label": "code",
        "started_at": at(0),
        "session_date": START.date(),
    }
    return row(SCORECARDS.schema, defaults, columns)


def new_override(score: float = 20.0, /, **columns: Any) -> NewOverride:
    """Return what Ada says of session ``s1#baseline-1`` under ``p``, on a scale of 0 to 100."""
    told: dict[str, Any] = said(0, score, automatic_score=None) | columns
    of_stored = {"override_id", "made_at"}
    return NewOverride(**{name: told[name] for name in told.keys() - of_stored})


def overrides(*rows: Mapping[str, object]) -> pl.DataFrame:
    """Return OVERRIDE_ROWS."""
    return frame(OVERRIDE_ROWS, rows)
