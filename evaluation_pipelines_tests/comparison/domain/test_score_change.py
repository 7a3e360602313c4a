"""Change of the scores of a window: expected scores, spread, boundary, and scores near 100."""

import math
from dataclasses import replace

import numpy as np
import pytest

from evaluation_pipelines.comparison.domain.ceiling_change import CeilingBefore, CeilingChange
from evaluation_pipelines.comparison.domain.score_change import (
    DaySpread,
    ExpectedScores,
    Levels,
    ScoreChange,
    ScoresBefore,
    _Days,
    boundary,
    chance_in_quarter,
)
from evaluation_pipelines.numerics.estimates import Codes, Numbers
from evaluation_pipelines_tests.world.runs import arm, daily


def test_the_chance_is_the_fitted_curve_and_does_not_depend_on_the_direction() -> None:
    # 90 / 4^1.5 * exp(-8) / sqrt(2 pi) = 11.25 * 0.00033546 * 0.39894 = 0.0015056
    assert chance_in_quarter(4.0, 4) == pytest.approx(1 - 0.9984955, abs=1e-6)
    assert chance_in_quarter(-4.0, 4) == chance_in_quarter(4.0, 4)
    # Models that do not change miss it each by itself, and without any change it is certain.
    one = chance_in_quarter(3.0, 1)
    assert chance_in_quarter(3.0, 1, 5) == pytest.approx(1 - (1 - one) ** 5)
    assert chance_in_quarter(0.0, 1) == pytest.approx(1.0, abs=1e-4)


def test_the_boundary_is_where_the_chance_is_reached() -> None:
    for chance, weeks, models in ((0.05, 1, 1), (0.05, 4, 5), (0.025, 2, 40)):
        found = boundary(chance, weeks, models)
        assert chance_in_quarter(found, weeks, models) == pytest.approx(chance)
    # Short windows must go farther.
    assert [round(boundary(0.05, weeks, 5), 2) for weeks in (1, 4)] == [4.04, 3.49]


# Three runs of each of two classes, by one person, on a day each. With a level a in common and b
# of a class, sum (y - a - b)² + b0² + b1² is least for a = 15 and b = -5 * 3/4 and +5 * 3/4.
BEFORE = arm([10.0] * 3 + [20.0] * 3, [0, 0, 0, 1, 1, 1], [0] * 6, [0, 0, 0, 1, 1, 1])


def test_levels_of_few_runs_of_a_class_or_person_are_drawn_to_that_of_all() -> None:
    found = ExpectedScores(BEFORE, Levels(2, 1))
    assert found.of_runs(BEFORE) == pytest.approx([11.25] * 3 + [18.75] * 3)
    before = arm([10.0] * 4 + [20.0] * 4, [0] * 8, [0] * 4 + [1] * 4)
    # 5 * 4 / (4 + 1) = 4
    found = ExpectedScores(before, Levels(1, 2))
    assert found.of_runs(before) == pytest.approx([11.0] * 4 + [19.0] * 4)


def test_the_weights_of_the_runs_before_and_the_error_of_the_expected_score() -> None:
    found = ExpectedScores(BEFORE, Levels(3, 1))
    weights, variance = found.weights(arm([0.0], [0], [0]))
    # The mean of the class has variance 1/3; that of the other one tells the level with variance
    # 1/3 and twice that of a class, 7/3. Precisions 3 + 3/7 = 24/7; weights 7/8 and 1/8.
    assert weights == pytest.approx([7 / 8, 1 / 8])
    assert variance == pytest.approx(7 / 24)


def test_a_class_that_nobody_has_seen_may_differ_as_the_others_do() -> None:
    found = ExpectedScores(BEFORE, Levels(3, 1))
    new = arm([0.0], [2], [0])
    _, variance = found.weights(new)
    # The level in common from two means of variance 1 + 1/3, and the new class with variance 1.
    assert variance == pytest.approx(2 / 3 + 1)
    assert found.of_runs(new) == pytest.approx([15.0])


