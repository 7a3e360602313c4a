"""Figures of each model: averages with intervals, cost, score per dollar."""

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from evaluation_pipelines.comparison.domain.differences import (
    MIN_PEOPLE,
    SMALLEST_ERROR,
    Losses,
    is_at_ceiling,
    losses,
    mean_at_ceiling,
)
from evaluation_pipelines.comparison.domain.people import Arm, people_mean
from evaluation_pipelines.comparison.domain.runs import GROUP, MODEL, PEOPLE, arms_of, numbered
from evaluation_pipelines.numerics.estimates import (
    UNKNOWN,
    Codes,
    Estimate,
    Numbers,
    share,
    t_quantile,
)
from evaluation_pipelines.numerics.skewed import means_correlation, quotient, skewed_mean
from evaluation_pipelines.schemas import MIXED
from evaluation_pipelines.scorecards.domain.evaluation import PASSES_FROM

SMALLEST_COVERAGE = 0.8
"""If fewer runs have a known cost, those may not be representative."""

MOST_FREE = 0.1
"""If more of the runs with a known cost cost nothing, there is no geometric mean to compare."""

Row = dict[str, Any]

_Lost = tuple[bool, Losses | None]
"""Whether a label is at the ceiling, and its losses if none of its runs failed."""


def model_rows(runs: pl.DataFrame, min_runs: int) -> list[Row]:
    """Return one row per group and model: the columns that need no other row.

    Args:
        runs: RUNS with a score.
        min_runs: A row with fewer is ``insufficient``.
    """
    found = []
    for group, sides in groups_of(runs):
        used = [counted(part) for _, part in sides]
        lost = _label_losses(used)
        for (model, part), kept in zip(sides, used, strict=True):
            key = dict(zip((*GROUP, *MODEL), (*group, *model), strict=True))
            found.append(_counts(key, part, kept, min_runs) | _figures(key, kept, lost))
    return found


Group = tuple[Any, ...]
Side = tuple[tuple[Any, ...], pl.DataFrame]


def groups_of(runs: pl.DataFrame) -> list[tuple[Group, list[Side]]]:
    """Return the runs of each group, by model."""
    found: dict[Group, list[Side]] = {}
    for key, part in parts(runs):
        found.setdefault(key[: len(GROUP)], []).append((key[len(GROUP) :], part))
    return list(found.items())


def parts(runs: pl.DataFrame) -> list[tuple[tuple[Any, ...], pl.DataFrame]]:
    """Return the runs of each group and model, sorted by name, ``numbered`` for ``arms_of``."""
    grouped = numbered(runs).partition_by([*GROUP, *MODEL], as_dict=True, maintain_order=True)
    return sorted(grouped.items(), key=lambda item: [(name is not None, name) for name in item[0]])


def counted(part: pl.DataFrame) -> pl.DataFrame:
    """Return the runs that count in averages."""
    return part.filter(~pl.col("is_disqualified")) if part["is_disqualified"].any() else part


def state_of(model: str | None, runs: int, min_runs: int) -> str:
    """Return whether a row is ranked, or why not."""
    if model is None:
        return "unknown model"
    if model == MIXED:
        return "mixed"
    return "ranked" if runs >= min_runs else "insufficient"


def name_of(row: Mapping[str, Any], side: str = "") -> str:
    """Return a model with its provider and variant if they are known."""
    model, *details = model_of(row, side)
    if model is None:
        return "unknown"
    known = [detail for detail in details if detail not in (None, model)]
    return f"{model} ({', '.join(known)})" if known else str(model)


def model_of(row: Mapping[str, Any], side: str = "") -> tuple[Any, ...]:
    """Return the columns that name a model."""
    return tuple(row[f"{name}{side}"] for name in MODEL)


