"""Shares of runs whose people differ, by hand and compared with scipy."""

import numpy as np
import pytest
import scipy.stats

from evaluation_pipelines.numerics.estimates import UNKNOWN, Estimate
from evaluation_pipelines.numerics.shares import (
    SMALLEST_CORRELATION,
    Share,
    correlation,
    effective_number,
    share,
    share_of,
)


def test_the_interval_of_independent_runs_is_wilsons() -> None:
    # A million degrees of freedom: Student's t is the normal quantile.
    found = Share(0.85, 20, 1e6).ends()
    wilson = scipy.stats.binomtest(17, 20).proportion_ci(method="wilson")
    assert found == pytest.approx((wilson.low, wilson.high), abs=1e-5)


def test_fewer_effective_runs_and_degrees_make_it_wider() -> None:
    # z = t(4) = 2.77645, n = 10, p = 0.5: z²/n = 0.770867; middle 0.5;
    # half = 2.77645 / 1.770867 * sqrt(0.025 + (0.277645)² / 4) / 1 = 1.567847 * 0.210346 = 0.32979
    assert Share(0.5, 10, 4).ends() == pytest.approx((0.17021, 0.82979), abs=1e-4)


def test_a_share_of_none_or_all_contains_itself() -> None:
    assert Share(1.0, 30, 9).ends()[1] == 1
    assert Share(0.0, 30, 9).ends()[0] == 0


def test_runs_that_are_alike_count_for_fewer() -> None:
    # Kish: 4 people with 10 runs each and a correlation of 0.1: 40 / (1 + 9 * 0.1) = 21.05.
    sizes = np.array([10, 10, 10, 10])
    assert effective_number(np.full(4, 0.25), sizes, 0.1) == pytest.approx(40 / 1.9)
    assert effective_number(np.full(4, 0.25), sizes, 1.0) == pytest.approx(4)


def test_the_correlation_by_hand() -> None:
    # Two people with 4 runs each, shares 1 and 0.5: overall 0.75.
    # MSB = 4 * 0.0625 * 2 / 1 = 0.5; MSW = 4 * 0.25 / 6 = 0.16667; n0 = 8 - 32/8 = 4.
    # (0.5 - 0.16667) / (0.5 + 3 * 0.16667) = 0.33333
    assert correlation(np.array([1.0, 0.5]), np.array([4, 4])) == pytest.approx(1 / 3)
    assert correlation(np.array([1.0, 0.0]), np.array([4, 4])) == 1
    # Without a spread, or with one run each, nothing is known of it.
    assert correlation(np.array([1.0, 1.0]), np.array([4, 4])) == SMALLEST_CORRELATION
    assert correlation(np.array([1.0, 0.0]), np.array([1, 1])) == SMALLEST_CORRELATION


def test_all_of_57_is_no_wider_than_all_but_one() -> None:
    people = np.arange(57) % 11
    every = np.ones(57)
    for failed in range(57):
        one_less = every.copy()
        one_less[failed] = 0
        low, low_of_all = share(one_less, people).low, share(every, people).low
        assert low is not None
        assert low_of_all is not None
        assert low < low_of_all
    # 57 / (1 + (m - 1) * 0.05) with m = (2 * 6² + 9 * 5²) / 57 = 5.21: 47.1 runs; with t of
    # about 50 degrees, 2.0: 47.1 / (47.1 + 4.0) = 0.92.
    assert low_of_all == pytest.approx(0.92, abs=0.005)


def test_a_share_of_one_person_has_no_interval_and_of_no_run_no_value() -> None:
    assert share(np.array([1.0, 0, 1, 1]), np.zeros(4, dtype=np.int64)) == Estimate(0.75)
    assert share(np.array([]), np.array([], dtype=np.int64)) == UNKNOWN


def test_people_weigh_alike_where_asked() -> None:
    # One person has 1 of 1, the other 0 of 3: 0.25 of the runs, half of the people.
    hits, people = np.array([1.0, 0, 0, 0]), np.array([0, 1, 1, 1])
    by_run, alike = share_of(hits, people), share_of(hits, people, alike=True)
    assert by_run is not None
    assert alike is not None
    assert (by_run.value, alike.value) == (0.25, 0.5)
