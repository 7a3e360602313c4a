"""Differences of means in which people weigh alike, by hand and compared with scipy."""

import numpy as np
import pytest
import scipy.stats

from evaluation_pipelines.comparison.domain.differences import (
    Difference,
    difference,
    people_of_both,
    shared_classes,
)
from evaluation_pipelines.comparison.domain.people import Inference, paired_difference
from evaluation_pipelines_tests.comparison_builders import arm


def test_people_who_used_both_are_compared_with_themselves() -> None:
    # Five people, one run a side: the paired t-test.
    a, b = [80.0, 70, 75, 90, 60], [70.0, 65, 80, 70, 58]
    found = difference(arm(a), arm(b))
    paired = scipy.stats.ttest_rel(a, b)
    assert found.is_paired
    assert found.value == pytest.approx(6.4)  # (10 + 5 - 5 + 20 + 2) / 5
    assert found.p == pytest.approx(paired.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(paired.confidence_interval()))


def test_a_person_with_many_runs_weighs_no_more() -> None:
    # The first person has three runs with a mean of 80 in place of one with 80.
    a = arm([80.0, 70, 90, 70, 75, 90, 60], people=[0, 0, 0, 1, 2, 3, 4])
    once = arm([80.0, 70, 75, 90, 60])
    b = arm([70.0, 65, 80, 70, 58])
    assert difference(a, b).value == pytest.approx(6.4)
    assert difference(a, b).p == pytest.approx(difference(once, b).p or 0)


def test_other_people_on_each_side_are_compared_by_welchs_test_on_their_means() -> None:
    means_a, means_b = [70.0, 80, 90, 85, 60], [60.0, 65, 75, 70, 40, 66]
    runs_a = [each + 3 * sign for each in means_a for sign in (-1, 1)]
    a = arm(runs_a, people=[0, 0, 1, 1, 2, 2, 3, 3, 4, 4])
    b = arm(means_b, people=[10, 11, 12, 13, 14, 15])
    found = difference(a, b)
    welch = scipy.stats.ttest_ind(means_a, means_b, equal_var=False)
    assert not found.is_paired
    assert found.value == pytest.approx(np.mean(means_a) - np.mean(means_b))
    assert found.p == pytest.approx(welch.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(welch.confidence_interval()))


def test_four_of_both_and_others_are_not_compared_with_themselves() -> None:
    values = [80.0, 70, 75, 90, 60, 71]
    four_shared = difference(arm(values), arm(values, people=[0, 1, 2, 3, 14, 15]))
    assert not four_shared.is_paired
    # All three used both: compared with themselves, few as they are.
    three = difference(arm([80.0, 70, 60]), arm([70.0, 65, 50]))
    assert three.is_paired
    assert three.value == pytest.approx(25 / 3)
    assert people_of_both(arm(values), arm(values, people=[0, 1, 2, 3, 14, 15])) == 4


@pytest.mark.parametrize(("others", "is_paired"), [(5, True), (6, False)])
def test_people_of_both_are_compared_with_themselves_if_half_of_the_runs_are_theirs(
    others: int, is_paired: bool
) -> None:
    # Five people used both: 70 with A and 80 with B, give or take. Others used one: 90 and 40.
    shared_a, shared_b = [69.0, 70, 71, 70, 70], [80.0, 80, 80, 79, 81]
    a = arm([*shared_a, *[90.0] * others], people=range(5 + others))
    people = [*range(5), *range(20, 20 + others)]
    b = arm([*shared_b, *[40.0] * others], people=people)
    found = difference(a, b)
    # With everybody: (5 * 70 + 6 * 90 - 5 * 80 - 6 * 40) / 11.
    expected = -10 if is_paired else 250 / 11
    assert found.is_paired is is_paired
    assert found.value == pytest.approx(expected)


@pytest.mark.parametrize(("min_runs", "is_paired"), [(0, True), (5, True), (6, False), (8, True)])
def test_comparing_people_with_themselves_leaves_no_side_with_too_few_runs(
    min_runs: int, is_paired: bool
) -> None:
    # Five people used both, two others only A: 5 of 7 runs of A are comparable person by person.
    a = arm([80.0, 70, 75, 90, 60, 50, 40])
    b = arm([70.0, 65, 80, 70, 58])
    found = difference(a, b, min_runs=min_runs)
    assert found.is_paired is is_paired
    assert found.value == pytest.approx(6.4 if is_paired else 465 / 7 - 343 / 5)


def test_passes_are_compared_like_all_runs() -> None:
    # Five people used both, a sixth only A; a run fails. People differ by 2 points each.
    people = [each for each in range(6) for _ in range(3)]
    a = arm([90.0 + 2 * who + at % 3 for at, who in enumerate(people)], people=people)
    passed = [88.0 + 2 * who + at % 3 for at, who in enumerate(people[1:15])]
    b = arm([0.0, *passed], people=people[:15])
    with_themselves = difference(a, b, at_ceiling=True)
    apart = difference(a, b, at_ceiling=True, min_runs=16)
    assert with_themselves.parts is not None
    assert apart.parts is not None
    # 5 - 1 degrees of freedom, or about 10 of six people and five, whose levels are in the error.
    assert with_themselves.parts.passes.freedom == 4
    assert apart.parts.passes.freedom > 8
    assert apart.parts.passes.error > 3 * with_themselves.parts.passes.error


