"""Similar pairs by hand, and of long texts: the short cut past most of them leaves none out."""

from random import Random
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.sessions.domain.tool_reports import similar
from evaluation_pipelines.sessions.domain.tool_reports.parameters import Parameters
from evaluation_pipelines.sessions.domain.tool_reports.similar import similar_pairs
from evaluation_pipelines.sessions.domain.tool_reports.similarity import is_similar, similarity
from evaluation_pipelines_tests.telemetry.collector import seeded

LETTERS = "etaoinshr dlu\n"


def edited(random: Random, text: str, share: float) -> str:
    """Return a text with a share of its characters deleted, or as many inserted, in one place."""
    size = round(share * len(text))
    place = random.choice((0, random.randrange(len(text)), max(len(text) - size, 0)))
    if random.random() < 0.5:
        return text[:place] + text[place + size :]
    return text[:place] + "".join(random.choices(LETTERS, k=size)) + text[place:]


# With 130, the matrix has a stripe without any similar pair between two with many.
@pytest.mark.parametrize("unrelated", [20, 130, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("length", [700, 1_000, 3_000])
@pytest.mark.parametrize("others", [{}, {"path": (True, "src/cart.py"), "limit": (False, "20")}])
def test_the_similar_pairs_are_those_of_the_definition(
    length: int, unrelated: int, others: dict[str, tuple[bool, str]]
) -> None:
    random = seeded(length)
    base = "".join(random.choices(LETTERS, k=length))
    # Around the limit of 0.9, which a fifth inserted or deleted is at, and far below it.
    texts = [edited(random, base, each / 100) for each in range(40)]
    texts += ["".join(random.choices(LETTERS, k=length)) for _ in range(unrelated)]
    texts += [edited(random, base, each / 100) for each in range(40)]
    parameters = {key: {"command": (True, text)} | others for key, text in enumerate(texts)}
    keys = list(parameters)
    members = pl.DataFrame({"block": [0] * len(keys), "key": keys, "rank": keys})
    found, _ = similar_pairs(members, parameters)

    expected = {
        (later, earlier): score
        for later in keys
        for earlier in keys[:later]
        if is_similar(score := similarity(parameters[later], parameters[earlier]))
    }
    assert 100 < len(expected) < len(keys) * (len(keys) - 1) / 2
    assert {
        (key, before): score for key, before, score in found.select("key", "before", "score").rows()
    } == (pytest.approx(expected))


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


def pairs_of(*blocks: list[Parameters]) -> list[Any]:
    """Return (block, key, before, score) of each pair; keys are numbered through all blocks."""
    sets = [(block, each) for block, found in enumerate(blocks) for each in found]
    members = pl.DataFrame(
        [(block, key, key) for key, (block, _) in enumerate(sets)],
        schema={"block": pl.Int64, "key": pl.Int64, "rank": pl.Int64},
        orient="row",
    )
    found, in_part = similar_pairs(members, {key: each for key, (_, each) in enumerate(sets)})
    assert in_part.is_empty()
    return sorted(found.select("block", "key", "before", "score").rows())


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
    expected = [] if score is None else [(0, 1, 0, pytest.approx(score))]

    assert pairs_of([one, other]) == expected


@pytest.mark.usefixtures("way")
def test_one_of_ten_values_may_differ() -> None:
    ten = {f"n{number}": number for number in range(10)}
    sets = [values(**ten), values(**ten | {"n0": 99}), values(**ten | {"n0": 98, "n1": 99})]

    # 9 / 10; the third differs from each in two.
    assert pairs_of(sets) == [(0, 1, 0, pytest.approx(0.9))]


@pytest.mark.usefixtures("way")
def test_sets_are_compared_within_their_block_and_with_the_last_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alike = [values(a=f"abcdefghijklmnopqrs{last}") for last in "tuvwx"]

    # 2 * 19 / 40 = 0.95 for each two of a block: 4 + 3 + 2 + 1 pairs, and one.
    score = pytest.approx(0.95)
    every = [(0, key, before, score) for key in range(5) for before in range(key)]
    assert pairs_of(alike, [alike[0]], alike[:2]) == [*every, (2, 7, 6, score)]

    monkeypatch.setattr(similar, "LOOK_BACK", 4)
    assert pairs_of(alike) == every
    monkeypatch.setattr(similar, "LOOK_BACK", 2)
    members = pl.DataFrame({"block": [0] * 5, "key": range(5), "rank": range(5)})
    found, in_part = similar_pairs(members, dict(enumerate(alike)))
    assert sorted(found.select("key", "before").rows()) == [
        (key, before) for _, key, before, _ in every if key - before <= 2
    ]
    assert in_part.to_list() == [0]
