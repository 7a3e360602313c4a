"""Equations that balance the books of a day: every record is in exactly one place."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evaluation_pipelines.reporting.domain.reconciliation.counts import EventCounts, SessionCounts
from evaluation_pipelines.reporting.domain.reconciliation.states import STATES, title_of
from evaluation_pipelines.schemas import EVALUATION_BOOKS
from evaluation_pipelines.schemas.table import CheckResult


@dataclass(frozen=True, slots=True)
class Term:
    """A number and what it counts."""

    number: int
    what: str

    def __str__(self) -> str:
        """Return the number with its unit."""
        return f"{self.number} {self.what}"


@dataclass(frozen=True, slots=True)
class Equation:
    """A whole and the parts that must add up to it; without parts it must be 0.

    ``examples`` name the records that are wrong, as far as they are known.
    """

    name: str
    whole: Term
    parts: tuple[Term, ...] = ()
    examples: tuple[str, ...] = ()

    @property
    def difference(self) -> int:
        """Part of the whole that is in no part; negative if the parts are larger."""
        return self.whole.number - sum(each.number for each in self.parts)

    @property
    def is_balanced(self) -> bool:
        """True if the parts add up to the whole."""
        return self.difference == 0

    def __str__(self) -> str:
        """Return both sides without parts that are 0, and the difference if there is one."""
        several = len(self.parts) > 1
        told = [each for each in self.parts if each.number or not several]
        other_side = " + ".join(map(str, told)) or "0"
        if self.is_balanced:
            return f"{self.whole} = {other_side}"
        amiss = "not accounted for" if self.difference > 0 else "too many"
        return f"{self.whole}, but {other_side}: {abs(self.difference)} {amiss}"


@dataclass(frozen=True, slots=True)
class IngestTotals:
    """Events that ingest counted, for all dates and for one.

    Attributes:
        counted: Events that all batches of ingest counted.
        within: Events that the manifest names under dates of the partitions' range.
        outside: The same under dates outside of it.
        of_date: Events that the manifest names under the date.
        is_due: Whether the date waits to be built, so that its tables may lack events.
        erased: Events that had landed and were erased, of all dates.
    """

    counted: int
    within: int
    outside: int
    of_date: int
    is_due: bool
    erased: int = 0


@dataclass(frozen=True, slots=True)
class Scorings:
    """Scorings by the judge: those in the ledger for the date, and how many are in the books."""

    in_ledger: int
    booked: int
    of_vanished: int


def equations(
    filed: IngestTotals,
    events: EventCounts,
    sessions: SessionCounts,
    states: Mapping[str, int],
    scorings: Scorings,
) -> tuple[Equation, ...]:
    """Return all equations of a day, from telemetry to scores."""
    return (
        *_of_events(filed, events),
        *_of_sessions(sessions, states),
        Equation(
            "every_scoring_is_booked",
            Term(scorings.in_ledger, "scorings in the ledger"),
            (
                Term(scorings.booked, "of sessions of the day"),
                Term(scorings.of_vanished, "of windows that no longer exist"),
            ),
        ),
    )


def books_balance(found: Sequence[Equation]) -> CheckResult:
    """Return True if every counted event and every session is in exactly one place."""
    broken = [each for each in found if not each.is_balanced]
    return CheckResult(
        EVALUATION_BOOKS.name,
        "books_balance",
        not broken,
        f"{len(found)} equations that add up",
        "; ".join(f"{each.name}: {each}" for each in broken) or "they do",
        tuple(_examples(broken)),
    )


def _examples(broken: Iterable[Equation]) -> Iterable[str]:
    for each in broken:
        yield from (f"{each.name}: {example}" for example in each.examples)


def _of_events(filed: IngestTotals, events: EventCounts) -> tuple[Equation, ...]:
    ahead = events.not_kept if filed.is_due else 0
    return (
        Equation(
            "every_event_is_filed",
            Term(filed.counted, "events counted by ingest, all days together"),
            (
                Term(filed.within, "filed under days of the partitions' range"),
                Term(filed.outside, "filed under days outside of it"),
                Term(filed.erased, "erased"),
            ),
        ),
        Equation(
            "landed_parts_are_whole",
            Term(filed.of_date, "events filed under the day"),
            (Term(events.landed, "in the files of agent_events_landed"),),
        ),
        Equation(
            "every_event_is_kept_once",
            Term(filed.of_date, "events filed under the day"),
            (
                Term(events.kept, "in agent_events"),
                Term(events.copies, "sent or logged again"),
                Term(ahead, "waiting for the build of the day"),
            ),
            () if filed.is_due else events.examples_not_kept,
        ),
        Equation(
            "every_kept_event_has_landed",
            Term(events.never_landed, "events in agent_events that never landed"),
            (),
            events.examples_never_landed,
        ),
    )


def _of_sessions(sessions: SessionCounts, states: Mapping[str, int]) -> tuple[Equation, ...]:
    windows = Term(sessions.windows, "session windows in agent_sessions")
    return (
        Equation(
            "every_session_has_a_window",
            Term(sessions.senders, "sessions that sent events"),
            (Term(sessions.with_window, "with a window in agent_sessions"),),
            sessions.examples_without_window,
        ),
        Equation(
            "every_window_has_its_performance",
            windows,
            (Term(sessions.performed, "in session_performance"),),
            sessions.examples_not_performed,
        ),
        Equation(
            "every_session_is_in_one_state",
            windows,
            tuple(Term(states.get(state, 0), title_of(state)) for state in STATES),
            sessions.examples_not_evaluated,
        ),
        Equation(
            "every_score_has_its_session",
            Term(sessions.strays, "scores of windows or content that agent_sessions does not have"),
            (),
            sessions.examples_strays,
        ),
        Equation(
            "every_card_is_there",
            Term(sessions.carded, "sessions evaluated by a card"),
            (Term(sessions.cards, "with that card in scorecards"),),
            sessions.examples_without_card,
        ),
    )
