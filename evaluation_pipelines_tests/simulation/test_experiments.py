"""Three looks at an experiment are false in at most 5 of 100, and find what was promised."""

import math

import pytest

from evaluation_pipelines.comparison.domain.experiment import people_needed
from evaluation_pipelines.comparison.domain.experiment_plan import Unit
from evaluation_pipelines_tests.simulation.experiments import Trial, measure
from evaluation_pipelines_tests.simulation.measure import Share

FALSE = [
    *(Trial(unit, tau, people=20) for unit in ("session", "person") for tau in (0.0, 5.0, 10.0)),
    *(Trial(unit, kind=kind) for unit in ("session", "person") for kind in ("ceiling", "binary")),
]


def is_within(found: Share) -> bool:
    """Return True if at most 5 of 100 are false, within two Monte-Carlo errors."""
    return found.value <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / found.trials)


@pytest.mark.parametrize("unit", ["session", "person"])
def test_an_experiment_is_not_plainly_wrong(unit: Unit) -> None:
    # 3 to 5 of 100 are expected, more than 12 in 1 of 500 cases.
    assert measure(Trial(unit), 100)[0].hits <= 12


@pytest.mark.slow
@pytest.mark.parametrize("trial", FALSE, ids=str)
def test_false_verdicts_are_rare(trial: Trial) -> None:
    assert is_within(measure(trial, 800)[0])


@pytest.mark.slow
@pytest.mark.parametrize("tau", [0.0, 5.0, 10.0])
def test_the_promised_difference_is_found(tau: float) -> None:
    people = people_needed(8, 40, 16.3, tau)  # sessions vary by 16, days by 3
    trial = Trial("session", tau, 8, people, 40, is_equal_use=True)
    assert measure(trial, 400)[1].value >= 0.75
