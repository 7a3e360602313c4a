"""Batches of judge requests in the ledger."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

import sqlalchemy as sa

from evaluation_pipelines.judging.domain.batch.requests import batch_owner
from evaluation_pipelines.judging.endpoint.batch_api import ProviderBatch
from evaluation_pipelines.judging.ledger.score_records import Lease
from evaluation_pipelines.schemas.judge_score import OPEN
from evaluation_pipelines.storage.lease_owner import is_gone
from evaluation_pipelines.storage.ledger.engine import reading, writing
from evaluation_pipelines.storage.ledger.errors import LedgerError
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.judging import JUDGE_BATCHES, SESSION_SCORES
from evaluation_pipelines.times import to_us

BatchState: TypeAlias = Literal[
    "preparing", "submitting", "submitted", "cancelling", "collected", "closed", "discarded"
]
_UNFINISHED = ("preparing", "submitting", "submitted", "cancelling", "collected")

_WINDOW_US = 24 * 3600 * 1_000_000
"""The time that is asked for when a batch is created: not every provider reports its own."""

_GRACE_US = 3600 * 1_000_000
"""A batch that has expired is not ended to the second."""

_ROW = JUDGE_BATCHES.c
_SCORE = SESSION_SCORES.c


class BatchLeaseLostError(LedgerError):
    """Another process has taken a batch over."""


@dataclass(frozen=True, slots=True)
class JudgeBatch:
    """A row of ``judge_batches``; times are in microseconds since 1970.

    ``preparing``: scorings are leased, nothing was created. ``submitting``: it is being created at
    the provider, or the process died just then. ``submitted``: it is there. ``cancelling``: it did
    not end in time, and the provider was asked to end it. ``collected``: its results are in the
    ledger, its files not yet deleted. ``closed`` and ``discarded`` are final.
    """

    batch_id: str
    judge_model: str
    state: BatchState
    requests: int
    input_file_id: str | None
    provider_batch_id: str | None
    provider_status: str | None
    output_file_ids: list[str] | None
    completed_requests: int
    failed_requests: int
    created_at_us: int
    submitting_at_us: int | None
    polled_at_us: int | None
    expected_by_us: int | None
    ended_at_us: int | None
    error_message: str | None
    lease_owner: str | None
    lease_expires_at_us: int | None

    @property
    def owner(self) -> str:
        """Lease owner of the scorings that wait in it."""
        return batch_owner(self.batch_id)

    @property
    def deadline_us(self) -> int:
        """Time by which it should have ended."""
        return self.expected_by_us or self._window_end_us

    def is_late(self, now: datetime) -> bool:
        """Return whether it should have ended for some time, whatever the provider reports."""
        return to_us(now) >= max(self.deadline_us, self._window_end_us) + _GRACE_US

    @property
    def _window_end_us(self) -> int:
        return (self.submitting_at_us or self.created_at_us) + _WINDOW_US

    def is_free(self, now: datetime) -> bool:
        """Return whether no process works on it."""
        owner = self.lease_owner
        return owner is None or (self.lease_expires_at_us or 0) <= to_us(now) or is_gone(owner)


class BatchStore:
    """Reader and writer of ``judge_batches``; every method is one transaction.

    Changes are refused unless the caller holds the lease of the batch.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def begin(self, batch_id: str, judge_model: str, lease: Lease, now: datetime) -> None:
        """Insert a batch in preparation."""
        values = {
            "batch_id": batch_id,
            "judge_model": judge_model,
            "state": "preparing",
            "requests": 0,
            "completed_requests": 0,
            "failed_requests": 0,
            "created_at_us": to_us(now),
            **_lease(lease, now),
        }
        with writing(self._engine) as connection:
            connection.execute(sa.insert(JUDGE_BATCHES).values(values))

    def claim(self, batch: JudgeBatch, lease: Lease, now: datetime) -> bool:
        """Take the lease of a batch in the state in which it was read; False if it has changed."""
        update = sa.update(JUDGE_BATCHES).where(
            _ROW.batch_id == batch.batch_id,
            _ROW.state == batch.state,
            _ROW.lease_owner.is_not_distinct_from(batch.lease_owner),
            _ROW.lease_expires_at_us.is_not_distinct_from(batch.lease_expires_at_us),
        )
        with writing(self._engine) as connection:
            return connection.execute(update.values(_lease(lease, now))).rowcount == 1

    def renew(self, batch_id: str, lease: Lease, now: datetime) -> None:
        """Renew the lease. Raises as ``change``."""
        self.change(batch_id, lease, **_lease(lease, now))

    def release(self, batch_id: str, lease: Lease) -> None:
        """Release the lease if it is still held."""
        update = sa.update(JUDGE_BATCHES).where(
            _ROW.batch_id == batch_id, _ROW.lease_owner == lease.owner
        )
        values = {"lease_owner": None, "lease_expires_at_us": None}
        with writing(self._engine) as connection:
            connection.execute(update.values(values))

    def change(self, batch_id: str, lease: Lease, **values: Any) -> None:
        """Change columns of a batch.

        Raises:
            BatchLeaseLostError: Another process holds the lease.
        """
        update = sa.update(JUDGE_BATCHES).where(
            _ROW.batch_id == batch_id, _ROW.lease_owner == lease.owner
        )
        with writing(self._engine) as connection:
            if connection.execute(update.values(values)).rowcount != 1:
                raise BatchLeaseLostError(f"Another process has taken batch {batch_id} over.")

    def note_submitted(
        self, batch_id: str, lease: Lease, found: ProviderBatch, now: datetime
    ) -> None:
        """Store that a batch exists at the provider. Raises as ``change``."""
        submitted = {
            "provider_batch_id": found.id,
            "input_file_id": found.input_file_id,
            "expected_by_us": None if found.expires_at is None else found.expires_at * 1_000_000,
        }
        self.change(batch_id, lease, state="submitted", **submitted, **_polled(found, now))

    def note_polled(
        self, batch: JudgeBatch, lease: Lease, found: ProviderBatch, now: datetime
    ) -> None:
        """Store the status of a batch. Raises as ``change``."""
        self.change(batch.batch_id, lease, **_polled(found, now))

    def book_in_full(self, batch: JudgeBatch, now: datetime) -> None:
        """Book what the scorings of a batch reserve: its requests may have been charged."""
        reserved = sa.func.coalesce(_SCORE.reserved_cost_usd, 0.0)
        update = sa.update(SESSION_SCORES).where(
            _SCORE.lease_owner == batch.owner, _SCORE.status.in_(OPEN), reserved > 0
        )
        booked = {
            "booked_cost_usd": sa.func.coalesce(_SCORE.booked_cost_usd, 0.0) + reserved,
            "reserved_cost_usd": 0.0,
            "booked_at_us": to_us(now),
        }
        with writing(self._engine) as connection:
            connection.execute(update.values(booked))

    def unfinished(self) -> list[JudgeBatch]:
        """Return the batches that are not closed or discarded, oldest first."""
        return self._select(_ROW.state.in_(_UNFINISHED))

    def newest(self, number: int) -> list[JudgeBatch]:
        """Return the newest batches, newest first."""
        return self._select()[: -number - 1 : -1]

    def of_model(self, judge_model: str, since: datetime) -> list[JudgeBatch]:
        """Return the batches for a model that began after ``since``, oldest first."""
        return self._select(_ROW.judge_model == judge_model, _ROW.created_at_us >= to_us(since))

    def get(self, batch_id: str) -> JudgeBatch | None:
        """Return one batch; ``None`` if there is none."""
        return next(iter(self._select(_ROW.batch_id == batch_id)), None)

    def reserved_usd(self) -> dict[str, float]:
        """Return the money reserved by the scorings that wait, by lease owner."""
        query = sa.select(_SCORE.lease_owner, sa.func.sum(_SCORE.reserved_cost_usd)).where(
            _SCORE.status.in_(OPEN), _SCORE.lease_owner.is_not(None)
        )
        with reading(self._engine) as connection:
            rows = connection.execute(query.group_by(_SCORE.lease_owner))
            return {owner: float(usd or 0.0) for owner, usd in rows}

    def _select(self, *conditions: sa.ColumnElement[bool]) -> list[JudgeBatch]:
        query = sa.select(JUDGE_BATCHES).where(*conditions)
        with reading(self._engine) as connection:
            rows = connection.execute(query.order_by(_ROW.created_at_us, _ROW.batch_id)).mappings()
            return [JudgeBatch(**row) for row in rows]


def _lease(lease: Lease, now: datetime) -> dict[str, Any]:
    expiry_us = to_us(now) + int(lease.seconds * 1e6)
    return {"lease_owner": lease.owner, "lease_expires_at_us": expiry_us}


def _polled(found: ProviderBatch, now: datetime) -> dict[str, Any]:
    files = [each for each in (found.output_file_id, found.error_file_id) if each]
    return {
        "provider_status": found.status,
        "polled_at_us": to_us(now),
        "output_file_ids": files,
        "completed_requests": found.completed,
        "failed_requests": found.failed,
        "error_message": found.errors or None,
    }
