"""Earliest similar sets by hand, and by their definition on generated sets and long texts."""

from random import Random
from typing import Any, TypeAlias
from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation_pipelines.sessions.domain.tool_reports import similar
from evaluation_pipelines.sessions.domain.tool_reports.parameters import (
    Parameters,
    is_similar,
    similarity,
)
from evaluation_pipelines.sessions.domain.tool_reports.similar import earliest_similar
from evaluation_pipelines_tests.telemetry.collector import seeded

LETTERS = "etaoinshr dlu\n"

Found: TypeAlias = dict[tuple[int, int], tuple[int, Any]]
"""(block, place in it) of a set -> place of the earliest similar set in the block, similarity."""


def edited(random: Random, text: str, share: float) -> str:
    """Return a text with a share of its characters deleted, or as many inserted, in one place."""
    size = round(share * len(text))
    place = random.choice((0, random.randrange(len(text)), max(len(text) - size, 0)))
    if random.random() < 0.5:
        return text[:place] + text[place + size :]
    return text[:place] + "".join(random.choices(LETTERS, k=size)) + text[place:]


def by_definition(blocks: list[list[Parameters]], look_back: int) -> Found:
    """Return the earliest similar sets, one comparison after the other."""
    found: Found = {}
    for number, sets in enumerate(blocks):
        for later, each in enumerate(sets):
            same = [at for at in range(later) if sets[at].keys() == each.keys()]
            wide = [at for at in range(later) if len(sets[at]) >= 9] if len(each) >= 9 else []
            for earlier in sorted({*same[-look_back:], *wide[-look_back:]}):
                if is_similar(score := similarity(each, sets[earlier])):
                    found[number, later] = (earlier, pytest.approx(score))
                    break
    return found


def earliest_of(blocks: list[list[Parameters]]) -> tuple[Found, set[int]]:
    """Return the same as the program finds it, and the blocks that were compared in part."""
    places = [(number, at) for number, sets in enumerate(blocks) for at in range(len(sets))]
    members = pl.DataFrame(
        [(number, key, at) for key, (number, at) in enumerate(places)],
        schema={"block": pl.Int64, "key": pl.Int64, "rank": pl.Int64},
        orient="row",
    )
    parameters = {key: blocks[number][at] for key, (number, at) in enumerate(places)}
    found, in_part = earliest_similar(members, parameters)
    return {
        places[key]: (original, score)
        for key, original, score in found.select("key", "original", "similarity").iter_rows()
    }, set(in_part)


