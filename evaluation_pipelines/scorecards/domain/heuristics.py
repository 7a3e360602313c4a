"""Criteria computed from the metrics of a session, each 0 (worst) to 1 (best).

Every formula is an expression over a row of ``agent_sessions`` joined with its row of
``session_performance`` (columns with the prefix ``performance.``) and ``tool_effectiveness``.
The result is null without evidence.
"""

from collections.abc import Callable, Mapping

import polars as pl

from evaluation_pipelines.numerics.division import divided
from evaluation_pipelines.profiles.domain.profile import HEURISTICS, JudgeProfile, Thresholds
from evaluation_pipelines.schemas import SESSION_KEY
from evaluation_pipelines.sessions.domain.performance import WEIGHTS

MIDPOINT = 0.5
"""Score of an unknown criterion: neither reward nor penalty."""

PERFORMANCE = (*WEIGHTS, "composite")


def response_time(limits: Thresholds) -> pl.Expr:
    """Score active seconds per prompt: 1 up to the best, 0 from the worst, linear in between.

    Like all criteria per prompt it is null for a session without any answer, or if the number of
    prompts is unknown.
    """
    seconds = pl.col("active_s") / _prompts()
    best, worst = limits.response_time_best_s, limits.response_time_worst_s
    return _if_answered(falling(seconds, best, worst))


def token_efficiency(limits: Thresholds) -> pl.Expr:
    """Score output tokens per input token: 1 up to the best, 0 from the worst, linear in between.

    Input includes cached tokens. 1 if no input was needed; null if tokens are unknown or the
    session has no answer.
    """
    tokens_in = pl.col("total_tokens") - pl.col("output_tokens")
    ratio = pl.col("output_tokens") / tokens_in
    best, worst = limits.token_efficiency_best, limits.token_efficiency_worst
    score = pl.when(tokens_in > 0).then(falling(ratio, best, worst)).when(tokens_in == 0).then(1.0)
    return _if_answered(score)


def tool_count(limits: Thresholds) -> pl.Expr:
    """Score tool calls per prompt (unknown outcomes included): 1 up to the best, 0 from the worst.

    Null for a session without any answer.
    """
    calls = _calls() / _prompts()
    return _if_answered(falling(calls, limits.tool_count_best, limits.tool_count_worst))


def falling(value: pl.Expr, best: float, worst: float) -> pl.Expr:
    """Return 1 up to ``best``, 0 from ``worst``, linear in between."""
    return divided(worst - value, worst - best).clip(0, 1)


_BY_THRESHOLD: Mapping[str, Callable[[Thresholds], pl.Expr]] = {
    "response_time": response_time,
    "token_efficiency": token_efficiency,
    "tool_count": tool_count,
}


def heuristic(name: str, limits: Thresholds) -> pl.Expr:
    """Return the criterion of a name; the midpoint for an unknown name."""
    if name not in HEURISTICS:
        return pl.lit(MIDPOINT)
    if name in _BY_THRESHOLD:
        return _BY_THRESHOLD[name](limits)
    if name == "tool_effectiveness":
        return divided(pl.col(name), 100)
    return divided(pl.col(name), 10)


def heuristic_scores(profile: JudgeProfile) -> list[pl.Expr]:
    """Return the computed criteria of a profile, 0 to 1, as their :func:`score_column`."""
    return [
        heuristic(each.id, profile.thresholds).cast(pl.Float64).alias(score_column(each.id))
        for each in profile.computed
    ]


def unknown_criteria(profile: JudgeProfile) -> list[str]:
    """Return the criteria of a profile that are not computed; they score the midpoint."""
    return [each.id for each in profile.computed if each.id not in HEURISTICS]


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
        *SESSION_KEY, *(pl.col(each).alias(f"performance.{each}") for each in PERFORMANCE)
    )
    tools = effectiveness.select(
        *SESSION_KEY, pl.col("effectiveness_score").cast(pl.Float64).alias("tool_effectiveness")
    )
    for more in (scores, tools):
        sessions = sessions.join(
            more, on=SESSION_KEY, how="left", validate="1:1", maintain_order="left"
        )
    return sessions


def _prompts() -> pl.Expr:
    """Return the number of prompts, at least 1: after a change of masque a window may have none.

    Null if it is unknown.
    """
    return pl.col("prompts").clip(lower_bound=1)


def _calls() -> pl.Expr:
    return pl.col("total_tools") + pl.col("tools_unknown")


def _if_answered(value: pl.Expr) -> pl.Expr:
    """Return the value, or null without an answer: a session that does nothing is not efficient."""
    has_no_work = (pl.col("api_requests") == 0) & (_calls() == 0)
    is_unanswered = (pl.col("status") == "cancelled") | (
        (pl.col("status") == "failed") & has_no_work
    )
    return pl.when(~is_unanswered).then(value)
