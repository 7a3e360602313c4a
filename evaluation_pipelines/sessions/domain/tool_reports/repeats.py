"""Repeated calls and failing loops: the same call again although nothing has changed."""

from collections.abc import Iterator, Mapping

import polars as pl

from evaluation_pipelines.sessions.domain.tool_reports.parameters import Parameters
from evaluation_pipelines.sessions.domain.tool_reports.similar import LOOK_BACK, similar_pairs
from evaluation_pipelines.sessions.domain.tool_reports.similarity import is_similar, similarity

MIN_LOOP_CALLS = 3

_BLOCK = ["window_no", "tool", "segment"]
REPEATS = pl.Schema(
    {
        "window_no": pl.Int64(),
        "call": pl.Int64(),
        "original": pl.Int64(),
        "similarity": pl.Float64(),
    }
)
LOOPS = pl.Schema({"window_no": pl.Int64(), "first_call": pl.Int64(), "last_call": pl.Int64()})


def repeated_calls(
    calls: pl.DataFrame, parameters: Mapping[int, Parameters]
) -> tuple[pl.DataFrame, pl.Series]:
    """Return the calls that repeat an earlier one.

    A call repeats an earlier call of its tool in its window if they are at least 0.9 similar and
    no call between them changed something. A call that changes something can repeat a call before
    it and can be repeated by a call after it.

    Args:
        calls: Calls from ``numbered_calls``.
        parameters: The parameters of each key.

    Returns:
        ``REPEATS``, each with the earliest call that it repeats, and the numbers of the windows
        in which not all parameters were compared in full.
    """
    # Selected first: a filter copies all columns.
    known = calls.select(*_BLOCK, "key", "call", "segment_after").drop_nulls("key")
    later = known.select(*_BLOCK, "key", "call")
    earlier = known.select("window_no", "tool", "key", "call", segment="segment_after")
    firsts = earlier.group_by(*_BLOCK, "key").agg(original=pl.min("call"))
    members = (
        pl.concat([later, earlier.select(later.columns)])
        .group_by(*_BLOCK, "key")
        .agg(rank=pl.min("call"))
        .sort(*_BLOCK, "rank")
        .with_columns(block=pl.struct(_BLOCK).rle_id().cast(pl.Int64))
    )
    pairs, cut_short = similar_pairs(members.select("block", "key", "rank"), parameters)
    # The original of a similar pair is the first call with the earlier key in their block.
    before = members.select("block", before="key", original="rank")
    similar = (
        pairs.join(before, on=["block", "before"])
        .sort("original")
        .group_by("block", "key")
        .agg(pl.first("original"), similarity=pl.first("score"))
        .join(members.select("block", "key", *_BLOCK), on=["block", "key"])
    )
    equal = firsts.with_columns(similarity=pl.lit(1.0))
    candidates = pl.concat([equal, similar.select(equal.columns)])
    repeats = (
        later.join(candidates, on=[*_BLOCK, "key"])
        .filter(pl.col("original") < pl.col("call"))
        .sort("window_no", "call", "original")
        .unique(["window_no", "call"], keep="first", maintain_order=True)
        .select(REPEATS.names())
    )
    windows = members.filter(pl.col("block").is_in(cut_short.implode()))["window_no"].unique()
    return repeats, windows


def failing_loops(calls: pl.DataFrame, parameters: Mapping[int, Parameters]) -> pl.DataFrame:
    """Return the loops: three or more failed calls in a row, all at least 0.9 similar.

    Args:
        calls: Calls from ``numbered_calls``.
        parameters: The parameters of each key.

    Returns:
        ``LOOPS``; no call is in two of them. In a loop with more than ``LOOK_BACK`` different
        parameters a call is compared with the last ``LOOK_BACK`` of them.
    """
    fails = (pl.col("outcome") == "failed") & pl.col("key").is_not_null()
    failed_runs = (
        calls.with_columns(run=pl.struct("window_no", "tool", fails.alias("fails")).rle_id())
        .filter(fails)
        .filter(pl.len().over("run") >= MIN_LOOP_CALLS)
        .group_by("run", maintain_order=True)
        .agg(pl.first("window_no"), first=pl.min("call"), keys="key")
    )
    rows = [
        (window_no, first + start, first + end - 1)
        for _, window_no, first, keys in failed_runs.iter_rows()
        for start, end in _loops(keys, parameters)
    ]
    return pl.DataFrame(rows, schema=LOOPS, orient="row")


def _loops(keys: list[int], parameters: Mapping[int, Parameters]) -> Iterator[tuple[int, int]]:
    """Yield start and end (exclusive) of each loop in a row of failed calls of one tool."""
    start = 0
    while start <= len(keys) - MIN_LOOP_CALLS:
        members = {keys[start]: None}  # an ordered set
        end = start + 1
        while end < len(keys) and _belongs(keys[end], members, parameters):
            members[keys[end]] = None
            end += 1
        if end - start >= MIN_LOOP_CALLS:
            yield start, end
            start = end
        else:
            start += 1


def _belongs(key: int, members: Mapping[int, None], parameters: Mapping[int, Parameters]) -> bool:
    if key in members:
        return True
    compared = list(members)[-LOOK_BACK:]
    return all(is_similar(similarity(parameters[key], parameters[each])) for each in compared)
