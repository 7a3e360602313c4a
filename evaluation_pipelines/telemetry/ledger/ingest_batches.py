"""What was read of landing files, batch by batch, and the sessions that it has."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import date, datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from evaluation_pipelines.storage.compaction import GRACE_PERIOD
from evaluation_pipelines.storage.ledger.engine import chunks, insert_into, reading, writing
from evaluation_pipelines.storage.ledger.errors import LedgerError
from evaluation_pipelines.storage.ledger.ledger import Ledger, shared_time
from evaluation_pipelines.storage.ledger.manifest import add_part
from evaluation_pipelines.storage.ledger.rebuild_queue import touch
from evaluation_pipelines.storage.ledger.tables.telemetry import (
    ERASED_EVENTS,
    INGEST_BATCHES,
    INGEST_NAMES,
    PART_ORIGINS,
    PARTS,
    SESSION_INDEX,
    SOURCE_FILES,
)
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.storage.parts import NewPart, PartOrigin
from evaluation_pipelines.telemetry.domain.organizations import shared_date
from evaluation_pipelines.telemetry.domain.outcome_lines import LateOutcome
from evaluation_pipelines.telemetry.domain.shapes import IngestCounts
from evaluation_pipelines.telemetry.domain.subagents import SessionStart
from evaluation_pipelines.telemetry.ledger.forgotten_store import check_forgotten, follow_forgotten
from evaluation_pipelines.telemetry.ledger.late_outcomes import add_outcomes


class SessionDateTakenError(LedgerError):
    """Another reader assigned a session of the batch to another date."""


_SESSION = SESSION_INDEX.c
_COLUMNS = tuple(field.name for field in fields(SessionStart))


class SessionIndex:
    """Operations on ``session_index``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def session_dates(self, keys: Collection[tuple[str, str]]) -> dict[tuple[str, str], date]:
        """Return the dates of known (organization_id, session_id) pairs."""
        with reading(self._engine) as connection:
            return _dates_of(connection, set(keys))

    def dates_by_session_id(
        self, session_ids: Collection[str]
    ) -> dict[str, list[tuple[str, date]]]:
        """Return the sorted (organization_id, session_date) pairs of known session ids."""
        found: defaultdict[str, list[tuple[str, date]]] = defaultdict(list)
        for start in self.starts(session_ids):
            found[start.session_id].append((start.organization_id, start.session_date))
        return {session_id: sorted(pairs) for session_id, pairs in found.items()}

    def starts(self, session_ids: Collection[str]) -> list[SessionStart]:
        """Return the starts of known session ids, of all organizations."""
        with reading(self._engine) as connection:
            return list(_starts(connection, session_ids))

    def children(self) -> list[SessionStart]:
        """Return the starts of sub-agents and traces filed under other sessions."""
        return self._starts_where(_SESSION.parent_session_id.is_not(None))

    def unfiled(self) -> list[SessionStart]:
        """Return the starts of those with events that may have to move."""
        return self._starts_where(_SESSION.unfiled)

    def _starts_where(self, condition: sa.ColumnElement[bool]) -> list[SessionStart]:
        with reading(self._engine) as connection:
            return [SessionStart(**row) for row in _select(connection, condition)]


def note_filed(
    connection: sa.Connection, starts: Sequence[SessionStart], emptied: Collection[str]
) -> None:
    """Note the new dates of sessions, within the caller's transaction.

    Args:
        connection: Of the transaction.
        starts: Known sessions, with their new date and the time of their first event.
        emptied: Ids of sessions without events: forgotten until the next one.
    """
    names = ("session_date", "first_event_time", "unfiled", "parent_session_id", "named_by")
    rows = [
        {"of_organization": start.organization_id, "of_session": start.session_id}
        | {name: getattr(start, name) for name in names}
        for start in starts
    ]
    update = sa.update(SESSION_INDEX).where(
        _SESSION.session_id == sa.bindparam("of_session"),
        _SESSION.organization_id == sa.bindparam("of_organization"),
    )
    if rows:
        connection.execute(update, rows)
    for chunk in chunks(emptied):
        connection.execute(sa.delete(SESSION_INDEX).where(_SESSION.session_id.in_(chunk)))


