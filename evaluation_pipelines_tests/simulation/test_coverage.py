"""Intervals hold the truth and verdicts are seldom false, where the truth is known.

A part of what ``python -m evaluation_pipelines_tests.benchmarks --only coverage`` measures: few
samples in the ordinary suite, to find what is plainly wrong, and more of them among slow tests.
"""

import pytest

from evaluation_pipelines_tests.simulation.measure import measure
from evaluation_pipelines_tests.simulation.scenarios import (
    MONEY_SCENARIOS,
    SCENARIOS,
    Scenario,
)

BY_NAME = {scenario.name: scenario for scenario in (*SCENARIOS, *MONEY_SCENARIOS)}
FEW, MANY = 60, 400

QUICK = (
    "5 people, who used both",
    "9 people, of each model, Zipf shares",
    "9 people, who used both, own days, sd 5",
    "9 people at the ceiling, 5 % zeros, 30 v 300 runs",
)
THOROUGH = (
    *QUICK,
    "5 people, who used both, Zipf and person-by-model sd 5",
    "5 people, of each model, 200 runs",
    "9 people, who used both, unlike mixes",
    "5 people, of each model, own days, sd 5",
    "5 people at the ceiling, 1 % zeros, 30 v 300 runs",
    "ceiling, 5 % zeros of some people",
    "costs lognormal sd 1.5",
    "costs of people differ, sd 0.5",
    "40 people, of each model",
    "9 people, who used both: 5 points worse",
    "9 people, of each model: 5 points worse",
    "at the ceiling, 9 people, 200 runs: 5 points worse",
)


def test_a_model_that_is_worse_by_the_margin_is_seldom_called_not_worse() -> None:
    measured = measure(BY_NAME["9 people, who used both, 200 runs: 5 points worse"], FEW)
    # 3 of 60 expected; 9 or more in 1 of 300 runs.
    assert (measured.false_money.trials, measured.found_money.trials) == (FEW, 0)
    assert measured.false_money.hits <= 8


def test_a_cheaper_model_that_is_as_good_is_found() -> None:
    measured = measure(BY_NAME["9 people, who used both, 200 runs: as good"], 30)
    # 95 of 100 in the table; fewer than 24 of 30 in 1 of 250 runs.
    assert (measured.found_money.trials, measured.false_money.trials) == (30, 0)
    assert measured.found_money.hits >= 24


@pytest.mark.parametrize("name", QUICK)
def test_intervals_and_verdicts_are_not_plainly_wrong(name: str) -> None:
    measured = measure(BY_NAME[name], FEW)
    # Of 60 samples 3 are missed; 9 or more in 1 of 300 runs. A mean has two models a sample.
    assert measured.difference.hits >= FEW - 9
    assert measured.mean.hits >= 2 * FEW - 15
    assert measured.false.hits <= 8
    assert measured.refused.hits == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", THOROUGH)
def test_intervals_hold_and_verdicts_are_seldom_false(name: str) -> None:
    assert measure(BY_NAME[name], MANY).failures() == []


@pytest.mark.slow
def test_a_report_of_many_equal_models_is_seldom_wrong() -> None:
    measured = measure(BY_NAME["5 models x 4 labels, 5 people"], 60)
    assert measured.false.trials == 60
    # 3 expected at most; more than 8 happen in 1 of 250 cases.
    assert measured.false.hits <= 8


@pytest.mark.parametrize("runs", ["", ", 30 runs"])
def test_ten_points_are_found_by_nine_people_in_half_of_the_cases(runs: str) -> None:
    measured = measure(BY_NAME[f"10 points better, 9 people, who used both{runs}"], FEW)
    assert measured.found.value >= 0.5
    assert measured.found.trials == FEW


def test_few_people_are_refused_and_three_of_both_give_an_indication() -> None:
    measured = measure(BY_NAME["3 people who used both, 10 better"], 20)
    assert (measured.refused.value, measured.found.hits) == (1, 0)
    assert measured.hinted.hits > 0
    assert measured.difference.hits >= 17


def test_what_no_interval_sees_is_found_false_so_that_the_report_must_say_it() -> None:
    measured = measure(Scenario("a judge that favors", judge=10.0, is_visible=False), 30)
    assert measured.false.value > 0.5
    assert measured.failures() == []
