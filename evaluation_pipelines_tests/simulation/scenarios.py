"""Teams and models whose truth is known, to try intervals and verdicts on."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

import numpy as np
import polars as pl

Random = np.random.Generator
_Columns = dict[str, np.ndarray[Any, Any]]
Numbers = np.ndarray[tuple[int], np.dtype[np.float64]]
Codes = np.ndarray[tuple[int], np.dtype[np.int64]]

MONDAY = datetime(2026, 11, 2, tzinfo=UTC)
MODELS = "abcde"
_CLASSES = np.array(["debug", "refactor", "review"])
_LEVELS = np.array([10.0, -10.0, 0.0])
_MOVING = (0.45, 0.35, 0.15, 0.05)
_MIXES = ((0.5, 0.3, 0.2), (0.2, 0.3, 0.5))


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of data; scores are drawn around ``level`` with the given standard deviations.

    Attributes:
        name: What is special about it.
        people: People of each model.
        apart: Each model has people of its own; otherwise all use every model.
        shared: Where each model has people of its own: this many of them use every model.
        runs: Runs of the first model and of each other one.
        zipf: People's shares of the runs are 1, 1/2, 1/3, ...; otherwise equal.
        person_sd: Spread of people, in points.
        by_model_sd: Spread of what a model suits a person, in points.
        run_sd: Spread of the runs of a person, in points.
        better: Points by which the first model is better.
        unlike_mix: The first model gets easier tasks.
        day_sd: Spread of days, in points.
        days: Number of days of the period.
        week_sd: Spread of weeks, in points.
        moves: A team moves from the first model to the others within four weeks.
        odd_days: Each model is used on days of its own within the same weeks.
        zeros: Share of runs that fail with 0, the others being near 95: first model, other ones.
        zeros_by_person: Intra-class correlation of these failures.
        models: Number of models.
        labels: Number of labels in a report.
        level: Mean score of all but the first model.
        unknown: Persons are not known.
        skewed: The runs of a person have a long tail of low scores (a gamma distribution).
        hard: Shares of hard tasks (15 points lower) within a class, of the first and other models.
        judge: Points that the judge gives to the first model for nothing.
        cost_sd: Spread of the logarithm of a run's cost; 0 for runs without costs.
        cost_person_sd: Spread of people's mean logarithm of a cost.
        costlier: Cost of the first model as a multiple of that of the others.
        cost_by_score: Fall of the logarithm of a run's cost for each 10 points of its score.
        is_visible: Whether intervals can be expected to see what is special.
    """

    name: str
    people: int = 9
    apart: bool = False
    shared: int = 0
    runs: tuple[int, int] = (60, 60)
    zipf: bool = False
    person_sd: float = 6.0
    by_model_sd: float = 0.0
    run_sd: float = 12.0
    better: float = 0.0
    unlike_mix: bool = False
    day_sd: float = 0.0
    week_sd: float = 0.0
    moves: bool = False
    odd_days: bool = False
    days: int = 28
    zeros: tuple[float, float] | None = None
    zeros_by_person: float = 0.0
    models: int = 2
    labels: int = 1
    level: float = 65.0
    unknown: bool = False
    skewed: bool = False
    hard: tuple[float, float] | None = None
    judge: float = 0.0
    cost_sd: float = 0.0
    cost_person_sd: float = 0.0
    costlier: float = 1.0
    cost_by_score: float = 0.0
    is_visible: bool = True

    def true_difference(self) -> float:
        """Return the true difference of the first model from any other for the same tasks."""
        return self.mean(0) - self.mean(1) if self.zeros is not None else self.better

    def mean(self, model: int) -> float:
        """Return the true mean of the scores that a model gets, over people, tasks and days."""
        better = self.better if model == 0 else 0.0
        if self.zeros is not None:
            return (1 - self.zeros[min(model, 1)]) * _clipped_mean(95 + better, 3.0)
        level = self.level + better + (self.judge if model == 0 else 0.0)
        if self.hard is not None:
            share = self.hard[min(model, 1)]
            return (1 - share) * self._mean_at(level) + share * self._mean_at(level - 15)
        if self.unlike_mix:
            mix = _MIXES[min(model, 1)]
            return sum(
                share * self._mean_at(level + float(more))
                for share, more in zip(mix, _LEVELS, strict=True)
            )
        return self._mean_at(level)

    def _mean_at(self, level: float) -> float:
        return _clipped_mean(level, self._spread())

    def _spread(self) -> float:
        parts = (self.person_sd, self.by_model_sd, self.run_sd, self.day_sd, self.week_sd)
        return float(np.sqrt(sum(part**2 for part in parts)))

    def pass_rate(self, model: int) -> float | None:
        """Return the true share of runs with 50 points or more; None where it is not simple."""
        from scipy.stats import norm

        if self.zeros is not None:
            return 1 - self.zeros[min(model, 1)]
        if (
            self.unlike_mix
            or self.hard is not None
            or self.day_sd
            or self.week_sd
            or self.judge
            or self.skewed
        ):
            return None
        level = self.level + (self.better if model == 0 else 0.0)
        return float(norm.cdf((level - 50) / self._spread()))

    def mean_cost(self, model: int) -> float:
        """Return the true mean cost of a run: the mean of a lognormal."""
        by_score = self.cost_by_score * self._spread() / 10
        variance = self.cost_sd**2 + self.cost_person_sd**2 + by_score**2
        return self.costs(model) * float(np.exp(variance / 2))

    def costs(self, model: int) -> float:
        """Return the median cost of a run."""
        return self.costlier if model == 0 else 1.0