def store_sessions(connection: sa.Connection, sessions: Sequence[SessionStart]) -> None:
    """Store the starts of new sessions, and changes of others, in the caller's transaction.

    A session that had landed before its parent was named gets it, and a trace another one if a span
    further out names it.

    Raises:
        SessionDateTakenError: another reader assigned one of them to another date since it was
            looked up. Its events would be in two partitions.
    """
    if not sessions:
        return
    insert = insert_into(connection, SESSION_INDEX)
    key = [_SESSION.session_id, _SESSION.organization_id]
    # Not asdict(), which copies each value and takes as long as storing the row.
    rows = [{name: getattr(start, name) for name in _COLUMNS} for start in sessions]
    rows.sort(key=lambda row: (row["session_id"], row["organization_id"]))
    new = insert.excluded
    is_first = sa.or_(_SESSION.parent_session_id.is_(None), new.named_by < _SESSION.named_by)
    is_named = sa.and_(new.parent_session_id.is_not(None), is_first)
    is_earlier = new.first_event_time < _SESSION.first_event_time
    better = {"parent_session_id": is_named, "named_by": is_named, "first_event_time": is_earlier}
    values: dict[str, sa.ColumnElement[Any]] = {
        name: sa.case((is_it, new[name]), else_=_SESSION[name]) for name, is_it in better.items()
    }
    values["unfiled"] = sa.or_(_SESSION.unfiled, new.unfiled)
    connection.execute(insert.on_conflict_do_update(index_elements=key, set_=values), rows)
    stored: defaultdict[str, dict[str, SessionStart]] = defaultdict(dict)
    for found in _starts(connection, {start.session_id for start in sessions}):
        stored[found.session_id][found.organization_id] = found
    for session in sessions:
        known = stored[session.session_id]
        dates = {organization: start.session_date for organization, start in known.items()}
        own = known[session.organization_id]
        shared = shared_date(session.organization_id, session.session_id, dates) or own.session_date
        is_taken = {own.session_date, shared} != {session.session_date}
        if is_taken or own.parent_session_id != session.parent_session_id:
            raise SessionDateTakenError(
                f"Another reader filed session {session.session_id} differently: "
                f"{own.session_date if own.session_date != session.session_date else shared}, not "
                f"{session.session_date}. Look it up again and commit the batch with that."
            )


def _dates_of(
    connection: sa.Connection, keys: Collection[tuple[str, str]]
) -> dict[tuple[str, str], date]:
    # The index starts with session_id, which is rarely in two organizations.
    found = _starts(connection, {session_id for _, session_id in keys})
    dates = {(start.organization_id, start.session_id): start.session_date for start in found}
    return {key: day for key, day in dates.items() if key in keys}


def _starts(connection: sa.Connection, session_ids: Collection[str]) -> Iterator[SessionStart]:
    for chunk in chunks(session_ids):
        for row in _select(connection, _SESSION.session_id.in_(chunk)):
            yield SessionStart(**row)


def _select(
    connection: sa.Connection, where: sa.ColumnElement[bool]
) -> Iterable[Mapping[str, Any]]:
    columns = [_SESSION[name] for name in _COLUMNS]
    return (dict(row) for row in connection.execute(sa.select(*columns).where(where)).mappings())


class UnknownSourceFileError(LedgerError):
    """No source file has this id."""


class PositionMovedError(LedgerError):
    """The read position of the file is not the start of the batch."""


class OldPartsError(LedgerError):
    """The parts of the batch were written so long ago that a sweep may have deleted them."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of the landing folder, identified by device, inode and head, not by name."""

    file_id: str
    device: int
    inode: int
    head_bytes: int
    head_sha256: str
    path: str
    size_bytes: int
    first_seen_at: datetime
    changed_at_ns: int | None = None
    position: int = 0
    finished_size_bytes: int = 0
    unfinished: str | None = None
    last_read_at: datetime | None = None
    last_event_time: datetime | None = None


