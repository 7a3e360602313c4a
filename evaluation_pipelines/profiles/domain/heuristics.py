"""Computed criteria of judge profiles: what each measures, its formula and its limits.

A criterion is one entry of HEURISTICS; one with limits also has two fields of Thresholds. Every
formula is an expression over a row of ``agent_sessions`` joined with its row of
``session_performance`` (columns with the prefix ``performance.``) and ``tool_effectiveness``. Its
value is 0 to 1, or null without evidence.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Self

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, model_validator

from evaluation_pipelines.numerics.division import divided


class StrictModel(BaseModel):
    """A part of a profile: a mistyped field is an error, not ignored without notice."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Thresholds(StrictModel):
    """Limits between which a heuristic score falls linearly from best to worst.

    ``response_time`` is in active seconds per prompt, ``token_efficiency`` in output tokens per
    input token, ``tool_count`` in calls per prompt.
    """

    response_time_best_s: Annotated[float, Field(ge=0)] = 10.0
    response_time_worst_s: float = 120.0
    token_efficiency_best: Annotated[float, Field(ge=0)] = 0.5
    token_efficiency_worst: float = 5.0
    tool_count_best: Annotated[float, Field(ge=0)] = 0.0
    tool_count_worst: float = 10.0

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        for best in (name for name in type(self).model_fields if "_best" in name):
            worst = best.replace("_best", "_worst")
            if getattr(self, best) >= getattr(self, worst):
                raise ValueError(f"{best} must be below {worst}")
        return self


@dataclass(frozen=True, slots=True)
class Heuristic:
    """A computed criterion: what it measures in words, and its formula."""

    words: str
    score: Callable[[Thresholds], pl.Expr]


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


def _column(name: str, full: float) -> Callable[[Thresholds], pl.Expr]:
    """Return the formula of a metric that is ``full`` at best."""
    return lambda _limits: divided(pl.col(name), full)


_PERFORMANCE = {
    "quality": "share of tool calls that succeeded",
    "autonomy": "tool calls per prompt: how far the agent gets on its own",
    "productivity": "successful tool calls for each active minute",
    "token_efficiency": "share of all tokens that came from the cache",
    "cost_efficiency": "how little each successful tool call costs",
    "composite": "quality, autonomy, productivity, token efficiency and cost efficiency of the "
    "whole session together, from its metrics",
}
"""Dimension of SESSION_PERFORMANCE, 0 to 10 -> what it measures."""

HEURISTICS: Mapping[str, Heuristic] = {
    "response_time": Heuristic("how little active time each prompt takes", response_time),
    "token_efficiency": Heuristic(
        "output tokens per input token (fewer is better)", token_efficiency
    ),
    "tool_count": Heuristic("how few tool calls each prompt takes", tool_count),
    **{
        f"performance.{name}": Heuristic(words, _column(f"performance.{name}", 10))
        for name, words in _PERFORMANCE.items()
    },
    "tool_effectiveness": Heuristic(
        "share of tool calls that neither failed nor were wasted or repeated",
        _column("tool_effectiveness", 100),
    ),
}
"""Criteria that are computed and not judged, by id."""
