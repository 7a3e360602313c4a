"""Leases on scorings: held while somebody lives, given back, or ended for one who is gone."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

import sqlalchemy as sa

from evaluation_pipelines.judging.domain.budget.day_budget import DayReservation
from evaluation_pipelines.judging.domain.score import OPEN, LoggedTurn, Phase, Score
from evaluation_pipelines.judging.ledger.day_budget import set_aside, wait_for_turn
from evaluation_pipelines.judging.ledger.errors import ScoringOpenError
from evaluation_pipelines.judging.ledger.score_queries import ScoreQueries, score_of
from evaluation_pipelines.judging.ledger.score_records import (
    Failure,
    Lease,
    NewScore,
    PromptFacts,
    ReceivedReply,
    ScoreResult,
)
from evaluation_pipelines.judging.ledger.score_steps import (
    NO_LEASE,
    booked,
    end,
    expiry,
    held,
    keep_reply,
    locked,
    note,
    note_start,
    open_row,
    past_statuses,
    refused,
    taken,
)
from evaluation_pipelines.storage.ledger.engine import insert_into, writing
from evaluation_pipelines.storage.ledger.errors import LedgerError
from evaluation_pipelines.storage.ledger.tables.judging import SESSION_SCORES
from evaluation_pipelines.times import to_us

_SCORE = SESSION_SCORES.c


class ScoreLeases(ScoreQueries):
    """Changes who works on scorings; with a lease goes what was set aside and not asked for."""

    def expire(self, owner: str, now: datetime) -> None:
        """End the lease of an owner who is known to be gone: others may go on, as if it ran out."""
        update = sa.update(SESSION_SCORES).where(
            _SCORE.lease_owner == owner, _SCORE.lease_expires_at_us > to_us(now)
        )
        with writing(self._engine) as connection:
            connection.execute(update.values(lease_expires_at_us=to_us(now)))

    def renew(self, lease: Lease, now: datetime) -> int:
        """Hold everything that the owner holds for longer; gives how many scorings that are."""
        update = (
            sa.update(SESSION_SCORES)
            .where(_SCORE.lease_owner == lease.owner, _SCORE.status.in_(OPEN))
            .values(lease_expires_at_us=expiry(lease, now))
        )
        with writing(self._engine) as connection:
            return connection.execute(update).rowcount

    def release(self, owner: str) -> None:
        """Let others go on at once with all scorings of an owner."""
        update = sa.update(SESSION_SCORES).where(
            _SCORE.lease_owner == owner, _SCORE.status.in_(OPEN)
        )
        with writing(self._engine) as connection:
            connection.execute(update.values(NO_LEASE))

    def leave(
        self, score_id: str, owner: str, now: datetime, booked_usd: float | None = None
    ) -> None:
        """Let others go on with one scoring, with what is booked. Raises as ``log_turn``."""
        with writing(self._engine) as connection:
            held(connection, score_id, owner)
            connection.execute(open_row(score_id).values(NO_LEASE | booked(booked_usd, now)))


class ScoreStore(ScoreLeases):
    """Writes the scores; every method is one transaction and notes what happened as an event.

    Whatever is noted of a scoring under way is refused unless the caller holds its lease.
    """

    def create(
        self,
        new: NewScore,
        now: datetime,
        lease: Lease | None = None,
        shown: PromptFacts | None = None,
        stake: DayReservation | None = None,
    ) -> Score:
        """Begin a scoring: ``pending``, or ``in_progress`` at once for somebody with a lease.

        ``stake`` is the most that it can cost; None is unknown.

        Raises:
            ScoringOpenError: one of the same session, profile and model is not finished yet, or
                has come since the maker looked.
            DayBudgetReachedError: the stake does not fit into what is left of the day.
        """
        values = {
            **{name: value for name, value in asdict(new).items() if name != "seen"},
            "status": "pending",
            "scored_at_us": to_us(now),
            "attempt": 1,
            "turn_log": [],
            "takeovers": 0,
            **({} if shown is None else asdict(shown)),
            **({} if lease is None else taken(lease, now, started_at_us=to_us(now))),
        }
        with writing(self._engine) as connection:
            wait_for_turn(connection, stake)
            insert = insert_into(connection, SESSION_SCORES).values(values)
            added = insert.on_conflict_do_nothing().returning(_SCORE.score_id)
            is_free = connection.execute(added).one_or_none() is not None
            # Looked at after the insert, which nobody can overtake: a rival has ended or waits.
            past = past_statuses(connection, new)
            if not is_free or new.seen not in {None, len(past)}:
                raise ScoringOpenError(
                    f"Session {new.session_key} of {new.organization_id} is being scored by "
                    f"profile {new.judge_profile_id} and model {new.judge_model} already, or was "
                    "a moment ago. Leave it to that scoring."
                )
            attempt = past.count(("failed", True)) + 1
            money = set_aside(connection, new.score_id, stake, now)
            update = open_row(new.score_id).values(attempt=attempt, **money)
            row = connection.execute(update.returning(SESSION_SCORES)).mappings().one()
            if lease is not None:
                note_start(connection, row, now)
            return score_of(row)

    def claim(
        self,
        score_id: str,
        lease: Lease,
        now: datetime,
        shown: PromptFacts | None = None,
        stake: DayReservation | None = None,
    ) -> Score:
        """Become the one who works on a scoring that nobody holds, and see what it has so far.

        What was booked for it stays booked: nobody knows what became of requests under way. What
        was set aside is free, and ``stake`` is what it can cost from here.

        Raises:
            UnknownScoreError: no such scoring.
            ScoreEndedError: it has come to its end.
            ScoreLeaseLostError: somebody else holds an unexpired lease.
            DayBudgetReachedError: the stake does not fit into what is left of the day.
        """
        with writing(self._engine) as connection:
            wait_for_turn(connection, stake)
            before = locked(connection, score_id)
            if before["status"] not in OPEN or (before["lease_expires_at_us"] or 0) > to_us(now):
                raise refused(before, "claimed")
            spent_usd = before["booked_cost_usd"] or 0.0
            values = {
                **taken(lease, now, started_at_us=before["started_at_us"] or to_us(now)),
                **({} if shown is None else asdict(shown)),
                "takeovers": before["takeovers"] + (before["lease_owner"] is not None),
                **set_aside(connection, score_id, stake, now, spent_usd),
            }
            update = open_row(score_id).values(values).returning(SESSION_SCORES)
            row = connection.execute(update).mappings().one()
            if before["started_at_us"] is None:
                note_start(connection, row, now)
            return score_of(row)

    def set_aside_more(
        self, score_id: str, owner: str, stake: DayReservation, now: datetime
    ) -> None:
        """Set money aside for a call that was not planned.

        Raises:
            DayBudgetReachedError: it does not fit into what is left of the day.
            As ``log_turn``.
        """
        with writing(self._engine) as connection:
            wait_for_turn(connection, stake)
            row = held(connection, score_id, owner)
            before = row["booked_cost_usd"] or 0.0, row["reserved_cost_usd"] or 0.0
            values = set_aside(connection, score_id, stake, now, *before)
            connection.execute(open_row(score_id).values(values))

    def log_turn(
        self,
        score_id: str,
        owner: str,
        turn: LoggedTurn,
        booked_usd: float | None = None,
        next_phase: Phase | None = None,
    ) -> None:
        """Keep a reply as soon as it has arrived, and what it cost.

        A sum of tokens or money is unknown where one reply does not say. ``booked_usd`` and
        ``next_phase`` as in ``ReceivedReply``; nothing is set aside any more.

        Raises:
            UnknownScoreError: no such scoring.
            ScoreEndedError: it has come to its end.
            ScoreLeaseLostError: the owner does not hold it any more.
            ValueError: there is a reply to this turn.
        """
        (problem,) = self.log_turns(
            [ReceivedReply(score_id, owner, turn, booked_usd, None, next_phase)]
        )
        if problem is not None:
            raise problem

    def log_turns(self, arrived: Sequence[ReceivedReply]) -> list[Exception | None]:
        """Keep several replies in one transaction, which costs as much as keeping one.

        Returns:
            For each what ``log_turn`` would raise, or None; one problem leaves the others alone.
        """
        problems: list[Exception | None] = []
        with writing(self._engine) as connection:
            for each in arrived:
                try:
                    keep_reply(connection, each)
                    problems.append(None)
                except (LedgerError, ValueError) as problem:
                    problems.append(problem)
        return problems

    def complete(
        self,
        score_id: str,
        owner: str,
        what: ScoreResult,
        now: datetime,
        booked_usd: float | None = None,
    ) -> Score:
        """Bring a scoring to a good end. Raises as ``log_turn``."""
        with writing(self._engine) as connection:
            row = held(connection, score_id, owner)
            ended = end(connection, row, "completed", now, asdict(what) | booked(booked_usd, now))
            note(connection, row, "completed", to_us(now), total_score=what.total_score)
            return ended

    def fail(
        self,
        score_id: str,
        owner: str,
        failure: Failure,
        now: datetime,
        booked_usd: float | None = None,
    ) -> Score:
        """Bring a scoring to a bad end, with the reason. Raises as ``log_turn``."""
        with writing(self._engine) as connection:
            row = held(connection, score_id, owner)
            values = {"error_message": failure.reason, "retriable": failure.retriable}
            ended = end(connection, row, "failed", now, values | booked(booked_usd, now))
            note(connection, row, "failed", to_us(now), error_message=failure.reason)
            return ended