class SeenFile(NamedTuple):
    """A file as it was last seen.

    ``changed_at_ns`` is the time of its last change if all of it was read then, otherwise None.
    """

    device: int
    inode: int
    size_bytes: int
    changed_at_ns: int | None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What of a batch was left out as forgotten.

    ``version`` is the one of what was forgotten by then, ``sessions`` are hashes of sessions that
    are forgotten because of their people.
    """

    version: int = 0
    sessions: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class IngestBatch:
    """Result of one byte range of one file.

    ``head_bytes`` and ``head_sha256`` replace the stored ones (the head of a short file grows).
    ``names`` counts records that were not stored, by (source, event name). The parts were written
    after ``written_after``, a time of the ledger's clock.
    """

    file_id: str
    from_offset: int
    to_offset: int
    head_bytes: int
    head_sha256: str
    ingested_at: datetime
    last_event_time: datetime | None = None
    parts: tuple[NewPart, ...] = ()
    sessions: tuple[SessionStart, ...] = ()
    counts: IngestCounts = field(default_factory=IngestCounts)
    left_out: LeftOut = field(default_factory=LeftOut)
    names: Mapping[tuple[str, str], int] = field(default_factory=dict)
    written_after: datetime | None = None
    outcomes: tuple[LateOutcome, ...] = ()

    def has(self, offset: int) -> bool:
        """Return True if an offset of the file is in the byte range."""
        return self.from_offset <= offset < self.to_offset


@dataclass(frozen=True, slots=True)
class Balance:
    """Events counted by all batches, manifest rows within and outside a range of days, and erased.

    ``erased`` has the events that were taken out again, by session date.
    """

    counted: int
    within: int
    outside: int
    erased: Mapping[date, int] = field(default_factory=dict)


_SOURCE = SOURCE_FILES.c
_PROGRESS = sa.select(
    sa.func.count(),
    *map(sa.func.sum, (_SOURCE.position, _SOURCE.finished_size_bytes, _SOURCE.size_bytes)),
).select_from(SOURCE_FILES)
"""Asked every few seconds: to make the statement takes longer than the answer."""


class SourceFiles:
    """Operations on ``source_files``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def all(self) -> list[SourceFile]:
        """Return all files, in the order in which they were first seen."""
        query = sa.select(SOURCE_FILES).order_by(_SOURCE.first_seen_at, _SOURCE.file_id)
        with reading(self._engine) as connection:
            return [SourceFile(**row) for row in connection.execute(query).mappings()]

    def last_seen(self) -> list[SeenFile]:
        """Return all files as they were last seen; much faster than ``all``."""
        query = sa.select(*(_SOURCE[name] for name in SeenFile._fields))
        with reading(self._engine) as connection:
            return list(map(SeenFile._make, connection.execute(query).all()))

    def with_inodes(self, inodes: Collection[int]) -> list[SourceFile]:
        """Return the files with these inodes, of any device."""
        query = sa.select(SOURCE_FILES)
        with reading(self._engine) as connection:
            return [
                SourceFile(**row)
                for chunk in chunks(inodes)
                for row in connection.execute(query.where(_SOURCE.inode.in_(chunk))).mappings()
            ]

    def get(self, file_id: str) -> SourceFile:
        """Return one file.

        Raises:
            UnknownSourceFileError: no such file.
        """
        query = sa.select(SOURCE_FILES).where(_SOURCE.file_id == file_id)
        with reading(self._engine) as connection:
            row = connection.execute(query).mappings().one_or_none()
        if row is None:
            raise _unknown(file_id)
        return SourceFile(**row)

    def progress(self) -> tuple[int, ...]:
        """Return numbers that change whenever any file is read on, and with another ledger."""
        with reading(self._engine) as connection:
            return tuple(int(number or 0) for number in connection.execute(_PROGRESS).one())

    def add(self, file: SourceFile) -> None:
        """Add a file; a known file is unchanged."""
        with writing(self._engine) as connection:
            insert = insert_into(connection, SOURCE_FILES)
            ignore_known = insert.on_conflict_do_nothing(index_elements=[_SOURCE.file_id])
            connection.execute(ignore_known, asdict(file))

    def update_path(self, file_id: str, path: str, size_bytes: int) -> None:
        """Update path and size of a known file that is going to be read.

        Raises:
            UnknownSourceFileError: no such file.
        """
        values = {"path": path, "size_bytes": size_bytes, "changed_at_ns": None}
        update = sa.update(SOURCE_FILES).where(_SOURCE.file_id == file_id).values(values)
        with writing(self._engine) as connection:
            if connection.execute(update).rowcount == 0:
                raise _unknown(file_id)

    def note_unchanged(self, seen: Mapping[str, SeenFile]) -> None:
        """Note, by ``file_id``, how files looked when there was nothing of them to read."""
        if not seen:
            return
        update = sa.update(SOURCE_FILES).where(_SOURCE.file_id == sa.bindparam("of_file"))
        rows = [
            {"of_file": file_id, "size": file.size_bytes, "changed": file.changed_at_ns}
            for file_id, file in seen.items()
        ]
        values: dict[str, sa.BindParameter[int | None]] = {
            "size_bytes": sa.bindparam("size", type_=sa.BigInteger()),
            "changed_at_ns": sa.bindparam("changed", type_=sa.BigInteger()),
        }
        with writing(self._engine) as connection:
            connection.execute(update.values(values), rows)

    def mark_finished(self, file_id: str, size_bytes: int, unfinished: str | None) -> None:
        """Record that a compressed file of this size was read as far as possible.

        ``unfinished`` says what is missing at its end.

        Raises:
            UnknownSourceFileError: no such file.
        """
        update = sa.update(SOURCE_FILES).where(_SOURCE.file_id == file_id)
        values = {"finished_size_bytes": size_bytes, "unfinished": unfinished}
        with writing(self._engine) as connection:
            if connection.execute(update.values(values)).rowcount == 0:
                raise _unknown(file_id)


