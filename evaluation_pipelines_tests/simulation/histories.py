"""Histories of models, day by day, to try the regression watch on: what is true is known."""

from dataclasses import dataclass

import numpy as np

from evaluation_pipelines.comparison.domain.people import Arm
from evaluation_pipelines.comparison.domain.regressions import LONGEST_WINDOW
from evaluation_pipelines_tests.simulation.scenarios import Codes, Numbers, Random

QUARTER = 90
"""Nights for which the chance of a crossing holds."""

_HIGH = 95.0
"""Mean of the runs that do not fail, near 100."""

_LEVELS = np.array([10.0, -10.0, 0.0])
_MIXES = np.array([[0.6, 0.2, 0.2], [0.2, 0.6, 0.2]])
_WARM_UP = 50


@dataclass(frozen=True, slots=True)
class History:
    """One kind of history of some models; scores are drawn around 65 unless they have a ceiling.

    Attributes:
        name: What is special about it.
        models: Models of the report.
        before: Days of history before the first day of the quarter, or of the drop.
        runs: Mean number of runs of a model on a day (Poisson).
        weekdays: There are no runs on weekends.
        run_sd: Spread of the runs of a person on a day, in points.
        day_sd: Spread of days, in points; each model has days of its own.
        autocorrelation: Of a day with the day before.
        person_sd: Spread of people, in points; there are nine.
        busiest: Share of the runs of the first person; the others share the rest.
        drifting_mix: The mix of tasks moves from one to another and back, in four months.
        drifting_people: How much everybody works changes from week to week.
        newcomer: Points of a colleague who is there from the middle on, with 3 of 10 runs.
        skewed: Runs have a long tail of low scores.
        zeros: Share of runs that fail with 0, the others being near 95.
        outage: All runs of one day in the middle fail.
        drop: Points that the first model loses; nights are looked at from then on.
        more_zeros: Share of its runs that fail from then on.
        is_promised: At most 5 % of the quarters may have a false alert; else that is said.
    """

    name: str
    models: int = 5
    before: int = 90
    runs: float = 6.0
    weekdays: bool = False
    run_sd: float = 12.0
    day_sd: float = 5.0
    autocorrelation: float = 0.0
    person_sd: float = 6.0
    busiest: float = 0.2
    drifting_mix: bool = False
    drifting_people: bool = False
    newcomer: float | None = None
    skewed: bool = False
    zeros: float | None = None
    outage: bool = False
    drop: float = 0.0
    more_zeros: float | None = None
    is_promised: bool = True

    @property
    def has_drop(self) -> bool:
        """Whether the first model gets worse."""
        return self.lost > 0

    @property
    def lost(self) -> float:
        """Points that the first model loses on average."""
        if self.zeros is None or self.more_zeros is None:
            return self.drop
        return self.drop + _HIGH * (self.more_zeros - self.zeros)

    @property
    def nights(self) -> range:
        """Nights that are looked at: a quarter, or four weeks if the model gets worse."""
        number = LONGEST_WINDOW if self.has_drop else QUARTER
        return range(self.before + 1, self.before + 1 + number)


def history(kind: History, model: int, random: Random) -> Arm:
    """Return the runs of one model."""
    days = kind.nights[-1]
    counts = random.poisson(kind.runs, days)
    if kind.weekdays:
        counts[np.arange(days) % 7 > 4] = 0
    day = np.repeat(np.arange(days), counts)
    classes, people = _classes(kind, day, random), _people(kind, day, random)
    worse = (day >= kind.before) & (model == 0) & kind.has_drop
    if kind.zeros is not None:
        share = np.where(worse, kind.more_zeros or kind.zeros, kind.zeros)
        fails = random.random(len(day)) < share
        if kind.outage:
            fails |= day == days - QUARTER // 2
        scores = np.where(fails, 0.0, random.normal(_HIGH, 3, len(day)))
    else:
        scores = 65 + _days(kind, days, random)[day] + _LEVELS[classes] + _noise(kind, day, random)
        scores += _of_people(kind, random)[people]
    # Not cut at 0 and 100, so that spreads and drops are as they are said to be.
    return Arm(scores - worse * kind.drop, people, classes, day)


def _days(kind: History, number: int, random: Random) -> Numbers:
    drawn = random.normal(0, 1, number + _WARM_UP)
    for day in range(1, len(drawn)):
        fresh = np.sqrt(1 - kind.autocorrelation**2)
        drawn[day] = kind.autocorrelation * drawn[day - 1] + fresh * drawn[day]
    return np.asarray(kind.day_sd * drawn[_WARM_UP:])


