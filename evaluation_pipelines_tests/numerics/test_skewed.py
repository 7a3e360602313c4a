"""Means of skewed amounts, by hand and by the published formula."""

import math

import numpy as np
import pytest

from evaluation_pipelines.numerics.estimates import UNKNOWN, Estimate
from evaluation_pipelines.numerics.skewed import correlation_of_means, quotient, skewed_mean
from evaluation_pipelines.numerics.student import t_quantile


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
    together, alone = (skewed_mean(costs, each, 1) for each in (people, np.arange(60)))
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


def test_without_spread_people_or_amounts_there_is_no_interval() -> None:
    assert skewed_mean(np.array([]), np.array([], dtype=np.int64), 1) == UNKNOWN
    assert skewed_mean(np.full(20, 0.5), np.arange(20), 1) == Estimate(0.5)
    assert skewed_mean(np.array([1.0, 2]), np.zeros(2, dtype=np.int64), 1) == Estimate(1.5)


def test_people_with_the_same_mean_show_no_error() -> None:
    # Twelve people with runs of 1 and 4 dollars each: two kinds, and no person unlike another.
    costs, people = np.tile([1.0, 4.0], 48), np.repeat(np.arange(12), 8)
    assert skewed_mean(costs, people, seed=1) == Estimate(2.5)


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
    for correlation, factor in ((0.5, 1.171107), (-0.5, 1.276779)):
        found = quotient(above, below, correlation)
        assert (found.low, found.high) == pytest.approx((160 / factor, 160 * factor), rel=1e-5)


def test_errors_of_two_means_correlate_as_they_are_without_each_person() -> None:
    people = np.array([0, 0, 1, 1, 2, 2])
    scores = np.array([60.0, 80, 70, 90, 50, 70])  # people's sums 140, 160, 120 of 420
    costs = np.array([1.0, 2, 1, 1, 4, 3])  # 3, 2, 7 of 12
    # Without each: scores 70, 65, 75; costs 9/4, 10/4, 5/4. Deviations 0, -5, 5 and
    # 0.25, 0.5, -0.75: -6.25 / sqrt(50 * 0.875) = -0.9449.
    assert correlation_of_means(scores, costs, people) == pytest.approx(-0.9449, abs=1e-4)
    assert correlation_of_means(scores, np.ones(6), people) == 0
    assert correlation_of_means(scores, costs, people // 2) == 0
    assert correlation_of_means(scores, costs, people * 0) == 0


@pytest.mark.parametrize("below", [Estimate(0.0, 0.0, 0.0), UNKNOWN])
def test_a_quotient_by_nothing_is_unknown(below: Estimate) -> None:
    assert quotient(Estimate(80, 70, 90), below) == UNKNOWN


def test_a_quotient_without_an_end_above_0_has_no_interval() -> None:
    assert quotient(Estimate(80, 70, 90), Estimate(0.5, 0.0, 1.0)) == Estimate(160)
    assert quotient(Estimate(80), Estimate(0.5, 0.4, 0.6)) == Estimate(160)


def _width(found: Estimate) -> float:
    assert found.low is not None
    assert found.high is not None
    return found.high - found.low


def test_amounts_that_are_too_unlike_for_an_end_have_none() -> None:
    # The logarithms look normal, with a standard deviation of 12.
    found = skewed_mean(np.array([1e-9, 0.5, 3.0]), np.arange(3), 1)
    assert found.value == pytest.approx(3.500000001 / 3)
    assert (found.low, found.high) == (None, None)
