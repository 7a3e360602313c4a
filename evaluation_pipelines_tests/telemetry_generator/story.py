"""A session from its first record to its last, and the account of it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random

from evaluation_pipelines_tests.telemetry_generator.exporter import Request
from evaluation_pipelines_tests.telemetry_generator.plan import (
    HOUR_MS,
    MINUTE_MS,
    Fate,
    Manner,
    SessionPlan,
)
from evaluation_pipelines_tests.telemetry_generator.records import Process
from evaluation_pipelines_tests.telemetry_generator.team import BASELINE, Masque, workplace_of
from evaluation_pipelines_tests.telemetry_generator.truth import SessionTruth
from evaluation_pipelines_tests.telemetry_generator.turns import Turns
from evaluation_pipelines_tests.telemetry_generator.voice import Voice


@dataclass(frozen=True, slots=True)
class Worn:
    """One time that a masque was put on, as an attribution line tells it (milliseconds)."""

    masque: str
    donned_ms: int
    doffed_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Story:
    """The records of a session, its attribution, and the truth about it."""

    requests: list[Request]
    worn: list[Worn]
    truth: SessionTruth


class Storyteller:
    """Tells one session.

    Args:
        random: Where chance comes from.
        plan: What is to happen.
        scale: Multiplies the tool calls of a prompt.
        limit_ms: Everything ends before this time (milliseconds since 1970).
    """

    def __init__(self, random: Random, plan: SessionPlan, scale: float, limit_ms: int) -> None:
        self._random = random
        self._plan = plan
        self._limit_ms = limit_ms
        self._voice = Voice(random, self._process(plan.masque), plan.models[0], plan.start_ms)
        self._turns = Turns(random, self._voice, scale)
        self._masque = BASELINE
        self._worn: list[Worn] = []

    def tell(self) -> Story:
        """Tell the whole session."""
        plan, voice, changes = self._plan, self._voice, self._plan.worn_by_line()
        if 0 in changes and self._random.random() < 0.5:
            self._put_on(changes.pop(0), voice.now_ms - 1500)
        self._start(plan.masque)
        for number in range(plan.prompts):
            if number:
                self._rest(number)
            if voice.now_ms > self._limit_ms - HOUR_MS:
                break
            if number in changes:
                self._change_to(changes[number])
            self._turn(is_last=number == plan.prompts - 1)
        if self._worn and self._worn[-1].doffed_ms is None and self._random.random() < 0.5:
            self._take_off(voice.now_ms + 5000)
        voice.end()
        return Story(voice.requests, self._worn, self._truth())

    def _turn(self, *, is_last: bool) -> None:
        turns, fate, masque = self._turns, self._plan.fate, self._masque
        turns.ask()
        if fate is Fate.CANCELLED:
            return
        if fate is Fate.API_DOWN and is_last:
            turns.fail()
            return
        turns.work(masque, self._plan.elapsed)
        if fate is Fate.LOOPING and is_last:
            turns.loop(masque)
        if fate is Fate.CRASHED and is_last:
            turns.die(masque)
        else:
            turns.answer()

    def _rest(self, number: int) -> None:
        """The user reads and thinks, goes for lunch, or comes back days later."""
        random, plan, voice = self._random, self._plan, self._voice
        voice.now_ms += 15_000 + int(random.expovariate(1 / 200_000))
        if random.random() < 0.05:
            voice.now_ms += random.randrange(31 * MINUTE_MS, 100 * MINUTE_MS)
        if plan.fate is Fate.RESUMED and number == plan.prompts // 2:
            away_ms = random.randrange(2 * HOUR_MS, 72 * HOUR_MS)
            if voice.now_ms + away_ms < self._limit_ms - 3 * HOUR_MS:
                voice.end()
                voice.now_ms += away_ms
                voice.enter(self._process(plan.other), plan.models[1])
                self._start(plan.other)

    def _start(self, masque: Masque) -> None:
        if self._plan.manner is Manner.LABEL:
            self._masque = masque
            self._voice.account.change_to(masque.name)
        self._voice.start()

    def _process(self, masque: Masque) -> Process:
        plan, team = self._plan, self._plan.developer.team
        labels = {
            "organization.id": team.organization,
            "team.id": team.name,
            "masque.name": masque.name if plan.manner is Manner.LABEL else None,
            "classification.label": plan.label,
        }
        told = tuple((key, value) for key, value in labels.items() if value is not None)
        places = workplace_of(team, plan.session_id)
        login = plan.developer.login_of(plan.session_id)
        if login.user_id is not None:
            places["user.id"] = login.user_id
        if login.email is not None and not login.is_signed_in:
            places["user.email"] = login.email
        return Process(plan.session_id, plan.developer, told, tuple(places.items()))

    def _change_to(self, masque: Masque) -> None:
        if masque is BASELINE:
            self._take_off(self._voice.now_ms - 1000)
        else:
            # An event at the very time of a don belongs to the new masque.
            self._put_on(masque, self._voice.now_ms - self._random.choice((0, 700)))

    def _put_on(self, masque: Masque, time_ms: int) -> None:
        name = str(masque.name)
        self._masque = masque
        self._worn.append(Worn(name, time_ms))
        self._voice.account.put_on(name, time_ms)

    def _take_off(self, time_ms: int) -> None:
        worn = self._worn.pop()
        self._masque = BASELINE
        self._worn.append(Worn(worn.masque, worn.donned_ms, time_ms))
        self._voice.account.take_off(time_ms)

    def _truth(self) -> SessionTruth:
        plan, team = self._plan, self._plan.developer.team
        return SessionTruth(
            session_id=plan.session_id,
            organization_id=team.organization,
            team_id=team.name,
            person=plan.developer.name,
            login=plan.developer.login_of(plan.session_id),
            places=workplace_of(team, plan.session_id),
            label=plan.label,
            session_date=datetime.fromtimestamp(plan.start_ms / 1000, UTC).date(),
            windows=self._voice.account.finish(plan.session_id),
        )
