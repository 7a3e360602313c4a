"""Means, shares, skewed amounts and their intervals: by hand, and compared with scipy."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
import scipy.stats

from evaluation_pipelines.numerics.estimates import (
    SMALLEST_CORRELATION,
    UNKNOWN,
    Estimate,
    Share,
    correlation,
    effective_number,
    mean,
    share,
    share_of,
    t_quantile,
    two_sided_p,
)
from evaluation_pipelines.numerics.skewed import means_correlation, quotient, skewed_mean


def test_lognormal_amounts_have_olssons_interval() -> None:
    # Logarithms at normal quantiles; each run a cluster of its own.
    logs = np.array([-1.5, -1.0, -0.6, -0.3, 0.0, 0.3, 0.6, 1.0, 1.5])
    found = skewed_mean(np.exp(logs), np.arange(9), seed=1)
    # m = 0, s² = 2 * (2.25 + 1 + 0.36 + 0.09) / 8 = 0.925.
    # Modified Cox: m + s²/2 ± t(8) * sqrt(s²/n + s⁴/(2(n - 1))).
    half = t_quantile(8) * math.sqrt(0.925 / 9 + 0.925**2 / 16)
    assert found.low == pytest.approx(math.exp(0.4625 - half))
    assert found.high == pytest.approx(math.exp(0.4625 + half))


def test_people_whose_runs_cost_alike_widen_it() -> None:
    random = np.random.default_rng(2)
    people = np.repeat(np.arange(12), 5)
    costs = np.exp(random.normal(0, 1, 12)[people] + random.normal(0, 0.3, 60))
    together, alone = (skewed_mean(costs, ndarray, 1) for ndarray in (people, np.arange(60)))
    assert _width(together) > 1.4 * _width(alone)


def test_other_amounts_are_drawn_by_people() -> None:
    random = np.random.default_rng(3)
    # Two kinds of runs: the logarithms are far from normal.
    costs = np.where(random.random(200) < 0.5, 1.0, 10.0) + random.random(200) / 100
    found = skewed_mean(costs, np.arange(200), seed=7)
    again, other = (skewed_mean(costs, np.arange(200), seed=seed) for seed in (7, 8))
    assert found == again != other
    # Near the normal interval: 5.5 ± 1.96 * 4.5 / sqrt(200).
    assert _width(found) == pytest.approx(2 * 1.96 * costs.std() / math.sqrt(200), rel=0.15)


def test_few_people_with_odd_amounts_have_students_interval() -> None:
    # Three people with one run each: 0, 3 and 6 with s = 3; t(2) = 4.30265.
    found = skewed_mean(np.array([0.0, 3, 6]), np.arange(3), seed=1)
    assert (found.value, found.low) == (3, 0)
    assert found.high == pytest.approx(3 + 4.30265 * 3 / math.sqrt(3), abs=1e-3)


@pytest.mark.parametrize(
    ("amounts", "people", "value"),
    [
        ([], [], None),
        ([0.5] * 20, range(20), 0.5),  # no spread
        ([1.0, 2], [0, 0], 1.5),  # one person
        # Twelve people with runs of 1 and 4 dollars each: no person is unlike another.
        ([1.0, 4.0] * 48, np.repeat(np.arange(12), 8), 2.5),
        # The logarithms look normal, with a standard deviation of 12.
        ([1e-9, 0.5, 3.0], range(3), 3.500000001 / 3),
    ],
)
def test_without_spread_people_or_likely_amounts_there_is_no_interval(
    amounts: list[float], people: Sequence[int], value: float | None
) -> None:
    found = skewed_mean(np.array(amounts), np.array(people, dtype=np.int64), 1)
    assert found.value == (None if value is None else pytest.approx(value))
    assert (found.low, found.high) == (None, None)


def test_a_quotient_has_an_interval_from_both_parts() -> None:
    # On the log scale: 80 with a factor of 1.1 either way, 0.5 with one of 1.2:
    # sqrt(log(1.1)² + log(1.2)²) = sqrt(0.009084 + 0.033241) = 0.205730; exp: 1.228421.
    found = quotient(Estimate(80, 80 / 1.1, 80 * 1.1), Estimate(0.5, 0.5 / 1.2, 0.5 * 1.2))
    assert found.value == 160
    assert (found.low, found.high) == pytest.approx((160 / 1.228421, 160 * 1.228421), rel=1e-5)


def test_a_quotient_of_opposite_errors_is_wider_and_of_like_ones_narrower() -> None:
    above, below = Estimate(80, 80 / 1.1, 80 * 1.1), Estimate(0.5, 0.5 / 1.2, 0.5 * 1.2)
    # 0.009084 + 0.033241 -+ 2 * 0.5 * log(1.1) * log(1.2) = 0.042325 -+ 0.017377:
    # exp(sqrt(0.024948)) = 1.171107, exp(sqrt(0.059702)) = 1.276779.
    for both, factor in ((0.5, 1.171107), (-0.5, 1.276779)):
        found = quotient(above, below, both)
        assert (found.low, found.high) == pytest.approx((160 / factor, 160 * factor), rel=1e-5)


def test_errors_of_two_means_correlate_as_they_are_without_each_person() -> None:
    people = np.array([0, 0, 1, 1, 2, 2])
    scores = np.array([60.0, 80, 70, 90, 50, 70])  # people's sums 140, 160, 120 of 420
    costs = np.array([1.0, 2, 1, 1, 4, 3])  # 3, 2, 7 of 12
    # Without each: scores 70, 65, 75; costs 9/4, 10/4, 5/4. Deviations 0, -5, 5 and
    # 0.25, 0.5, -0.75: -6.25 / sqrt(50 * 0.875) = -0.9449.
    assert means_correlation(scores, costs, people) == pytest.approx(-0.9449, abs=1e-4)
    assert means_correlation(scores, np.ones(6), people) == 0
    assert means_correlation(scores, costs, people // 2) == 0
    assert means_correlation(scores, costs, people * 0) == 0


def test_a_quotient_needs_more_than_0_below() -> None:
    for below in (Estimate(0.0, 0.0, 0.0), UNKNOWN):
        assert quotient(Estimate(80, 70, 90), below) == UNKNOWN
    assert quotient(Estimate(80, 70, 90), Estimate(0.5, 0.0, 1.0)) == Estimate(160)
    assert quotient(Estimate(80), Estimate(0.5, 0.4, 0.6)) == Estimate(160)


def _width(found: Estimate) -> float:
    assert found.low is not None
    assert found.high is not None
    return found.high - found.low


def test_a_mean_has_students_interval() -> None:
    # 70, 80, 90: mean 80, s = 10, s/sqrt(3) = 5.7735; t(2) = 4.30265, half = 24.841.
    found = mean(np.array([70.0, 80, 90]))
    assert found.value == 80
    assert (found.low, found.high) == pytest.approx((80 - 24.841, 80 + 24.841), abs=1e-3)
    assert (mean(np.array([70.0])), mean(np.array([]))) == (Estimate(70), UNKNOWN)


def test_p_values_and_quantiles_are_students() -> None:
    assert t_quantile(11) == pytest.approx(2.200985)
    assert t_quantile(11, 0.1) == pytest.approx(1.795885)
    assert two_sided_p(2.200985, 1, 11) == pytest.approx(0.05, abs=1e-6)
    assert two_sided_p(-2.200985, 1, 11) == pytest.approx(0.05, abs=1e-6)


def test_ends_are_cut_where_nothing_can_lie_beyond() -> None:
    assert Estimate(1, -2, 4).within(0) == Estimate(1, 0, 4)
    assert Estimate(99, 90, 108).within(0, 100) == Estimate(99, 90, 100)
    assert Estimate(1).within(0) == Estimate(1)


def test_the_interval_of_independent_runs_is_wilsons() -> None:
    # A million degrees of freedom: Student's t is the normal quantile.
    found = Share(0.85, 20, 1e6).ends()
    wilson = scipy.stats.binomtest(17, 20).proportion_ci(method="wilson")
    assert found == pytest.approx((wilson.low, wilson.high), abs=1e-5)
    # z = t(4) = 2.77645, n = 10, p = 0.5: z²/n = 0.770867; middle 0.5;
    # half = 2.77645 / 1.770867 * sqrt(0.025 + (0.277645)² / 4) / 1 = 1.567847 * 0.210346 = 0.32979
    assert Share(0.5, 10, 4).ends() == pytest.approx((0.17021, 0.82979), abs=1e-4)
    assert (Share(0.0, 30, 9).ends()[0], Share(1.0, 30, 9).ends()[1]) == (0, 1)


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
