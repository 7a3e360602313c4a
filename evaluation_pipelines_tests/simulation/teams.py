"""Teams whose scores and outcomes have a known connection."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from evaluation_pipelines.comparison.domain.outcomes import share_difference
from evaluation_pipelines.comparison.domain.people import Arm
from evaluation_pipelines.comparison.domain.prediction import (
    PREDICTS,
    WRONG_WAY,
    Prediction,
    Units,
    look_level,
    predictions,
    step_of,
    verdicts,
)
from evaluation_pipelines.numerics.estimates import Codes, Numbers
from evaluation_pipelines_tests.simulation.measure import Share

Random = np.random.Generator


@dataclass(frozen=True, slots=True)
class Team:
    """People with sessions of a hidden quality, which scores and outcomes follow.

    Attributes:
        people: Number of people.
        sessions: Sessions of each person, on average.
        good: Share of good outcomes of an average person.
        slope: How much a score follows quality, against noise of 1.
        slope_sd: Spread of the slope over people.
        person_sd: Spread of people in scores, and in the logits of outcomes.
        step: Scores are rounded to it: ties.
        ceiling: Scores above it are equal to it.
        shared: Sessions of one reference, which are one unit with their mean score.
    """

    people: int = 8
    sessions: int = 25
    good: float = 0.8
    slope: float = 0.6
    slope_sd: float = 0.3
    person_sd: float = 0.0
    step: float = 0.0
    ceiling: float = np.inf
    shared: int = 1

    def drawn(self, random: Random, scores: int = 1) -> tuple[Units, Numbers]:
        """Draw units with their outcome, and scores of each."""
        sizes = 1 + random.poisson(self.sessions - 1, self.people)
        people = np.repeat(np.arange(self.people), sizes)
        classes = random.integers(0, 2, len(people))
        quality = random.normal(0, 1, len(people))
        level = random.normal(0, self.person_sd, self.people)
        logit = np.log(self.good / (1 - self.good)) + level[people] + 1.5 * quality
        values = (random.random(len(people)) < 1 / (1 + np.exp(-logit))).astype(np.float64)
        slopes = random.normal(self.slope, self.slope_sd, (self.people, scores))
        noise = random.normal(0, 1 / np.sqrt(self.shared), (len(people), scores))
        given = level[people, None] + slopes[people] * quality[:, None] + noise
        if self.step:
            given = np.round(given / self.step) * self.step
        return Units(people, people * 2 + classes, values), np.minimum(given, self.ceiling)

    @cache  # noqa: B019 - a constant of the module
    def truth(self) -> float:
        """Return the mean A of very many people of this kind."""
        many = replace(self, people=4_000)
        (found,) = predictions(*many.drawn(np.random.default_rng(1)))
        return found.auc or 0.0


def coverage(team: Team, samples: int, seed: int = 2026) -> Share:
    """Return how often the 95% interval of the AUC holds the truth."""
    random, held = np.random.default_rng(seed), Share()
    for _ in range(samples):
        (found,) = predictions(*team.drawn(random))
        shown = found.interval()
        if shown.low is not None and shown.high is not None:
            held.add(is_hit=shown.low <= team.truth() <= shown.high)
    return held


@dataclass(frozen=True, slots=True)
class Nights:
    """A page of every night while sessions come in.

    Attributes:
        team: The team; its ``slope`` is that of the first score alone.
        scores: Number of scores, of which three are tested in the first family.
        outcomes: Number of outcomes, of which one was set beforehand.
        nights: Number of nights.
        trend: Rise of all scores over the nights, in noise of a score.
        horizon: Nights after which an outcome is known. None of the sessions before it count.
        learned: The last score is a tag learned from the outcomes of the first half, and tested on
            the second.
    """

    team: Team
    scores: int = 20
    outcomes: int = 8
    nights: int = 60
    trend: float = 0.0
    horizon: int = 0
    learned: bool = False

    def drawn(self, random: Random) -> tuple[Codes, list[Units], Numbers]:
        """Draw the night of each unit, its outcomes, and its scores."""
        units, given = self.team.drawn(random, self.scores)
        noise = np.random.default_rng(random.integers(2**32))
        level = np.zeros(self.team.people)
        if self.team.person_sd:
            level = noise.normal(0, self.team.person_sd, self.team.people)
        night = noise.integers(0, self.nights, len(units.people))
        others = [
            replace(units, values=self._unrelated(units, level, noise))
            for _ in range(self.outcomes - 1)
        ]
        given = given + self.trend * night[:, None] / self.nights
        return night, [units, *others], given

    def _unrelated(self, units: Units, level: Numbers, random: Random) -> Numbers:
        logit = np.log(self.team.good / (1 - self.team.good)) + level[units.people]
        hits = random.random(len(units.people)) < 1 / (1 + np.exp(-logit))
        return np.asarray(hits, dtype=np.float64)


def looks(nights: Nights, random: Random) -> list[list[tuple[bool, str]]]:
    """Return for each look whether each verdict is of a primary test, and its word."""
    night, outcomes, scores = nights.drawn(random)
    if nights.learned:
        scores[:, -1] = _learned(nights, night, outcomes[0], random)
    seen, spent, found = 0, 0.0, list[list[tuple[bool, str]]]()
    for now in range(nights.nights + nights.horizon):
        known = np.flatnonzero(night + nights.horizon <= now)
        first = outcomes[0].values[known]
        step = step_of(int(min(first.sum(), len(first) - first.sum())))
        if step <= seen:
            continue
        level = look_level(step, seen, spent)
        found.append(_verdicts(outcomes, scores, known, level))
        seen, spent = step, spent + level
    return found


def _verdicts(
    outcomes: Sequence[Units], scores: Numbers, known: Codes, level: float
) -> list[tuple[bool, str]]:
    tested, primary = list[Prediction](), list[bool]()
    for number, outcome in enumerate(outcomes):
        some = Units(outcome.people[known], outcome.strata[known], outcome.values[known])
        tested += predictions(some, scores[known])
        primary += [number == 0 and column < 3 for column in range(scores.shape[1])]
    given = verdicts(tested, primary, level)
    return [(score, verdict.word) for score, verdict in zip(primary, given, strict=True)]


def _learned(nights: Nights, night: Codes, outcome: Units, random: Random) -> Numbers:
    """Return the one of 50 tags that agrees best with early outcomes, only for later sessions."""
    tags = random.integers(0, 2, (50, len(night))).astype(np.float64)
    early = night < nights.nights // 2
    agreement = [float(np.mean(tag[early] == outcome.values[early])) for tag in tags]
    return np.where(early, np.nan, tags[int(np.argmax(agreement))])


def told(nights: Nights, teams: int, seed: int = 2026) -> tuple[Share, Share]:
    """Return how often any verdict is for or against a score, and how often for the first."""
    random, anything, first = np.random.default_rng(seed), Share(), Share()
    for _ in range(teams):
        found = looks(nights, random)
        anything.add(
            is_hit=any(word in {PREDICTS, WRONG_WAY} for look in found for _, word in look)
        )
        first.add(is_hit=any(look[0][1] == PREDICTS for look in found))
    return anything, first


@dataclass(frozen=True, slots=True)
class TwoArms:
    """Arms with the same share of good outcomes, of the same people or of others.

    Attributes:
        people: Number of people of each arm.
        share: Share of good outcomes of an average person.
        sessions: Sessions of each person in the first arm.
        second: The same in the second arm.
        person_sd: Spread of people's logits.
        same: The people of both arms are the same.
    """

    people: int
    share: float
    sessions: int = 20
    second: int = 20
    person_sd: float = 0.7
    same: bool = False

    def drawn(self, random: Random) -> tuple[Arm, Arm]:
        """Draw the runs of both arms."""
        center = np.log(self.share / (1 - self.share))
        level = random.normal(center, self.person_sd, 2 * self.people)
        arms = list[Arm]()
        for side, size in enumerate((self.sessions, self.second)):
            sizes = 1 + random.poisson(size - 1, self.people)
            offset = 0 if self.same else side * self.people
            people = np.repeat(np.arange(self.people) + offset, sizes)
            hits = random.random(len(people)) < 1 / (1 + np.exp(-level[people]))
            alike = np.zeros(len(people), dtype=np.int64)
            arms.append(Arm(hits.astype(np.float64), people, alike, alike))
        return arms[0], arms[1]


def separated(arms: TwoArms, samples: int, seed: int = 2026) -> Share:
    """Return how often equal arms are told apart."""
    random, found = np.random.default_rng(seed), Share()
    for _ in range(samples):
        shown = share_difference(*arms.drawn(random))
        low, high = (-1.0, 1.0) if isinstance(shown, str) else shown.ends()
        found.add(is_hit=low > 0 or high < 0)
    return found
