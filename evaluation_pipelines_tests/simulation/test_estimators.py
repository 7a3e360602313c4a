"""Corrected means, calibration and lift hold the truth where it is known.

A part of what ``python -m evaluation_pipelines_tests.benchmarks --only estimators`` measures.
"""

import pytest

from evaluation_pipelines_tests.simulation.audits import JUDGES, Judge
from evaluation_pipelines_tests.simulation.estimators import calibrated, corrected, lifted
from evaluation_pipelines_tests.simulation.measure import SMALLEST_COVERAGE
from evaluation_pipelines_tests.simulation.people import REVIEWS, WEARERS

FEW = 40


def test_corrected_means_are_not_plainly_wrong() -> None:
    ((_, _, covered, _, _),) = corrected(JUDGES[0], 4)

    # 12 to 16 intervals; of 16 one is missed, 4 or more in 1 of 140 cases.
    assert covered.trials >= 12
    assert covered.hits >= covered.trials - 3


def test_calibration_is_not_plainly_wrong() -> None:
    lines = {figure: covered for figure, _, covered, _, _ in calibrated(REVIEWS[1], FEW)}

    # Of 40 two are missed, 7 or more in 1 of 300 cases.
    assert all(line.hits >= FEW - 6 for line in lines.values())


def test_lift_is_not_plainly_wrong_and_not_shown_for_three_people() -> None:
    three, three_apart, five, five_apart, *_ = WEARERS

    assert [lifted(wearers, 3)[0][3].value for wearers in (three, three_apart)] == [1, 1]
    assert all(lifted(wearers, FEW)[0][2].hits >= FEW - 6 for wearers in (five, five_apart))


@pytest.mark.slow
@pytest.mark.parametrize("judge", JUDGES, ids=lambda judge: judge.name)
def test_corrected_means_hold(judge: Judge) -> None:
    *_, (_, _, covered, _, _) = corrected(judge, 40)

    assert covered.value + 2 * covered.error >= SMALLEST_COVERAGE
