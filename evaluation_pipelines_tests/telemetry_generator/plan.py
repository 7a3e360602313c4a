"""Which sessions there are: who, when, under which masque, with which model, and what goes wrong.

Everything is dealt from decks that are used up before they are shuffled anew, so that a few dozen
sessions hold about as much of everything as many thousands do.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from random import Random
from typing import Generic, TypeVar

from evaluation_pipelines_tests.telemetry_generator import team
from evaluation_pipelines_tests.telemetry_generator.ids import uuid_text
from evaluation_pipelines_tests.telemetry_generator.team import Developer, Masque, Model

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

_WEEKEND_SHARE = 0.3

Card = TypeVar("Card")


class Fate(Enum):
    """What happens to a session."""

    PLAIN = "nothing special"
    RESUMED = "taken up again hours or days later, perhaps with another model"
    MIDNIGHT = "begins before midnight and ends after it"
    LOOPING = "the agent repeats a failing call"
    CRASHED = "the program dies during a tool call"
    CANCELLED = "the user gives up before there is an answer"
    API_DOWN = "ends with an API error"


class Manner(Enum):
    """How it is told which masque is worn."""

    LABEL = "by an attribute of the resource, for the whole process"
    LINE = "by an attribution line for the whole session"
    MIXED = "by attribution lines: one masque, another one, the first one again"
    PART = "by an attribution line for the middle of the session"


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """One session before it is told.

    Attributes:
        session_id: A UUID.
        developer: Who works.
        label: Classification label; None for none.
        start_ms: When it begins (milliseconds since 1970).
        elapsed: How much of the days has gone by then, from 0 (first day) to 1 (last day).
        prompts: How many prompts there are.
        models: Model of the first process and of the one that resumes it.
        masque: Masque worn, or the baseline.
        other: The other masque of a mixed session, or that of the process that resumes it.
        manner: How the masque is told.
        fate: What happens.
    """

    session_id: str
    developer: Developer
    label: str | None
    start_ms: int
    elapsed: float
    prompts: int
    models: tuple[Model, Model]
    masque: Masque
    other: Masque
    manner: Manner
    fate: Fate

    def worn_by_line(self) -> dict[int, Masque]:
        """Number of a prompt -> masque that an attribution line puts on (or off) before it."""
        if self.masque is team.BASELINE:
            return {}
        match self.manner:
            case Manner.LABEL:
                return {}
            case Manner.LINE:
                return {0: self.masque}
            case Manner.MIXED:
                return {0: self.masque, 1: self.other, self.prompts - 1: self.masque}
            case Manner.PART:
                return {1: self.masque, self.prompts - 1: team.BASELINE}


class Deck(Generic[Card]):
    """Cards that are dealt in random order, each one again only when all were dealt."""

    def __init__(self, random: Random, cards: Sequence[Card]) -> None:
        self._random = random
        self._cards = cards
        self._left: list[Card] = []

    def deal(self) -> Card:
        """The next card."""
        if not self._left:
            self._left = self._random.sample(self._cards, len(self._cards))
        return self._left.pop()


class Planner:
    """Plans the sessions of some days, the last of which ends at midnight before ``end``."""

    def __init__(self, random: Random, end: date, days: int) -> None:
        self._random = random
        self._days = [end - timedelta(days=ago) for ago in range(days, 0, -1)]
        self._developers = Deck(random, team.DEVELOPERS)
        self._models = Deck(random, team.MODELS)
        self._labels = Deck(random, _repeated(team.LABELS, (2, 4, 2, 1, 1)))
        self._masques = Deck(random, _repeated((team.BASELINE, *team.MASQUES), (4, 3, 2, 3, 2)))
        self._manners = Deck(random, _repeated(tuple(Manner), (6, 3, 1, 1)))
        self._fates = Deck(random, _repeated(tuple(Fate), (15, 3, 1, 2, 1, 1, 1)))

    def days(self, sessions: int) -> Iterator[list[SessionPlan]]:
        """All sessions, day by day, in the order in which they begin; fewer on weekends."""
        shares = [_WEEKEND_SHARE if day.weekday() >= 5 else 1.0 for day in self._days]
        dealt = 0
        for number, day in enumerate(self._days, 1):
            so_far = round(sessions * sum(shares[:number]) / sum(shares))
            plans = [self._session(day) for _ in range(so_far - dealt)]
            yield sorted(plans, key=lambda plan: plan.start_ms)
            dealt = so_far

    def _session(self, day: date) -> SessionPlan:
        label, prompts = self._labels.deal()
        masque, fate, manner = self._masques.deal(), self._fate(day), Manner.LABEL
        if masque is not team.BASELINE and fate is not Fate.CANCELLED:
            manner = self._manners.deal()
        model, random = self._models.deal(), self._random
        return SessionPlan(
            session_id=uuid_text(random),
            developer=self._developers.deal(),
            label=label,
            start_ms=_midnight_ms(day) + self._clock_time(fate),
            elapsed=self._days.index(day) / max(len(self._days) - 1, 1),
            prompts=_prompts(random.randint(*prompts), manner, fate),
            models=(model, random.choice(team.MODELS)),
            masque=masque,
            other=self._other(masque, manner),
            manner=manner,
            fate=fate,
        )

    def _fate(self, day: date) -> Fate:
        fate = self._fates.deal()
        # Nothing happens after the last midnight.
        return Fate.PLAIN if fate is Fate.MIDNIGHT and day == self._days[-1] else fate

    def _clock_time(self, fate: Fate) -> int:
        if fate is Fate.MIDNIGHT:
            return DAY_MS - self._random.randrange(20_000, MINUTE_MS)
        # Most work begins in the morning; all hours occur, as the team lives in several zones.
        return int(self._random.triangular(0.1, 18, 10) * HOUR_MS)

    def _other(self, masque: Masque, manner: Manner) -> Masque:
        others = [other for other in team.MASQUES if other is not masque]
        if manner is Manner.LABEL and (masque is team.BASELINE or self._random.random() < 0.7):
            return masque
        return self._random.choice(others)


def _prompts(wanted: int, manner: Manner, fate: Fate) -> int:
    """As many prompts as wanted, but enough for what is to happen."""
    if fate is Fate.CANCELLED:
        return 1
    if manner in (Manner.MIXED, Manner.PART):
        return max(wanted, 3)
    return max(wanted, 2) if fate in (Fate.RESUMED, Fate.MIDNIGHT) else wanted


def _midnight_ms(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000


def _repeated(cards: Sequence[Card], times: Sequence[int]) -> list[Card]:
    return [card for card, number in zip(cards, times, strict=True) for _ in range(number)]