def _unknown(file_id: str) -> UnknownSourceFileError:
    return UnknownSourceFileError(
        f"The ledger has no source file {file_id}. Add it before reading it."
    )


_MAX_AGE = GRACE_PERIOD / 2
_ERASED = sa.select(ERASED_EVENTS.c.session_date, ERASED_EVENTS.c.events)
_BATCH = INGEST_BATCHES.c
_SUMS = [
    sa.cast(sa.func.coalesce(sa.func.sum(_BATCH[count.name]), 0), sa.BigInteger).label(count.name)
    for count in fields(IngestCounts)
]


class IngestBatches:
    """Operations on ``ingest_batches`` and ``ingest_names``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def commit_batch(self, batch: IngestBatch, hold: Hold) -> None:
        """Commit a batch: position, parts, sessions, rebuild queue and counts, all or none.

        The dates of the parts are queued for a rebuild. The files of the parts must be on disk.
        ``hold`` is the lock of the ingest.

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
                f"A batch must consume bytes. Got {batch.from_offset} to {batch.to_offset}."
            )
        with writing(self._engine) as connection:
            check_forgotten(connection, batch.left_out.version)
            hold.check(connection)
            _advance(connection, batch)
            _check_age(connection, batch)
            _store_content(connection, batch, batch.ingested_at)
            _insert_batch(connection, batch)

    def of_file(self, file_id: str) -> list[IngestBatch]:
        """Return range, time and counts of the batches of a file."""
        query = sa.select(INGEST_BATCHES, _SOURCE.head_bytes, _SOURCE.head_sha256).join(
            SOURCE_FILES, _SOURCE.file_id == _BATCH.file_id
        )
        names = [count.name for count in fields(IngestCounts)]
        with reading(self._engine) as connection:
            rows = connection.execute(query.where(_BATCH.file_id == file_id)).mappings().all()
        return [
            IngestBatch(
                **{name: value for name, value in row.items() if name not in names},
                counts=IngestCounts(**{name: row[name] or 0 for name in names}),
            )
            for row in rows
        ]

    def without_spans(self) -> dict[str, set[int]]:
        """Return file and first byte of the batches whose spans, if they have any, were not read.

        They are older than the reading of spans.
        """
        query = sa.select(_BATCH.file_id, _BATCH.from_offset)
        found = defaultdict[str, set[int]](set)
        with reading(self._engine) as connection:
            for row in connection.execute(query.where(_BATCH.spans.is_(None), _BATCH.skipped > 0)):
                found[row.file_id].add(row.from_offset)
        return found

    def parts_of(self, file_id: str, from_offset: int) -> set[int]:
        """Return the ids of the parts with rows of a batch, as far as their origin is known."""
        origin = PART_ORIGINS.c
        is_of = origin.file_id == file_id, origin.from_offset == from_offset
        with reading(self._engine) as connection:
            return set(connection.scalars(sa.select(origin.part_id).where(*is_of)))

    def totals(self, since: datetime | None = None, until: datetime | None = None) -> IngestCounts:
        """Return the counts of all batches, or of those committed in [``since``, ``until``)."""
        query = sa.select(*_SUMS).where(*_committed(since, until))
        with reading(self._engine) as connection:
            return IngestCounts(**connection.execute(query).mappings().one())

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
                sa.cast(select.scalar_subquery(), sa.BigInteger)
                for select in (counted, rows.where(is_within), rows.where(~is_within))
            )
        )
        with reading(self._engine) as connection:
            numbers: Sequence[int] = connection.execute(query).one()
            erased = {row.session_date: row.events for row in connection.execute(_ERASED)}
        return Balance(numbers[0], numbers[1], numbers[2], erased)

    def names(self) -> dict[tuple[str, str], int]:
        """Return the number of records that were not stored, by (source, event name)."""
        query = sa.select(INGEST_NAMES).order_by(INGEST_NAMES.c.source, INGEST_NAMES.c.name)
        with reading(self._engine) as connection:
            return {(row.source, row.name): row.records for row in connection.execute(query)}