def test_levels_by_day() -> None:
    runs = replace(BEFORE, days=np.array([5, 5, 5, 5, 7, 7]))
    found = ExpectedScores(runs, Levels(2, 1)).by_day
    assert found.tolist() == [[4, 3, 1, 4], [0, 0, 0, 0], [2, 0, 2, 2]]


def test_equal_shares_of_balanced_people_are_the_plain_mean() -> None:
    before = arm([50.0, 70.0] * 6, [0] * 12, [0, 1] * 6, [0] * 4 + [1] * 8)
    weights, variance = ExpectedScores(before, Levels(1, 2)).weights(
        arm([0.0, 0.0], [0, 0], [0, 1])
    )
    assert weights == pytest.approx([4 / 12, 8 / 12])
    assert variance == pytest.approx(1 / 12)


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


def test_a_single_week_does_not_tell_how_weeks_vary() -> None:
    def by_week(days: int) -> float:
        """Sums of 2 a day, whose errors of runs have variance 1."""
        runs, none = np.eye(days), np.zeros((days, days))
        return _Days(np.ones(days), runs, none, float(days)).by_week(np.full(days, 2.0), 1.0, 0.0)

    # Of eight days two sums of 7 days, each 14: 2 * 14² where 2 * 7 was to be expected.
    assert [by_week(7), by_week(8)] == pytest.approx([1.0, 2 * 14**2 / (2 * 7)])


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
    assert np.mean([day_spread.within for day_spread in found]) == pytest.approx(100, abs=4)
    assert np.mean([day_spread.between for day_spread in found]) == pytest.approx(25, abs=6)
    assert np.mean([day_spread.by_week for day_spread in found]) > 1.05


def test_the_change_and_its_error() -> None:
    before = ScoresBefore(daily([60.0, 80.0] * 28), Levels(1, 1))
    found = before.change(daily([50.0, 70.0] * 7, 28))
    assert found.value == pytest.approx(-10.0)
    # Days do not vary; runs by 56 * 100 / 55 = 101.82. 101.82 / 14 + 101.82 / 56 = 9.0909
    assert found.error == pytest.approx(9.0909**0.5, rel=1e-4)
    assert found.freedom == 27
    # The 97.5% quantile of Student's t with 27 degrees of freedom is 2.0518.
    assert found.ends(1.959964) == pytest.approx((-16.186, -3.814), abs=1e-3)


@pytest.mark.parametrize(
    ("value", "freedom", "deviates", "within"),
    [(2.0518305, 27, 1.959964, 1e-5), (-2.0518305, 27, -1.959964, 1e-5), (-1e9, 80, -37, 1)],
)
def test_students_t_is_turned_into_normal_deviates(
    value: float, freedom: int, deviates: float, within: float
) -> None:
    found = ScoreChange(value, 1.0, freedom, np.zeros(1)).deviates
    assert found == pytest.approx(deviates, abs=within)


def test_runs_may_be_taken_to_vary_by_some_points_at_least() -> None:
    before = daily([90.0, 90.0] * 28)
    assert ScoresBefore(before, Levels(1, 1), smallest_spread=2.0).spread.within == 4


PASSES = [93.0, 97.0]
BOUND = 95 - 5 * (56 * 4 / 55) ** 0.5
"""Of 28 days of them: 84.9095."""


def days_before(scores: list[float]) -> CeilingBefore | None:
    return CeilingBefore.of(daily(scores), Levels(1, 1))


