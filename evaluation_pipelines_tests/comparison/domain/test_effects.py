"""Sizes of effects and numbers of runs, by hand and compared with scipy."""

import math

import numpy as np
import pytest
import scipy.stats

from evaluation_pipelines.comparison.domain.verdicts import hedges_g, runs_needed, superiority


def test_hedges_g_by_hand() -> None:
    # Means 80 and 70, both variances 100: d = 1. m = 4: J = Γ(2) / (sqrt(2) Γ(1.5)) = 0.79788.
    found = hedges_g(np.array([70.0, 80, 90]), np.array([60.0, 70, 80]))
    assert found == pytest.approx(0.79788, abs=1e-5)


def test_hedges_g_is_unknown_without_spread_or_runs() -> None:
    assert hedges_g(np.array([70.0, 70]), np.array([60.0, 60])) is None
    assert hedges_g(np.array([70.0]), np.array([60.0, 80])) is None


def test_the_probability_that_a_beats_b_counts_pairs_and_half_of_the_ties() -> None:
    # 3 over 1, 2: 2; 2 over 1: 1, ties 2: half; 1 ties 1: half. 4 of 6 pairs.
    found = superiority(np.array([1.0, 2, 3]), np.array([1.0, 2]))
    assert found == pytest.approx(4 / 6)


def test_the_probability_is_that_of_mann_and_whitney() -> None:
    random = np.random.default_rng(3)
    a, b = random.normal(1, 1, 25), random.normal(0, 2, 30)
    rank_sum = scipy.stats.mannwhitneyu(a, b).statistic
    assert superiority(a, b) == pytest.approx(rank_sum / (25 * 30))
    assert superiority(np.array([5.0, 6]), np.array([1.0, 2])) == 1


def test_the_number_of_runs_by_hand() -> None:
    # Both variances 100, 5 points: (1.95996 + 0.84162)² * 200 / 25 = 62.79, + 1.95996²/4 = 0.96.
    values = np.array([70.0, 80, 90])
    assert runs_needed(values, values, 1.0, 1) == 64
    # Three comparisons: z(1 - 0.05/6) = 2.39398; (2.39398 + 0.84162)² * 8 = 83.75, + 1.43.
    assert runs_needed(values, values, 1.0, 3) == 86
    # Twice the variance, as users are alike: 125.58 + 0.96.
    assert runs_needed(values, values, 2.0, 1) == 127
    assert runs_needed(values, np.array([1.0]), 1.0, 1) is None
    assert runs_needed(np.full(30, 70.0), np.full(30, 80.0), 1.0, 1) is None


@pytest.mark.slow
def test_so_many_runs_find_a_difference_of_five_points_in_four_of_five_cases() -> None:
    random = np.random.default_rng(9)
    needed = runs_needed(random.normal(0, 8, 20_000), random.normal(0, 12, 20_000), 1.0, 1)
    assert needed is not None
    found = [
        scipy.stats.ttest_ind(
            random.normal(5, 8, needed), random.normal(0, 12, needed), equal_var=False
        ).pvalue
        < 0.05
        for _ in range(4000)
    ]
    # Standard error of the share: sqrt(0.8 * 0.2 / 4000) = 0.0063; three of them.
    assert np.mean(found) == pytest.approx(0.8, abs=0.02)


def test_gamma_of_hedges_is_close_to_the_usual_shortcut() -> None:
    # J is about 1 - 3 / (4 m - 1).
    random = np.random.default_rng(4)
    a, b = random.normal(1, 1, 40), random.normal(0, 1, 40)
    pooled = math.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 2)
    plain = (a.mean() - b.mean()) / pooled
    assert hedges_g(a, b) == pytest.approx(plain * (1 - 3 / (4 * 78 - 1)), rel=1e-4)
