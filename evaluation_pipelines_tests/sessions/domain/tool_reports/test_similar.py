"""Similar pairs of long texts: the short cut past most of them leaves none out."""

from random import Random

import polars as pl
import pytest

from evaluation_pipelines.sessions.domain.tool_reports.parameters import is_similar, similarity
from evaluation_pipelines.sessions.domain.tool_reports.similar import similar_pairs
from evaluation_pipelines_tests.telemetry.collector import seeded

LETTERS = "etaoinshr dlu\n"


def edited(random: Random, text: str, share: float) -> str:
    """Return a text with a share of its characters deleted, or as many inserted, in one place."""
    size = round(share * len(text))
    place = random.choice((0, random.randrange(len(text)), max(len(text) - size, 0)))
    if random.random() < 0.5:
        return text[:place] + text[place + size :]
    return text[:place] + "".join(random.choices(LETTERS, k=size)) + text[place:]


@pytest.mark.parametrize("unrelated", [20, 300])
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
        (later, earlier): similarity(parameters[later], parameters[earlier])
        for later in keys
        for earlier in keys[:later]
        if is_similar(similarity(parameters[later], parameters[earlier]))
    }
    assert 100 < len(expected) < len(keys) * (len(keys) - 1) / 2
    assert {
        (key, before): score for key, before, score in found.select("key", "before", "score").rows()
    } == (pytest.approx(expected))
