"""Calls that ask the same: equal by value, with free texts that are similar word by word.

Apart from ``parameters.py``: calls are often read without being compared, and the library that
compares texts takes a while to import.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rapidfuzz import process
from rapidfuzz.distance import Indel

from evaluation_pipelines.sessions.domain.tool_reports.parameters import Question

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
        (key, asked.setdefault(each.values, len(asked)), each.is_cut)
        for key, each in questions.items()
        if each.texts
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
    columns = list(zip(*(each.texts for each in questions), strict=True))
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
    lengths = np.array([len(each) for each in earlier])
    has_all_words = distances == np.abs(lengths - len(text[0]))
    both = np.maximum(lengths + len(text[0]), 1)
    return np.where(has_all_words, 1 - distances / both, 0.0)