def _noise(kind: History, day: Codes, random: Random) -> Numbers:
    if not kind.skewed:
        return random.normal(0, kind.run_sd, len(day))
    shape = 1.5
    return np.asarray(kind.run_sd / np.sqrt(shape) * (shape - random.gamma(shape, 1.0, len(day))))


def _classes(kind: History, day: Codes, random: Random) -> Codes:
    moved = (1 - np.cos(2 * np.pi * day / 120)) / 2 if kind.drifting_mix else np.full(len(day), 0.5)
    mixes = _MIXES[0] + moved[:, None] * (_MIXES[1] - _MIXES[0])
    found: Codes = (random.random(len(day))[:, None] > mixes.cumsum(axis=1)).sum(axis=1)
    return np.minimum(found, 2)


def _people(kind: History, day: Codes, random: Random) -> Codes:
    number, weeks = 9, int(day.max()) // 7 + 1
    shares = np.full(number, (1 - kind.busiest) / (number - 1))
    shares[0] = kind.busiest
    activity = np.repeat(shares[None], weeks, axis=0)
    if kind.drifting_people:
        activity = activity * np.exp(random.normal(0, 1, (weeks, number)))
    activity /= activity.sum(axis=1, keepdims=True)
    drawn: Codes = (random.random(len(day))[:, None] > activity.cumsum(axis=1)[day // 7]).sum(
        axis=1
    )
    drawn = np.minimum(drawn, number - 1)
    if kind.newcomer is not None:
        is_new = (day >= kind.before + QUARTER // 2) & (random.random(len(day)) < 0.3)
        drawn = np.where(is_new, number, drawn)
    return drawn


def _of_people(kind: History, random: Random) -> Numbers:
    return np.append(random.normal(0, kind.person_sd, 9), kind.newcomer or 0.0)


QUIET = (
    History("as usual"),
    History("runs with sd 15", run_sd=15),
    History("one model", models=1),
    History("2 runs a day", runs=2),
    History("no runs on weekends", runs=8.4, weekdays=True),
    History("28 days of history", before=35),
    History("a tail of low scores", skewed=True),
    History("a drifting mix of tasks", drifting_mix=True),
    History("drifting mix, people come and go", drifting_mix=True, drifting_people=True),
    History("one person has 80 % of the runs", busiest=0.8, drifting_people=True),
    History("a new colleague who scores 12 less", newcomer=-12),
    History("near 100, 1 % failures", zeros=0.01),
    History("near 100, 5 % failures", zeros=0.05),
    History("near 100, 1 % failures, one day of failures only", zeros=0.01, outage=True),
    History("near 100, 5 % failures, 2 runs a day", zeros=0.05, runs=2),
    History("near 100, 5 % failures, 28 days of history", zeros=0.05, before=35),
    History("near 100, no failure, 2 runs a day, 28 days", zeros=0.0, runs=2, before=35),
    History("days alike, autocorrelation 0.2", autocorrelation=0.2, is_promised=False),
    History("days alike, autocorrelation 0.5", autocorrelation=0.5, is_promised=False),
    History("days alike, autocorrelation 0.8", autocorrelation=0.8, is_promised=False),
)
"""Nothing changes."""

DROPS = (
    History("8 points less", drop=8),
    History("8 points less, runs with sd 15", drop=8, run_sd=15),
    History(
        "8 points less, sd 15, drifting mix and people",
        drop=8,
        run_sd=15,
        drifting_mix=True,
        drifting_people=True,
    ),
    History("8 points less, 28 days of history", drop=8, before=28),
    History("8 points less, autocorrelation 0.5", drop=8, autocorrelation=0.5),
    History("8 points less, 2 runs a day", drop=8, runs=2),
    History("5 points less", drop=5),
    History("5 points less, runs with sd 15", drop=5, run_sd=15),
    History("near 100, failures from 1 % to 10 %", zeros=0.01, more_zeros=0.1),
    History("near 100, failures from 5 % to 20 %", zeros=0.05, more_zeros=0.2),
    History("near 100, failures from 0 % to 60 %", zeros=0.0, more_zeros=0.6),
    History(
        "near 100, failures from 0 % to 60 %, 2 runs a day, 28 days",
        zeros=0.0,
        more_zeros=0.6,
        runs=2,
        before=28,
    ),
    History("near 100, passes 4 points less", zeros=0.01, drop=4),
)
"""The first of five models gets worse."""

HISTORIES = (*QUIET, *DROPS)
