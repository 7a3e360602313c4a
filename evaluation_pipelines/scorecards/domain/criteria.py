"""Criteria of a profile: from the metrics of a session, from its judge, and disqualifiers.

The search covers replies and parameters of tool calls, which the agent wrote. It does not cover
prompts, results and files, which the agent only read. The regular expression engine takes time
linear in the text (semantics of RE2), so that no pattern and no text can stall a run.
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import polars as pl

from evaluation_pipelines.judging.domain.badge import flag_names
from evaluation_pipelines.profiles.domain.heuristics import HEURISTICS, Thresholds
from evaluation_pipelines.profiles.domain.profile import JudgeProfile
from evaluation_pipelines.schemas import CONTENT_KEY, SCORE_FLAGS, SESSION_KEY, UTC_TIME
from evaluation_pipelines.schemas.judge_score import OPEN
from evaluation_pipelines.sessions.domain.performance import WEIGHTS

MIDPOINT = 0.5
"""Score of an unknown criterion: neither reward nor penalty."""

PERFORMANCE = (*WEIGHTS, "composite")


def heuristic(name: str, limits: Thresholds) -> pl.Expr:
    """Return the criterion of a name; the midpoint for an unknown name."""
    return HEURISTICS[name].score(limits) if name in HEURISTICS else pl.lit(MIDPOINT)


def heuristic_scores(profile: JudgeProfile) -> list[pl.Expr]:
    """Return the computed criteria of a profile, 0 to 1, as their :func:`score_column`."""
    return [
        heuristic(criterion.id, profile.thresholds)
        .cast(pl.Float64)
        .alias(score_column(criterion.id))
        for criterion in profile.computed
    ]


def unknown_criteria(profile: JudgeProfile) -> list[str]:
    """Return the criteria of a profile that are not computed; they score the midpoint."""
    return [criterion.id for criterion in profile.computed if criterion.id not in HEURISTICS]


def score_column(criterion_id: str) -> str:
    """Return the column of a criterion's score; its prefix keeps it apart from session columns."""
    return f"criterion:{criterion_id}"


def evidence(
    sessions: pl.DataFrame, performance: pl.DataFrame, effectiveness: pl.DataFrame
) -> pl.DataFrame:
    """Return sessions with all metrics that the criteria read, one row each, in their order.

    Args:
        sessions: Rows of ``agent_sessions``.
        performance: Rows of ``session_performance`` of the same date.
        effectiveness: ``organization_id, session_key, effectiveness_score`` (0-100) of the sessions
            with a tool report.
    """
    scores = performance.select(
        *SESSION_KEY, *(pl.col(column).alias(f"performance.{column}") for column in PERFORMANCE)
    )
    tools = effectiveness.select(
        *SESSION_KEY, pl.col("effectiveness_score").cast(pl.Float64).alias("tool_effectiveness")
    )
    for more in (scores, tools):
        sessions = sessions.join(
            more, on=SESSION_KEY, how="left", validate="1:1", maintain_order="left"
        )
    return sessions


JUDGE_RESULTS = pl.Schema(
    {
        "organization_id": pl.String(),
        "session_key": pl.String(),
        "content_hash": pl.String(),
        "judge_profile_id": pl.String(),
        "judge_profile_version": pl.Int64(),
        "status": pl.String(),
        "total_score": pl.Float64(),
        "criteria_scores": pl.String(),
        "sample_totals": pl.String(),
        "outcome": pl.String(),
        "score_analysis": pl.String(),
        "error_message": pl.String(),
        "completed_at": UTC_TIME,
        "judge_model": pl.String(),
        **dict.fromkeys(SCORE_FLAGS, pl.Boolean()),
    }
)
"""Columns of ``judge_scores`` that are read: one row per judgment, JSON as text, totals 0-100.

The status ``flagged`` is that of a completed score that does not count."""

DEFAULT_CONFIDENCE = 0.7
MIN_SAMPLES_FOR_SPREAD = 3
"""Number of samples from which on their spread determines the confidence."""


