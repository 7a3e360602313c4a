"""Ingest commits, one transaction per batch, and their totals."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import date, datetime
from typing import Any

import sqlalchemy as sa

from evaluation_pipelines.storage.compaction import GRACE_PERIOD
from evaluation_pipelines.storage.ledger.clock import shared_time
from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.manifest import add_parts
from evaluation_pipelines.storage.ledger.rebuild_queue import touch
from evaluation_pipelines.storage.ledger.tables.erasure import ERASED_EVENTS
from evaluation_pipelines.storage.ledger.tables.telemetry import (
    INGEST_BATCHES,
    INGEST_NAMES,
    PARTS,
    SOURCE_FILES,
)
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.telemetry.domain.counts import IngestCounts
from evaluation_pipelines.telemetry.ledger.errors import (
    OldPartsError,
    PositionMovedError,
    UnknownSourceFileError,
)
from evaluation_pipelines.telemetry.ledger.forgotten_store import (
    check_forgotten,
    follow_forgotten,
)
from evaluation_pipelines.telemetry.ledger.records import Balance, IngestBatch
from evaluation_pipelines.telemetry.ledger.session_index import store_sessions

_MAX_AGE = GRACE_PERIOD / 2
_ERASED = sa.select(ERASED_EVENTS.c.session_date, ERASED_EVENTS.c.events)
_FILE = SOURCE_FILES.c
_BATCH = INGEST_BATCHES.c
_SUMS = [
    sa.cast(sa.func.coalesce(sa.func.sum(_BATCH[each.name]), 0), sa.BigInteger).label(each.name)
    for each in fields(IngestCounts)
]


class IngestBatches:
    """Operations on ``ingest_batches`` and ``ingest_names``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def commit_batch(self, batch: IngestBatch, hold: Hold) -> None:
        """Commit a batch: position, parts, sessions, rebuild queue and counts, all or none.

        The dates of the parts are queued for a rebuild. The files of the parts must be on disk.
        ``hold`` is the lock of whoever ingests.

        Raises:
            UnknownSourceFileError: the file was never added.
            LockLostError: the lock is lost; another process may ingest.
            PositionMovedError: the read position of the file is not the start of the batch.
            SessionDateTakenError: another reader assigned a session to another date.
            ForgottenMeanwhileError: something was forgotten since the events were looked at.
            OldPartsError: the parts may be deleted, for example since the machine slept for hours.
            LedgerConflictError: the path of a part is in the manifest already.
        """
        if batch.from_offset >= batch.to_offset:
            raise ValueError(
                f"A batch must consume bytes; got {batch.from_offset} to {batch.to_offset}."
            )
        dates = {part.session_date for part in batch.parts if part.session_date is not None}
        # Those of sub-agents whose parent is named late change as well.
        dates |= {each.session_date for each in batch.sessions if each.parent_session_id}
        with writing(self._engine) as connection:
            check_forgotten(connection, batch.left_out.version)
            follow_forgotten(connection, batch.left_out.sessions)
            hold.check(connection)
            _advance(connection, batch)
            _check_age(connection, batch)
            origin = (batch.file_id, batch.from_offset, batch.to_offset)
            add_parts(connection, batch.parts, batch.ingested_at, origin)
            store_sessions(connection, batch.sessions)
            touch(connection, dates, batch.ingested_at)
            _insert_batch(connection, batch)
            count_names(connection, batch.names)

    def totals(self, since: datetime | None = None, until: datetime | None = None) -> IngestCounts:
        """Return the counts of all batches, or of those committed in [``since``, ``until``)."""
        query = sa.select(*_SUMS).where(*_committed(since, until))
        with reading(self._engine) as connection:
            return IngestCounts(**connection.execute(query).mappings().one())

    def totals_by_file(self, since: datetime | None = None) -> dict[str, IngestCounts]:
        """Return the counts per ``file_id``; files without a batch are absent."""
        query = sa.select(_BATCH.file_id, *_SUMS).where(*_committed(since)).group_by(_BATCH.file_id)
        with reading(self._engine) as connection:
            rows = [dict(row) for row in connection.execute(query).mappings()]
        return {row.pop("file_id"): IngestCounts(**row) for row in rows}

    def balance(self, table_name: str, first: date, last: date) -> Balance:
        """Return the events counted by batches and the rows in the manifest, in one snapshot.

        Args:
            table_name: The table of landed events.
            first: First day of the range of partitions.
            last: Its last day.
        """
        part = PARTS.c
        rows = sa.select(sa.func.coalesce(sa.func.sum(part.row_count), 0)).where(
            part.table_name == table_name, part.superseded_at.is_(None)
        )
        is_within = part.session_date.between(first, last)
        counted = sa.select(sa.func.coalesce(sa.func.sum(_BATCH.events), 0))
        query = sa.select(
            *(
                sa.cast(each.scalar_subquery(), sa.BigInteger)
                for each in (counted, rows.where(is_within), rows.where(~is_within))
            )
        )
        with reading(self._engine) as connection:
            numbers: Sequence[int] = connection.execute(query).one()
            erased = {each.session_date: each.events for each in connection.execute(_ERASED)}
        return Balance(numbers[0], numbers[1], numbers[2], erased)

    def names(self) -> dict[tuple[str, str], int]:
        """Return the number of records that were not stored, by (source, event name)."""
        query = sa.select(INGEST_NAMES).order_by(INGEST_NAMES.c.source, INGEST_NAMES.c.name)
        with reading(self._engine) as connection:
            return {(row.source, row.name): row.records for row in connection.execute(query)}


