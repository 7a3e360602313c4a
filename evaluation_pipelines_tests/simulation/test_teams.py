"""Predictions of outcomes for teams whose truth is known."""

import math
from dataclasses import replace
from itertools import product

import pytest

from evaluation_pipelines_tests.simulation.leaks import leaking_judge
from evaluation_pipelines_tests.simulation.measure import LARGEST_FALSE, SMALLEST_COVERAGE, Share
from evaluation_pipelines_tests.simulation.teams import (
    Nights,
    Team,
    TwoArms,
    coverage,
    separated,
    told,
)

NOTHING = Team(people=12, slope=0, slope_sd=0)
VARIANTS = {
    "": Team(),
    "ties": Team(step=1.0),
    "a ceiling": Team(ceiling=0.3),
    "shared references": Team(shared=3),
    "people who differ in both": Team(person_sd=1.0),
}
FALSE = {
    "nothing predicts": Nights(NOTHING),
    "people differ in both": Nights(replace(NOTHING, person_sd=1.0)),
    "scores rise, outcomes are known after 14 nights": Nights(NOTHING, trend=1.5, horizon=14),
    "a tag learned from outcomes": Nights(NOTHING, learned=True),
}
AT_ONCE = Nights(Team(people=12, good=0.5, slope=0.9, slope_sd=0.2), 3, outcomes=1, nights=1)
"""12 people of 25 sessions, an AUC of 0.70, looked at once."""


def is_seldom(found: Share, errors: float = 2) -> bool:
    """Return True if 5% hold within some Monte-Carlo errors."""
    return found.value <= LARGEST_FALSE + errors * math.sqrt(0.05 * 0.95 / found.trials)


def test_predictions_are_not_plainly_wrong() -> None:
    assert coverage(Team(people=5), 60).hits >= 51
    assert told(Nights(NOTHING, scores=5, outcomes=2), 40)[0].hits <= 6
    assert told(AT_ONCE, 40)[1].hits >= 35  # 39 are expected
    assert separated(TwoArms(5, 0.98), 100).hits <= 11  # 12 or more in 1 of 150, if 5 are expected


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_intervals_hold_the_truth(variant: str) -> None:
    for people, good in product((3, 5, 8, 15, 40), (0.8, 0.95)):
        found = coverage(replace(VARIANTS[variant], people=people, good=good), 1000)
        assert found.value >= SMALLEST_COVERAGE - 2 * found.error, (people, good)


@pytest.mark.slow
@pytest.mark.parametrize("name", FALSE)
def test_a_score_that_predicts_nothing_seldom_gets_a_verdict(name: str) -> None:
    assert is_seldom(told(FALSE[name], 1000)[0])


def test_a_judge_who_reads_the_outcome_gets_no_verdict_by_it() -> None:
    told_of, agreement = leaking_judge(20)
    assert told_of.hits <= 4
    assert agreement > 0.8


@pytest.mark.slow
def test_a_leaking_judge_is_outside_the_families() -> None:
    assert is_seldom(leaking_judge(400)[0])


@pytest.mark.slow
@pytest.mark.parametrize(("good", "slope"), [(0.5, 0.9), (0.8, 0.87)])
def test_an_auc_of_seventy_is_found_night_after_night(good: float, slope: float) -> None:
    team = Team(people=12, good=good, slope=slope, slope_sd=0.2)
    found = told(Nights(team, 3, outcomes=1), 1000)[1]
    assert found.value + 2 * found.error >= 0.6


@pytest.mark.slow
@pytest.mark.parametrize("people", [5, 8, 15, 40])
def test_arms_of_equal_outcomes_are_seldom_told_apart(people: int) -> None:
    for share, second, same in product((0.5, 0.9, 0.98), (20, 6), (True, False)):
        found = separated(TwoArms(people, share, second=second, same=same), 2000)
        # One of 48 kinds of teams is beyond two errors by chance.
        assert is_seldom(found, 3), (share, second, same)
