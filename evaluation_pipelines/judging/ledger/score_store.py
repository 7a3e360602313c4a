"""Writes of scorings: creation, leases, replies and results."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from evaluation_pipelines.judging.domain.budget.day_budget import DayReservation
from evaluation_pipelines.judging.ledger.day_budget import lock_day_budget, reserve
from evaluation_pipelines.judging.ledger.errors import ScoringOpenError
from evaluation_pipelines.judging.ledger.score_queries import ScoreQueries, score_of
from evaluation_pipelines.judging.ledger.score_records import (
    Failure,
    Lease,
    Phase,
    ReceivedReply,
)
from evaluation_pipelines.judging.ledger.scoring_rows import NO_LEASE, ScoringRows, refusal
from evaluation_pipelines.schemas.judge_score import FIELDS, OPEN, LoggedTurn, Score
from evaluation_pipelines.storage.lease_owner import is_gone
from evaluation_pipelines.storage.ledger.engine import insert_into, writing
from evaluation_pipelines.storage.ledger.errors import LedgerError
from evaluation_pipelines.storage.ledger.service_events import append_events
from evaluation_pipelines.times import to_us


class ScoreStore(ScoreQueries):
    """Reader and writer of scores; every write is one transaction that also logs its event.

    Changes to a scoring in progress are refused unless the caller holds its lease. Money that is
    reserved but not booked is released with the lease.
    """

    def create(
        self,
        new: Score,
        now: datetime,
        lease: Lease | None = None,
        reservation: DayReservation | None = None,
        known_scorings: int | None = None,
    ) -> Score:
        """Create a scoring.

        Args:
            new: The scoring; its attempt is counted here.
            now: The time.
            lease: With a lease the scoring is ``in_progress``, without one ``pending``.
            reservation: The most that the scoring can cost; ``None`` if unknown.
            known_scorings: Number of scorings of the session by the profile that the caller has
                seen; ``None`` if it does not matter.

        Raises:
            ScoringOpenError: A scoring of the same session, profile and model has not ended, or the
                number of scorings is not ``known_scorings``.
            DayBudgetReachedError: The reservation does not fit into the daily budget.
        """
        values = {
            **{name: getattr(new, name) for name in FIELDS},
            "scored_at_us": to_us(now),
            **({} if lease is None else _lease_values(lease, now, started_at_us=to_us(now))),
        }
        with self._rows() as rows:
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
            if lease is not None:
                rows.log_start(row, now)
            return score_of(row)

    def claim(
        self,
        score_id: str,
        lease: Lease,
        now: datetime,
        prompt_facts: Mapping[str, Any] | None = None,
        reservation: DayReservation | None = None,
    ) -> Score:
        """Take the lease of a scoring that is not leased, and return its state.

        The booked amount stays booked, since the outcome of earlier requests in flight is unknown.
        The reserved amount is released; ``reservation`` is the most that the rest can cost.

        Raises:
            UnknownScoreError: No scoring has this id.
            ScoreEndedError: The scoring has ended.
            ScoreLeaseLostError: Another owner holds an unexpired lease.
            DayBudgetReachedError: The reservation does not fit into the daily budget.
        """
        with self._rows() as rows:
            connection = rows.connection
            lock_day_budget(connection, reservation)
            before = rows.lock(score_id)
            if before["status"] not in OPEN or (before["lease_expires_at_us"] or 0) > to_us(now):
                raise refusal(before, "claimed")
            spent_usd = before["booked_cost_usd"] or 0.0
            started_at_us = before["started_at_us"] or to_us(now)
            values = {
                **_lease_values(lease, now, started_at_us=started_at_us),
                **(prompt_facts or {}),
                "takeovers": before["takeovers"] + (before["lease_owner"] is not None),
                **reserve(connection, score_id, reservation, now, spent_usd),
            }
            row = rows.change_open(score_id, values)
            if before["started_at_us"] is None:
                rows.log_start(row, now)
            return score_of(row)

    def request(self, score_id: str, by: str) -> Score:
        """Note that a person waits for an unfinished scoring, unless one does already."""
        with self._rows() as rows:
            row = rows.lock(score_id)
            if row["status"] not in OPEN or row["requested_by"] is not None:
                return score_of(row)
            return score_of(rows.change_open(score_id, {"requested_by": by}))

    def reopen_abandoned(self, now: datetime) -> None:
        """Make scorings ``pending`` again whose process has ended, or whose lease has expired."""
        score = self._score
        update = sa.update(self._table).where(score.status.in_(OPEN))
        update = update.values({**NO_LEASE, "takeovers": score.takeovers + 1})
        for owner, until_us in self.leases():
            if until_us <= to_us(now) or is_gone(owner):
                # Its owner may have renewed it since it was read.
                held = score.lease_owner == owner, score.lease_expires_at_us == until_us
                with writing(self._engine) as connection:
                    connection.execute(update.where(*held))

    def renew(self, lease: Lease, now: datetime) -> int:
        """Renew all leases of the owner and return their number."""
        update = (
            sa.update(self._table)
            .where(self._score.lease_owner == lease.owner, self._score.status.in_(OPEN))
            .values(lease_expires_at_us=_expiry_us(lease, now))
        )
        with writing(self._engine) as connection:
            return connection.execute(update).rowcount

    def release(self, owner: str) -> int:
        """Release all leases of an owner and return their number."""
        update = sa.update(self._table).where(
            self._score.lease_owner == owner, self._score.status.in_(OPEN)
        )
        with writing(self._engine) as connection:
            return connection.execute(update.values(NO_LEASE)).rowcount

    def leave(
        self, score_id: str, owner: str, now: datetime, booked_usd: float | None = None
    ) -> None:
        """Release the lease of one scoring and book its cost. Raises as ``log_turn``."""
        with self._rows() as rows:
            rows.lock_leased(score_id, owner)
            rows.change_open(score_id, NO_LEASE | _booking_values(booked_usd, now))

    def reserve_more(
        self, score_id: str, owner: str, reservation: DayReservation, now: datetime
    ) -> None:
        """Reserve money for a call that was not planned.

        Raises:
            DayBudgetReachedError: The reservation does not fit into the daily budget.
            As ``log_turn``.
        """
        with self._rows() as rows:
            connection = rows.connection
            lock_day_budget(connection, reservation)
            row = rows.lock_leased(score_id, owner)
            before = row["booked_cost_usd"] or 0.0, row["reserved_cost_usd"] or 0.0
            rows.change_open(score_id, reserve(connection, score_id, reservation, now, *before))

    def log_turn(
        self,
        score_id: str,
        owner: str,
        turn: LoggedTurn,
        booked_usd: float | None = None,
        next_phase: Phase | None = None,
    ) -> None:
        """Store a reply and its cost.

        A sum of tokens or money is unknown if one reply lacks its part. ``booked_usd`` and
        ``next_phase`` are those of ``ReceivedReply``; afterwards no money is reserved.

        Raises:
            UnknownScoreError: No scoring has this id.
            ScoreEndedError: The scoring has ended.
            ScoreLeaseLostError: The owner does not hold the lease.
            ValueError: The turn has a reply already.
        """
        (problem,) = self.log_turns(
            [ReceivedReply(score_id, owner, turn, booked_usd, None, next_phase)]
        )
        if problem is not None:
            raise problem

    def log_turns(self, replies: Sequence[ReceivedReply]) -> list[Exception | None]:
        """Store several replies in one transaction, which costs as much as storing one.

        Returns:
            For each reply the error that ``log_turn`` would raise, or ``None``. An error does not
            affect the other replies.
        """
        problems: list[Exception | None] = []
        with self._rows() as rows:
            for each in replies:
                try:
                    rows.log_reply(each)
                    problems.append(None)
                except (LedgerError, ValueError) as problem:
                    problems.append(problem)
        return problems

    def complete(
        self,
        score_id: str,
        owner: str,
        result: Mapping[str, Any],
        now: datetime,
        booked_usd: float | None = None,
    ) -> Score:
        """Complete a scoring with the fields of ``result``. Raises as ``log_turn``."""
        with self._rows() as rows:
            row = rows.lock_leased(score_id, owner)
            values = dict(result) | _booking_values(booked_usd, now)
            ended = rows.end(row, "completed", now, values)
            rows.log_event(row, "completed", to_us(now), total_score=result["total_score"])
            return ended

    def fail(
        self,
        score_id: str,
        owner: str,
        failure: Failure,
        now: datetime,
        booked_usd: float | None = None,
    ) -> Score:
        """Mark a scoring as failed. Raises as ``log_turn``."""
        with self._rows() as rows:
            row = rows.lock_leased(score_id, owner)
            values = {"error_message": failure.reason, "retriable": failure.retriable}
            ended = rows.end(row, "failed", now, values | _booking_values(booked_usd, now))
            rows.log_event(row, "failed", to_us(now), error_message=failure.reason)
            return ended

    def log_deferral(self, score_id: str, reason: str, now: datetime) -> None:
        """Tell those who follow a scoring why it is left for later; nothing if it has ended."""
        with self._rows() as rows:
            row = rows.lock(score_id)
            if row["status"] in OPEN:
                rows.log_event(row, "deferred", to_us(now), error_message=reason)

    @contextmanager
    def _rows(self) -> Iterator[ScoringRows]:
        """Open a write transaction on the rows of scorings; it appends their events last."""
        with writing(self._engine) as connection:
            rows = ScoringRows(connection, self._table)
            yield rows
            append_events(connection, rows.events)


def _lease_values(lease: Lease, now: datetime, started_at_us: int) -> dict[str, Any]:
    return {
        "status": "in_progress",
        "started_at_us": started_at_us,
        "lease_owner": lease.owner,
        "lease_expires_at_us": _expiry_us(lease, now),
    }


def _booking_values(usd: float | None, now: datetime) -> dict[str, Any]:
    """Return the columns of a booked amount; empty if it is unknown."""
    return {} if usd is None else {"booked_cost_usd": usd, "booked_at_us": to_us(now)}


def _expiry_us(lease: Lease, now: datetime) -> int:
    return to_us(now) + int(lease.seconds * 1e6)
