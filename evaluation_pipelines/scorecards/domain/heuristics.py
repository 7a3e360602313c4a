"""Criteria that are computed from a session's own figures, each 0 (worst) to 1 (best).

Every formula is an expression over a row of ``agent_sessions`` beside its row of
``session_performance`` (columns with the prefix ``performance.``) and ``tool_effectiveness``.
Null where there is no evidence.
"""

from collections.abc import Callable, Mapping

import polars as pl

from evaluation_pipelines.numerics.division import divided
from evaluation_pipelines.profiles.domain.profile import HEURISTICS, JudgeProfile, Thresholds
from evaluation_pipelines.sessions.domain.performance import WEIGHTS

MIDPOINT = 0.5
"""What a criterion that nobody computes scores: neither reward nor punishment."""

PERFORMANCE = (*WEIGHTS, "composite")


def response_time(limits: Thresholds) -> pl.Expr:
    """Active seconds per prompt: 1 up to the best, 0 from the worst, linear in between.

    Like all criteria per prompt it is null for a session without any answer.
    """
    seconds = pl.col("active_s") / _prompts()
    best, worst = limits.response_time_best_s, limits.response_time_worst_s
    return _if_answered(falling(seconds, best, worst))


def token_efficiency(limits: Thresholds) -> pl.Expr:
    """Output tokens per input token, cached ones included: 1 up to the best, 0 from the worst.

    1 where no input was needed; null when tokens are unknown, or without any answer.
    """
    tokens_in = pl.col("total_tokens") - pl.col("output_tokens")
    ratio = pl.col("output_tokens") / tokens_in
    best, worst = limits.token_efficiency_best, limits.token_efficiency_worst
    score = pl.when(tokens_in > 0).then(falling(ratio, best, worst)).when(tokens_in == 0).then(1.0)
    return _if_answered(score)


def tool_count(limits: Thresholds) -> pl.Expr:
    """Tool calls per prompt, those of unknown outcome included: 1 without any, 0 from the worst.

    Null for a session without any answer.
    """
    calls = _calls() / _prompts()
    return _if_answered(falling(calls, limits.tool_count_best, limits.tool_count_worst))


def falling(value: pl.Expr, best: float, worst: float) -> pl.Expr:
    """1 up to ``best``, 0 from ``worst``, linear in between."""
    return divided(worst - value, worst - best).clip(0, 1)


_BY_THRESHOLD: Mapping[str, Callable[[Thresholds], pl.Expr]] = {
    "response_time": response_time,
    "token_efficiency": token_efficiency,
    "tool_count": tool_count,
}


def heuristic(name: str, limits: Thresholds) -> pl.Expr:
    """The criterion of a name; the midpoint for a name that nobody computes."""
    if name not in HEURISTICS:
        return pl.lit(MIDPOINT)
    if name in _BY_THRESHOLD:
        return _BY_THRESHOLD[name](limits)
    if name == "tool_effectiveness":
        return divided(pl.col(name), 100)
    return divided(pl.col(name), 10)


def heuristic_scores(profile: JudgeProfile) -> list[pl.Expr]:
    """The computed criteria of a profile, 0 to 1, each named after its criterion."""
    return [
        heuristic(each.id, profile.thresholds).cast(pl.Float64).alias(score_column(each.id))
        for each in profile.computed
    ]


def unknown_criteria(profile: JudgeProfile) -> list[str]:
    """Criteria that nobody computes: they score the midpoint, and it is said so."""
    return [each.id for each in profile.computed if each.id not in HEURISTICS]


def score_column(criterion_id: str) -> str:
    """The column that holds the score of a criterion, apart from the columns of a session."""
    return f"criterion:{criterion_id}"


def evidence(
    sessions: pl.DataFrame, performance: pl.DataFrame, effectiveness: pl.DataFrame
) -> pl.DataFrame:
    """Sessions with all figures that the criteria read, one row each, in their order.

    Args:
        sessions: rows of ``agent_sessions``.
        performance: rows of ``session_performance`` of the same date.
        effectiveness: ``organization_id, session_key, effectiveness_score`` (0-100) of the sessions
            with a tool report.
    """
    keys = ["organization_id", "session_key"]
    scores = performance.select(
        *keys, *(pl.col(each).alias(f"performance.{each}") for each in PERFORMANCE)
    )
    tools = effectiveness.select(
        *keys, pl.col("effectiveness_score").cast(pl.Float64).alias("tool_effectiveness")
    )
    return sessions.join(scores, on=keys, how="left", validate="1:1", maintain_order="left").join(
        tools, on=keys, how="left", validate="1:1", maintain_order="left"
    )


def _prompts() -> pl.Expr:
    """Prompts; work without one of its own (after a change of masque) counts as one run."""
    return pl.max_horizontal(pl.col("prompts"), 1)


def _calls() -> pl.Expr:
    return pl.col("total_tools") + pl.col("tools_unknown")


def _if_answered(value: pl.Expr) -> pl.Expr:
    """The value, if anything came back: doing nothing is not efficient."""
    nothing_came = (pl.col("api_requests") == 0) & (_calls() == 0)
    is_unanswered = (pl.col("status") == "cancelled") | (
        (pl.col("status") == "failed") & nothing_came
    )
    return pl.when(~is_unanswered).then(value)
