"""Variances of days and runs."""

import numpy as np
import pytest

from evaluation_pipelines.comparison.domain.score_change import (
    DaySpread,
    ExpectedScores,
    Levels,
)
from evaluation_pipelines.numerics.estimates import Codes, Numbers
from evaluation_pipelines_tests.comparison_builders import arm


def spread(errors: Numbers, days: Codes, people: Codes | None = None) -> DaySpread:
    """The spread of runs around 70, of one person unless given."""
    codes = np.zeros_like(days) if people is None else people
    runs = arm(list(70 + errors), [0] * len(days), list(codes), list(days))
    return DaySpread.of(ExpectedScores(runs, Levels(1, int(codes.max()) + 1)))


def test_variances_within_and_between_days() -> None:
    # Four days of four runs, means +2 and -2, runs 1 above and below: 16 / (16 - 3 - 1) within,
    # and (4 * 4 * 4 - 3 * 4/3) / (16 - 64/16) = 60 / 12 between them.
    errors = np.array([3.0, 1, 3, 1, -3, -1, -3, -1] * 2)
    found = spread(errors, np.repeat(np.arange(4), 4))
    assert [found.within, found.between] == pytest.approx([4 / 3, 5.0])
    assert (found.by_week, found.freedom) == (1.0, 3)


def test_weeks_that_vary_more_than_their_days_widen_the_errors() -> None:
    # A run a day: 14 / (14 - 1) each. Sums of 7 days: 7, 5, 3, 1, -1, -3, -5, -7, whose squares
    # add up to 168 where 8 * 7 * 14/13 was to be expected; the mean took half of it away.
    errors = np.repeat([1.0, -1.0], 7)
    found = spread(errors, np.arange(14))
    assert [found.within, found.between] == pytest.approx([14 / 13, 0.0])
    assert found.by_week == pytest.approx(168 / (56 * 14 / 13) * 2)


def test_scores_that_do_not_vary_have_no_spread() -> None:
    found = spread(np.zeros(30), np.arange(30))
    assert [found.within, found.between] == pytest.approx([0.0, 0.0], abs=1e-12)


def test_the_variance_of_a_mean_and_of_a_weighted_sum() -> None:
    spread = DaySpread(within=4 / 3, between=5.0, by_week=2.0, freedom=10)
    days = np.array([7, 7, 8])
    # 2 * (5 * (2² + 1²) / 3² + 4/3 / 3)
    assert spread.of_mean(days) == pytest.approx(58 / 9)
    # 2 * 5 * (0.75² + 0.25²)
    assert spread.of_days(np.array([0.75, 0.25])) == pytest.approx(6.25)


def test_people_who_come_and_go_do_not_hide_the_spread_of_days_and_weeks() -> None:
    random = np.random.default_rng(4)
    found = []
    for _ in range(150):
        days = np.repeat(np.arange(42), 4)
        people = days // 7  # one each week: levels of people take most of what weeks differ
        errors = random.normal(0, 5, 42)[days] + random.normal(0, 10, len(days))
        found.append(spread(errors, days, people))
    # On average 100 and 25, with standard errors of about 1 and 1.3.
    assert np.mean([each.within for each in found]) == pytest.approx(100, abs=4)
    assert np.mean([each.between for each in found]) == pytest.approx(25, abs=6)
    assert np.mean([each.by_week for each in found]) > 1.05
