"""Writes of scorings: requests, starts, replies and results."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from evaluation_pipelines.judging.domain.budget.day_budget import DayReservation
from evaluation_pipelines.judging.ledger.day_budget import lock_day_budget, reserve
from evaluation_pipelines.judging.ledger.errors import ScoringOpenError
from evaluation_pipelines.judging.ledger.score_queries import ScoreQueries, score_of
from evaluation_pipelines.judging.ledger.score_records import Failure, ReceivedReply
from evaluation_pipelines.judging.ledger.scoring_rows import WAITS, ScoringRows, without_unused
from evaluation_pipelines.schemas.judge_score import FIELDS, OPEN, Score
from evaluation_pipelines.storage.ledger.engine import insert_into, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.service_events import append_events
from evaluation_pipelines.storage.ledger.tables.judging import ANCHOR_SCORES, SESSION_SCORES
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.times import to_us


def clear_left(ledger: Ledger, hold: Hold) -> None:
    """Make ``pending`` what a judge that died left in progress, before other work begins."""
    for table in (SESSION_SCORES, ANCHOR_SCORES):
        ScoreStore(ledger, table, hold).clear_left()


class ScoreStore(ScoreQueries):
    """Reader and writer of scores; every write is one transaction that also logs its event.

    Whoever judges holds the lock ``judge``, and gives it: a change of a status is refused once it
    is lost. Requests and replies are written without it.
    """

    def __init__(
        self, ledger: Ledger, table: sa.Table = SESSION_SCORES, hold: Hold | None = None
    ) -> None:
        super().__init__(ledger, table)
        self._hold = hold

    def create(
        self,
        new: Score,
        now: datetime,
        reservation: DayReservation | None = None,
        known_scorings: int | None = None,
    ) -> Score:
        """Create a scoring: ``pending``, or ``in_progress`` if its work begins now.

        Args:
            new: The scoring; its attempt is counted here.
            now: The time.
            reservation: The most that the scoring can cost; ``None`` if unknown.
            known_scorings: Number of scorings of the session by the profile that the caller has
                seen; ``None`` if it does not matter.

        Raises:
            ScoringOpenError: A scoring of the same session, profile and model has not ended, or the
                number of scorings is not ``known_scorings``.
            DayBudgetReachedError: The reservation does not fit into the daily budget.
            LockLostError: The work begins now, and the lock is lost.
        """
        is_started = new.status == "in_progress"
        values = {
            **{name: getattr(new, name) for name in FIELDS},
            "scored_at_us": to_us(now),
            "started_at_us": to_us(now) if is_started else None,
        }
        with self._rows(is_judge=is_started) as rows:
            connection = rows.connection
            lock_day_budget(connection, reservation)
            insert = insert_into(connection, self._table).values(values)
            added = insert.on_conflict_do_nothing().returning(self._score.score_id)
            is_added = connection.execute(added).one_or_none() is not None
            # Read after the insert: a concurrent scoring has ended by then, or waits for it.
            past = rows.past_statuses(new)
            if not is_added or known_scorings not in {None, len(past)}:
                raise ScoringOpenError(
                    f"Session {new.session_key} of {new.organization_id} is being scored by "
                    f"profile {new.judge_profile_id} and model {new.judge_model} already, or was "
                    "a moment ago. Use the result of that scoring."
                )
            attempt = past.count(("failed", True)) + 1
            money = reserve(connection, new.score_id, reservation, now)
            row = rows.change_open(new.score_id, {"attempt": attempt, **money})
            if is_started:
                rows.log_start(row, now)
            return score_of(row)

    def claim(
        self,
        score_id: str,
        now: datetime,
        prompt_facts: Mapping[str, Any] | None = None,
        reservation: DayReservation | None = None,
        batch_id: str | None = None,
    ) -> Score:
        """Begin or resume a scoring that no process works on, and return its state.

        The booked amount stays booked, since the outcome of earlier requests in flight is unknown;
        ``reservation`` is the most that the rest can cost.

        Raises:
            UnknownScoreError: No scoring has this id.
            ScoreEndedError: The scoring has ended.
            ScoringOpenError: It is in progress.
            DayBudgetReachedError: The reservation does not fit into the daily budget.
            LockLostError: The lock is lost.
        """
        with self._rows(is_judge=True) as rows:
            lock_day_budget(rows.connection, reservation)
            before = rows.lock_open(score_id)
            if before["status"] != "pending":
                raise ScoringOpenError(f"Scoring {score_id} is in progress already.")
            spent_usd = before["booked_cost_usd"] or 0.0
            values = {
                "status": "in_progress",
                "started_at_us": before["started_at_us"] or to_us(now),
                "batch_id": batch_id,
                "next_try_at_us": None,
                **(prompt_facts or {}),
                **reserve(rows.connection, score_id, reservation, now, spent_usd),
            }
            row = rows.change_open(score_id, values)
            if before["started_at_us"] is None:
                rows.log_start(row, now)
            return score_of(row)

    def request(self, score_id: str, by: str, now: datetime, endpoint: str | None = None) -> Score:
        """Note that a person waits for an unfinished scoring, which is tried at once."""
        with self._rows() as rows:
            row = rows.lock(score_id)
            asked: dict[str, Any] = {"next_try_at_us": None}
            if row["requested_by"] is None:
                asked |= {"requested_by": by, "endpoint": endpoint, "scored_at_us": to_us(now)}
            if row["status"] in OPEN:
                rows.change_open(score_id, asked)
        return self.get(score_id)

    def clear_left(self) -> int:
        """Make ``pending`` what a judge that died left in progress; return how many that were."""
        crashed = self._score.crashes + 1
        return self._set_waiting(self._score.batch_id.is_(None), crashes=crashed)

    def release(self) -> int:
        """Make ``pending`` what the judge that holds the lock does not finish."""
        return self._set_waiting(self._score.batch_id.is_(None))

    def release_batch(self, batch_id: str, charged_at: datetime | None = None) -> int:
        """Make ``pending`` what waits in a batch; return how many that were.

        With ``charged_at`` what was reserved is booked: the requests may have been charged.
        """
        booked: dict[str, Any] = {}
        if charged_at is not None:
            amounts = (self._score.booked_cost_usd, self._score.reserved_cost_usd)
            sums = sum((sa.func.coalesce(each, 0.0) for each in amounts), sa.literal(0.0))
            booked = {"booked_cost_usd": sums, "booked_at_us": to_us(charged_at)}
        return self._set_waiting(self._score.batch_id == batch_id, **booked)

    def _set_waiting(self, *conditions: sa.ColumnElement[bool], **values: Any) -> int:
        is_open = self._score.status == "in_progress"
        update = sa.update(self._table).where(is_open, *conditions).values(WAITS | values)
        with self._rows(is_judge=True) as rows:
            return rows.connection.execute(update).rowcount

    def leave(self, score_id: str, now: datetime, unused_usd: float = 0.0) -> None:
        """Make a scoring ``pending`` and book its cost. Raises as ``claim``."""
        with self._rows(is_judge=True) as rows:
            row = rows.lock_open(score_id)
            money = without_unused(row, unused_usd) | {"booked_at_us": to_us(now)}
            rows.change_open(score_id, WAITS | money)

    def reserve_more(self, score_id: str, reservation: DayReservation, now: datetime) -> None:
        """Reserve money for a call that was not planned. Raises as ``claim``."""
        with self._rows(is_judge=True) as rows:
            lock_day_budget(rows.connection, reservation)
            row = rows.lock_open(score_id)
            before = row["booked_cost_usd"] or 0.0, row["reserved_cost_usd"] or 0.0
            money = reserve(rows.connection, score_id, reservation, now, *before)
            rows.change_open(score_id, money)

    def log_turn(self, reply: ReceivedReply) -> None:
        """Store a reply and its cost, whether or not the lock is held.

        A sum of tokens or money is unknown if one reply lacks its part.

        Raises:
            UnknownScoreError: No scoring has this id.
            ScoreEndedError: The scoring has ended.
            ValueError: The turn has a reply already.
        """
        with self._rows() as rows:
            rows.log_reply(reply)

    def complete(
        self, score_id: str, result: Mapping[str, Any], now: datetime, unused_usd: float = 0.0
    ) -> Score:
        """Complete a scoring with the fields of ``result``. Raises as ``claim``."""
        with self._rows(is_judge=True) as rows:
            row = rows.lock_open(score_id)
            money = without_unused(row, unused_usd) | {"booked_at_us": to_us(now)}
            ended = rows.end(row, "completed", now, {**result, **money})
            rows.log_event(row, "completed", to_us(now), total_score=result["total_score"])
            return ended

    def fail(
        self, score_id: str, failure: Failure, now: datetime, unused_usd: float = 0.0
    ) -> Score:
        """Mark a scoring as failed. Raises as ``claim``."""
        with self._rows(is_judge=True) as rows:
            row = rows.lock_open(score_id)
            money = without_unused(row, unused_usd) | {"booked_at_us": to_us(now)}
            values = {"error_message": failure.reason, "retriable": failure.retriable}
            ended = rows.end(row, "failed", now, values | money)
            rows.log_event(row, "failed", to_us(now), error_message=failure.reason)
            return ended

    def defer(
        self, score_id: str, reason: str, now: datetime, next_try_at: datetime | None = None
    ) -> None:
        """Tell those who follow a scoring why it is left for later; nothing if it has ended.

        With ``next_try_at`` it waits until then, and one more wait is counted.
        """
        with self._rows() as rows:
            row = rows.lock(score_id)
            if row["status"] not in OPEN:
                return
            if next_try_at is not None:
                waits = row["waits"] + 1
                rows.change_open(score_id, {"next_try_at_us": to_us(next_try_at), "waits": waits})
            rows.log_event(row, "deferred", to_us(now), error_message=reason)

    @contextmanager
    def _rows(self, *, is_judge: bool = False) -> Iterator[ScoringRows]:
        """Open a write transaction on the rows of scorings; it appends their events last.

        What only the judge may do is refused when its lock is lost.
        """
        with writing(self._engine) as connection:
            if is_judge and self._hold is not None:
                self._hold.check(connection)
            rows = ScoringRows(connection, self._table)
            yield rows
            append_events(connection, rows.events)
