"""Corrections: failed calls after which another tool soon reached the same goal."""

import re

import numpy as np
import polars as pl
from rapidfuzz import fuzz, process

from evaluation_pipelines.sessions.domain.tool_reports.parameters import texts_in, truncate

MAX_CALLS_LATER = 3
SAME_GOAL_RATIO = 60.0
"""Lowest ``fuzz.token_set_ratio`` at which two texts count as the same goal."""
MIN_TEXT_CHARACTERS = 3
_FOLDERS = re.compile(r"[^\s'\"]*/(?=[^\s'\"/])")

CORRECTIONS = pl.Schema(
    {
        "window_no": pl.Int64(),
        "call": pl.Int64(),
        "corrected_by": pl.Int64(),
        "similarity": pl.Float64(),
    }
)


def corrections(calls: pl.DataFrame) -> pl.DataFrame:
    """Return the failed calls that another tool corrected.

    The correction is the first of the next three calls that belongs to the same prompt, succeeded,
    uses another tool and has the same goal: a text of at least three characters in the parameters
    of one call and a text of the other have a ``fuzz.token_set_ratio`` of 60 or more. The folders
    of paths are not compared: other files of one folder are no common goal.

    Args:
        calls: Calls from ``numbered_calls``.

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
    """Return the failed calls with the calls soon after them that may be their correction."""
    # Selected first: a filter copies all columns.
    columns = ("window_no", "call", "prompt", "tool", "parameters", "outcome", "key")
    known = calls.select(columns).drop_nulls("key")
    later = pl.col("call") + pl.int_ranges(1, MAX_CALLS_LATER + 1)
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
    """Return the pairs of parameters with the same goal and the similarity of their best texts."""
    logged = pl.concat([pairs["parameters"], pairs["other"]]).unique(maintain_order=True)
    rows = [(each, text) for each in logged for text in _compared_texts(each)]
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
        .filter(pl.col("score") >= SAME_GOAL_RATIO)
        .group_by("parameters", "other")
        .agg(similarity=pl.max("score") / 100)
    )


def _compared_texts(logged: str) -> list[str]:
    texts = (_FOLDERS.sub("", text) for text in texts_in(logged))
    return [truncate(text) for text in texts if len(text) >= MIN_TEXT_CHARACTERS]
