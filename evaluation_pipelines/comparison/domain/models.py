"""Figures of each model: averages with intervals, cost, score per dollar."""

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from evaluation_pipelines.comparison.domain.runs import GROUP, MIXED, MODEL, clusters_of
from evaluation_pipelines.numerics.estimates import (
    UNKNOWN,
    Codes,
    Estimate,
    Numbers,
    mean,
    ratio,
    share,
)
from evaluation_pipelines.scorecards.domain.evaluation import PASSES_FROM

SMALLEST_COVERAGE = 0.8
"""If fewer runs have a known cost, those may not be representative."""

Row = dict[str, Any]


def model_rows(runs: pl.DataFrame, min_runs: int) -> list[Row]:
    """Return one row per group and model: the columns that need no other row.

    Args:
        runs: RUNS with a score.
        min_runs: A row with fewer is ``insufficient``.
    """
    return [
        _row(dict(zip((*GROUP, *MODEL), key, strict=True)), part, min_runs)
        for key, part in parts(runs)
    ]


def parts(runs: pl.DataFrame) -> list[tuple[tuple[Any, ...], pl.DataFrame]]:
    """Return the runs of each group and model, sorted by name."""
    grouped = runs.partition_by([*GROUP, *MODEL], as_dict=True, maintain_order=True)
    return sorted(grouped.items(), key=lambda each: tuple(map(_sortable, each[0])))


def counted(part: pl.DataFrame) -> pl.DataFrame:
    """Return the runs that count in averages."""
    return part.filter(~pl.col("is_disqualified"))


def state_of(model: str | None, runs: int, min_runs: int) -> str:
    """Return whether a row is ranked, or why not."""
    if model is None:
        return "unknown model"
    if model == MIXED:
        return "mixed"
    return "ranked" if runs >= min_runs else "insufficient"


def _row(key: Row, part: pl.DataFrame, min_runs: int) -> Row:
    used = counted(part)
    clusters = clusters_of([used])
    codes = clusters.codes[0] if clusters.is_used else None
    seed = zlib.crc32(repr(sorted(key.items())).encode())
    scores = used["score"].to_numpy()
    return {
        **key,
        "state": state_of(key["model"], used.height, min_runs),
        "runs": used.height,
        "disqualified": part.height - used.height,
        **_people(part["people_score"].drop_nulls()),
        "score_sd": float(scores.std(ddof=1)) if used.height > 1 else None,
        "clustered_by": clusters.kind,
        "clusters": used[clusters.kind].n_unique() if clusters.kind else None,
        **spread_out("avg_score", mean(scores, codes).within(0, 100)),
        **spread_out("pass_rate", share((scores >= PASSES_FROM).astype(np.float64), codes)),
        **spread_out("avg_tokens", _mean_known(_numbers(used, "total_tokens"), codes)),
        **spread_out("avg_duration_ms", _mean_known(_numbers(used, "active_ms"), codes)),
        **_cost(scores, _numbers(used, "cost_usd"), codes, seed),
    }


def _people(scores: pl.Series) -> Row:
    """Return how many runs people scored, and the mean of what they said."""
    return {"people_runs": len(scores), "people_score": scores.mean()}


def _cost(scores: Numbers, costs: Numbers, codes: Codes | None, seed: int) -> Row:
    coverage = float((~np.isnan(costs)).mean()) if len(costs) else None
    is_covered = coverage is not None and coverage >= SMALLEST_COVERAGE
    worth = ratio(scores, costs, codes, seed) if is_covered else UNKNOWN
    return {
        "cost_coverage": coverage,
        **spread_out("avg_cost_usd", _mean_known(costs, codes)),
        **spread_out("score_per_dollar", worth),
    }


def _mean_known(values: Numbers, codes: Codes | None) -> Estimate:
    known = ~np.isnan(values)
    if codes is None:
        return mean(values[known]).within(0)
    _, left = np.unique(codes[known], return_inverse=True)
    return mean(values[known], left.astype(np.int64)).within(0)


def _numbers(frame: pl.DataFrame, name: str) -> Numbers:
    """Return a column with NaN for unknown values."""
    return frame[name].cast(pl.Float64).fill_null(float("nan")).to_numpy()


def spread_out(name: str, estimate: Estimate) -> Row:
    """Return an estimate as three columns."""
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


def mark_frontier(rows: Sequence[Row]) -> None:
    """Set ``on_frontier`` of rows of one group: no ranked model costs less and scores more.

    None if the row is not ranked, or too few of its costs are known.
    """
    known = [each for each in rows if has_cost(each)]
    for row in rows:
        row["on_frontier"] = None
        if has_cost(row):
            row["on_frontier"] = not any(_dominates(other, row) for other in known)


def has_cost(row: Mapping[str, Any]) -> bool:
    """Return True if a row has both cost and score."""
    covered = (row["cost_coverage"] or 0.0) >= SMALLEST_COVERAGE
    return row["state"] == "ranked" and covered and row["avg_cost_usd"] is not None


def _dominates(other: Row, row: Row) -> bool:
    no_worse = (
        other["avg_score"] >= row["avg_score"] and other["avg_cost_usd"] <= row["avg_cost_usd"]
    )
    better = other["avg_score"] > row["avg_score"] or other["avg_cost_usd"] < row["avg_cost_usd"]
    return bool(no_worse and better)


def _sortable(value: object) -> tuple[bool, Any]:
    return value is not None, value
