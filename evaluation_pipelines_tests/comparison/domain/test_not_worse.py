"""Whether a model is shown to be not worse: by hand, and compared with scipy."""

import numpy as np
import pytest
import scipy.stats

from evaluation_pipelines.comparison.domain.differences import Difference, TwoPart, difference
from evaluation_pipelines.comparison.domain.verdicts import (
    Needed,
    Precision,
    more_runs,
    needed,
    precision,
)
from evaluation_pipelines_tests.comparison_builders import arm, compared, sample


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
