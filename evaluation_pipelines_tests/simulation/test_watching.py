"""The regression watch seldom cries where nothing changed, and finds what did.

A part of what ``python -m evaluation_pipelines_tests.benchmarks --only watch`` measures.
"""

from dataclasses import replace

import pytest

from evaluation_pipelines_tests.simulation.histories import HISTORIES, History
from evaluation_pipelines_tests.simulation.watching import watch

BY_NAME = {history.name: history for history in HISTORIES}


def test_quiet_quarters_raise_hardly_any_alert() -> None:
    measured = watch(replace(BY_NAME["as usual"], models=1), 10)
    # One of 20 is expected; more than three of 10 in 1 of 1000 cases.
    assert measured.false.hits <= 3
    assert measured.covered.hits >= 6


def test_eight_points_are_found_within_four_weeks() -> None:
    measured = watch(BY_NAME["8 points less"], 20)
    # 18 are expected.
    assert measured.found.hits >= 13
    assert measured.covered.hits >= measured.covered.trials - 5
    assert 0 < measured.median_night <= 28


def test_days_that_resemble_each_other_raise_more_alerts_so_that_the_document_must_say_it() -> None:
    kind = History("days alike", models=1, autocorrelation=0.95, day_sd=15)
    measured = watch(kind, 6)
    assert measured.false.hits > 2
    assert measured.is_noisy()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["as usual", "runs with sd 15", "near 100, 1 % failures"])
def test_a_quarter_of_five_models_is_quiet(name: str) -> None:
    measured = watch(BY_NAME[name], 80)
    assert measured.false.trials == 80
    assert not measured.is_noisy()


@pytest.mark.slow
def test_eight_points_are_found_where_runs_vary_by_15() -> None:
    measured = watch(BY_NAME["8 points less, runs with sd 15"], 400)
    # At least 80 of 100, within two standard errors.
    assert measured.found.value >= 0.76