def completed(results: pl.DataFrame) -> pl.DataFrame:
    """Return the newest completed score of each session content and profile version."""
    by = [*CONTENT_KEY, "judge_profile_id", "judge_profile_version"]
    return (
        results.filter(pl.col("status") == "completed")
        .sort([*by, "completed_at"])
        .unique(by, keep="last", maintain_order=True)
    )


def newest_totals(results: pl.DataFrame) -> pl.DataFrame:
    """Return the judge's newest total of each content.

    Returns:
        CONTENT_KEY, ``judge_total`` (0-100), ``judge_total_model`` and ``judge_total_flags``.
    """
    return (
        completed(results)
        .sort([*CONTENT_KEY, "completed_at", "judge_profile_id", "judge_profile_version"])
        .unique(CONTENT_KEY, keep="last", maintain_order=True)
        .select(
            *CONTENT_KEY,
            judge_total="total_score",
            judge_total_model="judge_model",
            judge_total_flags=flag_names(),
        )
    )


def judged_scores(profile: JudgeProfile, results: pl.DataFrame) -> pl.DataFrame:
    """Return the judged criteria of a profile version.

    Only scores by this version count. A criterion that the judge left out is null. If the judge
    named an outcome, its points are multiplied so that they add up to the total that it allows.

    Args:
        profile: One version.
        results: JUDGE_RESULTS of any profiles.

    Returns:
        CONTENT_KEY, the :func:`score_column` of each judged criterion (0 to 1),
        ``judge_confidence``, ``analysis``, ``judge_model`` and ``judge_flags``.
    """
    scores = completed(results).filter(
        pl.col("judge_profile_id") == profile.id,
        pl.col("judge_profile_version") == profile.version,
    )
    points = profile.judge_points
    columns = ("criteria_scores", "outcome", "total_score")
    given = [_allowed(*row) for row in scores.select(columns).iter_rows()]
    confidences = [confidence(_decoded(total) or []) for total in scores["sample_totals"]]
    return scores.select(
        *CONTENT_KEY,
        *(_shares(name, max_points, given) for name, max_points in points.items()),
        pl.Series("judge_confidence", confidences, pl.Float64),
        "judge_model",
        flag_names(),
        analysis="score_analysis",
    )


def confidence(sample_totals: Sequence[float]) -> float:
    """Return the confidence of a judge: 0.7, or with three or more samples by their spread.

    ``clamp(1 - spread / 50, 0.3, 0.95)``; the spread is the sample standard deviation of the
    totals, as in the conversation with the judge.
    """
    if len(sample_totals) < MIN_SAMPLES_FOR_SPREAD:
        return DEFAULT_CONFIDENCE
    return min(max(1 - statistics.stdev(sample_totals) / 50, 0.3), 0.95)


def why_not_judged(profile: JudgeProfile, results: pl.DataFrame) -> pl.DataFrame:
    """Return why a profile version has no judge score of some contents.

    Returns:
        CONTENT_KEY, ``judge_reason`` and ``under_way`` (true if the judgment is not finished).
    """
    unfinished = results.filter(
        pl.col("judge_profile_id") == profile.id,
        pl.col("judge_profile_version") == profile.version,
        pl.col("status") != "completed",
    )
    status = pl.col("status")
    is_open = status.is_in(OPEN)
    failed = pl.format("the judge failed: {}", pl.col("error_message").fill_null("no reason given"))
    return (
        unfinished.sort(*CONTENT_KEY, "completed_at", nulls_last=True)
        .unique(CONTENT_KEY, keep="last", maintain_order=True)
        .select(
            *CONTENT_KEY,
            judge_reason=pl.when(is_open)
            .then(pl.lit("judging is in progress"))
            .when(status == "flagged")
            .then("error_message")
            .otherwise(failed),
            under_way=is_open,
        )
    )


_Points: TypeAlias = dict[str, float | None]


def _allowed(given: str | None, outcome: str | None, total: float) -> _Points | None:
    """Return points by criterion, changed in proportion if an outcome limits their sum."""
    points: _Points | None = _decoded(given)
    known = sum(point or 0 for point in (points or {}).values())
    if points is None or outcome is None or not known:
        return points
    return {name: point and point * total / known for name, point in points.items()}