def replace_batch(connection: sa.Connection, batch: IngestBatch, now: datetime) -> None:
    """Store what a batch has when it is read again, within the transaction that takes its rows out.

    ``names`` counts those records that were not counted before.

    Raises:
        SessionDateTakenError: another reader assigned a session to another date.
        ForgottenMeanwhileError: something was forgotten since the events were looked at.
    """
    check_forgotten(connection, batch.left_out.version)
    _store_content(connection, batch, now)
    is_batch = _BATCH.file_id == batch.file_id, _BATCH.from_offset == batch.from_offset
    connection.execute(sa.update(INGEST_BATCHES).where(*is_batch).values(asdict(batch.counts)))


def _store_content(connection: sa.Connection, batch: IngestBatch, now: datetime) -> None:
    """Store parts, sessions and names, and queue the dates."""
    dates = {part.session_date for part in batch.parts if part.session_date is not None}
    follow_forgotten(connection, batch.left_out.sessions)
    for part in batch.parts:
        rows = part.row_count, batch.ingested_at
        origin = PartOrigin(batch.file_id, batch.from_offset, batch.to_offset, *rows)
        add_part(connection, part, [origin], now)
    store_sessions(connection, batch.sessions)
    add_outcomes(connection, batch.outcomes)
    touch(connection, dates, now)
    count_names(connection, batch.names)


def _advance(connection: sa.Connection, batch: IngestBatch) -> None:
    """Move the read position if it is the start of the batch."""
    this_file = _SOURCE.file_id == batch.file_id
    columns = sa.select(_SOURCE.position, _SOURCE.last_event_time)
    file = connection.execute(columns.where(this_file).with_for_update()).one_or_none()
    where = f"bytes {batch.from_offset} to {batch.to_offset} of file {batch.file_id}"
    if file is None:
        raise UnknownSourceFileError(f"The ledger has no file for {where}. Add the file first.")
    if file.position != batch.from_offset:
        raise PositionMovedError(
            f"The file is read up to byte {file.position}: {where} were not stored. "
            "Read the position from the ledger and continue from it."
        )
    times = [time for time in (file.last_event_time, batch.last_event_time) if time is not None]
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
