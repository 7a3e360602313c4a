"""Differences and means in which people weigh alike: by hand, and compared with scipy."""

import math
from unittest.mock import ANY

import numpy as np
import pytest
import scipy.stats

from evaluation_pipelines.comparison.domain.answers import facts
from evaluation_pipelines.comparison.domain.compare import Comparison
from evaluation_pipelines.comparison.domain.differences import (
    Difference,
    Losses,
    TwoPart,
    difference,
    is_at_ceiling,
    level_at,
    losses,
    mean_at_ceiling,
    shared_classes,
    shared_people,
)
from evaluation_pipelines.comparison.domain.findings import findings, verdict_list
from evaluation_pipelines.comparison.domain.people import Inference, paired_difference
from evaluation_pipelines.comparison.domain.runs import MODELS
from evaluation_pipelines.numerics.estimates import Share
from evaluation_pipelines.reporting.domain.comparison_tables import model_cells, pair_cells
from evaluation_pipelines_tests.world.runs import arm, compared, model, run, sample


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
    runs_a = [level + 3 * sign for level in means_a for sign in (-1, 1)]
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
    assert shared_people(arm(values), arm(values, people=[0, 1, 2, 3, 14, 15])) == 4


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
    people = [index for index in range(6) for _ in range(3)]
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
    assert (len(a.known_people), shared_people(a, b)) == (5, 5)


def test_an_unlike_mix_of_tasks_makes_no_difference() -> None:
    # Six people; 90 in class 0 and 50 in class 1 with both models, but A has more of class 0.
    people = [index for index in range(6) for _ in range(4)]
    a = arm([90.0, 90, 90, 50] * 6, [0, 0, 0, 1] * 6, people)
    b = arm([90.0, 50, 50, 50] * 6, [0, 1, 1, 1] * 6, people)
    assert difference(a, b).value == pytest.approx(0)
    # The same of twelve people.
    apart = arm([90.0, 50, 50, 50] * 6, [0, 1, 1, 1] * 6, [person + 6 for person in people])
    assert difference(a, apart).value == pytest.approx(0)


def test_classes_weigh_as_much_as_both_sides_have_of_them() -> None:
    # One person of each side; A - B is 10 in class 0 and -5 in class 1; class 2 is A's alone.
    # Levels by least squares with sides and classes; then by weights of 3 and 5 of 8 runs each.
    a = arm([80.0, 60, 60, 99], [0, 1, 1, 2], [0, 0, 0, 0])
    b = arm([70.0, 70, 65, 65, 65], [0, 0, 1, 1, 1], [1, 1, 1, 1, 1])
    assert difference(a, b).value == pytest.approx((3 * 10 - 5 * 5) / 8)
    number, share = shared_classes(a, b)
    assert (number, share) == pytest.approx((2, 8 / 9))


def test_without_a_common_class_two_people_or_spread_there_is_no_error() -> None:
    a, b = arm([80.0, 70], [0, 0]), arm([60.0, 50], [1, 1])
    assert (difference(a, b), shared_classes(a, b)) == (Difference(), (0, 0.0))
    # Both have class 0 and used both models, but only person 0 has it on both sides.
    a = arm([80.0, 70, 60], [0, 1, 0], [0, 1, 0])
    b = arm([70.0, 60], [0, 2], [0, 1])
    found = difference(a, b)
    assert (found.value, found.p) == (0, None)
    assert paired_difference(arm([80.0], people=[0]), arm([70.0], people=[0])) == Inference(10)
    one = difference(arm([80.0, 70], people=[0, 0]), arm([60.0, 50], people=[0, 1]))
    assert (one.value, one.p, one.low) == (20, None, None)
    same = difference(arm([80.0] * 5), arm([70.0] * 5))
    assert (same.value, same.p) == (10, None)


def test_what_people_have_in_common_on_a_day_widens_the_interval() -> None:
    # Six people, A on even days and B on odd ones; each day moves everybody by 5 points, so that
    # people alone hardly differ.
    people = [index for index in range(6) for _ in range(4)]
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
    truth = np.var([inference.value for inference in found])
    assert np.mean([inference.error**2 for inference in found]) == pytest.approx(truth, rel=0.2)


