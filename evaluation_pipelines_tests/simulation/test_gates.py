"""A gate seldom passes a change that is worse by the margin, and finds what it promises."""

import math

import pytest

from evaluation_pipelines_tests.simulation.gates import Change, measure
from evaluation_pipelines_tests.simulation.measure import Share


def at_most(found: Share, limit: float) -> bool:
    """Return True if a share is within two Monte-Carlo errors of a limit."""
    return found.value <= limit + 2 * math.sqrt(limit * (1 - limit) / found.trials)


def test_a_gate_is_not_plainly_wrong() -> None:
    assert measure(Change(-10), 200)[0].hits <= 11  # 5 of 200 are expected, 12 or more in 1 of 150
    assert measure(Change(0), 200)[1].hits <= 11
    # 62 of 100 are expected with 12 tasks and 3 runs.
    assert 103 <= measure(Change(0), 200)[0].hits <= 145


@pytest.mark.slow
@pytest.mark.parametrize("task_sd", [0.0, 5.0, 10.0])
def test_a_change_that_is_worse_by_the_margin_seldom_passes(task_sd: float) -> None:
    assert at_most(measure(Change(-10, task_sd=task_sd), 2000)[0], 0.025)
    assert at_most(measure(Change(0, task_sd=task_sd), 2000)[1], 0.025)


@pytest.mark.slow
def test_running_it_again_until_it_passes_does_not_help() -> None:
    assert at_most(measure(Change(-10, looks=5), 1000)[0], 0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "promised"),
    [
        (Change(0, runs=1), 0.30),
        (Change(0, runs=3), 0.64),
        (Change(0, runs=5), 0.80),
        (Change(0, runs=10), 0.94),
        (Change(0, tasks=60, runs=3, margin=5), 0.80),
    ],
)
def test_the_documented_power_is_there(change: Change, promised: float) -> None:
    assert abs(measure(change, 1000)[0].value - promised) <= 0.05
