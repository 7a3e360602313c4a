"""Which differences are decided, and what it takes: by hand."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
import scipy.stats

from evaluation_pipelines.comparison.domain.differences import Difference, TwoPart, difference
from evaluation_pipelines.comparison.domain.models import Row
from evaluation_pipelines.comparison.domain.money import Against
from evaluation_pipelines.comparison.domain.runs import GROUP, MODEL
from evaluation_pipelines.comparison.domain.verdicts import (
    ALPHA,
    Corrected,
    Needed,
    Precision,
    corrected,
    hedges_g,
    holm,
    more_runs,
    needed,
    precision,
    runs_needed,
    superiority,
    weighted_holm,
)
from evaluation_pipelines_tests.world.runs import arm, compared, sample


def pair_of(label: str, first: str, second: str, difference: float, p: float) -> Row:
    """Two models of a label."""
    sides = {"model_a": first, "model_b": second, "classification_label": label}
    names = (*GROUP, *(f"{name}{side}" for name in MODEL for side in ("_a", "_b")))
    row: Row = dict.fromkeys(names)
    return row | sides | {"adjusted_difference": difference, "adjusted_p": p}


def p_of(tests: Sequence[Corrected | None]) -> list[float | None]:
    return [None if test is None else test.p for test in tests]


def levels(tests: Sequence[Corrected]) -> list[float]:
    return [test.level for test in tests]


def test_holm_by_hand() -> None:
    # Sorted 0.01, 0.02, 0.03, 0.04 -> 4 * 0.01, 3 * 0.02, max(0.06, 2 * 0.03), max(0.06, 0.04).
    assert p_of(holm([0.04, 0.01, 0.03, 0.02])) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    # An unknown one is no test: 2 * 0.02 and 0.5; never above 1.
    assert p_of(holm([0.02, None, 0.5])) == [pytest.approx(0.04), None, 0.5]
    assert p_of(holm([0.9, 0.8])) == [1.0, 1.0]
    assert holm([]) == []


def test_intervals_have_the_level_at_which_holm_decides() -> None:
    # 0.01 < 0.05 / 4 is shown; 0.02 > 0.05 / 3 is not, and stops all that follow at this level.
    found = weighted_holm([0.04, 0.01, 0.03, 0.02], [1.0] * 4)
    assert levels(found) == pytest.approx([0.05 / 3, 0.05 / 4, 0.05 / 3, 0.05 / 3])
    # All are shown: 0.05 / 2, then 0.05.
    assert levels(weighted_holm([0.04, 0.01], [1.0, 1.0])) == pytest.approx([0.05, 0.025])


@pytest.mark.parametrize("seed", range(20))
def test_an_interval_excludes_0_exactly_where_a_pair_is_decided(seed: int) -> None:
    random = np.random.default_rng(seed)
    pairs = [
        pair_of(f"label {label}", first, second, float(random.normal()), float(random.beta(0.3, 3)))
        for label in range(int(random.integers(1, 4)))
        for first, second in combinations("abcd"[: int(random.integers(2, 5))], 2)
    ]
    for pair, found in zip(pairs, corrected(pairs), strict=True):
        # Never narrower than the interval of the pair alone.
        assert 0 < found.level <= ALPHA
        assert (pair["adjusted_p"] < found.level) is (found.p < ALPHA)


def test_more_weight_is_corrected_less() -> None:
    # p/w: 0.01/0.75 = 0.0133, 0.004/0.25 = 0.016: the first goes first, times all the weight,
    # the second times the weight that is left: 0.016 * 0.25 = 0.004, not below 0.0133.
    found = weighted_holm([0.01, 0.004], [0.75, 0.25])
    assert p_of(found) == pytest.approx([0.01333333, 0.01333333])
    # Both are shown: 0.05 * 0.75, then 0.05 of the weight that is left.
    assert levels(found) == pytest.approx([0.0375, 0.05])


def test_pairs_of_two_labels_with_two_models_share_the_error_equally() -> None:
    assert corrected([pair_of("code", "a", "b", 4.0, 0.04)]) == [Corrected(0.04, 0.05)]
    assert corrected([]) == []
    # Each has a quarter of each family, half of all: 2 * 0.02 = 0.04, then 1 * 0.03 -> 0.04.
    pairs = [pair_of("code", "a", "b", 4.0, 0.03), pair_of("general", "a", "b", 4.0, 0.02)]
    assert p_of(corrected(pairs)) == pytest.approx([0.04, 0.04])


def test_a_model_that_beats_every_other_needs_half_of_the_error() -> None:
    # Three models: weights 1/2 for the headline, 1/6 for each pair. a is ahead of both with 0.02
    # and 0.01, so the headline has 0.02: 0.02 / (1/2) = 0.04 goes first and is decided, although
    # 0.01 / (1/6) = 0.06 alone is not.
    pairs = [
        pair_of("code", "a", "b", 9.0, 0.02),
        pair_of("code", "a", "c", 9.0, 0.01),
        pair_of("code", "b", "c", 1.0, 0.8),
    ]
    found = corrected(pairs)
    assert p_of(found) == pytest.approx([0.04, 0.04, 0.8])
    # The headline is shown at 0.05 / 2, and its pairs with it; alone, the pair of 0.01 would be at
    # 0.05 * (1/6) / (1/2). The last pair has all the weight that is left.
    assert levels(found) == pytest.approx([0.025, 0.025, 0.05])


def test_labels_of_two_models_and_of_more_have_the_same_share_for_their_headlines() -> None:
    # Two labels have a quarter each: the single pair 1/4 + 1/8, the headline of the other 1/4, and
    # its pairs 1/8 each: 0.018 / (3/8) = 0.048 of all the weight.
    pairs = [
        pair_of("code", "a", "b", 4.0, 0.018),
        pair_of("general", "a", "b", 1.0, 0.8),
        pair_of("general", "a", "c", 1.0, 0.8),
        pair_of("general", "b", "c", 1.0, 0.8),
    ]
    assert corrected(pairs)[0].p == pytest.approx(0.048)


def test_without_a_model_ahead_of_all_there_are_only_pairs() -> None:
    # a beats b, b beats c, c beats a: 0.005 / (1/6) = 0.03 of all the weight, ...
    pairs = [
        pair_of("code", "a", "b", 9.0, 0.005),
        pair_of("code", "a", "c", -9.0, 0.5),
        pair_of("code", "b", "c", 9.0, 0.5),
    ]
    alone, *others = corrected(pairs)
    assert alone.p == pytest.approx(0.03)
    assert others[0].p > 0.5


def test_hedges_g_by_hand() -> None:
    # Means 80 and 70, both variances 100: d = 1. m = 4: J = Γ(2) / (sqrt(2) Γ(1.5)) = 0.79788.
    found = hedges_g(np.array([70.0, 80, 90]), np.array([60.0, 70, 80]))
    assert found == pytest.approx(0.79788, abs=1e-5)
    assert hedges_g(np.array([70.0, 70]), np.array([60.0, 60])) is None
    assert hedges_g(np.array([70.0]), np.array([60.0, 80])) is None


def test_the_probability_that_a_beats_b_counts_pairs_and_half_of_the_ties() -> None:
    # 3 over 1, 2: 2; 2 over 1: 1, ties 2: half; 1 ties 1: half. 4 of 6 pairs.
    found = superiority(np.array([1.0, 2, 3]), np.array([1.0, 2]))
    assert found == pytest.approx(4 / 6)


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


def test_the_p_value_is_that_of_a_one_sided_paired_t_test() -> None:
    a, b = [80.0, 70, 75, 90, 60], [83.0, 71, 80, 89, 62]
    found = difference(arm(a), arm(b))
    # Differences -3, -1, -5, 1, -2: are they above -5?
    shifted = scipy.stats.ttest_rel(np.array(a) + 5, b, alternative="greater")
    assert found.p_above(-5) == pytest.approx(shifted.pvalue)
    assert found.p_below(-5) == pytest.approx(1 - shifted.pvalue)
    below = scipy.stats.ttest_rel(np.array(a) - 5, b, alternative="less")
    assert found.p_below(5) == pytest.approx(below.pvalue)
    # The interval's lower end is the limit at 2.5% on one side.
    assert found.p_above(found.low or 0) == pytest.approx(0.025)


def test_without_an_error_nothing_is_known() -> None:
    assert Difference().p_above(-5) is None
    assert Difference(3.0).p_below(5) is None


def test_a_model_of_few_failures_may_still_hide_some() -> None:
    # Sixty passes near 95 without a failure: Student alone would be sure.
    people = [at % 6 for at in range(60)]
    a = arm([95.0 + at % 3 for at in range(60)], people=people)
    b = arm([95.0 + (at + 1) % 3 for at in range(60)], people=people)
    sure, careful = difference(a, b), difference(a, b, at_ceiling=True)
    assert (sure.p_above(-5) or 1) < 1e-3
    assert isinstance(careful.parts, TwoPart)
    # 60 runs of 6 people with a correlation of 0.05: 60 / 1.45 = 41 runs. One-sided 5% of t(5) is
    # 2.0 or more: z² / (n + z²) = 4.1 / 45 = 9% of 96 points, more than the margin of 5.
    assert (careful.p_above(-5) or 0) > 0.05
    assert (careful.p_above(-20) or 1) < 0.05


def test_a_cheaper_model_without_a_failure_yet_is_not_said_to_be_as_good() -> None:
    # The same runs as two models that are compared.
    dear = sample("dear", [95.0 + at % 3 for at in range(60)], 0, users=6)
    cheap = sample("cheap", [95.0 + (at + 1) % 3 for at in range(60)], 60, users=6, cost_usd=0.1)
    found = compared([*dear, *cheap]).models
    assert dict(found.select("model", "is_not_worse").rows()) == {"cheap": False, "dear": None}


def test_the_variance_is_taken_apart() -> None:
    # Two people with two runs of each model: within a person -+1 on each side, s² = 2.
    a = arm([10.0, 12, 20, 22], people=[0, 0, 1, 1])
    b = arm([9.0, 11, 11, 13], people=[0, 0, 1, 1])
    found = difference(a, b)
    parts = precision(a, b, found)
    assert parts is not None
    # s² * (1/2 + 1/2) / 2² on each side: 0.5; people's differences 1 and 9: 32 / 2 = 16 in all.
    assert (parts.of_runs, parts.of_people) == pytest.approx((1, 15))
    assert parts.people == 2
    # A run each: nothing tells runs from people.
    alone = arm([10.0, 20]), arm([9.0, 11])
    found = difference(*alone)
    assert found.error == pytest.approx(4)
    assert precision(*alone, found) == Precision(0.0, (found.error or 0) ** 2, 2)
    assert precision(*alone, Difference(1.0)) is None
    # Other people on each side are counted together.
    apart = arm([10.0, 20, 30, 40, 50]), arm([9.0, 11, 12, 13, 14], people=[5, 6, 7, 8, 9])
    assert precision(*apart, difference(*apart)).people == 10  # type: ignore[union-attr]


def test_what_it_takes_by_hand() -> None:
    # (1.6449 + 0.8416)² = 6.1826; 5² / 6.1826 = 4.0436.
    enough = needed(Precision(6.0, 1.0, 9), 5, 1)
    assert enough.runs == pytest.approx(6 / 3.0436, rel=1e-4)
    assert enough.people == 16  # 9 * 7 / 4.0436 = 15.6
    # Sixteen tests: z(1 - 0.05/16) = 2.7344; 25 / (3.5760)² = 1.9550; people 9 * 7 / 1.955 = 32.2.
    assert needed(Precision(6.0, 1.0, 9), 5, 16).people == 33
    # What people differ by is more than the error may be: no number of runs is enough.
    assert needed(Precision(6.0, 5.0, 9), 5, 1) == Needed(None, 25)
    # 6 / 0.04 = 150 times as many are not the way either.
    assert needed(Precision(6.0, 4.0, 9), 5, 1).runs is None


def test_further_runs_of_each_side() -> None:
    assert more_runs(60, 60, 2.0) == 60
    assert more_runs(60, 60, 0.9) == 0
    # 30 v 300, half of 1/30 + 1/300: 1/(30 + n) + 1/(300 + n) = 0.01833 at n = 27.5 ... 28.
    n = more_runs(30, 300, 2.0)
    assert 1 / (30 + n) + 1 / (300 + n) <= 0.0183334 < 1 / (29 + n) + 1 / (299 + n)


def test_cheaper_is_beyond_chance() -> None:
    def against(*ratio: float | None) -> Against:
        nothing = (None, None, None)
        cost, low, high = ratio
        return Against(
            {},
            "a",
            "b",
            None,
            None,
            is_worse=False,
            cost_ratio=(cost, low, high),
            difference=nothing,
        )

    assert against(0.8, 0.7, 0.9).is_cheaper
    assert not against(0.8, 0.6, 1.1).is_cheaper  # may cost as much
    assert against(0.8, None, None).is_cheaper
