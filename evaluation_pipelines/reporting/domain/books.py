"""The books of a day: every session in one state, every record in exactly one place.

Numbers of the day are collected by name; ``EQUATIONS`` says which must add up.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime

import polars as pl

from evaluation_pipelines.reporting.domain.book_states import STATES, Booking, title_of
from evaluation_pipelines.schemas import EVALUATION_BOOKS
from evaluation_pipelines.schemas.table import EXAMPLES, CheckResult, examples_of
from evaluation_pipelines.scorecards.domain.withheld import REVIEW_DUE, WAITS, SessionKey, withhold

EVENT_COLUMNS = ["event_id", "event_name", "organization_id", "session_id", "request_id"]
"""Columns of events that are read."""

SCORINGS = pl.Schema(
    {
        "organization_id": pl.String(),
        "session_key": pl.String(),
        "scorings": pl.Int64(),
        "judge_cost_usd": pl.Float64(),
    }
)
"""Count judgments by session window; the cost is null if a price is unknown."""

_SESSION = ["organization_id", "session_key"]
_CONTENT = [*_SESSION, "content_hash"]
_EVENT = ["organization_id", "event_id"]
_REQUEST = ["organization_id", "session_id", "request_id"]

_WINDOWS = ("windows", "session windows")
_OF_DATE = ("of_date", "events filed under the day")

OF_SPANS = "of spans: "
"""Before the reason for which rows of spans are no events."""

NOTHING: Mapping[str, int] = {}

EVERY_EVENT = "every_event_is_kept_once"

EQUATIONS: Mapping[str, Sequence[tuple[str, str]]] = {
    "every_event_is_filed": (
        ("counted", "events read, all days"),
        ("within", "filed under days from the start date to today"),
        ("outside", "filed under other days"),
        ("erased", "erased"),
    ),
    "landed_parts_are_whole": (_OF_DATE, ("landed", "in its files")),
    EVERY_EVENT: (
        _OF_DATE,
        ("kept", "kept"),
        ("copies", "duplicates"),
        ("parts", "span rows without an event"),
        ("ahead", "waiting for the day's build"),
    ),
    "every_kept_event_has_landed": (("never_landed", "kept events that were never filed"),),
    "every_session_has_a_window": (
        ("senders", "sessions that sent events"),
        ("with_window", "with a session window"),
    ),
    "every_window_has_its_performance": (_WINDOWS, ("performed", "with a performance row")),
    "every_session_is_in_one_state": (_WINDOWS, *((book, title_of(book)) for book in STATES)),
    "every_score_has_its_session": (("strays", "scores without a current session window"),),
    "every_card_is_there": (
        ("carded", "sessions scored by scorecard"),
        ("cards", "with that scorecard"),
    ),
    "every_scoring_is_booked": (
        ("scorings", "judgments"),
        ("booked", "for sessions of the day"),
        ("of_vanished", "for windows that no longer exist"),
    ),
}
"""Name -> a whole and the parts that must add up to it; without parts it must be 0.

Each is the name of a number, with what it counts.
"""


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers by name, and examples of records that are wrong by equation."""

    numbers: Counter[str] = field(default_factory=Counter)
    examples: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __add__(self, other: "Counts") -> "Counts":
        """Return the counts of both, for example of two shards of a day."""
        names = self.examples | other.examples
        examples = {
            name: (*self.examples.get(name, ()), *other.examples.get(name, ()))[:EXAMPLES]
            for name in names
        }
        return Counts(self.numbers + other.numbers, examples)


def count_events(
    landed: pl.DataFrame, kept: pl.DataFrame, dropped: Mapping[str, int] = NOTHING
) -> Counts:
    """Compare landed events with kept events, both with EVENT_COLUMNS and organizations as built.

    An event that was not kept is a copy if its id is kept, or if it is an API request and the
    same request of its session is kept.

    Args:
        landed: Landed events, spans put together.
        kept: Events of the table.
        dropped: Number of rows of spans that are no events, by reason.

    Returns:
        ``landed`` and ``kept`` rows, ``copies`` among the landed ones, and events that are
        ``not_kept`` though they are no copies, or ``never_landed``. ``parts``, and the same by
        reason after OF_SPANS.
    """
    parts = sum(dropped.values())
    # Few events are in one of both alone: only these need their other columns.
    absent = landed.join(kept, on=_EVENT, how="anti", nulls_equal=True)
    alien = kept.join(landed, on=_EVENT, how="anti", nulls_equal=True)
    again = _repeated_requests(absent, kept)
    lost = absent.join(again, on=_EVENT, how="anti", nulls_equal=True).unique(_EVENT)
    landed_events, repeated = (rows.select(_EVENT).n_unique() for rows in (landed, again))
    numbers = {
        "landed": landed.height + parts,
        "parts": parts,
        **{f"{OF_SPANS}{reason}": number for reason, number in dropped.items()},
        "kept": kept.height,
        "copies": landed.height - landed_events + repeated,
        "not_kept": lost.height,
        "never_landed": alien.height,
    }
    examples = {
        EVERY_EVENT: _events(lost),
        "every_kept_event_has_landed": _events(alien),
    }
    return Counts(Counter(numbers), examples)