def _shares(name: str, max_points: int, given: Sequence[Mapping[str, Any] | None]) -> pl.Series:
    values = [None if row is None else row.get(name) for row in given]
    shares = [None if value is None else min(max(value / max_points, 0.0), 1.0) for value in values]
    return pl.Series(score_column(name), shares, pl.Float64)


def _decoded(text: str | None) -> Any:
    return None if text is None else json.loads(text)


EVENT_COLUMNS = (
    "organization_id",
    "session_id",
    "event_id",
    "event_name",
    "content",
    "tool_parameters",
)
"""Columns of events with texts that say what was written, and in which session."""

IS_WRITTEN = (pl.col("event_name") == "assistant_response") | pl.col("has_parameters")
"""Condition on events: the agent may have written some of their texts."""

_SESSION = ["organization_id", "session_id"]
_EVENT = ["organization_id", "event_id"]

TRIGGERED = pl.Schema(
    {
        "organization_id": pl.String(),
        "session_key": pl.String(),
        "disqualified": pl.Boolean(),
        "disqualifier_triggered": pl.String(),
    }
)

# Parameters are JSON text. Patterns match the text that the agent wrote, not its JSON escapes.
_ESCAPES = {
    "\\\\": "\\",
    '\\"': '"',
    "\\/": "/",
    "\\n": "\n",
    "\\r": "\r",
    "\\t": "\t",
}


def written_texts(
    events: pl.DataFrame, sessions: pl.DataFrame, window_events: pl.DataFrame
) -> pl.DataFrame:
    """Return the texts that agents wrote in each session window.

    Args:
        events: EVENT_COLUMNS.
        sessions: All windows, with ``organization_id, session_id, session_key``.
        window_events: ``organization_id, event_id, session_key`` of the events of sessions that
            have several windows.

    Returns:
        ``organization_id, session_key, text``.
    """
    replies = events.lazy().filter(event_name="assistant_response").rename({"content": "text"})
    calls = events.lazy().with_columns(text=pl.col("tool_parameters").str.replace_many(_ESCAPES))
    columns = [*_SESSION, "event_id", "text"]
    texts = pl.concat([replies.select(columns), calls.select(columns)]).drop_nulls("text")
    windows = sessions.lazy().group_by(_SESSION).agg(pl.len(), pl.first("session_key"))
    whole = windows.filter(len=1)
    found = [texts.join(whole, on=_SESSION, how="inner")]
    if not window_events.is_empty():
        of_event = window_events.lazy().select(*_EVENT, "session_key")
        found.append(texts.join(of_event, on=_EVENT).join(whole, on=_SESSION, how="anti"))
    return pl.concat([frame.select(*SESSION_KEY, "text") for frame in found]).collect()


def triggered(texts: pl.DataFrame, patterns: Sequence[str]) -> pl.DataFrame:
    """Return the first pattern, in list order, that occurs in each session: TRIGGERED.

    Sessions without texts have no row: whether they are disqualified is unknown.

    Args:
        texts: ``organization_id, session_key, text``.
        patterns: Regular expressions, validated by
            :func:`~evaluation_pipelines.profiles.domain.profile.check_pattern`.
    """
    first = pl.min_horizontal(
        pl.lit(None, pl.Int64),
        *(
            pl.when(pl.col("text").str.contains(pattern, strict=True)).then(number)
            for number, pattern in enumerate(patterns)
        ),
    )
    names = dict(enumerate(patterns))
    return (
        texts.lazy()
        .with_columns(first.alias("first"))
        .group_by(SESSION_KEY)
        .agg(pl.col("first").min())
        .select(
            *SESSION_KEY,
            disqualified=pl.col("first").is_not_null(),
            disqualifier_triggered=pl.col("first").replace_strict(
                names, default=None, return_dtype=pl.String
            ),
        )
        .cast(TRIGGERED)
        .sort(SESSION_KEY)
        .collect()
    )


def criterion_name(criterion_id: str) -> str:
    """Return the id of a criterion as words: ``performance.cost_efficiency`` is Cost efficiency."""
    return criterion_id.rpartition(".")[2].replace("_", " ").capitalize()
