"""Compare the row counts of a day's tables with each other."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from evaluation_pipelines.schemas.table import EXAMPLES, examples_of

EVENT_COLUMNS = ["event_id", "event_name", "organization_id", "session_id", "request_id"]
"""Columns of events that are read."""

_SESSION = ["organization_id", "session_key"]
_CONTENT = [*_SESSION, "content_hash"]
_EVENT = ["organization_id", "event_id"]
_REQUEST = ["organization_id", "session_id", "request_id"]


@dataclass(frozen=True, slots=True)
class EventCounts:
    """Events of a day: landed and kept.

    Attributes:
        landed: Rows in the files of ``agent_events_landed``.
        kept: Rows of ``agent_events``.
        copies: Landed rows that repeat another one, by their id or as the same API request.
        not_kept: Landed events that are neither kept nor copies of one that is.
        never_landed: Kept events that are in no landed file.
    """

    landed: int = 0
    kept: int = 0
    copies: int = 0
    not_kept: int = 0
    never_landed: int = 0
    examples_not_kept: tuple[str, ...] = ()
    examples_never_landed: tuple[str, ...] = ()

    def __add__(self, other: "EventCounts") -> "EventCounts":
        """Return the counts of both, for example of two shards of a day."""
        return EventCounts(
            self.landed + other.landed,
            self.kept + other.kept,
            self.copies + other.copies,
            self.not_kept + other.not_kept,
            self.never_landed + other.never_landed,
            (*self.examples_not_kept, *other.examples_not_kept)[:EXAMPLES],
            (*self.examples_never_landed, *other.examples_never_landed)[:EXAMPLES],
        )


@dataclass(frozen=True, slots=True)
class SessionCounts:
    """Session windows of a day, compared with the tables that must have the same ones.

    Attributes:
        senders: Sessions that sent any event but attribution lines.
        with_window: Those of them with a window.
        windows: Rows of ``agent_sessions``.
        performed: Windows with a row of the same content in ``session_performance``.
        strays: Rows there and in ``session_evaluations`` without a window of that content.
        carded: Evaluations that name a card.
        cards: Those of them whose card is in ``scorecards``.
    """

    senders: int
    with_window: int
    windows: int
    performed: int
    strays: int
    carded: int
    cards: int
    examples_without_window: tuple[str, ...] = ()
    examples_not_performed: tuple[str, ...] = ()
    examples_not_evaluated: tuple[str, ...] = ()
    examples_strays: tuple[str, ...] = ()
    examples_without_card: tuple[str, ...] = ()


def count_events(landed: pl.DataFrame, kept: pl.DataFrame) -> EventCounts:
    """Compare landed events with kept events, both with EVENT_COLUMNS and organizations as built.

    An event that was not kept is a copy if its id is kept, or if it is an API request and the
    same request of its session is kept.
    """
    # Few events are in one of both alone: only these need their other columns.
    absent = landed.join(kept, on=_EVENT, how="anti", nulls_equal=True)
    alien = kept.join(landed, on=_EVENT, how="anti", nulls_equal=True)
    again = _repeated_requests(absent, kept)
    lost = absent.join(again, on=_EVENT, how="anti", nulls_equal=True).unique(_EVENT)
    return EventCounts(
        landed=landed.height,
        kept=kept.height,
        copies=landed.height - _number(landed) + _number(again),
        not_kept=lost.height,
        never_landed=alien.height,
        examples_not_kept=_events(lost),
        examples_never_landed=_events(alien),
    )


def _number(events: pl.DataFrame) -> int:
    return events.select(_EVENT).n_unique()


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
) -> SessionCounts:
    """Compare the tables of sessions.

    Args:
        sent: ``organization_id, session_id`` of the sessions that sent events.
        windows: ``organization_id, session_id, session_key, content_hash`` of ``agent_sessions``.
        performance: rows of ``session_performance`` with session and content.
        evaluations: the same of ``session_evaluations``, with ``card_id``.
        card_ids: of all cards of the day.
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
    return SessionCounts(
        senders=sent.height,
        with_window=sent.height - vanished.height,
        windows=windows.height,
        performed=windows.height - not_performed.height,
        strays=strays.height,
        carded=carded.height,
        cards=carded.height - without_card.height,
        examples_without_window=examples_of(vanished.sort(pl.all())),
        examples_not_performed=_keys(not_performed),
        examples_not_evaluated=_keys(not_evaluated),
        examples_strays=_keys(strays),
        examples_without_card=_keys(without_card),
    )


def _events(events: pl.DataFrame) -> tuple[str, ...]:
    if events.is_empty():
        return ()
    return examples_of(events.select("event_id", "event_name", "session_id").sort("event_id"))


def _keys(rows: pl.DataFrame) -> tuple[str, ...]:
    if rows.is_empty():
        return ()
    return examples_of(rows.select(_SESSION).unique().sort(_SESSION))
