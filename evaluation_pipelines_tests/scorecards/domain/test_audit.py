"""The audit sample: random with known chances, where it is needed, the same on every machine."""

from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta

import numpy as np
import polars as pl
import pytest

from evaluation_pipelines.schemas import SESSION_EVALUATIONS
from evaluation_pipelines.scorecards.domain.audit import (
    STRATUM,
    TARGET,
    allocation,
    draw,
    reconstructed,
    systematic,
    wanted,
)
from evaluation_pipelines_tests.world.scorecards import evaluated_session, evaluated_sessions

DAY = date(2026, 11, 2)


def evaluations(
    count: int, day: date = DAY, score: float | None = 50.0, model: str | None = "a"
) -> pl.DataFrame:
    """Return sessions of a model on a date."""
    names = (f"{day} {model} {number}" for number in range(count))
    of = {"model": model, "session_date": day}
    return evaluated_sessions(evaluated_session(score, session_key=name, **of) for name in names)


def audited(**models: int) -> pl.DataFrame:
    """Return the strata of a number of audited sessions of each model."""
    rows = [("p", 1, "code", name) for name, count in models.items() for _ in range(count)]
    schema = {name: SESSION_EVALUATIONS.schema[name] for name in STRATUM}
    return pl.DataFrame(rows, schema=schema, orient="row")


def drawn(frame: pl.DataFrame, day: date = DAY, size: int = 5, **models: int) -> pl.DataFrame:
    return draw(frame, audited(**models), day, size)


def test_the_sample_has_the_requested_size_of_sessions_with_an_automatic_score() -> None:
    assert drawn(evaluations(20)).height == 5
    assert drawn(evaluations(0)).is_empty()
    assert drawn(evaluations(20), size=0).is_empty()
    assert drawn(evaluations(3))["inclusion_probability"].to_list() == [1, 1, 1]
    others = [evaluations(9, score=None, model="b"), evaluations(9, DAY - timedelta(days=1))]
    found = drawn(pl.concat([evaluations(2), *others]))
    assert sorted(found["session_key"]) == [f"{DAY} a 0", f"{DAY} a 1"]


def test_the_same_sessions_have_the_same_sample_and_another_date_another_one() -> None:
    every = pl.concat([evaluations(50), evaluations(20, model="b"), evaluations(9, model=None)])
    assert drawn(every).equals(drawn(every.reverse()))
    days = [DAY + timedelta(days=number) for number in range(10)]
    fifty = [evaluations(50).with_columns(session_date=day) for day in days]
    samples = [drawn(rows, day)["session_key"] for rows, day in zip(fifty, days, strict=True)]
    assert len({tuple(sample) for sample in samples}) == 10


def test_audits_are_wanted_where_thirty_sessions_can_be_audited() -> None:
    sizes = {"a": 40, "b": 30, "c": 29, "mixed": 90, "d": 50}
    every = pl.concat([evaluations(size, model=name) for name, size in sizes.items()])
    found = wanted(pl.concat([every, evaluations(90, model=None)]), audited(a=10, d=75), 5)

    # c cannot have thirty; sessions of several or unknown models are in no ranked row. 35 are aimed
    # at, and half as much as is lacking or in excess is made up in a window: 70 - 10 of 40.
    assert dict(found.select("model", "share").rows()) == {"d": 0, "a": 60 / 40, "b": 70 / 30}


def test_strata_close_to_the_target_come_first_where_draws_do_not_suffice_for_all() -> None:
    every = pl.concat([evaluations(40 + number, model=name) for number, name in enumerate("abcd")])

    # 2 draws a night are 56 in 28 days, enough for one stratum; d has the most sessions.
    assert wanted(every, audited(), 2)["model"].to_list() == ["d"]
    assert wanted(every, audited(b=1), 2)["model"].to_list() == ["b"]


