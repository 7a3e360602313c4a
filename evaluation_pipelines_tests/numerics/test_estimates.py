"""Means, shares and ratios with their intervals, by hand and compared with scipy."""

import math

import numpy as np
import pytest
import scipy.stats

from evaluation_pipelines.numerics.estimates import (
    UNKNOWN,
    Estimate,
    error_of_mean,
    jackknife_error,
    mean,
    ratio,
    share,
    t_quantile,
    two_sided_p,
)


def numbers(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(values, dtype=np.float64)


def codes(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def test_a_mean_has_students_interval() -> None:
    # 70, 80, 90: mean 80, s = 10, s/sqrt(3) = 5.7735; t(2) = 4.30265, half = 24.841.
    found = mean(numbers(70, 80, 90))
    assert found.value == 80
    assert (found.low, found.high) == pytest.approx((80 - 24.841, 80 + 24.841), abs=1e-3)


def test_a_mean_of_one_has_no_interval_and_of_none_no_value() -> None:
    assert mean(numbers(70)) == Estimate(70)
    assert mean(numbers()) == UNKNOWN
    assert mean(numbers(70, 80), codes(0, 0)) == Estimate(75)


def test_clusters_are_left_out_whole() -> None:
    # Three clusters with sums 10, 20+40, 30 and counts 1, 2, 1; mean 100/4 = 25.
    # Without each: 90/3 = 30, 40/2 = 20, 70/3 = 23.333; their mean 24.444.
    # Squares: 30.864 + 19.753 + 1.235 = 51.852; times 2/3 = 34.568; root 5.8795. t(2) = 4.30265.
    found = mean(numbers(10, 20, 40, 30), codes(0, 1, 1, 2))
    assert found.value == 25
    assert error_of_mean(numbers(10, 20, 40, 30), codes(0, 1, 1, 2)) == pytest.approx(
        (5.8795, 2), abs=1e-4
    )
    assert found.high == pytest.approx(25 + 4.30265 * 5.8795, abs=1e-3)


def test_runs_left_out_one_by_one_give_the_usual_standard_error() -> None:
    values = numbers(3, 5, 8, 13, 21)
    without = (values.sum() - values) / 4
    assert jackknife_error(without) == pytest.approx(scipy.stats.sem(values))


def test_a_share_has_wilsons_interval() -> None:
    hits = numbers(*[1] * 17, *[0] * 3)
    wilson = scipy.stats.binomtest(17, 20).proportion_ci(method="wilson")
    assert share(hits).value == 0.85
    assert [share(hits).low, share(hits).high] == pytest.approx([wilson.low, wilson.high])
    assert share(numbers()) == UNKNOWN


def test_users_who_always_pass_or_always_fail_count_as_one_run_each() -> None:
    # Four users with five runs each, two pass always, two never. Error by users: sums 5, 5, 0, 0;
    # without each 5/15 or 10/15; deviations 1/6: sqrt(3/4 * 4/36) = 0.288675.
    # 0.5 * 0.5 / 0.08333 = 3 runs. With t(2) = 4.30265: z²/n = 6.17093;
    # half = 4.30265 / 7.17093 * sqrt(0.25/3 + (4.30265/3)²/4) = 0.46383.
    hits = numbers(*[1] * 10, *[0] * 10)
    users = codes(*np.repeat(range(4), 5))
    found = share(hits, users)
    assert found.low == pytest.approx(0.5 - 0.46383, abs=1e-4)
    # All alike: as many runs as users.
    everybody = share(numbers(*[1] * 20), users)
    z2 = t_quantile(3) ** 2
    assert everybody.low == pytest.approx(4 / (4 + z2))
    assert everybody.high == pytest.approx(1)


def test_a_ratio_is_of_the_means_and_leaves_unknown_costs_out() -> None:
    # 80 and 60 points for $0.50 and an unknown cost: 70 / 0.5.
    assert ratio(numbers(80, 60), numbers(0.5, math.nan), None, 1) == Estimate(140)


@pytest.mark.parametrize("costs", [(0.0, 0.0), (math.nan, math.nan)])
def test_a_ratio_is_unknown_when_nothing_was_paid_or_nothing_is_known(
    costs: tuple[float, float],
) -> None:
    assert ratio(numbers(80, 60), numbers(*costs), None, 1) == UNKNOWN


def test_the_interval_of_a_ratio_is_the_same_for_the_same_seed_and_close_for_another() -> None:
    random = np.random.default_rng(5)
    above, below = random.normal(80, 10, 60), random.lognormal(-1, 0.5, 60)
    first, again, other = (ratio(above, below, None, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert first.low is not None
    assert first.low == pytest.approx(other.low, rel=0.03)
    # By the delta method, on the log scale; the bootstrap must be near it.
    error = math.sqrt((10 / 80) ** 2 / 60 + (below.std() / below.mean()) ** 2 / 60)
    assert first.value is not None
    assert first.low == pytest.approx(first.value * math.exp(-2 * error), rel=0.05)


def test_a_ratio_without_spread_or_with_few_units_has_no_interval() -> None:
    assert ratio(np.full(20, 80.0), np.full(20, 0.5), None, 1) == Estimate(160)
    users = codes(*[0] * 10, *[1] * 10)
    assert ratio(np.arange(20.0), np.arange(1.0, 21.0), users, 1).low is None


def test_very_many_runs_are_drawn_in_blocks_and_give_the_same() -> None:
    random = np.random.default_rng(6)
    above, below = random.normal(80, 10, 5000), random.lognormal(-1, 0.5, 5000)
    found = ratio(above, below, None, 1)
    assert found.value == pytest.approx(above.mean() / below.mean())
    assert found.low is not None
    assert found.high is not None
    assert found.value is not None
    error = math.hypot(10 / 80, below.std() / below.mean()) / math.sqrt(5000)
    assert (found.high - found.low) / found.value == pytest.approx(2 * 1.96 * error, rel=0.1)


def test_a_bootstrap_that_meets_no_known_cost_gives_no_interval() -> None:
    # One known cost in twenty: most draws have none.
    costs = np.full(20, math.nan)
    costs[0] = 0.5
    assert ratio(np.arange(20.0), costs, None, 1).low is None


def test_p_values_and_quantiles_are_students() -> None:
    assert t_quantile(11) == pytest.approx(2.200985)
    assert two_sided_p(2.200985, 1, 11) == pytest.approx(0.05, abs=1e-6)
    assert two_sided_p(-2.200985, 1, 11) == pytest.approx(0.05, abs=1e-6)


def test_ends_are_cut_where_nothing_can_lie_beyond() -> None:
    assert Estimate(1, -2, 4).within(0) == Estimate(1, 0, 4)
    assert Estimate(99, 90, 108).within(0, 100) == Estimate(99, 90, 100)
    assert Estimate(1).within(0) == Estimate(1)