def _advance(connection: sa.Connection, batch: IngestBatch) -> None:
    """Move the read position if it is the start of the batch."""
    this_file = _FILE.file_id == batch.file_id
    columns = sa.select(_FILE.position, _FILE.last_event_time)
    file = connection.execute(columns.where(this_file).with_for_update()).one_or_none()
    where = f"bytes {batch.from_offset} to {batch.to_offset} of file {batch.file_id}"
    if file is None:
        raise UnknownSourceFileError(f"The ledger has no file for {where}. Add the file first.")
    if file.position != batch.from_offset:
        raise PositionMovedError(
            f"The file is read up to byte {file.position}: {where} were not stored. "
            "Read the position from the ledger and continue from it."
        )
    times = [each for each in (file.last_event_time, batch.last_event_time) if each is not None]
    values: dict[str, Any] = {
        "position": batch.to_offset,
        "head_bytes": batch.head_bytes,
        "head_sha256": batch.head_sha256,
        "last_read_at": batch.ingested_at,
        "last_event_time": max(times, default=None),
    }
    connection.execute(sa.update(SOURCE_FILES).where(this_file).values(values))


def _check_age(connection: sa.Connection, batch: IngestBatch) -> None:
    """Refuse parts that a sweep, which finds them in no manifest, may have deleted."""
    if batch.written_after is None:
        return
    age = shared_time(connection, batch.ingested_at) - batch.written_after
    if age > _MAX_AGE:
        raise OldPartsError(f"The parts were written up to {age} ago. Write them again.")


def _insert_batch(connection: sa.Connection, batch: IngestBatch) -> None:
    row = {
        "file_id": batch.file_id,
        "from_offset": batch.from_offset,
        "to_offset": batch.to_offset,
        "ingested_at": batch.ingested_at,
    }
    connection.execute(sa.insert(INGEST_BATCHES), row | asdict(batch.counts))


def count_names(connection: sa.Connection, names: Mapping[tuple[str, str], int]) -> None:
    """Add numbers of records that were not stored, within the caller's transaction."""
    if not names:
        return
    insert = insert_into(connection, INGEST_NAMES)
    stored = INGEST_NAMES.c
    rows = [
        {"source": source, "name": name, "records": records}
        for (source, name), records in sorted(names.items())
    ]
    connection.execute(
        insert.on_conflict_do_update(
            index_elements=[stored.source, stored.name],
            set_={"records": stored.records + insert.excluded.records},
        ),
        rows,
    )


def _committed(
    since: datetime | None, until: datetime | None = None
) -> tuple[sa.ColumnElement[bool], ...]:
    after = () if since is None else (_BATCH.ingested_at >= since,)
    before = () if until is None else (_BATCH.ingested_at < until,)
    return (*after, *before)