# With 130, the matrix has a stripe without any similar set between two with many.
@pytest.mark.parametrize("unrelated", [20, 130, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("length", [700, 1_000, 3_000])
@pytest.mark.parametrize("others", [{}, {"path": (True, "src/cart.py"), "limit": (False, "20")}])
def test_the_earliest_similar_long_texts_are_those_of_the_definition(
    length: int, unrelated: int, others: dict[str, tuple[bool, str]]
) -> None:
    random = seeded(length)
    base = "".join(random.choices(LETTERS, k=length))
    # Around the limit of 0.9, which a fifth inserted or deleted is at, and far below it: the first
    # ones are similar to few.
    texts = [edited(random, base, each / 100) for each in range(40, 0, -1)]
    texts += ["".join(random.choices(LETTERS, k=length)) for _ in range(unrelated)]
    texts += [edited(random, base, each / 100) for each in range(40)]
    sets: list[Parameters] = [{"command": (True, text)} | others for text in texts]
    expected = by_definition([sets], look_back=len(sets))

    assert len({earliest for earliest, _ in expected.values()}) > 3
    assert len(expected) > 40
    assert earliest_of([sets])[0] == expected


@st.composite
def parameter_sets(draw: st.DrawFn) -> Parameters:
    """Texts near each other and numbers under few names, or under nine and ten."""
    text = st.text("ab", min_size=8, max_size=12)
    value = st.one_of(text.map(lambda each: (True, each)), st.just((False, "1")))
    names = draw(st.sampled_from(["p", "q", "pq", "nine", "ten"]))
    if names in ("nine", "ten"):
        nine = dict.fromkeys("abcdefghi", (False, "1"))
        return nine | ({"j": draw(value)} if names == "ten" else {"a": draw(value)})
    return {name: draw(value) for name in names}


@settings(max_examples=60)
@given(
    st.lists(st.lists(parameter_sets(), max_size=12, unique_by=repr), max_size=4),
    st.sampled_from([0, 3, 64]),
    st.sampled_from([1, 3, 500]),
)
def test_the_earliest_similar_sets_are_those_of_the_definition(
    blocks: list[list[Parameters]], large_block: int, look_back: int
) -> None:
    with (
        patch.object(similar, "_LARGE_BLOCK", large_block),
        patch.object(similar, "_STRIPE", 2),
        patch.object(similar, "LOOK_BACK", look_back),
    ):
        found, _ = earliest_of(blocks)

    assert found == by_definition(blocks, look_back)


@pytest.fixture(params=["one by one", "as a matrix"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Compare small blocks in the way of small or of large ones."""
    if request.param == "as a matrix":
        monkeypatch.setattr(similar, "_LARGE_BLOCK", 0)
        monkeypatch.setattr(similar, "_STRIPE", 2)
    return str(request.param)


def values(**given: Any) -> Parameters:
    """Return a parameter set of texts and numbers."""
    return {
        name: (True, each) if isinstance(each, str) else (False, str(each))
        for name, each in given.items()
    }


@pytest.mark.parametrize(
    ("one", "other", "score"),
    [
        # 2 * 9 / 20 and 2 * 8 / 20 of a text alone
        (values(a="abcdefghij"), values(a="abcdefghix"), 0.9),
        (values(a="abcdefghij"), values(a="abcdefghxy"), None),
        # With an equal value: (0.8 + 1) / 2 and (0.7 + 1) / 2; with two: (0.7 + 1 + 1) / 3
        (values(a="abcdefghij", b=1), values(a="abcdefghxy", b=1), 0.9),
        (values(a="abcdefghij", b="x"), values(a="abcdefghxy", b="x"), 0.9),
        (values(a="abcdefghij", b=1), values(a="abcdefgxyz", b=1), None),
        (values(a="abcdefghij", b=1, c="x"), values(a="abcdefgxyz", b=1, c="x"), 0.9),
        # 2 * 9 / (9 + 10) = 0.947, and 2 * 9 / (9 + 11) = 0.9 in the other order of lengths
        (values(a="abcdefghi"), values(a="abcdefghij"), 18 / 19),
        (values(a="abcdefghijk"), values(a="abcdefghi"), 0.9),
        (values(a="abcdefghijkl"), values(a="abcdefghi"), None),
        # Values that are no texts are equal or not, and a text is never equal to a number.
        (values(a=1000000001), values(a=1000000000), None),
        (values(a=1), values(a="1"), None),
        # Empty texts are equal; a text and an empty one are 0: (0 + 1) / 2.
        (values(a="", b="x"), values(a="", b="x "), None),  # (1 + 2 * 1 / 3) / 2 = 0.83
        (values(a="", b="abcdefghij"), values(a="", b="abcdefghix"), 0.95),  # (1 + 0.9) / 2
        (values(a="", b="abcdefghij"), values(a="x", b="abcdefghij"), None),
    ],
)
@pytest.mark.usefixtures("way")
def test_a_pair_is_similar_from_nine_tenths_on(
    one: Parameters, other: Parameters, score: float | None
) -> None:
    expected = {} if score is None else {(0, 1): (0, pytest.approx(score))}

    assert earliest_of([[one, other]]) == (expected, set())


@pytest.mark.usefixtures("way")
def test_one_of_ten_values_may_differ() -> None:
    ten = {f"n{number}": number for number in range(10)}
    sets = [values(**ten), values(**ten | {"n0": 99}), values(**ten | {"n0": 98, "n1": 99})]

    # 9 / 10; the third differs from each in two.
    assert earliest_of([sets])[0] == {(0, 1): (0, pytest.approx(0.9))}


@pytest.mark.usefixtures("way")
def test_sets_are_compared_within_their_block_and_with_the_last_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alike = [values(a=f"abcdefghijklmnopqrs{last}") for last in "tuvwx"]

    # 2 * 19 / 40 = 0.95 for each two of a block.
    score = pytest.approx(0.95)
    of_first = {(0, at): (0, score) for at in range(1, 5)}
    assert earliest_of([alike, alike[:1], alike[:2]])[0] == {**of_first, (2, 1): (0, score)}

    monkeypatch.setattr(similar, "LOOK_BACK", 4)
    assert earliest_of([alike]) == (of_first, set())
    monkeypatch.setattr(similar, "LOOK_BACK", 2)
    assert earliest_of([alike]) == (
        {(0, at): (max(0, at - 2), score) for at in range(1, 5)},
        {0},
    )
