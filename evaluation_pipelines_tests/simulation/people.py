"""Sessions of people whose truth is known, to try calibration and lift on."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import polars as pl

from evaluation_pipelines.comparison.masque_lift import masque_lift
from evaluation_pipelines.numerics.estimates import Codes, Estimate
from evaluation_pipelines.schemas import AGENT_SESSIONS, SESSION_KEY
from evaluation_pipelines.scorecards.domain.calibration import (
    Agreement,
    Pairs,
    agreement,
)
from evaluation_pipelines_tests.world.rows import session

Random = np.random.Generator
Chosen = np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Reviews:
    """Reviewed sessions of people; a person's sessions have something in common.

    Attributes:
        name: What is special about them.
        number: Number of sessions.
        people: Number of people.
        person_sd: Spread of people's mean errors, in points.
        missed: Share of failures that the judge at the ceiling misses; None for other scores.
    """

    name: str
    number: int = 60
    people: int = 9
    person_sd: float = 4.0
    missed: float | None = None

    def drawn(self, random: Random, number: int, people: int) -> Pairs:
        """Draw sessions; the judge is 5 points too generous, or misses failures."""
        person = random.integers(0, people, number)
        if self.missed is not None:
            automatic = np.clip(random.normal(92, 5, number), 0, 100)
            human = np.where(random.random(number) < self.missed, 0.0, automatic)
            return Pairs(automatic, human, np.ones(number), person)
        quality = random.uniform(20, 80, number)
        of_people = random.normal(5, self.person_sd, people)
        automatic = quality + of_people[person] + random.normal(0, 8, number)
        human = quality + random.normal(0, 8, number)
        return Pairs(np.clip(automatic, 0, 100), np.clip(human, 0, 100), np.ones(number), person)

    @cache  # noqa: B019 - a constant of the module
    def truth(self) -> Agreement:
        """Return the agreement of very many sessions of as many people."""
        drawn = self.drawn(np.random.default_rng(1), 400_000, 20_000)
        # Without clusters the jackknife would leave out each session in turn.
        some = Pairs(drawn.automatic, drawn.human, drawn.weights, drawn.clusters % 5)
        return agreement(("p", 1, "audit"), some, 5)


REVIEWS: tuple[Reviews, ...] = (
    *(Reviews(f"60 sessions of {people} people", people=people) for people in (3, 5, 9, 20)),
    *(Reviews(f"{number} sessions of 9 people", number) for number in (30, 200)),
    Reviews("60 sessions at the ceiling, 5 % failures missed", missed=0.05),
    Reviews("60 sessions at the ceiling, 15 % failures missed", missed=0.15),
)


def agreements(
    reviews: Reviews, samples: int, seed: int = 2026
) -> Iterator[tuple[str, Estimate, float | None]]:
    """Yield each figure of each sample: its name, the estimate, and the truth."""
    random, truth = np.random.default_rng(seed), reviews.truth()
    for _ in range(samples):
        pairs = reviews.drawn(random, reviews.number, reviews.people)
        found = agreement(("p", 1, "audit"), pairs, reviews.people)
        for name in ("off", "bias", "spearman", "kappa"):
            yield name, getattr(found, name), getattr(truth, name).value


@dataclass(frozen=True, slots=True)
class Wearers:
    """People with and without a masque that is worth 0.5 points of composite, to each unlike.

    Attributes:
        name: What is special about them.
        people: Number of people of a side.
        apart: Those who wear it never go without.
        sessions: Sessions of a side.
    """

    name: str
    people: int
    apart: bool = False
    sessions: int = 40


WEARERS: tuple[Wearers, ...] = tuple(
    Wearers(
        f"{people} people, {'others without it' if apart else 'each with and without'}",
        people,
        apart,
    )
    for people in (3, 5, 12)
    for apart in (False, True)
)


def lifts(wearers: Wearers, samples: int, seed: int = 2026) -> Iterator[Estimate]:
    """Yield the lift of the composite in each sample; the truth is 0.5."""
    random = np.random.default_rng(seed)
    for _ in range(samples):
        level, gain = random.normal(5, 1, 2 * wearers.people), random.normal(0.5, 0.5, 99)
        person = random.integers(0, wearers.people, 2 * wearers.sessions)
        worn = np.arange(len(person)) < wearers.sessions
        person = np.where(~worn & wearers.apart, person + wearers.people, person)
        composite = level[person] + gain[person] * worn + random.normal(0, 1, len(person))
        sessions = _sessions(person, worn)
        scores = sessions.select(SESSION_KEY).with_columns(composite=pl.Series(composite))
        row = masque_lift(sessions, scores, 5).row(0, named=True)
        ends = row["composite_low"], row["composite_high"]
        yield Estimate(row["composite_difference"], *ends)


def _sessions(person: Codes, worn: Chosen) -> pl.DataFrame:
    empty = pl.DataFrame([session()], schema=AGENT_SESSIONS.schema, orient="row")
    names: dict[str, list[str | None]] = {
        "session_key": [f"s{number}" for number in range(len(person))],
        "session_id": [f"s{number}" for number in range(len(person))],
        "person_id": [f"u{number}" for number in person],
        "masque": ["Scout" if is_worn else None for is_worn in worn],
        "attribution": ["clean" if is_worn else "baseline" for is_worn in worn],
    }
    return pl.concat([empty] * len(person)).with_columns(
        pl.Series(name, values, dtype=pl.String) for name, values in names.items()
    )
