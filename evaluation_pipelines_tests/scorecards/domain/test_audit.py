"""The audit sample: random, and the same on every machine."""

from collections import Counter
from datetime import date, timedelta

import polars as pl

from evaluation_pipelines.scorecards.domain.audit import draw

DAY = date(2026, 11, 2)


def evaluations(count: int, scored: int | None = None) -> pl.DataFrame:
    scores = [50.0 if number < (count if scored is None else scored) else None
              for number in range(count)]  # fmt: skip
    return pl.DataFrame(
        {
            "organization_id": ["default"] * count,
            "session_key": [f"s{number}" for number in range(count)],
            "profile_id": ["p"] * count,
            "content_hash": ["0"] * count,
            "scorecard_100": pl.Series(scores, dtype=pl.Float64),
        }
    )


def test_the_sample_has_the_requested_size_or_all_sessions() -> None:
    assert draw(evaluations(20), DAY, 5).height == 5
    assert draw(evaluations(3), DAY, 5).height == 3
    assert draw(evaluations(0), DAY, 5).is_empty()
    assert draw(evaluations(20), DAY, 0).is_empty()


def test_only_sessions_with_an_automatic_score_are_drawn() -> None:
    drawn = draw(evaluations(20, scored=2), DAY, 5)

    assert sorted(drawn["session_key"]) == ["s0", "s1"]


def test_the_same_sessions_have_the_same_sample_in_any_order() -> None:
    all_of_them = evaluations(50)

    assert draw(all_of_them, DAY, 5).equals(draw(all_of_them.reverse(), DAY, 5))


def test_another_date_has_another_sample() -> None:
    samples = {
        tuple(draw(evaluations(50), DAY + timedelta(days=days), 5)["session_key"])
        for days in range(10)
    }

    assert len(samples) == 10


def test_every_session_has_the_same_chance() -> None:
    drawn: Counter[str] = Counter()
    for days in range(400):
        drawn.update(draw(evaluations(10), DAY + timedelta(days=days), 5)["session_key"])

    # Binomial with n = 400, p = 1/2: mean 200, standard deviation 10.
    assert drawn.total() == 2000
    assert all(abs(number - 200) < 40 for number in drawn.values())