def _repeated_requests(absent: pl.DataFrame, kept: pl.DataFrame) -> pl.DataFrame:
    """Return the API requests of ``absent`` that are in ``kept`` under another id."""
    known = pl.col("event_name") == "api_request", pl.col("request_id").is_not_null()
    requests = absent.filter(*known)
    if requests.is_empty():
        return requests
    return requests.join(kept.filter(*known), on=_REQUEST, how="semi", nulls_equal=True)


def count_sessions(
    sent: pl.DataFrame,
    windows: pl.DataFrame,
    performance: pl.DataFrame,
    evaluations: pl.DataFrame,
    card_ids: Sequence[str],
) -> Counts:
    """Compare the tables of sessions.

    Args:
        sent: ``organization_id, session_id`` of the sessions that sent events.
        windows: ``organization_id, session_id, session_key, content_hash`` of ``agent_sessions``.
        performance: rows of ``session_performance`` with session and content.
        evaluations: the same of ``session_evaluations``, with ``card_id``.
        card_ids: of all cards of the day.

    Returns:
        ``senders`` of events, those ``with_window``, ``windows``, those that are ``performed``,
        ``strays`` among scores, evaluations that are ``carded``, and the ``cards`` that are there.
    """
    of_session, performed, evaluated = windows.lazy(), performance.lazy(), evaluations.lazy()
    scored = pl.concat([performed.select(_CONTENT), evaluated.select(_CONTENT)])
    vanished, not_performed, not_evaluated, strays = pl.collect_all(
        [
            sent.lazy().join(of_session, on=["organization_id", "session_id"], how="anti"),
            of_session.join(performed, on=_CONTENT, how="anti"),
            of_session.join(evaluated, on=_CONTENT, how="anti"),
            scored.join(of_session, on=_CONTENT, how="anti"),
        ]
    )
    carded = evaluations.filter(pl.col("card_id").is_not_null())
    without_card = carded.filter(~pl.col("card_id").is_in(list(card_ids)))
    numbers = {
        "senders": sent.height,
        "with_window": sent.height - vanished.height,
        "windows": windows.height,
        "performed": windows.height - not_performed.height,
        "strays": strays.height,
        "carded": carded.height,
        "cards": carded.height - without_card.height,
    }
    examples = {
        "every_session_has_a_window": examples_of(vanished.sort(pl.all())),
        "every_window_has_its_performance": _keys(not_performed),
        "every_session_is_in_one_state": _keys(not_evaluated),
        "every_score_has_its_session": _keys(strays),
        "every_card_is_there": _keys(without_card),
    }
    return Counts(Counter(numbers), examples)


def _events(events: pl.DataFrame) -> tuple[str, ...]:
    return examples_of(events.select("event_id", "event_name", "session_id").sort("event_id"))


def _keys(rows: pl.DataFrame) -> tuple[str, ...]:
    return examples_of(rows.select(_SESSION).unique().sort(_SESSION))


def book_rows(
    evaluations: pl.DataFrame, bookings: Sequence[Booking], scorings: pl.DataFrame
) -> pl.DataFrame:
    """EVALUATION_BOOKS.

    Args:
        evaluations: rows of ``session_evaluations``.
        bookings: the booking of each of them, in their order.
        scorings: SCORINGS; windows without any are absent.
    """
    table = EVALUATION_BOOKS
    never = pl.col("scorings").is_null()
    booked = [
        pl.Series(name, [getattr(booking, name) for booking in bookings], pl.String)
        for name in ("state", "reason", "what_next")
    ]
    return (
        evaluations.lazy()
        .with_columns(booked)
        .join(scorings.lazy(), on=_SESSION, how="left", validate="1:1")
        .with_columns(
            judge_cost_usd=pl.when(never).then(0.0).otherwise("judge_cost_usd"),
            scorings=pl.col("scorings").fill_null(0),
        )
        .select(table.schema.names())
        .cast(table.schema)
        .sort(table.order)
        .collect()
    )


@dataclass(frozen=True, slots=True)
class Term:
    """A number and what it counts."""

    number: int
    what: str

    def __str__(self) -> str:
        """Return the number with its unit."""
        return f"{self.number:,} {self.what}"


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
        return self.whole.number - sum(part.number for part in self.parts)

    @property
    def is_balanced(self) -> bool:
        """True if the parts add up to the whole."""
        return self.difference == 0

    def __str__(self) -> str:
        """Return both sides without parts that are 0, and the difference if there is one."""
        several = len(self.parts) > 1
        told = [part for part in self.parts if part.number or not several]
        other_side = " + ".join(map(str, told)) or "0"
        if self.is_balanced:
            return f"{self.whole} = {other_side}"
        amiss = "not accounted for" if self.difference > 0 else "too many"
        return f"{self.whole}, but {other_side}: {abs(self.difference):,} {amiss}"


