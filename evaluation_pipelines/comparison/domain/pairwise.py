"""Compare every two models of a group."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import polars as pl

from evaluation_pipelines.comparison.domain.differences import (
    Arm,
    Difference,
    adjusted_difference,
    difference,
    shared_classes,
)
from evaluation_pipelines.comparison.domain.effects import (
    ALPHA,
    RELEVANT_POINTS,
    hedges_g,
    holm,
    runs_needed,
    superiority,
)
from evaluation_pipelines.comparison.domain.models import Row, counted, parts, spread_out, state_of
from evaluation_pipelines.comparison.domain.runs import GROUP, MODEL, arms

A_BETTER, B_BETTER, NOT_DECIDED = "A better", "B better", "not decided"

_SMALLEST = 2
"""With fewer runs there is no variance."""


def pair_rows(runs: pl.DataFrame, min_runs: int) -> list[Row]:
    """Return the rows of ``model_comparison_pairs``, without the columns of the time range.

    Models that are mixed or unknown, or have a single run, are in no pair. Holm's correction is
    over all pairs of a label in which both sides have enough runs.
    """
    found: dict[str | None, list[tuple[Row, Arm, Arm]]] = {}
    by_group: dict[tuple[Any, ...], list[tuple[tuple[Any, ...], pl.DataFrame]]] = {}
    for key, part in parts(runs):
        used = counted(part)
        if used.height >= _SMALLEST and state_of(key[len(GROUP)], used.height, 0) == "ranked":
            by_group.setdefault(key[: len(GROUP)], []).append((key[len(GROUP) :], used))
    for group, sides in by_group.items():
        for first, second in combinations(sides, 2):
            found.setdefault(group[0], []).append(_pair(group, first, second, min_runs))
    return [row for pairs in found.values() for row in _decided(pairs)]


def _pair(
    group: tuple[Any, ...],
    first: tuple[tuple[Any, ...], pl.DataFrame],
    second: tuple[tuple[Any, ...], pl.DataFrame],
    min_runs: int,
) -> tuple[Row, Arm, Arm]:
    (key_a, runs_a), (key_b, runs_b) = first, second
    a, b, kind = arms(runs_a, runs_b)
    clustered = kind is not None
    raw = difference(a, b, clustered=clustered)
    adjusted = adjusted_difference(a, b, clustered=clustered)
    classes, share = shared_classes(a, b)
    row = {
        **dict(zip(GROUP, group, strict=True)),
        **dict(zip((f"{name}_a" for name in MODEL), key_a, strict=True)),
        **dict(zip((f"{name}_b" for name in MODEL), key_b, strict=True)),
        "runs_a": len(a.scores),
        "runs_b": len(b.scores),
        "difference": raw.value,
        "difference_low": raw.low,
        "difference_high": raw.high,
        "p": raw.p,
        "adjusted_difference": adjusted.value,
        "adjusted_low": adjusted.low,
        "adjusted_high": adjusted.high,
        "adjusted_p": adjusted.p,
        "shared_classes": classes,
        "shared_runs": share,
        "hedges_g": hedges_g(a.scores, b.scores),
        **spread_out("superiority", superiority(a, b, clustered=clustered)),
        "clustered_by": kind,
        "reason": _why_not(a, b, adjusted, min_runs),
        "design_effect": _design_effect(a, b, adjusted),
    }
    return row, a, b


def _why_not(a: Arm, b: Arm, adjusted: Difference, min_runs: int) -> str | None:
    """Return why nothing can be decided, whatever the p-value."""
    if min(len(a.scores), len(b.scores)) < min_runs:
        return f"fewer than {min_runs} runs on a side"
    if adjusted.value is None:
        return "no task class that both worked on"
    if adjusted.p is None:
        return "no spread to judge the difference by"
    return None


def _design_effect(a: Arm, b: Arm, adjusted: Difference) -> float:
    """Return the design effect: variance relative to independent runs, at least 1."""
    if adjusted.error is None or min(len(a.scores), len(b.scores)) < 2:
        return 1.0
    plain = a.scores.var(ddof=1) / len(a.scores) + b.scores.var(ddof=1) / len(b.scores)
    if plain < 1e-12:
        return 1.0
    return max(adjusted.error**2 / float(plain), 1.0)


def _decided(pairs: Sequence[tuple[Row, Arm, Arm]]) -> list[Row]:
    """Return the rows with p-values corrected by Holm's method."""
    fit = [row["adjusted_p"] if row["reason"] is None else None for row, _, _ in pairs]
    tests = max(sum(each is not None for each in fit), 1)
    rows = []
    for (row, a, b), corrected in zip(pairs, holm(fit), strict=True):
        needed = runs_needed(a.scores, b.scores, row.pop("design_effect"), tests)
        verdict = NOT_DECIDED
        if corrected is not None and corrected < ALPHA:
            verdict = A_BETTER if row["adjusted_difference"] > 0 else B_BETTER
        elif row["reason"] is None:
            row["reason"] = _may_be_chance(row, needed)
        rows.append(row | {"adjusted_p_holm": corrected, "verdict": verdict, "runs_needed": needed})
    return rows


def is_small(row: Row) -> bool:
    """Return True if the interval of a pair excludes a relevant difference."""
    low, high = row["adjusted_low"], row["adjusted_high"]
    return bool(low > -RELEVANT_POINTS and high < RELEVANT_POINTS)


def are_too_few(row: Row, needed: int | None) -> bool:
    """Return True if a pair needs more runs than it has."""
    return needed is not None and needed > min(row["runs_a"], row["runs_b"])


def _may_be_chance(row: Row, needed: int | None) -> str:
    """Explain what more runs would show."""
    if is_small(row):
        return f"whatever the difference is, it is below {RELEVANT_POINTS:g} points"
    if are_too_few(row, needed):
        return f"may be chance: {needed} runs a side would settle {RELEVANT_POINTS:g} points"
    return "may be chance"
