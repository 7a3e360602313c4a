"""Earliest similar questions, by their definition on generated ones."""

from collections.abc import Sequence
from typing import Any, TypeAlias
from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation_pipelines.sessions.domain.tool_reports import repeats
from evaluation_pipelines.sessions.domain.tool_reports.parameters import Question
from evaluation_pipelines.sessions.domain.tool_reports.repeats import earliest_similar, similarity

Found: TypeAlias = dict[tuple[int, int], tuple[int, Any]]
"""(Place of the earliest similar question, similarity) of each (block, place in it)."""


def by_definition(blocks: Sequence[Sequence[Question]], look_back: int) -> Found:
    """Return the earliest similar question of each that has a free text."""
    found: Found = {}
    for number, questions in enumerate(blocks):
        for later, each in enumerate(questions):
            same = [at for at in range(later) if questions[at].values == each.values]
            for earlier in same[-look_back:]:
                if (score := similarity(each, questions[earlier])) >= 0.9:
                    found[number, later] = (earlier, pytest.approx(score))
                    break
    return found


def earliest_of(blocks: Sequence[Sequence[Question]]) -> tuple[Found, set[int]]:
    """Return the same as the program finds it, and the blocks that were compared in part."""
    places = [(number, at) for number, each in enumerate(blocks) for at in range(len(each))]
    members = pl.DataFrame(
        [(number, key, at) for key, (number, at) in enumerate(places)],
        schema={"block": pl.Int64, "key": pl.Int64, "rank": pl.Int64},
        orient="row",
    )
    questions = {key: blocks[number][at] for key, (number, at) in enumerate(places)}
    found, in_part = earliest_similar(members, questions)
    return {
        places[key]: (original, score)
        for key, original, score in found.select("key", "original", "similarity").iter_rows()
    }, set(in_part)


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """One or two texts near each other, or none, under two values."""
    text = st.text("ab", min_size=8, max_size=12)
    texts = draw(st.integers(0, 2))
    value = draw(st.sampled_from("xy"))
    return Question((("v", value), ("n", texts)), tuple(draw(text) for _ in range(texts)))


@settings(max_examples=60)
@given(
    st.lists(st.lists(questions(), max_size=12, unique_by=repr), max_size=4),
    st.sampled_from([1, 3, 500]),
)
def test_the_earliest_similar_questions_are_those_of_the_definition(
    blocks: list[list[Question]], look_back: int
) -> None:
    with patch.object(repeats, "LOOK_BACK", look_back):
        found, _ = earliest_of(blocks)

    assert found == by_definition(blocks, look_back)


def test_questions_are_compared_within_their_block_and_with_the_last_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alike = [Question((), ("abcdefghijklmnopqrstuvw"[:words],)) for words in range(19, 24)]

    def score(same: int, more: int) -> object:
        return pytest.approx(2 * same / (2 * same + more))

    of_first = {(0, at): (0, score(19, at)) for at in range(1, 5)}
    found, _ = earliest_of([alike, alike[:1], alike[:2]])
    assert found == {**of_first, (2, 1): (0, score(19, 1))}

    monkeypatch.setattr(repeats, "LOOK_BACK", 4)
    assert earliest_of([alike]) == (of_first, set())
    monkeypatch.setattr(repeats, "LOOK_BACK", 2)
    assert earliest_of([alike]) == (
        {
            (0, 1): (0, score(19, 1)),
            (0, 2): (0, score(19, 2)),
            (0, 3): (1, score(20, 2)),
            (0, 4): (2, score(21, 2)),
        },
        {0},
    )
