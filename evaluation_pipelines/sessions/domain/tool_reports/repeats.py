"""Repeated calls and failing loops: the same call again although nothing has changed."""

from collections.abc import Iterator, Mapping

import polars as pl

from evaluation_pipelines.sessions.domain.tool_reports.parameters import Question
from evaluation_pipelines.sessions.domain.tool_reports.similar import (
    LOOK_BACK,
    SIMILAR,
    earliest_similar,
    similarity,
)

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
    calls: pl.DataFrame, questions: Mapping[int, Question]
) -> tuple[pl.DataFrame, pl.Series]:
    """Return the calls that repeat an earlier one.

    A call repeats an earlier call of its tool in its window if both ask the same and no call
    between them changed something. A call that changes something can repeat a call before it and
    can be repeated by a call after it. A call that polls repeats nothing.

    Args:
        calls: Calls from ``numbered_calls``.
        questions: The question of each key.

    Returns:
        ``REPEATS``, each with the earliest call that it repeats, and the numbers of the windows
        in which not all parameters were compared in full.
    """
    later, earlier, windows = _blocks(calls)
    members = (
        pl.concat([later, earlier])
        .group_by("block", "key")
        .agg(rank=pl.min("call"))
        .sort("block", "rank")
    )
    similar, cut_short = earliest_similar(members, questions)
    del members
    # A similar call is before all equal ones, or it would not be the earlier of the two.
    equal = (
        earlier.join(similar, on=["block", "key"], how="anti")
        .group_by("block", "key")
        .agg(original=pl.min("call"))
        .with_columns(similarity=pl.lit(1.0))
    )
    repeats = (
        later.join(pl.concat([similar, equal]), on=["block", "key"])
        .filter(pl.col("original") < pl.col("call"))
        .join(windows, on="block")
        .select(REPEATS.names())
        .sort("window_no", "call")
    )
    return repeats, windows.filter(pl.col("block").is_in(cut_short.implode()))["window_no"].unique()


def _blocks(calls: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return ``block, key, call`` of all calls as repeats and as originals, and all blocks.

    A block has the calls of one tool between two that change something. A call that changes
    something is a repeat in one block and an original in the next one. Blocks have the columns
    ``block`` and ``window_no``.
    """
    asked = calls.lazy().filter(~pl.col("polls"))
    known = asked.select(*_BLOCK, "segment_after", "key", "call").drop_nulls("key").collect()
    after = pl.col("segment_after").alias("segment")
    blocks = (
        pl.concat([known.select(_BLOCK), known.select("window_no", "tool", after)])
        .unique()
        .with_columns(block=pl.int_range(pl.len(), dtype=pl.Int64))
    )
    later, earlier = (
        known.join(blocks, left_on=["window_no", "tool", segment], right_on=_BLOCK).select(
            "block", "key", "call"
        )
        for segment in ("segment", "segment_after")
    )
    return later, earlier, blocks.select("block", "window_no")


def failing_loops(calls: pl.DataFrame, questions: Mapping[int, Question]) -> pl.DataFrame:
    """Return the loops: three or more failed calls in a row, all asking the same.

    Args:
        calls: Calls from ``numbered_calls``.
        questions: The question of each key.

    Returns:
        ``LOOPS``; no call is in two of them. In a loop with more than ``LOOK_BACK`` different
        questions a call is compared with the last ``LOOK_BACK`` of them.
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
        for start, end in _loops(keys, questions)
    ]
    return pl.DataFrame(rows, schema=LOOPS, orient="row")


def _loops(keys: list[int], questions: Mapping[int, Question]) -> Iterator[tuple[int, int]]:
    """Yield start and end (exclusive) of each loop in a row of failed calls of one tool."""
    start = 0
    while start <= len(keys) - MIN_LOOP_CALLS:
        members = {keys[start]: None}  # an ordered set
        end = start + 1
        while end < len(keys) and _belongs(keys[end], members, questions):
            members[keys[end]] = None
            end += 1
        if end - start >= MIN_LOOP_CALLS:
            yield start, end
            start = end
        else:
            start += 1


def _belongs(key: int, members: Mapping[int, None], questions: Mapping[int, Question]) -> bool:
    if key in members:
        return True
    compared = list(members)[-LOOK_BACK:]
    return all(similarity(questions[key], questions[each]) >= SIMILAR for each in compared)
