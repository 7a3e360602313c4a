"""The regression watch seldom cries where nothing changed, and finds what did.

A part of what ``python -m evaluation_pipelines_tests.benchmarks --only watch`` measures.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from evaluation_pipelines.comparison.domain.compare import Question
from evaluation_pipelines.comparison.domain.people import Arm
from evaluation_pipelines.comparison.domain.regressions import looks
from evaluation_pipelines_tests.benchmarks.coverage import DOCUMENT
from evaluation_pipelines_tests.benchmarks.watch import BEGIN, END
from evaluation_pipelines_tests.builders import Row
from evaluation_pipelines_tests.comparison_builders import compared, run
from evaluation_pipelines_tests.simulation.histories import HISTORIES, History, history
from evaluation_pipelines_tests.simulation.watching import alerts, watch

BY_NAME = {each.name: each for each in HISTORIES}
START = datetime(2026, 1, 1, tzinfo=UTC)


def rows_of(runs: Arm) -> list[Row]:
    return [
        run(
            number,
            float(score),
            model="a",
            person=f"user {person}",
            task_class=f"class {task}",
            started_at=START + timedelta(days=int(day), minutes=number % 60),
        )
        for number, (score, person, task, day) in enumerate(
            zip(runs.scores, runs.people, runs.classes, runs.days, strict=True)
        )
    ]


@pytest.mark.parametrize(
    "name",
    ["8 points less", "near 100, failures from 5 % to 20 %", "near 100, passes 4 points less"],
)
def test_what_is_simulated_is_what_the_table_says(name: str) -> None:
    kind = replace(BY_NAME[name], models=1)
    runs = history(kind, 0, np.random.default_rng(3))
    runs = replace(runs, scores=np.clip(runs.scores, 0, 100))
    raised = alerts(looks(runs, kind.nights), 1)
    first = min(each.night for each in raised)
    rows, states = rows_of(runs), {}
    for night in (first - 1, first):
        until = START + timedelta(days=night)
        question = Question(until - timedelta(days=28), until)
        (states[night],) = compared(rows, question).regressions.to_dicts()
    assert states[first - 1]["state"] != "alert"
    row = states[first]
    assert row["state"] == "alert"
    (shown,) = [
        each
        for each in raised
        if START + timedelta(days=each.night) == row["window_until"]
        and START + timedelta(days=each.since) == row["window_since"]
        and each.channel == row["channel"]
    ]
    assert row["change"] == pytest.approx(shown.change.value)


def test_the_document_shows_histories_in_their_order() -> None:
    assert len(BY_NAME) == len(HISTORIES)
    shown = DOCUMENT.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    rows = [line.split(" | ")[0].removeprefix("| ") for line in shown.strip().splitlines()]
    assert rows[2:] == [name for name in BY_NAME if name in rows]
    assert {"as usual", "8 points less, runs with sd 15"} <= set(rows)


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
