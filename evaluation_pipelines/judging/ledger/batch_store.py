"""Batches of judge requests in the ledger."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

import sqlalchemy as sa

from evaluation_pipelines.judging.endpoint.batch_api import ProviderBatch
from evaluation_pipelines.schemas.judge_score import OPEN
from evaluation_pipelines.storage.ledger.engine import reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.judging import JUDGE_BATCHES, SESSION_SCORES
from evaluation_pipelines.storage.lock import Hold
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


@dataclass(frozen=True, slots=True)
class JudgeBatch:
    """A row of ``judge_batches``; times are in microseconds since 1970.

    ``preparing``: judgments name it, nothing was created. ``submitting``: it is being created at
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


class BatchStore:
    """Reader and writer of ``judge_batches``; a method is one transaction."""

    def __init__(self, ledger: Ledger, hold: Hold | None = None) -> None:
        self._engine, self._hold = ledger.engine, hold

    def begin(self, batch_id: str, judge_model: str, now: datetime) -> None:
        """Insert a batch in preparation."""
        values = {
            "batch_id": batch_id,
            "judge_model": judge_model,
            "state": "preparing",
            "requests": 0,
            "completed_requests": 0,
            "failed_requests": 0,
            "created_at_us": to_us(now),
        }
        with self._writing() as connection:
            connection.execute(sa.insert(JUDGE_BATCHES).values(values))

    def change(self, batch_id: str, **values: Any) -> None:
        """Change columns of a batch.

        Raises:
            LockLostError: Another process may judge now.
        """
        update = sa.update(JUDGE_BATCHES).where(_ROW.batch_id == batch_id)
        with self._writing() as connection:
            connection.execute(update.values(values))

    def discard(self, batch_id: str, reason: str, now: datetime) -> None:
        """Note that a batch has become nothing. Raises as ``change``."""
        self.change(batch_id, state="discarded", ended_at_us=to_us(now), error_message=reason)

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        with writing(self._engine) as connection:
            if self._hold is not None:
                self._hold.check(connection)
            yield connection

    def note_submitted(self, batch_id: str, found: ProviderBatch, now: datetime) -> None:
        """Store that a batch exists at the provider. Raises as ``change``."""
        submitted = {
            "provider_batch_id": found.id,
            "input_file_id": found.input_file_id,
            "expected_by_us": None if found.expires_at is None else found.expires_at * 1_000_000,
        }
        self.change(batch_id, state="submitted", **submitted, **_polled(found, now))

    def note_polled(self, batch: JudgeBatch, found: ProviderBatch, now: datetime) -> None:
        """Store the status of a batch. Raises as ``change``."""
        self.change(batch.batch_id, **_polled(found, now))

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
        """Return the money reserved by the judgments that wait, by batch."""
        query = sa.select(_SCORE.batch_id, sa.func.sum(_SCORE.reserved_cost_usd)).where(
            _SCORE.status.in_(OPEN), _SCORE.batch_id.is_not(None)
        )
        with reading(self._engine) as connection:
            rows = connection.execute(query.group_by(_SCORE.batch_id))
            return {batch_id: float(usd or 0.0) for batch_id, usd in rows}

    def _select(self, *conditions: sa.ColumnElement[bool]) -> list[JudgeBatch]:
        query = sa.select(JUDGE_BATCHES).where(*conditions)
        with reading(self._engine) as connection:
            rows = connection.execute(query.order_by(_ROW.created_at_us, _ROW.batch_id)).mappings()
            return [JudgeBatch(**row) for row in rows]


def _polled(found: ProviderBatch, now: datetime) -> dict[str, Any]:
    return {
        "provider_status": found.status,
        "polled_at_us": to_us(now),
        "output_file_ids": found.result_files,
        "completed_requests": found.completed,
        "failed_requests": found.failed,
        "error_message": found.errors or None,
    }