def test_at_the_ceiling_failures_and_other_runs_are_judged_apart() -> None:
    # A never fails, B fails once in 20; all others lie at 94 to 96.
    good = [94.0, 95, 96, 95] * 5
    people = [index % 5 for index in range(20)]
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


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([0.0, 20, 90, 95, 100], True),  # passes (95 - 50) / 5 = 9 above, failures 17 below
        ([90.0, 95, 100], True),  # none failed
        ([0.0, 60, 75, 90], False),  # 25 / 15 = 1.7 above the pass mark
        ([0.0, 66.2, 75, 83.8], True),  # 25 / 8.8 = 2.8 above, 75 / 8.8 = 8.5 below
        ([45.0, 66.2, 75, 83.8], False),  # 30 / 8.8 = 3.4: the tail of ordinary scores
        ([0.0, 95], False),  # no spread to know
    ],
)
def test_failures_are_a_kind_of_their_own_far_below_high_passes(
    scores: list[float], *, expected: bool
) -> None:
    assert is_at_ceiling(np.array(scores)) is expected


def test_losses_are_the_share_of_failures_times_their_cost() -> None:
    side = arm([90.0, 100, 5, 95], people=[0, 0, 1, 1])
    found = losses(side, 0.0)
    assert found is not None
    # Half of the runs of one of two people: a quarter; passes of 95 less 5.
    assert (found.share.value, found.cost, found.value) == (0.25, 90, 22.5)
    assert losses(arm([10.0, 20]), 0.0) is None
    assert losses(arm([90.0, 20], people=[0, 0]), 0.0) is None


def test_both_parts_are_joined_by_mover() -> None:
    # z = 2 at an infinity of degrees: alpha = 0.0455. 0 of 16 fail: Wilson's ends 0 and
    # z²/(n + z²) = 4/20 = 0.2, 18 points of 90. The passes: 10 with an error of 3.
    alpha = math.erfc(math.sqrt(2))
    none_failed = Losses(Share(0.0, 16, 1e9), 90)
    found = TwoPart(10, Inference(10, 3, 1e9), none_failed, none_failed).ends(alpha)
    # Down: sqrt(6² + 18²) = 18.974, from the losses of the first; up the same of the second.
    assert found == pytest.approx((10 - 18.974, 10 + 18.974), abs=1e-3)
    # 8 of 16 fail: Wilson's ends 1/2 -+ 1/sqrt(20), 20.125 points either way, 405 in square.
    half_failed = Losses(Share(0.5, 16, 1e9), 90)
    near, far = (6**2 + 405) ** 0.5, (6**2 + 405 + 18**2) ** 0.5
    found = TwoPart(10, Inference(10, 3, 1e9), half_failed, none_failed).ends(alpha)
    assert found == pytest.approx((10 - near, 10 + far), abs=1e-3)
    found = TwoPart(10, Inference(10, 3, 1e9), none_failed, half_failed).ends(alpha)
    assert found == pytest.approx((10 - far, 10 + near), abs=1e-3)


def test_the_p_value_is_the_level_whose_interval_ends_at_0() -> None:
    lost = Losses(Share(0.05, 40, 30), 90), Losses(Share(0.1, 40, 30), 90)
    for value in (12.0, -12.0):
        found = TwoPart(value, Inference(value, 3, 8), *lost)
        assert min(map(abs, found.ends(level_at(found.ends, found.value, 0)))) == pytest.approx(
            0, abs=1e-3
        )
    certain = TwoPart(99.0, Inference(99.0, 1e-9, 1e9), *lost)
    assert level_at(certain.ends, certain.value, 0) == 1e-9
    assert level_at(TwoPart(0.0, Inference(0.0, 3, 8), *lost).ends, 0.0, 0) == 1


def test_a_mean_without_a_failure_is_bounded_by_all_runs_of_the_label() -> None:
    side = arm([94.0, 96, 95, 95, 94, 96], people=[0, 0, 1, 1, 2, 2])
    of_label = Losses(Share(0.0, 96, 1e9), 95)
    own, found = mean_at_ceiling(95, side, None), mean_at_ceiling(95, side, of_label)
    assert own is not None
    assert found is not None
    assert own.low is not None
    assert found.low is not None
    # All means of people are 95. Wilson: 3.84 / 99.84 = 3.85% of 95 points.
    assert found.low == pytest.approx(95 - 3.655, abs=0.01)
    assert found.high == 95
    assert own.low < found.low
    assert mean_at_ceiling(95, arm([95.0, 94], people=[0, 0]), None) is None
    assert mean_at_ceiling(95, arm([95.0, 10], people=[0, 1]), None) is None


