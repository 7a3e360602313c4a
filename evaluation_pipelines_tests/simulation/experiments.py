"""How often an experiment has a false verdict at a look, and finds a true difference."""

from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
import polars as pl

from evaluation_pipelines.comparison.domain.experiment import result
from evaluation_pipelines.comparison.domain.experiment_plan import Plan, Unit
from evaluation_pipelines_tests.simulation.measure import Share

_START = date(2026, 1, 1)


@dataclass(frozen=True, slots=True)
class Trial:
    """An experiment of 60 days.

    Attributes:
        unit: What is assigned.
        tau: Standard deviation of people's true differences.
        effect: Their mean, first minus second arm.
        people: Number of people.
        sessions: Mean sessions of each person; some have many times as many as others.
        kind: How sessions score: ``plain``, ``ceiling`` (around 95, at most 100) or ``binary``.
        is_equal_use: Every person has the same number of sessions.
    """

    unit: Unit = "session"
    tau: float = 5.0
    effect: float = 0.0
    people: int = 12
    sessions: int = 40
    kind: str = "plain"
    is_equal_use: bool = False

    @property
    def plan(self) -> Plan:
        """The plan."""
        arms = ("a", "b")
        return Plan("x", arms, 0.5, self.unit, 60, _START, "effective", None, None, "00")


def measure(trial: Trial, number: int, seed: int = 2026) -> tuple[Share, Share]:
    """Return how often any of the looks has a verdict, and how often the last finds the first."""
    random, any_verdict, found = np.random.default_rng(seed), Share(), Share()
    plan = trial.plan
    for _ in range(number):
        units = _units(trial, random)
        results = [result(plan, units.filter(pl.col("started_on") < day)) for day in plan.look_days]
        any_verdict.add(is_hit=any(result.verdict is not None for result in results))
        found.add(is_hit=results[-1].verdict == "first")
    return any_verdict, found


def _units(trial: Trial, random: np.random.Generator) -> pl.DataFrame:
    """Return assigned sessions: people differ by 10, sessions by 16, days by 3 points."""
    use = np.ones(trial.people) if trial.is_equal_use else random.lognormal(0, 0.8, trial.people)
    counts = np.maximum(np.round(use / use.mean() * trial.sessions), 2).astype(int)
    person = np.repeat(np.arange(trial.people), counts)
    level = random.normal({"plain": 60, "ceiling": 95, "binary": 60}[trial.kind], 10, trial.people)
    effect = random.normal(trial.effect, trial.tau, trial.people)
    # Assigned people differ by their own effect in the first arm alone.
    by_person = random.random(trial.people) < 0.5
    is_first = by_person[person] if trial.unit == "person" else random.random(len(person)) < 0.5
    day = random.integers(0, 60, len(person))
    means = level[person] + random.normal(0, 3, 60)[day] + is_first * effect[person]
    baseline = level + random.normal(0, 16 / np.sqrt(counts))
    if trial.kind == "binary":
        values = 100.0 * (random.random(len(person)) * 100 < means)
    else:
        values = means + random.normal(0, 16, len(person))
    if trial.kind == "ceiling":
        values = np.minimum(values, 100)
    return pl.DataFrame(
        {
            "unit": person if trial.unit == "person" else np.arange(len(person)),
            "person": person,
            "arm": np.where(is_first, "a", "b"),
            "value": values,
            "baseline": baseline[person],
            "started_on": [_START + timedelta(days=int(day_number)) for day_number in day],
        }
    )
