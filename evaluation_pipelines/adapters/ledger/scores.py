"""Scorings of sessions from the request to their end: who may work on one, and what it became."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from evaluation_pipelines.adapters.ledger.day_budget import set_aside, wait_for_turn
from evaluation_pipelines.adapters.ledger.engine import insert_into, writing
from evaluation_pipelines.adapters.ledger.errors import LedgerError, ScoringOpenError
from evaluation_pipelines.adapters.ledger.score_leases import ScoreLeases
from evaluation_pipelines.adapters.ledger.score_queries import score_of
from evaluation_pipelines.adapters.ledger.score_records import (
    Arrived,
    Completion,
    Failure,
    Lease,
    NewScore,
    Shown,
)
from evaluation_pipelines.adapters.ledger.score_rows import (
    booked,
    end,
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
from evaluation_pipelines.adapters.ledger.score_tables import SESSION_SCORES
from evaluation_pipelines.domain.judging.day_budget import Stake
from evaluation_pipelines.domain.judging.score import OPEN, LoggedTurn, Phase, Score
from evaluation_pipelines.domain.telemetry.times import to_us

_SCORE = SESSION_SCORES.c


class ScoreStore(ScoreLeases):
    """Writes the scores; every method is one transaction and notes what happened as an event.

    Whatever is noted of a scoring under way is refused unless the caller holds its lease.
    """

    def create(
        self,
        new: NewScore,
        now: datetime,
        lease: Lease | None = None,
        shown: Shown | None = None,
        stake: Stake | None = None,
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
        shown: Shown | None = None,
        stake: Stake | None = None,
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

    def set_aside_more(self, score_id: str, owner: str, stake: Stake, now: datetime) -> None:
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
        ``next_phase`` as in ``Arrived``; nothing is set aside any more.

        Raises:
            UnknownScoreError: no such scoring.
            ScoreEndedError: it has come to its end.
            ScoreLeaseLostError: the owner does not hold it any more.
            ValueError: there is a reply to this turn.
        """
        (problem,) = self.log_turns([Arrived(score_id, owner, turn, booked_usd, None, next_phase)])
        if problem is not None:
            raise problem

    def log_turns(self, arrived: Sequence[Arrived]) -> list[Exception | None]:
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
        what: Completion,
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
