"""Retries of quarantined lines."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.manifest import add_parts
from evaluation_pipelines.storage.ledger.rebuild_queue import touch
from evaluation_pipelines.storage.ledger.tables.telemetry import (
    INGEST_BATCHES,
    QUARANTINE_RETRIES,
)
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.storage.parts import NewPart
from evaluation_pipelines.telemetry.domain.counts import IngestCounts
from evaluation_pipelines.telemetry.domain.subagents import SessionStart
from evaluation_pipelines.telemetry.ledger.forgotten_store import check_forgotten, follow_forgotten
from evaluation_pipelines.telemetry.ledger.ingest_batches import LeftOut, count_names
from evaluation_pipelines.telemetry.ledger.session_index import store_sessions

WHOLE_LINE = -1

_RETRY = QUARANTINE_RETRIES.c
_BATCH = INGEST_BATCHES.c


@dataclass(frozen=True, slots=True)
class RetryVerdict:
    """Result of the retry of one entry; ``reason`` is None if it was read.

    ``record_index`` is WHOLE_LINE for a line as a whole.
    """

    offset: int
    record_index: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class RetriedLines:
    """Lines of one file that were read again, and the resulting parts and sessions.

    ``gained`` has the offset of each line and the change of its ingest counts.
    """

    file_id: str
    retried_at: datetime
    verdicts: tuple[RetryVerdict, ...]
    parts: tuple[NewPart, ...] = ()
    sessions: tuple[SessionStart, ...] = ()
    gained: tuple[tuple[int, IngestCounts], ...] = ()
    left_out: LeftOut = field(default_factory=LeftOut)
    names: Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RetriedEntry:
    """A stored result and its time."""

    file_id: str
    offset: int
    record_index: int
    retried_at: datetime
    reason: str | None


class QuarantineRetries:
    """Operations on ``quarantine_retries``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def retried(self) -> list[RetriedEntry]:
        """Return the last result of every entry that was ever read again."""
        with reading(self._engine) as connection:
            rows = connection.execute(sa.select(QUARANTINE_RETRIES)).mappings()
            return [RetriedEntry(**row) for row in rows]

    def commit_retry(self, lines: RetriedLines, hold: Hold) -> None:
        """Commit lines that were read again: parts, sessions, rebuild queue and counts.

        The counts are added to those of the batch that read the line first, so a line and its
        records stay in exactly one count each. The files of the parts must be on disk.

        Raises:
            LockLostError: the lock of whoever ingests is lost; nothing was stored.
            SessionDateTakenError: another reader assigned a session to another date.
            ForgottenMeanwhileError: something was forgotten since the events were looked at.
        """
        dates = {part.session_date for part in lines.parts if part.session_date is not None}
        # Those of sub-agents whose parent is named late change as well.
        dates |= {each.session_date for each in lines.sessions if each.parent_session_id}
        with writing(self._engine) as connection:
            check_forgotten(connection, lines.left_out.version)
            follow_forgotten(connection, lines.left_out.sessions)
            hold.check(connection)
            add_parts(connection, lines.parts, lines.retried_at)
            store_sessions(connection, lines.sessions)
            touch(connection, dates, lines.retried_at)
            _store_verdicts(connection, lines)
            for offset, gained in lines.gained:
                _adjust_counts(connection, lines.file_id, offset, gained)
            count_names(connection, lines.names)


def _store_verdicts(connection: sa.Connection, lines: RetriedLines) -> None:
    rows = [
        {"file_id": lines.file_id, "retried_at": lines.retried_at, **asdict(each)}
        for each in lines.verdicts
    ]
    insert = insert_into(connection, QUARANTINE_RETRIES)
    new = insert.excluded
    update = insert.on_conflict_do_update(
        index_elements=[_RETRY.file_id, _RETRY.offset, _RETRY.record_index],
        set_={"retried_at": new.retried_at, "reason": new.reason},
    )
    connection.execute(update, rows)


def _adjust_counts(
    connection: sa.Connection, file_id: str, offset: int, gained: IngestCounts
) -> None:
    changes = {name: _BATCH[name] + number for name, number in asdict(gained).items() if number}
    covers: Collection[sa.ColumnElement[bool]] = (
        _BATCH.file_id == file_id,
        _BATCH.from_offset <= offset,
        _BATCH.to_offset > offset,
    )
    if changes:
        connection.execute(sa.update(INGEST_BATCHES).where(*covers).values(changes))