def test_a_mean_and_its_interval_are_those_of_people_who_weigh_alike() -> None:
    # 90 in four runs of one person, 70 and 50 in one run of two others: a mean of 70; that of all
    # runs would be 80.
    said = [("ann", 90.0)] * 4 + [("ben", 70.0), ("cat", 50.0)]
    rows = [run(at, score, person=who) for at, (who, score) in enumerate(said)]
    others = [
        run(10 + at, 60.0, person=who, model="model-b") for at, who in enumerate(["ann", "ben"])
    ]
    found = compared([*rows, *others])
    row = model(found, "model-a")
    # A standard deviation of 20 points: t(2) * 20 / sqrt(3) = 4.302653 * 11.547 = 49.683.
    low, high = 70 - 49.683, 100
    figures = [row[f"avg_score{end}"] for end in ("", "_low", "_high")]
    assert figures == pytest.approx([70, low, high], abs=1e-3)
    # Six runs at $0.50: a bill is that of all runs.
    assert (row["avg_cost_usd"], row["score_per_dollar"]) == (0.5, 140)
    assert found.pairs.row(0, named=True)["difference"] == pytest.approx(70 - 60)
    listed = verdict_list(found)["models"][0]
    assert [listed[name] for name in ("mean", "low", "high")] == figures
    (shown,) = (cell for cell in model_cells(row, MODELS) if cell.sort == row["avg_score"])
    assert (shown.shown, shown.below) == ("70.0", "20.3 to 100.0")


def several_labels(apart: float) -> Comparison:
    """Two models whose people differ by ``apart`` points and half of the cost, in four labels."""
    labels = ("code", "docs", "ops", "research")
    return compared(
        run
        for label in labels
        for name, cost, more in (("aspen", 0.4, apart), ("birch", 0.2, 0.0))
        for person in range(6)
        for run in sample(
            name,
            [60 + (3 * person - 7.5 + more) * (name == "aspen") for _ in range(6)],
            1000 * labels.index(label) + 100 * person + 50 * (name == "birch"),
            1,
            classification_label=label,
            person=f"user {person}",
            cost_usd=cost * (1 + 0.3 * person if name == "aspen" else 1),
        )
    )


def test_an_interval_next_to_a_verdict_is_corrected_like_it() -> None:
    # People's differences 0, 3, ..., 15 less 7.5 plus 7.1: a mean of 7.1, a standard error of
    # 5.6125 / sqrt(6) = 2.2913, p = 0.027: beyond 0, alone. Four labels divide 0.05 by four, and
    # t(5) is 3.8100 at 0.0125.
    found = several_labels(7.1)
    row = found.pairs.row(0, named=True)
    assert (row["adjusted_low"], row["adjusted_p"]) == (pytest.approx(1.210, abs=1e-3), ANY)
    ends = row["adjusted_low_holm"], row["adjusted_high_holm"]
    assert ends == pytest.approx((7.1 - 3.8100 * 2.2913, 7.1 + 3.8100 * 2.2913), abs=1e-3)
    assert row["verdict"] == "not decided"
    said = " ".join(facts(findings(found)[0]))
    assert "7.1 points more than birch (provider-a) (-1.6 to +15.8), which" in said
    difference = pair_cells(row, MODELS)[2]
    assert (difference.shown, difference.below) == ("+7.1", "-1.6 to +15.8")
    listed = verdict_list(found)["pairs"][0]
    assert (listed["low"], listed["high"]) == (row["adjusted_low"], row["adjusted_high"])
    assert (listed["corrected_low"], listed["corrected_high"]) == ends


def test_a_saving_is_stated_with_an_interval_corrected_for_all_of_the_report() -> None:
    row = several_labels(0.0).pairs.row(0, named=True)
    # Log ratios: ln 2 plus ln 1, 1.3, 1.6, 1.9, 2.2, 2.5; all four labels are shown, so that each
    # has the level of its own step of Holm's: the first, 0.0125.
    logs = np.log(2 * (1 + 0.3 * np.arange(6)))
    error = float(np.std(logs, ddof=1)) / 6**0.5
    assert row["cost_ratio"] == pytest.approx(np.exp(logs.mean()))
    assert row["cost_ratio_low"] == pytest.approx(np.exp(logs.mean() - 2.570582 * error))
    assert row["cost_ratio_low_holm"] == pytest.approx(
        np.exp(logs.mean() - 3.8100 * error), rel=1e-4
    )


def test_an_interval_of_two_people_ends_where_nothing_is_excluded() -> None:
    # Costs that differ a thousandfold, and one degree of freedom: e to the power of some 88.
    rows = [
        run(
            number,
            score,
            person=f"user {number % 2}",
            model=f"model-{name}",
            cost_usd=cost if number % 2 else 1 / cost,
        )
        for start, name, cost in ((0, "a", 1000.0), (10, "b", 0.001))
        for number, score in (
            (start, 10.0 if start else 90.0),
            (start + 1, 90.0 if start else 10.0),
        )
    ]
    row = compared(rows).pairs.row(0, named=True)
    assert (row["adjusted_low"], row["adjusted_high"]) == (-100, 100)
    ends = row["cost_ratio_low"], row["cost_ratio_high"]
    assert ends == pytest.approx((0.001, 1000))
