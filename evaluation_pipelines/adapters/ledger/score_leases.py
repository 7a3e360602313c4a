"""Leases on scorings: held while somebody lives, given back, or ended for one who is gone."""

from datetime import datetime

import sqlalchemy as sa

from evaluation_pipelines.adapters.ledger.engine import writing
from evaluation_pipelines.adapters.ledger.score_queries import ScoreQueries
from evaluation_pipelines.adapters.ledger.score_records import Lease
from evaluation_pipelines.adapters.ledger.score_rows import (
    NO_LEASE,
    booked,
    expiry,
    held,
    open_row,
)
from evaluation_pipelines.adapters.ledger.score_tables import SESSION_SCORES
from evaluation_pipelines.domain.judging.score import OPEN
from evaluation_pipelines.domain.telemetry.times import to_us

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