def change(scores: list[float], old: list[float] = PASSES * 28) -> CeilingChange:
    before = days_before(old)
    assert before is not None
    return before.change(daily(scores, len(old) // 2))


FAILING = [93.0, 97.0, 93.0, 0.0, 97.0, 0.0, 89.0, 93.0]


def test_every_run_counts_with_its_score() -> None:
    found = change(FAILING)
    assert found.errors == pytest.approx([-2, 2, -2, -95, 2, -95, -6, -2])
    assert found.value == pytest.approx(-198 / 8)
    # Days lie 0, -48.5, -46.5 and -4 by 95; the two worst count like the third worst.
    assert found.lasting == pytest.approx(-3 * 4 / 4)
    assert found.is_due_to_failures


def test_the_test_is_of_bounded_scores_without_the_two_worst_days() -> None:
    found = change([*FAILING[:6], 89.0, 0.0]).bounded
    # Days lie 0, -6.05, -4.05 and -8.05 by 95; the two worst count like the third worst.
    assert found.value == pytest.approx(3 * (2 + BOUND - 95) / 2 / 4)
    # Days do not vary; runs by 56 * 4 / 55.
    assert found.error**2 == pytest.approx(56 * 4 / 55 * (1 / 8 + 1 / 56), rel=1e-4)
    assert found.freedom == 27


def test_an_outage_of_a_day_is_no_drop_and_a_rise_stays_one() -> None:
    for one_more in (95.0, 0.0):
        outage = change([*PASSES * 3, 0.0, 0.0, 93.0, one_more])
        assert (outage.bounded.value, outage.deviates, outage.lasting) == (0, 0, 0)
        assert outage.value < -15
    assert change([96.0, 98.0, 97.0, 99.0, 96.0, 98.0]).bounded.value == pytest.approx(14 / 6)


def test_the_interval_joins_bounded_scores_and_what_lies_below_them() -> None:
    failing = change(FAILING)
    low, high = failing.ends(1.959964)
    # The ends of a share of 2 of 8 runs are far away; bounded scores limit the upper one.
    assert low < failing.value - 20
    assert failing.value < high <= failing.bounded.ends(1.959964)[1] < 0
    # Without any failure it is that of the bounded scores, which are the scores.
    lower = change([89.0, 93.0] * 6)
    assert lower.ends(1.959964) == pytest.approx(lower.bounded.ends(1.959964))
    assert not lower.is_due_to_failures


def test_failures_before_widen_the_interval() -> None:
    old = [*PASSES * 27, 93.0, 0.0]
    found = change([90.0, 94.0] * 6, old)
    lost = found.before.lost_points(found.before.runs)
    assert lost is not None
    low_share, high_share = lost.share.ends()
    half = found.bounded.value - found.bounded.ends(1.959964)[0]
    low, high = found.ends(1.959964)
    # One of 56 failed; now none does, so less is lost than before.
    assert low == pytest.approx(
        found.value - math.hypot(half, (1 / 56 - low_share) * lost.cost), abs=1e-3
    )
    assert high == pytest.approx(
        found.value + math.hypot(half, (high_share - 1 / 56) * lost.cost), abs=1e-3
    )


def test_scores_that_are_all_100_are_taken_to_vary_by_a_point() -> None:
    found = change([100.0, 99.0] * 6, [100.0] * 60)
    assert found.bounded.error**2 == pytest.approx(1 / 12 + 1 / 60)
    assert abs(found.deviates) < 2
    assert change([0.0] * 12, [100.0] * 60).deviates < -6


@pytest.mark.parametrize(
    ("scores", "bound", "failed_below"),
    [
        ([94.0, 96.0] * 20 + [0.0], 95 - 5 * (40 / 39) ** 0.5, 50.0),
        ([62.0, 78.0] * 20, 70 - 5 * 8 * (40 / 39) ** 0.5, 70 - 5 * 8 * (40 / 39) ** 0.5),
        ([100.0] * 40, 95.0, 50.0),
    ],
)
def test_failures_are_far_below_the_others(
    scores: list[float], bound: float, failed_below: float
) -> None:
    before = days_before(scores)
    assert before is not None
    assert (before.bound, before.failed_below) == pytest.approx((bound, failed_below))
    assert days_before([55.0, 85.0] * 20) is None  # ordinary scores are not near 100