@cache
def _clipped_mean(level: float, spread: float) -> float:
    """Return the mean of a normal score that is cut at 0 and 100, by a million quantiles."""
    from scipy.stats import norm

    quantiles = norm.ppf((np.arange(1_000_000) + 0.5) / 1_000_000)
    return float(np.clip(level + spread * quantiles, 0, 100).mean())


def runs_of(scenario: Scenario, samples: int, seed: int) -> pl.DataFrame:
    """Return the runs of many samples of a scenario, each under labels of its own.

    Columns: those of a file of runs; labels are ``<sample>/<label>``.
    """
    random = np.random.default_rng(seed)
    parts = [
        part
        for sample in range(samples)
        for label in range(scenario.labels)
        for part in _label(scenario, random, f"{sample}/{label}")
    ]
    frame = pl.DataFrame(
        {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    )
    without = {
        "task_class": not scenario.unlike_mix,
        "user_id": scenario.unknown,
        "cost_usd": not scenario.cost_sd,
    }
    return frame.drop([name for name, is_left_out in without.items() if is_left_out])


def _label(scenario: Scenario, random: Random, label: str) -> list[_Columns]:
    of_people = random.normal(0, scenario.person_sd, scenario.people * scenario.models)
    costs_of_people = random.normal(0, scenario.cost_person_sd, len(of_people))
    failing = _failing(scenario, random, len(of_people))
    days = random.normal(0, scenario.day_sd, scenario.days)
    if scenario.week_sd:
        weeks = random.normal(0, scenario.week_sd, scenario.days // 7 + 1)
        days += weeks[np.arange(scenario.days) // 7]
    parts = []
    for model in range(scenario.models):
        number = scenario.runs[min(model, 1)]
        who = random.choice(scenario.people, number, p=_shares(scenario))
        is_own = scenario.apart & (who >= scenario.shared)
        person = who + np.where(is_own, scenario.people * model, 0)
        day = _days(scenario, random, model, number)
        if scenario.odd_days:
            day = day // 2 * 2 + model % 2
        suits = random.normal(0, scenario.by_model_sd, scenario.people)
        classes = random.choice(3, number, p=_MIXES[min(model, 1)])
        own = of_people[person] + suits[who] + days[day]
        score = _scores(scenario, random, model, (own, classes, failing[model, person]))
        log_cost = random.normal(0, scenario.cost_sd, number) + costs_of_people[person]
        # Relative to the mean of the model, so that medians are as said.
        log_cost -= scenario.cost_by_score * (score - scenario.mean(model)) / 10
        parts.append(
            {
                "label": np.full(number, label),
                "model": np.full(number, MODELS[model]),
                "score": score,
                "user_id": np.char.add("u", person.astype(str)),
                "task_class": _CLASSES[classes],
                "cost_usd": scenario.costs(model) * np.exp(log_cost),
                "started_at": np.datetime64(MONDAY.date(), "us") + day * np.timedelta64(1, "D"),
            }
        )
    return parts


def _days(scenario: Scenario, random: Random, model: int, number: int) -> Codes:
    if not scenario.moves:
        return random.integers(0, scenario.days, number)
    of_weeks = _MOVING if model == 0 else _MOVING[::-1]
    weeks = random.choice(len(_MOVING), number, p=of_weeks)
    return np.asarray(7 * weeks + random.integers(0, 7, number))


def _scores(
    scenario: Scenario, random: Random, model: int, of_runs: tuple[Numbers, Codes, Numbers]
) -> Numbers:
    own, classes, failing = of_runs
    number, better = len(own), scenario.better if model == 0 else 0.0
    if scenario.zeros is not None:
        near = np.minimum(95 + better + random.normal(0, 3, number), 100)
        return np.where(random.random(number) < failing, 0.0, near)
    level = np.full(number, scenario.level + better)
    if scenario.unlike_mix:
        level += _LEVELS[classes]
    if scenario.hard is not None:
        level -= 15 * (random.random(number) < scenario.hard[min(model, 1)])
    if model == 0:
        level += scenario.judge
    if scenario.skewed:
        scale = scenario.run_sd / np.sqrt(2)  # the mean of shape 2 is 2 scales, the sd sqrt(2)
        low = 2 * scale - random.gamma(2, scale, number)
        return np.asarray(np.clip(level + own + low, 0, 100))
    return np.clip(level + own + random.normal(0, scenario.run_sd, number), 0, 100)


def _failing(
    scenario: Scenario, random: Random, people: int
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return the share of failures by model and person."""
    shares = np.array([0.0, 0.0] if scenario.zeros is None else scenario.zeros)
    every = shares[np.minimum(np.arange(scenario.models), 1)][:, None] * np.ones(people)
    if not scenario.zeros_by_person:
        return every
    more = 1 / scenario.zeros_by_person - 1
    return random.beta(every * more, (1 - every) * more)


def _shares(scenario: Scenario) -> Numbers:
    sizes = 1 / np.arange(1, scenario.people + 1) if scenario.zipf else np.ones(scenario.people)
    return np.asarray(sizes / sizes.sum())


def _sizes(numbers: tuple[int, ...]) -> list[Scenario]:
    return [
        Scenario(f"{number} people, {'of each model' if apart else 'who used both'}", number, apart)
        for number in numbers
        for apart in (False, True)
    ]


_MOVE: dict[str, Any] = {"runs": (80, 80), "moves": True, "is_visible": False}
_CEILING = Scenario("", level=95, zeros=(0.05, 0.05))

SCENARIOS: tuple[Scenario, ...] = (
    *_sizes((2, 3, 4, 5, 7, 9, 12, 40)),
    *(
        Scenario(f"{number} people of each model, {both} of whom used both", number, True, both)  # noqa: FBT003
        for number, both in ((12, 5), (12, 9), (40, 5))
    ),
    *(
        replace(siz, name=f"{siz.name}, {what}", **more)
        for siz in _sizes((5, 9))
        for what, more in (
            ("Zipf shares", {"zipf": True}),
            ("person-by-model sd 5", {"by_model_sd": 5.0}),
            ("Zipf and person-by-model sd 5", {"zipf": True, "by_model_sd": 5.0}),
            ("200 runs", {"runs": (200, 200)}),
            ("30 v 300 runs", {"runs": (30, 300)}),
            ("unlike mixes", {"unlike_mix": True}),
            ("own days, sd 5", {"day_sd": 5.0, "odd_days": True}),
            ("same days, sd 5", {"day_sd": 5.0}),
            ("own days of 10, sd 5", {"day_sd": 5.0, "odd_days": True, "days": 10}),
        )
    ),
    Scenario("20 people, who used both, own days, sd 10", 20, day_sd=10.0, odd_days=True),
    *(
        replace(
            _CEILING,
            name=f"{people} people at the ceiling, {100 * share:.0f} % zeros, {a} v {b} runs",
            people=people,
            zeros=(share, share),
            runs=(a, b),
        )
        for people in (5, 9)
        for share in (0.01, 0.05, 0.2)
        for a, b in ((30, 30), (30, 120), (30, 300))
    ),
    replace(_CEILING, name="ceiling, 5 % zeros of some people", zeros_by_person=0.1, apart=True),
    replace(_CEILING, name="ceiling, 2 % v 20 % zeros", zeros=(0.02, 0.2)),
    replace(_CEILING, name="ceiling, no failure v 8 %", zeros=(0.0, 0.08)),
    Scenario("scores around 80", level=80.0),
    *(
        Scenario(
            f"a tail of low scores, {number} people, {a} v {b} runs",
            number,
            level=78.0,
            person_sd=3.0,
            run_sd=10.0,
            runs=(a, b),
            skewed=True,
        )
        for number in (5, 9)
        for a, b in ((30, 30), (30, 300))
    ),
    Scenario("scores around 85, sd 4 and 8", level=85.0, person_sd=4.0, run_sd=8.0),
    Scenario("scores around 75, 10 better", level=75.0, person_sd=4.0, run_sd=8.0, better=10.0),
    Scenario("costs lognormal sd 1.5", cost_sd=1.5),
    Scenario("costs lognormal sd 1, 30 runs", runs=(30, 30), cost_sd=1.0),
    Scenario("costs of people differ, sd 0.5", cost_sd=1.0, cost_person_sd=0.5, people=12),
    Scenario("5 models x 4 labels, 5 people", 5, models=5, labels=4),
    Scenario("5 models x 4 labels, 9 people", 9, models=5, labels=4),
    Scenario("5 models x 4 labels, 9 people, 10 better", 9, models=5, labels=4, better=10.0),
    *(
        Scenario(f"10 points better, {number} people, {what}", number, better=10.0, **more)
        for number in (5, 9)
        for what, more in (
            ("who used both", {}),
            ("who used both, person-by-model sd 5", {"by_model_sd": 5.0}),
            ("who used both, 30 runs", {"runs": (30, 30)}),
            ("of each model", {"apart": True}),
        )
    ),
    Scenario("3 people who used both, 10 better", 3, better=10.0),
    *(
        Scenario(f"from one model to the other in 4 weeks, week sd {sd:g}", 7, **_MOVE, week_sd=sd)
        for sd in (3.0, 5.0)
    ),
    Scenario("persons unknown, 9 people", unknown=True, is_visible=False),
    Scenario("hidden difficulty: 30 v 60 % hard", hard=(0.3, 0.6), is_visible=False),
    Scenario("judge favors the first by 5", judge=5.0, is_visible=False),
)


def _of_money(name: str, people: int = 9, **more: Any) -> Scenario:
    """Return a scenario whose first model costs three times as much as any other.

    Scores are far from 0 and 100, so that true differences are exactly as said.
    """
    usual: dict[str, Any] = {"level": 50.0, "cost_sd": 0.8, "cost_person_sd": 0.4, "costlier": 3.0}
    return Scenario(name, people, **(usual | more))


_KINDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("5 people, who used both", {"people": 5}),
    ("9 people, who used both", {}),
    ("9 people, who used both, 200 runs", {"runs": (200, 200)}),
    ("9 people, who used both, person-by-model sd 5", {"by_model_sd": 5.0}),
    ("9 people, who used both, Zipf shares", {"zipf": True}),
    ("9 people, of each model", {"apart": True}),
    ("9 people, who used both, own days, sd 5", {"day_sd": 5.0, "odd_days": True}),
    ("12 people, who used both", {"people": 12}),
    ("12 people, who used both, 200 runs", {"people": 12, "runs": (200, 200)}),
    ("20 people, of each model, 200 runs", {"people": 20, "apart": True, "runs": (200, 200)}),
    ("9 people, who used both, costs fall with scores", {"cost_by_score": 0.3}),
    ("5 models, 9 people, who used all", {"models": 5}),
    (
        "5 models x 4 labels, 9 people, who used all, 200 runs",
        {"models": 5, "labels": 4, "runs": (200, 200)},
    ),
)

_AT_CEILING: tuple[tuple[str, dict[str, Any]], ...] = (
    ("at the ceiling, 9 people, 60 runs", {}),
    ("at the ceiling, 9 people, 200 runs", {"runs": (200, 200)}),
)

WORSE, AS_GOOD = "5 points worse", "as good"

MONEY_SCENARIOS: tuple[Scenario, ...] = (
    *(_of_money(f"{name}: {WORSE}", better=5.0, **more) for name, more in _KINDS),
    # 95 points times 5.3 % are 5 points.
    *(_of_money(f"{name}: {WORSE}", zeros=(0.0, 0.053), **more) for name, more in _AT_CEILING),
    *(_of_money(f"{name}: {AS_GOOD}", **more) for name, more in _KINDS),
    *(_of_money(f"{name}: {AS_GOOD}", zeros=(0.01, 0.01), **more) for name, more in _AT_CEILING),
)
"""Models at a third of the cost of the first one: worse by exactly the margin, or as good."""