@pytest.mark.parametrize(
    ("sessions", "shares", "size", "expected"),
    [
        # Nothing is wanted: in proportion to the sessions.
        ([30, 10], [0, 0], 4, [3, 1]),
        # A fifth of 4 draws is for all alike, 0.6 and 0.2; 10 * 0.1 - 0.2 are directed, and the
        # other 2.4 are for all alike, too.
        ([30, 10], [0, 0.1], 4, [0.6 + 1.8, 0.2 + 0.8 + 0.6]),
        # 10 * 3 and 20 * 1 less 1/3 and 2/3 are wanted, and only 4 of 5 draws are directed.
        ([10, 20], [3, 1], 5, [1 / 3 + 4 * (89 / 3) / 49, 2 / 3 + 4 * (58 / 3) / 49]),
        # 0.1 + 2.4 is more than there are: the excess goes to the other stratum.
        ([58, 2], [0, 9], 3, [1, 2]),
        ([2, 1], [30, 0], 5, [2, 1]),
    ],
)
def test_draws_are_allotted_by_need(
    sessions: Sequence[float], shares: Sequence[float], size: int, expected: Sequence[float]
) -> None:
    found = allocation(np.array(sessions, dtype=float), np.array(shares, dtype=float), size)

    assert found == pytest.approx(expected)


def test_units_are_drawn_where_their_stretches_contain_the_points() -> None:
    # The stretches end at 0.5, 1.25, 2.25, 2.5 and 3; the points are 0.4, 1.4 and 2.4.
    probabilities = np.array([0.5, 0.75, 1.0, 0.25, 0.5])
    assert systematic(probabilities, 0.4) == [True, False, True, True, False]
    # Without rounding the ends would be 0.1, 0.2, 0.30000000000000004: twice the point 0.3.
    assert systematic(np.array([0.1, 0.2, 0.7]), 0.3) == [False, False, True]
    assert sum(systematic(np.full(10, 0.1), 0.999999)) == 1


def test_every_session_is_drawn_as_often_as_its_probability_says() -> None:
    counts: Counter[str] = Counter()
    chances: dict[str, float] = {}
    every = pl.concat([evaluations(32, model="a"), evaluations(8, model="b")])
    for number in range(400):
        day = DAY + timedelta(days=number)
        found = drawn(every.with_columns(session_date=day), day, a=0)
        counts.update(found["session_key"])
        chances |= dict(found.select("session_key", "inclusion_probability").rows())

    # Wanted: 70 of 32 in a, b cannot have thirty. Expected draws: 5 * 0.2 * 32 / 40 + 4 and 0.2.
    assert counts.total() == 2000
    assert {round(chance, 9) for chance in chances.values()} == {0.15, 0.025}
    for key, number in counts.items():
        # Binomial with n = 400: standard deviations 7.1 and 3.1.
        assert abs(number - 400 * chances[key]) < (28 if " a " in key else 12)


def test_a_month_of_samples_reaches_the_target_in_as_many_strata_as_it_can() -> None:
    random = np.random.default_rng(2)
    models = {"a": 12, "b": 6, "c": 3, "d": 2}
    days = [DAY + timedelta(days=number) for number in range(56)]
    nights = [
        pl.concat(
            [
                evaluations(int(random.poisson(mean)), day, model=name)
                for name, mean in models.items()
            ]
        )
        for day in days
    ]
    samples: list[pl.DataFrame] = []
    for number, day in enumerate(days):
        since = max(number - 27, 0)
        before = pl.concat([audited(), *[sample.select(STRATUM) for sample in samples[since:]]])
        samples.append(draw(pl.concat(nights[since : number + 1]), before, day, 5))

    last = pl.concat(samples[28:])
    assert last.height == 5 * 28
    found = dict(last.group_by("model").len().rows())
    # 140 draws for four strata: a uniform sample would have had 140 * 3 / 23 = 18 of c, 12 of d.
    assert min(found.values()) >= TARGET - 2


def test_an_old_sample_has_probabilities_only_if_it_would_be_drawn_again() -> None:
    four = evaluations(4)
    by_lot = reconstructed(four, four, DAY)  # all of them, in the order of their lots
    assert by_lot["inclusion_probability"].to_list() == [1] * 4
    same = reconstructed(four, by_lot[[0, 1]], DAY)
    assert same["inclusion_probability"].to_list() == [0.5, 0.5]
    assert reconstructed(four, by_lot[[0, 2]], DAY).is_empty()