def test_runs_of_unknown_persons_are_one_unit_that_is_no_person() -> None:
    a = arm([80.0, 70, 75, 90, 60, 50, 70], people=[0, 1, 2, 3, 4, -1, -1])
    b = arm([70.0, 65, 80, 70, 58, 55], people=[0, 1, 2, 3, 4, -1])
    # 10, 5, -5, 20, 2 and 60 - 55 = 5 of the unknown: 37 / 6.
    assert difference(a, b).value == pytest.approx(37 / 6)
    assert (len(a.known_people), people_of_both(a, b)) == (5, 5)


def test_an_unlike_mix_of_tasks_makes_no_difference() -> None:
    # Six people; 90 in class 0 and 50 in class 1 with both models, but A has more of class 0.
    people = [each for each in range(6) for _ in range(4)]
    a = arm([90.0, 90, 90, 50] * 6, [0, 0, 0, 1] * 6, people)
    b = arm([90.0, 50, 50, 50] * 6, [0, 1, 1, 1] * 6, people)
    assert difference(a, b).value == pytest.approx(0)
    # The same of twelve people.
    apart = arm([90.0, 50, 50, 50] * 6, [0, 1, 1, 1] * 6, [each + 6 for each in people])
    assert difference(a, apart).value == pytest.approx(0)


def test_classes_weigh_as_much_as_both_sides_have_of_them() -> None:
    # One person of each side; A - B is 10 in class 0 and -5 in class 1; class 2 is A's alone.
    # Levels by least squares with sides and classes; then by weights of 3 and 5 of 8 runs each.
    a = arm([80.0, 60, 60, 99], [0, 1, 1, 2], [0, 0, 0, 0])
    b = arm([70.0, 70, 65, 65, 65], [0, 0, 1, 1, 1], [1, 1, 1, 1, 1])
    assert difference(a, b).value == pytest.approx((3 * 10 - 5 * 5) / 8)
    number, share = shared_classes(a, b)
    assert (number, share) == pytest.approx((2, 8 / 9))


def test_without_a_common_class_nothing_can_be_said() -> None:
    a, b = arm([80.0, 70], [0, 0]), arm([60.0, 50], [1, 1])
    assert difference(a, b) == Difference()
    assert shared_classes(a, b) == (0, 0.0)


def test_where_a_class_leaves_one_person_there_is_no_error() -> None:
    # Both have class 0 and used both models, but only person 0 has it on both sides.
    a = arm([80.0, 70, 60], [0, 1, 0], [0, 1, 0])
    b = arm([70.0, 60], [0, 2], [0, 1])
    found = difference(a, b)
    assert (found.value, found.p) == (0, None)
    assert paired_difference(arm([80.0], people=[0]), arm([70.0], people=[0])) == Inference(10)


def test_one_person_or_no_spread_has_no_error() -> None:
    one = difference(arm([80.0, 70], people=[0, 0]), arm([60.0, 50], people=[0, 1]))
    assert (one.value, one.p, one.low) == (20, None, None)
    same = difference(arm([80.0] * 5), arm([70.0] * 5))
    assert (same.value, same.p) == (10, None)


def test_what_people_have_in_common_on_a_day_widens_the_interval() -> None:
    # Six people, A on even days and B on odd ones; each day moves everybody by 5 points, so that
    # people alone hardly differ.
    people = [each for each in range(6) for _ in range(4)]
    days = [0, 2, 4, 6] * 6
    moved = np.array([5.0, -5, 5, -4] * 6) + np.arange(24) % 7 / 10
    a = arm(list(70 + moved), people=people, days=days)
    b = arm(list(70 - moved), people=people, days=[day + 1 for day in days])
    with_days = difference(a, b)
    one_day = difference(arm(list(70 + moved), people=people), arm(list(70 - moved), people=people))
    assert with_days.value == one_day.value
    assert with_days.error is not None
    assert one_day.error is not None
    # The mean of four days with s = 5.5 has an error of 2.7, on both sides 3.9.
    assert one_day.error < 0.3
    assert 3 < with_days.error < 5


def test_what_days_add_is_not_lost_with_the_means_of_people() -> None:
    # A on even days, B on odd ones, three runs a side of each person: half of what a day adds is in
    # the means of its people. On average the squared error must be the variance of the difference.
    random, who = np.random.default_rng(11), np.repeat(np.arange(20), 3)
    found = []
    for _ in range(100):
        effects = random.normal(0, 10, 28)
        even = 2 * random.integers(0, 14, (2, len(who)))
        sides = [
            arm(list(random.normal(effects[days], 6)), people=list(who), days=list(days))
            for days in (even[0], even[1] + 1)
        ]
        found.append(paired_difference(*sides))
    truth = np.var([each.value for each in found])
    assert np.mean([each.error**2 for each in found]) == pytest.approx(truth, rel=0.2)


def test_at_the_ceiling_failures_and_other_runs_are_judged_apart() -> None:
    # A never fails, B fails once in 20; all others lie at 94 to 96.
    good = [94.0, 95, 96, 95] * 5
    people = [each % 5 for each in range(20)]
    a, b = arm(good, people=people), arm([0.0, *good[1:]], people=people)
    plain, apart = difference(a, b), difference(a, b, at_ceiling=True)
    assert plain.value == apart.value
    assert plain.low is not None
    assert plain.high is not None
    assert apart.low is not None
    assert apart.high is not None
    # A's 20 runs without a failure may hide one in nine: A may be lower by far more than plain t
    # of five people thinks.
    assert apart.low < plain.low
    assert apart.p is not None
    assert 0.05 < apart.p <= 1
