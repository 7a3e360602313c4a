"""How often the intervals of a split hold what is true, by simulation.

``python -m evaluation_pipelines_tests.judge_changes.coverage`` prints the table of
``coverage.md``.
"""

import sys
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import polars as pl

from evaluation_pipelines.judge_changes.domain.anchor_sample import allocate
from evaluation_pipelines.judge_changes.domain.judge_change import Stratum
from evaluation_pipelines.judge_changes.domain.shift import split
from evaluation_pipelines_tests.judge_changes.change_builders import DAY

JUDGES_PART, AGENTS_PART = 3.0, 2.0
TIMES = 2000
_FRAME, _SIDE = 400, 150
_STRATA = (0.7, 0.2, 0.1)
"""Share of the sessions of each label; the second judge differs by label, too."""
_LEAN_OF_LABEL = np.asarray([0.0, 1.5, -3.0])


@dataclass(frozen=True, slots=True)
class Scenario:
    """A team, and how two judges see its sessions.

    Attributes:
        name: What is special.
        people: Number of people.
        zipf: Whether person n has 1 / n of the sessions of the first.
        of_person: Standard deviation of the judges' difference between people.
        noise: Standard deviation of their difference between sessions of a person.
        ceiling: Mean score of the former judge; close to 100 many scores are cut there.
    """

    name: str
    people: int
    zipf: bool = False
    of_person: float = 1.0
    noise: float = 6.0
    ceiling: float = 62.0


SCENARIOS = (
    *(Scenario(f"{number} people", number) for number in (3, 5, 9, 20, 40)),
    *(Scenario(f"{number} people, unlike shares", number, zipf=True) for number in (3, 5, 9, 20)),
    Scenario("9 people, judges differ by person", 9, of_person=3.0),
    Scenario("9 people, judges agree closely", 9, of_person=0.3, noise=2.0),
    Scenario("9 people, scores at the ceiling", 9, ceiling=92.0),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """Shares of the simulated changes, in percent, and the median half-width in points."""

    judges: float
    agents: float
    half_width: float
    bridged: float


def measure(scenario: Scenario, times: int = TIMES, seed: int = 20261124) -> Measured:
    """Simulate a scenario many times."""
    random = np.random.default_rng(seed)
    judges_truth, agents_truth = _truth(scenario)
    held, agents_held, bridged = 0, 0, 0
    widths: list[float] = []
    for _ in range(times):
        found = split(*_sample(scenario, random))
        held += found["judges_part_low"] <= judges_truth <= found["judges_part_high"]
        agents_held += found["agents_part_low"] <= agents_truth <= found["agents_part_high"]
        widths.append(found["half_width"])
        bridged += found["trend"] == "bridged"
    return Measured(
        100 * held / times,
        100 * agents_held / times,
        float(np.median(widths)),
        100 * bridged / times,
    )


def table() -> str:
    """Return the table of all scenarios in Markdown."""
    lines = [
        "| team | judge's part | agents' part | half-width | bridged |",
        "|---|---|---|---|---|",
    ]
    for scenario in SCENARIOS:
        found = measure(scenario)
        figures = (found.judges, found.agents, found.half_width, found.bridged)
        shown = " | ".join(f"{figure:.1f}" for figure in figures)
        lines.append(f"| {scenario.name} | {shown} |")
    return "\n".join(lines)


class _Team:
    """A drawn team: what people share over all of their sessions."""

    def __init__(self, scenario: Scenario, random: np.random.Generator) -> None:
        self.scenario, self.random = scenario, random
        self.skill = random.normal(0, 3, scenario.people)
        self.lean = random.normal(0, scenario.of_person, scenario.people)
        weights = 1 / np.arange(1, scenario.people + 1) if scenario.zipf else None
        self.shares = None if weights is None else weights / weights.sum()

    def sessions(self, number: int, better: float = 0.0) -> dict[str, np.ndarray]:
        """Return sessions as both judges score them, with one sample and with three."""
        random, scenario = self.random, self.scenario
        people = random.choice(scenario.people, number, p=self.shares)
        labels = random.choice(len(_STRATA), number, p=_STRATA)
        work = scenario.ceiling + better + self.skill[people] + random.normal(0, 8, number)
        seen = work + JUDGES_PART + self.lean[people] + _LEAN_OF_LABEL[labels]
        seen = seen + random.normal(0, scenario.noise, number)

        def scored(values: np.ndarray, samples: int) -> np.ndarray:
            told = values[:, None] + random.normal(0, 3, (number, samples))
            return np.asarray(told.clip(0, 100).mean(axis=1))

        return {
            "person": people,
            "label": labels,
            "former": scored(work, 1),
            "new": scored(seen, 1),
            "former_anchor": scored(work, 3),
            "new_anchor": scored(seen, 3),
        }


def _sample(
    scenario: Scenario, random: np.random.Generator
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    team = _Team(scenario, random)
    before, after = team.sessions(_FRAME), team.sessions(_SIDE, AGENTS_PART)
    chosen, weights = _draw(before["label"], random)
    anchors = _frame(before["person"][chosen]).with_columns(
        former_score=before["former_anchor"][chosen],
        new_score=before["new_anchor"][chosen],
        weight=weights,
    )
    sides = (
        _frame(side["person"]).with_columns(total_score=side[name])
        for side, name in ((before, "former"), (after, "new"))
    )
    return (anchors, *sides)  # type: ignore[return-value]


def _draw(labels: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the anchors of each label, and the sessions that each stands for."""
    sizes: dict[Stratum, int] = {
        (str(label), None): int(number) for label, number in enumerate(np.bincount(labels))
    }
    drawn = allocate({name: size for name, size in sizes.items() if size}, 120)
    chosen, weights = [], []
    for (label, model), number in drawn.items():
        of_label = np.flatnonzero(labels == int(label))
        chosen.append(random.choice(of_label, number, replace=False))
        weights.append(np.full(number, sizes[label, model] / number))
    return np.concatenate(chosen), np.concatenate(weights)


def _frame(people: np.ndarray) -> pl.DataFrame:
    number = len(people)
    return pl.DataFrame(
        {
            "organization_id": ["default"] * number,
            "session_id": [f"s{index}" for index in range(number)],
            "session_date": [DAY - timedelta(days=1)] * number,
            "person": [f"p{person}" for person in people],
        }
    )


def _truth(scenario: Scenario) -> tuple[float, float]:
    """Return the parts over very many teams, where scores are cut at the ceiling."""
    random = np.random.default_rng(1)
    many = Scenario(
        "", 4000, of_person=scenario.of_person, noise=scenario.noise, ceiling=scenario.ceiling
    )
    before = _Team(many, random).sessions(1_000_000)
    after = _Team(many, random).sessions(1_000_000, AGENTS_PART)
    judges = float((before["new_anchor"] - before["former_anchor"]).mean())
    return judges, float(after["new"].mean() - before["former"].mean()) - judges


if __name__ == "__main__":
    sys.stdout.write(f"{table()}\n")