def equations(counts: Counts) -> tuple[Equation, ...]:
    """Return all equations of a day, from telemetry to scores."""
    found = []
    for name, terms in EQUATIONS.items():
        whole, *parts = (Term(counts.numbers[number], what) for number, what in terms)
        found.append(Equation(name, whole, tuple(parts), counts.examples.get(name, ())))
    return tuple(found)


def books_balance(found: Sequence[Equation]) -> CheckResult:
    """Return True if every counted event and every session is in exactly one place."""
    broken = [equation for equation in found if not equation.is_balanced]
    return CheckResult(
        EVALUATION_BOOKS.name,
        "books_balance",
        not broken,
        f"{len(found):,} equations that add up",
        "; ".join(f"{equation.name}: {equation}" for equation in broken) or "they do",
        tuple(
            f"{equation.name}: {example}" for equation in broken for example in equation.examples
        ),
    )


@dataclass(frozen=True, slots=True)
class Unattributed:
    """Records that belong to no session of the day, with a note that says why they are listed."""

    number: int
    what: str
    note: str


@dataclass(frozen=True, slots=True)
class DayBooks:
    """State of every session of a day, as of a time.

    Attributes:
        session_date: The day.
        as_of: When the books were made.
        sessions: EVALUATION_BOOKS of the day.
        equations: Equations that must balance.
        unattributed: Records that belong to no session of the day.
        judge_cost_usd: Cost of the day's judgments; None when a price is unknown.
        waits: Why the day waits to be built; None when it is built.
    """

    session_date: date
    as_of: datetime
    sessions: pl.DataFrame
    equations: tuple[Equation, ...]
    unattributed: tuple[Unattributed, ...]
    judge_cost_usd: float | None
    waits: str | None = None

    @property
    def is_balanced(self) -> bool:
        """True if every equation balances."""
        return all(equation.is_balanced for equation in self.equations)

    @property
    def has_data(self) -> bool:
        """True if anything of the day is known: a session, an event or a judgment."""
        of_the_day = self.equations[1:]  # the first one is about all days
        return not self.sessions.is_empty() or any(equation.whole.number for equation in of_the_day)

    @property
    def states(self) -> dict[str, int]:
        """Number of sessions in each state, in the order of the states."""
        return count_states(self.sessions)

    def seen(self, waiting: Collection[SessionKey], organization: str | None = None) -> "DayBooks":
        """Return the books as a reader sees them.

        Args:
            waiting: Sessions whose scores, and reasons, are withheld from the reader.
            organization: The only organization whose sessions are seen; ``None`` for all.
        """
        rows = withhold(self.sessions, waiting)
        seen = rows if organization is None else rows.filter(organization_id=organization)
        return replace(self, sessions=seen)

    def shown(self) -> Mapping[str, pl.DataFrame]:
        """Return the books as small tables: states, equations, and unattributed records."""
        states = [
            (state, number, STATES[state].meaning, STATES[state].what_next)
            for state, number in self.states.items()
        ]
        rows = [
            (
                equation.name,
                equation.whole.what,
                equation.whole.number,
                " + ".join(map(str, equation.parts)) or "0",
                equation.difference,
            )
            for equation in self.equations
        ]
        unattributed = [(line.number, line.what, line.note) for line in self.unattributed]
        return {
            "states": _frame(states, "state", "sessions", "meaning", "next step"),
            "equations": _frame(rows, "equation", "whole", "number", "parts", "difference"),
            "not part of a session": _frame(unattributed, "number", "what", "note"),
        }

    def reasons(self, state: str) -> list[tuple[str, int]]:
        """Return the reasons of the sessions in a state with their counts, most frequent first.

        Where a reason is withheld, it is null; such sessions come last, as awaiting review.
        """
        sessions = self.sessions.filter(state=state)
        counted = Counter(sessions["reason"].drop_nulls())
        found = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
        awaiting = sessions.filter(WAITS).height if WAITS in sessions.columns else 0
        return [*found, (REVIEW_DUE, awaiting)] if awaiting else found


def count_states(sessions: pl.DataFrame) -> dict[str, int]:
    """Count rows of EVALUATION_BOOKS by state, in the order of the states; all states."""
    counted = Counter(sessions["state"])
    return {state: counted[state] for state in STATES}


def _frame(rows: Sequence[tuple[object, ...]], *names: str) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=list(names), orient="row")
