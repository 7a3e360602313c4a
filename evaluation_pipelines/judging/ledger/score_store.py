"""Writes of scorings: creation, leases, replies and results."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from evaluation_pipelines.judging.domain.budget.day_budget import DayReservation
from evaluation_pipelines.judging.domain.score import (
    OPEN,
    TERMINAL,
    LoggedTurn,
    Phase,
    Score,
    ScoreStatus,
)
from evaluation_pipelines.judging.ledger.day_budget import lock_day_budget, reserve
from evaluation_pipelines.judging.ledger.errors import (
    ScoreEndedError,
    ScoreLeaseLostError,
    ScoringOpenError,
    UnknownScoreError,
)
from evaluation_pipelines.judging.ledger.score_queries import ScoreQueries, score_of
from evaluation_pipelines.judging.ledger.score_records import (
    Failure,
    Lease,
    NewScore,
    PromptFacts,
    ReceivedReply,
    ScoreResult,
)
from evaluation_pipelines.storage.ledger.engine import insert_into, writing
from evaluation_pipelines.storage.ledger.errors import LedgerError
from evaluation_pipelines.storage.ledger.tables.judging import SCORING_EVENTS, SESSION_SCORES
from evaluation_pipelines.times import to_us

_SCORE = SESSION_SCORES.c
_NO_LEASE: dict[str, Any] = {
    "lease_owner": None,
    "lease_expires_at_us": None,
    "reserved_cost_usd": None,
}


class ScoreStore(ScoreQueries):
    """Reader and writer of scores; every write is one transaction that also logs its event.

    Changes to a scoring in progress are refused unless the caller holds its lease. Money that is
    reserved but not booked is released with the lease.
    """

    def create(
        self,
        new: NewScore,
        now: datetime,
        lease: Lease | None = None,
        prompt_facts: PromptFacts | None = None,
        reservation: DayReservation | None = None,
    ) -> Score:
        """Create a scoring.

        Args:
            new: The scoring.
            now: The time.
            lease: With a lease the scoring is ``in_progress``, without one ``pending``.
            prompt_facts: Properties of the transcript, if it is built already.
            reservation: The most that the scoring can cost; ``None`` if unknown.

        Raises:
            ScoringOpenError: A scoring of the same session, profile and model has not ended, or the
                number of scorings is not ``new.known_scorings``.
            DayBudgetReachedError: The reservation does not fit into the daily budget.
        """
        values = {
            **{name: value for name, value in asdict(new).items() if name != "known_scorings"},
            "status": "pending",
            "scored_at_us": to_us(now),
            "attempt": 1,
            "turn_log": [],
            "takeovers": 0,
            **({} if prompt_facts is None else asdict(prompt_facts)),
            **({} if lease is None else _lease_values(lease, now, started_at_us=to_us(now))),
        }
        with writing(self._engine) as connection:
            lock_day_budget(connection, reservation)
            insert = insert_into(connection, SESSION_SCORES).values(values)
            added = insert.on_conflict_do_nothing().returning(_SCORE.score_id)
            is_added = connection.execute(added).one_or_none() is not None
            # Read after the insert: a concurrent scoring has ended by then, or waits for it.
            past = _past_statuses(connection, new)
            if not is_added or new.known_scorings not in {None, len(past)}:
                raise ScoringOpenError(
                    f"Session {new.session_key} of {new.organization_id} is being scored by "
                    f"profile {new.judge_profile_id} and model {new.judge_model} already, or was "
                    "a moment ago. Use the result of that scoring."
                )
            attempt = past.count(("failed", True)) + 1
            money = reserve(connection, new.score_id, reservation, now)
            update = _update_open(new.score_id).values(attempt=attempt, **money)
            row = connection.execute(update.returning(SESSION_SCORES)).mappings().one()
            if lease is not None:
                _log_start(connection, row, now)
            return score_of(row)

    def claim(
        self,
        score_id: str,
        lease: Lease,
        now: datetime,
        prompt_facts: PromptFacts | None = None,
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
        with writing(self._engine) as connection:
            lock_day_budget(connection, reservation)
            before = _lock_row(connection, score_id)
            if before["status"] not in OPEN or (before["lease_expires_at_us"] or 0) > to_us(now):
                raise _refusal(before, "claimed")
            spent_usd = before["booked_cost_usd"] or 0.0
            started_at_us = before["started_at_us"] or to_us(now)
            values = {
                **_lease_values(lease, now, started_at_us=started_at_us),
                **({} if prompt_facts is None else asdict(prompt_facts)),
                "takeovers": before["takeovers"] + (before["lease_owner"] is not None),
                **reserve(connection, score_id, reservation, now, spent_usd),
            }
            update = _update_open(score_id).values(values).returning(SESSION_SCORES)
            row = connection.execute(update).mappings().one()
            if before["started_at_us"] is None:
                _log_start(connection, row, now)
            return score_of(row)

    def expire(self, owner: str, now: datetime) -> None:
        """Expire the leases of an owner whose process has ended; others may take them over."""
        update = sa.update(SESSION_SCORES).where(
            _SCORE.lease_owner == owner, _SCORE.lease_expires_at_us > to_us(now)
        )
        with writing(self._engine) as connection:
            connection.execute(update.values(lease_expires_at_us=to_us(now)))

    def renew(self, lease: Lease, now: datetime) -> int:
        """Renew all leases of the owner and return their number."""
        update = (
            sa.update(SESSION_SCORES)
            .where(_SCORE.lease_owner == lease.owner, _SCORE.status.in_(OPEN))
            .values(lease_expires_at_us=_expiry_us(lease, now))
        )
        with writing(self._engine) as connection:
            return connection.execute(update).rowcount

    def release(self, owner: str) -> None:
        """Release all leases of an owner."""
        update = sa.update(SESSION_SCORES).where(
            _SCORE.lease_owner == owner, _SCORE.status.in_(OPEN)
        )
        with writing(self._engine) as connection:
            connection.execute(update.values(_NO_LEASE))

    def leave(
        self, score_id: str, owner: str, now: datetime, booked_usd: float | None = None
    ) -> None:
        """Release the lease of one scoring and book its cost. Raises as ``log_turn``."""
        with writing(self._engine) as connection:
            _lock_leased_row(connection, score_id, owner)
            values = _NO_LEASE | _booking_values(booked_usd, now)
            connection.execute(_update_open(score_id).values(values))

    def reserve_more(
        self, score_id: str, owner: str, reservation: DayReservation, now: datetime
    ) -> None:
        """Reserve money for a call that was not planned.

        Raises:
            DayBudgetReachedError: The reservation does not fit into the daily budget.
            As ``log_turn``.
        """
        with writing(self._engine) as connection:
            lock_day_budget(connection, reservation)
            row = _lock_leased_row(connection, score_id, owner)
            before = row["booked_cost_usd"] or 0.0, row["reserved_cost_usd"] or 0.0
            values = reserve(connection, score_id, reservation, now, *before)
            connection.execute(_update_open(score_id).values(values))

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
        with writing(self._engine) as connection:
            for each in replies:
                try:
                    _log_reply(connection, each)
                    problems.append(None)
                except (LedgerError, ValueError) as problem:
                    problems.append(problem)
        return problems

    def complete(
        self,
        score_id: str,
        owner: str,
        result: ScoreResult,
        now: datetime,
        booked_usd: float | None = None,
    ) -> Score:
        """Complete a scoring. Raises as ``log_turn``."""
        with writing(self._engine) as connection:
            row = _lock_leased_row(connection, score_id, owner)
            values = asdict(result) | _booking_values(booked_usd, now)
            ended = _end(connection, row, "completed", now, values)
            _log_event(connection, row, "completed", to_us(now), total_score=result.total_score)
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
        with writing(self._engine) as connection:
            row = _lock_leased_row(connection, score_id, owner)
            values = {"error_message": failure.reason, "retriable": failure.retriable}
            ended = _end(connection, row, "failed", now, values | _booking_values(booked_usd, now))
            _log_event(connection, row, "failed", to_us(now), error_message=failure.reason)
            return ended


def _past_statuses(connection: sa.Connection, new: NewScore) -> list[tuple[str, bool]]:
    """Return the status of each other scoring of the session by the profile.

    The flag says whether it is of the same content and profile version.
    """
    is_same = sa.and_(
        _SCORE.content_hash == new.content_hash,
        _SCORE.judge_profile_version == new.judge_profile_version,
    )
    key = ("organization_id", "session_key", "judge_profile_id")
    query = sa.select(_SCORE.status, is_same).where(
        *(_SCORE[name] == getattr(new, name) for name in key), _SCORE.score_id != new.score_id
    )
    return [(status, bool(same)) for status, same in connection.execute(query)]


def _lock_row(connection: sa.Connection, score_id: str) -> sa.RowMapping:
    """Return the row, locked until the transaction ends."""
    query = sa.select(SESSION_SCORES).where(_SCORE.score_id == score_id).with_for_update()
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        raise UnknownScoreError(f"The ledger has no scoring {score_id}.")
    return row


def _lock_leased_row(connection: sa.Connection, score_id: str, owner: str) -> sa.RowMapping:
    """Return the row, locked, if ``owner`` still holds its lease."""
    row = _lock_row(connection, score_id)
    if row["status"] not in OPEN or row["lease_owner"] != owner:
        raise _refusal(row, f"changed by {owner}")
    return row


def _refusal(row: sa.RowMapping, change: str) -> ScoreEndedError | ScoreLeaseLostError:
    """Return the error that says why a scoring cannot be changed."""
    subject = f"Scoring {row['score_id']} of session {row['session_key']} was not {change}:"
    if row["status"] in TERMINAL:
        return ScoreEndedError(f"{subject} it is {row['status']}, which is final.")
    owner = row["lease_owner"]
    if owner is None:
        return ScoreLeaseLostError(f"{subject} it is not leased. Claim it first.")
    return ScoreLeaseLostError(f"{subject} {owner} holds its lease. Leave it to that process.")


def _update_open(score_id: str) -> sa.Update:
    """Return an update that matches no row once the scoring has ended."""
    return sa.update(SESSION_SCORES).where(_SCORE.score_id == score_id, _SCORE.status.in_(OPEN))


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


def _end(
    connection: sa.Connection,
    row: sa.RowMapping,
    status: ScoreStatus,
    now: datetime,
    values: Mapping[str, Any],
) -> Score:
    """Set a final status and release the lease."""
    ending = {"status": status, "completed_at_us": to_us(now), **_NO_LEASE, **values}
    update = _update_open(row["score_id"]).values(ending).returning(SESSION_SCORES)
    return score_of(connection.execute(update).mappings().one())


def _known_sum(before: float | None, added: float | None, *, is_first: bool) -> float | None:
    """Return a sum that is unknown as soon as one part is unknown."""
    if is_first:
        return added
    return None if before is None or added is None else before + added


def _log_reply(connection: sa.Connection, reply: ReceivedReply) -> None:
    """Append a reply to the turn log of its scoring and add its cost to the sums."""
    score_id, turn = reply.score_id, reply.turn
    row = _lock_leased_row(connection, score_id, reply.owner)
    logged = row["turn_log"]
    if any(each["turn"] == turn.turn for each in logged):
        raise ValueError(f"Turn {turn.turn} of scoring {score_id} has its reply already.")
    sums = {
        name: _known_sum(row[name], value, is_first=not logged)
        for name, value in (
            ("input_tokens", turn.input_tokens),
            ("cached_tokens", turn.cached_tokens),
            ("output_tokens", turn.output_tokens),
            ("judge_cost_usd", turn.cost_usd),
            ("latency_ms", turn.latency_ms),
        )
    }
    values: dict[str, Any] = {"turn_log": [*logged, asdict(turn)], "booked_at_us": turn.at_us}
    if reply.booked_usd is not None:
        values["booked_cost_usd"] = reply.booked_usd
        values["reserved_cost_usd"] = reply.reserved_usd
    connection.execute(_update_open(score_id).values(values | sums))
    if reply.next_phase is not None:
        _log_event(connection, row, "progress", turn.at_us, phase=reply.next_phase)


def _log_start(connection: sa.Connection, row: sa.RowMapping, now: datetime) -> None:
    """Log the start of a scoring and its first phase."""
    _log_event(connection, row, "started", to_us(now))
    first: Phase = "analyzing_methodology"
    _log_event(connection, row, "progress", to_us(now), phase=first)


def _log_event(
    connection: sa.Connection, row: sa.RowMapping, type_: str, time_us: int, **details: object
) -> None:
    """Insert a row into ``scoring_events``."""
    subject = {name: row[name] for name in ("score_id", "session_id", "session_key")}
    event = {"type": f"scoring.{type_}", "timestamp_us": time_us, **subject, **details}
    connection.execute(sa.insert(SCORING_EVENTS).values(event))
