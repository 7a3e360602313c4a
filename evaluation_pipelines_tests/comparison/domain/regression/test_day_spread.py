"""Variances of days and runs."""

import numpy as np
import pytest

from evaluation_pipelines.comparison.domain.regression.day_spread import DaySpread


def test_variances_within_and_between_days() -> None:
    # Four days of four runs, means +2 and -2, runs 1 above and below: 16 / (16 - 3 - 1) within,
    # and (4 * 4 * 4 - 3 * 4/3) / (16 - 64/16) = 60 / 12 between them.
    errors = np.array([3.0, 1, 3, 1, -3, -1, -3, -1] * 2)
    found = DaySpread.of(errors, np.repeat(np.arange(4), 4), 4, 1.0)
    assert [found.within, found.between] == pytest.approx([4 / 3, 5.0])
    assert (found.by_week, found.freedom) == (1.0, 3)


def test_weeks_that_vary_more_than_their_days_widen_the_errors() -> None:
    # A run a day: 14 / (14 - 1) each. Sums of 7 days: 7, 5, 3, 1, -1, -3, -5, -7, whose squares
    # add up to 168 where 8 * 7 * 14/13 was to be expected; the mean took half of it away.
    errors = np.repeat([1.0, -1.0], 7)
    found = DaySpread.of(errors, np.arange(14), 14, 1.0)
    assert [found.within, found.between] == pytest.approx([14 / 13, 0.0])
    assert found.by_week == pytest.approx(168 / (56 * 14 / 13) * 2)


def test_scores_that_do_not_vary_have_no_spread() -> None:
    found = DaySpread.of(np.zeros(30), np.arange(30), 30, 1.0)
    assert (found.within, found.between, found.by_week) == (0.0, 0.0, 1.0)


def test_the_variance_of_a_mean_and_of_a_weighted_sum() -> None:
    spread = DaySpread(within=4 / 3, between=5.0, by_week=2.0, freedom=10)
    days = np.array([7, 7, 8])
    # 2 * (5 * (2² + 1²) / 3² + 4/3 / 3)
    assert spread.of_mean(days) == pytest.approx(58 / 9)
    # 2 * 5 * (0.75² + 0.25²)
    assert spread.of_days(np.array([0.5, 0.25, 0.25]), days) == pytest.approx(6.25)
