"""Corrections: a failed call, and soon after it another tool that does what it was to do."""

import numpy as np
import polars as pl
from rapidfuzz import fuzz, process

from evaluation_pipelines.sessions.domain.tool_reports.parameters import cut, texts_in

WITHIN_CALLS = 3
SAME_GOAL = 60.0
"""From this ``fuzz.token_set_ratio`` on two texts are taken to have the same goal."""
SHORTEST_TEXT = 3

CORRECTIONS = pl.Schema(
    {
        "window_no": pl.Int64(),
        "call": pl.Int64(),
        "corrected_by": pl.Int64(),
        "similarity": pl.Float64(),
    }
)


def corrections(calls: pl.DataFrame) -> pl.DataFrame:
    """Failed calls that another tool made good.

    The correction is the first of the three calls after it that belongs to the same prompt,
    succeeded, is of another tool and has the same goal: some text of at least three letters in the
    parameters of one pairs with one of the other at ``fuzz.token_set_ratio`` of 60 or more.

    Args:
        calls: As ``numbered_calls`` gives them.

    Returns:
        ``CORRECTIONS``; ``similarity`` is that of the best pair, from 0.6 to 1.
    """
    pairs = _pairs(calls)
    texts = pairs.select("parameters", "other").unique(maintain_order=True)
    return (
        pairs.join(_goals(texts), on=["parameters", "other"])
        .sort("window_no", "call", "corrected_by")
        .unique(["window_no", "call"], keep="first", maintain_order=True)
        .select(CORRECTIONS.names())
    )


def _pairs(calls: pl.DataFrame) -> pl.DataFrame:
    """Failed calls, each with the calls soon after it that may be its correction."""
    known = calls.filter(pl.col("key").is_not_null())
    later = pl.col("call") + pl.int_ranges(1, WITHIN_CALLS + 1)
    failed = known.filter(outcome="failed").select(
        "window_no", "call", "prompt", "tool", "parameters", corrected_by=later
    )
    succeeded = known.filter(outcome="ok").select(
        "window_no", "prompt", corrected_by="call", other_tool="tool", other="parameters"
    )
    return (
        failed.explode("corrected_by")
        .join(succeeded, on=["window_no", "prompt", "corrected_by"])
        .filter(pl.col("tool") != pl.col("other_tool"))
        .select("window_no", "call", "parameters", "corrected_by", "other")
    )


def _goals(pairs: pl.DataFrame) -> pl.DataFrame:
    """The pairs of parameters that have the same goal, with the similarity of their best texts."""
    logged = pl.concat([pairs["parameters"], pairs["other"]]).unique(maintain_order=True)
    rows = [(each, text) for each in logged for text in _worth_comparing(each)]
    texts = pl.DataFrame(rows, {"logged": pl.String, "text": pl.String}, orient="row")
    both = pairs.join(texts, left_on="parameters", right_on="logged").join(
        texts, left_on="other", right_on="logged", suffix="_after"
    )
    scores = process.cpdist(
        both["text"].to_list(),
        both["text_after"].to_list(),
        scorer=fuzz.token_set_ratio,
        dtype=np.float64,
    )
    return (
        both.with_columns(score=pl.Series(scores, dtype=pl.Float64))
        .filter(pl.col("score") >= SAME_GOAL)
        .group_by("parameters", "other")
        .agg(similarity=pl.max("score") / 100)
    )


def _worth_comparing(logged: str) -> list[str]:
    return [cut(text) for text in texts_in(logged) if len(text) >= SHORTEST_TEXT]
