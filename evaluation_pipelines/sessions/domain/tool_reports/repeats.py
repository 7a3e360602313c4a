"""Repeated calls, calls much like each other, and calls that correct a failed one."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rapidfuzz import fuzz, process
from rapidfuzz.distance import Indel

from evaluation_pipelines.sessions.domain.tool_reports.parameters import (
    Question,
    texts_in,
    truncate,
)

SIMILAR = 0.9
"""Lowest similarity at which two free texts count as the same."""
LOOK_BACK = 200
"""Number of earlier questions that differ only in free text with which one is compared."""

_FOUND = pl.Schema(
    {"block": pl.Int64(), "key": pl.Int64(), "original": pl.Int64(), "similarity": pl.Float64()}
)


def similarity(one: Question, other: Question) -> float:
    """Return 0 if a value differs, else the similarity of the free texts; 1 without one.

    Twice the number of common words over the sum of both numbers; the lowest of several texts. It
    is 0 if each text has a word that the other has not: one word in the place of another asks for
    something else, however long the texts are.
    """
    if one.values != other.values:
        return 0.0
    return min(
        (
            float(_similarities([text], [earlier])[0])
            for text, earlier in zip(one.texts, other.texts, strict=True)
        ),
        default=1.0,
    )


def earliest_similar(
    members: pl.DataFrame, questions: Mapping[int, Question]
) -> tuple[pl.DataFrame, pl.Series]:
    """Return the earliest similar question of each, and the blocks that were compared in part.

    Args:
        members: ``block``, ``key``, ``rank``: the different questions of a block in their order.
        questions: The question of each key.

    Returns:
        ``block``, ``key``, ``original`` (the lowest rank among the similar ones before it) and
        ``similarity`` (to that one); and the blocks with more than ``LOOK_BACK`` questions to
        compare with, or a text that was cut.
    """
    asked: dict[tuple[tuple[str, Any], ...], int] = {}
    with_text = [
        (key, asked.setdefault(question.values, len(asked)), question.is_cut)
        for key, question in questions.items()
        if question.texts
    ]
    schema = {"key": pl.Int64, "asked": pl.Int64, "is_cut": pl.Boolean}
    groups = (
        members.join(pl.DataFrame(with_text, schema=schema, orient="row"), on="key")
        .sort("block", "asked", "rank")
        .group_by("block", "asked", maintain_order=True)
        .agg("key", "rank", pl.any("is_cut"))
        .filter(pl.col("key").list.len() > 1)
    )
    in_part = groups.filter((pl.col("key").list.len() > LOOK_BACK + 1) | pl.col("is_cut"))
    rows = [
        (block, keys[later], ranks[earlier], score)
        for block, keys, ranks in groups.select("block", "key", "rank").iter_rows()
        for later, earlier, score in _pairs([questions[key] for key in keys])
    ]
    return pl.DataFrame(rows, schema=_FOUND, orient="row"), in_part["block"].unique()


def _pairs(questions: list[Question]) -> list[tuple[int, int, float]]:
    """Return (later, earliest similar, similarity) of questions that differ only in free text."""
    columns = list(zip(*(question.texts for question in questions), strict=True))
    found = []
    for later in range(1, len(questions)):
        start = max(0, later - LOOK_BACK)
        scores = np.min(
            [_similarities(texts[later : later + 1], texts[start:later]) for texts in columns],
            axis=0,
        )
        if (earliest := int((scores >= SIMILAR).argmax())) or scores[0] >= SIMILAR:
            found.append((later, start + earliest, float(scores[earliest])))
    return found


def _similarities(text: Sequence[str], earlier: Sequence[str]) -> NDArray[np.float64]:
    """Return the similarity of one text to each of some earlier ones."""
    (distances,) = process.cdist(text, earlier, scorer=Indel.distance, dtype=np.int32)
    lengths = np.array([len(question) for question in earlier])
    has_all_words = distances == np.abs(lengths - len(text[0]))
    both = np.maximum(lengths + len(text[0]), 1)
    return np.where(has_all_words, 1 - distances / both, 0.0)


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
    return all(similarity(questions[key], questions[other]) >= SIMILAR for other in compared)


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
    pairs = _corrected_pairs(calls)
    texts = pairs.select("parameters", "other").unique()
    return (
        pairs.join(_goals(texts), on=["parameters", "other"])
        .sort("window_no", "call", "corrected_by")
        .unique(["window_no", "call"], keep="first", maintain_order=True)
        .select(CORRECTIONS.names())
    )


def _corrected_pairs(calls: pl.DataFrame) -> pl.DataFrame:
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
    rows = [(call, text) for call in logged for text in _compared_texts(call)]
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