def group_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the columns that name a group."""
    return tuple(row[name] for name in GROUP)


def has_values(names: Sequence[str], row: Mapping[str, Any]) -> pl.Expr:
    """Return the runs with the same values of some columns as a row; null is a value."""
    return pl.all_horizontal(pl.col(name).eq_missing(pl.lit(row[name])) for name in names)


def has_few_people(row: Mapping[str, Any]) -> bool:
    """Return True if fewer people used the model of a row than it takes to compare it."""
    return bool(row["clustered_by"] == PEOPLE and row["clusters"] < MIN_PEOPLE)


def _counts(key: Row, part: pl.DataFrame, used: pl.DataFrame, min_runs: int) -> Row:
    """Return how many runs a row has, and what people said of them."""
    people = part["people_score"].drop_nulls()
    return {
        **key,
        "state": state_of(key["model"], used.height, min_runs),
        "runs": used.height,
        "zero_cost_runs": int(((used["cost_usd"] <= 0) & ~used["failed_at_start"]).sum()),
        "failed_at_start": int(used["failed_at_start"].sum()),
        "disqualified": part.height - used.height,
        "people_runs": len(people),
        "people_score": people.mean(),
        "avg_effective_score": used.select(pl.coalesce("people_score", "score").mean()).item(),
        "judge_models": ", ".join(part["judge_model"].drop_nulls().unique().sort()) or None,
        "flagged_runs": part["judge_flags"].count(),
        "score_sd": float(used["score"].to_numpy().std(ddof=1)) if used.height > 1 else None,
    }


_MEANS = ("avg_score", "pass_rate", "avg_tokens", "avg_duration_ms", "avg_cost_usd")


def _figures(key: Row, used: pl.DataFrame, lost: _Lost) -> Row:
    """Return the averages of a row with their intervals."""
    if not used.height:
        empty = {"clustered_by": None, "clusters": None, "cost_coverage": None}
        names = (*_MEANS, "score_per_dollar")
        return empty | {model: None for name in names for model in spread_out(name, UNKNOWN)}
    arms = arms_of([used])
    (arm,) = arms.sides
    seed = zlib.crc32(repr(sorted(key.items())).encode())
    score = _mean_score(arm, lost)
    passes = (arm.scores >= PASSES_FROM).astype(np.float64)
    tokens, times = (
        _mean_known(numbers_of(used, name), arm.people, seed)
        for name in ("total_tokens", "active_ms")
    )
    return {
        "clustered_by": arms.clustered_by,
        "clusters": len(arm.known_people),
        **spread_out("avg_score", score),
        **spread_out("pass_rate", share(passes, arm.people)),
        **spread_out("avg_tokens", tokens),
        **spread_out("avg_duration_ms", times),
        **_cost(score, arm, numbers_of(used, "cost_usd"), seed),
    }


def _label_losses(used: Sequence[pl.DataFrame]) -> _Lost:
    """Return whether a label is at the ceiling, and its losses if not one of its runs failed."""
    (every,) = arms_of([pl.concat(used)]).sides
    if not len(every) or not is_at_ceiling(every.scores):
        return False, None
    has_failures = bool((every.scores < PASSES_FROM).any())
    return True, None if has_failures else losses(every, 0.0)


def mean_score(used: pl.DataFrame) -> float:
    """Return the mean of people's mean scores over the runs of a row."""
    return people_mean(*arms_of([used]).sides).value


def _mean_score(arm: Arm, of_label: _Lost) -> Estimate:
    """Return the mean of people's mean scores."""
    at_ceiling, lost = of_label
    found = people_mean(arm)
    estimate = mean_at_ceiling(found.value, arm, lost) if at_ceiling else None
    if estimate is None and found.error >= SMALLEST_ERROR:
        half = t_quantile(found.freedom) * found.error
        estimate = Estimate(found.value, found.value - half, found.value + half)
    return Estimate(found.value) if estimate is None else estimate.within(0, 100)


def _cost(score: Estimate, arm: Arm, costs: Numbers, seed: int) -> Row:
    known = ~np.isnan(costs)
    coverage = float(known.mean())
    cost = _mean_known(costs, arm.people, seed)
    worth = UNKNOWN
    if coverage >= SMALLEST_COVERAGE:
        both = arm.scores[known], costs[known], arm.people[known]
        worth = quotient(score, cost, means_correlation(*both))
    return {
        "cost_coverage": coverage,
        **spread_out("avg_cost_usd", cost),
        **spread_out("score_per_dollar", worth),
    }


def _mean_known(values: Numbers, people: Codes, seed: int) -> Estimate:
    known = ~np.isnan(values)
    return skewed_mean(values[known], people[known], seed)


def numbers_of(frame: pl.DataFrame, name: str) -> Numbers:
    """Return a column with NaN for unknown values."""
    return frame[name].cast(pl.Float64).to_numpy()


def spread_out(name: str, estimate: Estimate) -> Row:
    """Return an estimate as three columns."""
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


def mark_frontier(rows: Sequence[Row]) -> None:
    """Set ``on_frontier`` of rows of one group: no ranked model costs less and scores more.

    None if the row is not ranked, or too few of its costs are known.
    """
    known = [arm for arm in rows if has_cost(arm)]
    for row in rows:
        row["on_frontier"] = None
        if has_cost(row):
            row["on_frontier"] = not any(_dominates(other, row) for other in known)


def known_costs(row: Row) -> int:
    """Return the number of runs of a row whose cost is known."""
    return round(float(row["cost_coverage"] or 0.0) * int(row["runs"]))


def has_cost(row: Mapping[str, Any]) -> bool:
    """Return True if a row has both cost and score."""
    covered = (row["cost_coverage"] or 0.0) >= SMALLEST_COVERAGE
    return row["state"] == "ranked" and covered and row["avg_cost_usd"] is not None


def is_free(row: Mapping[str, Any]) -> bool:
    """Return True if no run of a row with known costs costs anything."""
    return has_cost(row) and row["avg_cost_usd"] == 0


def _dominates(other: Row, row: Row) -> bool:
    score, cost = (other[name] - row[name] for name in ("avg_score", "avg_cost_usd"))
    return bool(score >= 0 and cost <= 0 and (score > 0 or cost < 0))
