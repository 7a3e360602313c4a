"""Entries of the quarantine, and the outcome of reading their lines again."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime

import polars as pl
import sqlalchemy as sa

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.schemas import QUARANTINE
from evaluation_pipelines.schemas.table import UTC_TIME
from evaluation_pipelines.storage.landing import LandingFile
from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.manifest import Manifest, add_parts
from evaluation_pipelines.storage.ledger.rebuild_queue import touch
from evaluation_pipelines.storage.ledger.tables.telemetry import INGEST_BATCHES, QUARANTINE_RETRIES
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.storage.parts import NewPart
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.domain.counts import IngestCounts
from evaluation_pipelines.telemetry.domain.subagents import SessionStart
from evaluation_pipelines.telemetry.ledger.forgotten_store import check_forgotten, follow_forgotten
from evaluation_pipelines.telemetry.ledger.ingest_batches import (
    LeftOut,
    SourceFiles,
    count_names,
    store_sessions,
)

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
            LockLostError: the lock of the ingest is lost; nothing was stored.
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


_KEY = ["file_id", "offset", "record_index"]

_STANDARDS = {"UTF-N": "UTF-8", "ISO N": "ISO 8601"}
"""Names that contain a number, restored after the numbers of a reason were replaced."""


class NoSuchEntryError(UserError):
    """The quarantine has no entry with this name."""


@dataclass(frozen=True, slots=True)
class QuarantineEntry:
    """A line, or one record of it, that could not be read.

    Attributes:
        file_id: Id of the source file.
        path: Path in the landing folder when it was read.
        offset: Offset of the line.
        length_bytes: Length of the line.
        record_index: Index of the record in the line; WHOLE_LINE for the line as a whole.
        reason: Why it could not be read, as of the last attempt.
        first_bytes: Beginning of the line.
        quarantined_at: Time of the first attempt.
        lines: Number of equal lines of the entry; it names the first one.
        retried_at: Time of the last retry; None if never retried.
        resolved: True if that retry could read it.
    """

    file_id: str
    path: str
    offset: int
    length_bytes: int
    record_index: int
    reason: str
    first_bytes: str
    quarantined_at: datetime
    lines: int
    retried_at: datetime | None
    resolved: bool

    @property
    def name(self) -> str:
        """Name for commands: ``<file id>:<offset>``, followed by ``#<record>`` for a record."""
        record = "" if self.record_index == WHOLE_LINE else f"#{self.record_index}"
        return f"{self.file_id}:{self.offset}{record}"


@dataclass(frozen=True, slots=True)
class QuarantineGroup:
    """Entries of one file with the same reason, ignoring numbers; ``newest`` is one of them."""

    path: str
    reason: str
    entries: int
    newest: QuarantineEntry


def all_entries(stores: Stores) -> pl.DataFrame:
    """Return a row per entry with the attributes of ``QuarantineEntry``, sorted by position.

    Parts whose files were deleted are skipped.

    Raises:
        LakeError: a part cannot be read.
    """
    parts = [QUARANTINE.no_rows, *_parts(stores, QUARANTINE.schema.names())]
    return _with_retries(pl.concat(parts), _retried(stores)).sort(_KEY)


def newest_unresolved(
    stores: Stores, limit: int, since: date | None = None
) -> list[QuarantineEntry]:
    """Return the newest unresolved entries, of this day or later, without their first bytes.

    One part is in memory at a time: a file of another kind can have millions of bad lines.

    Raises:
        LakeError: a part cannot be read.
    """
    retried = _retried(stores)
    names = [name for name in QUARANTINE.schema.names() if name != "first_bytes"]
    newest = QUARANTINE.no_rows.select(names)
    order = ("quarantined_at", "file_id", "offset")
    for part in _parts(stores, names, since):
        unresolved = _unresolved(part, retried, since)
        both = pl.concat([newest, unresolved.select(names)])
        newest = both.sort(order, descending=[True, False, True]).head(limit)
    return to_entries(_with_retries(newest, retried).with_columns(first_bytes=pl.lit("")))


def count_unresolved(stores: Stores, since: date) -> int:
    """Return the number of lines of the unresolved entries of this day or later; raises as above.

    An entry counts all equal lines of a file.
    """
    retried, columns = _retried(stores), [*_KEY, "reason", "quarantined_at", "lines"]
    parts = _parts(stores, columns, since)
    return sum(int(_unresolved(part, retried, since)["lines"].sum()) for part in parts)


def _unresolved(part: pl.DataFrame, retried: pl.DataFrame, since: date | None) -> pl.DataFrame:
    found = _with_retries(part, retried).filter(~pl.col("resolved"))
    return found if since is None else found.filter(pl.col("quarantined_at").dt.date() >= since)


def _parts(
    stores: Stores, columns: Sequence[str], since: date | None = None
) -> Iterator[pl.DataFrame]:
    for part in Manifest(stores.ledger).current(QUARANTINE.name, None):
        if since is not None and part.created_at.date() < since:
            continue
        if stores.lake.store.exists(part.path):
            yield stores.lake.read_part(part, QUARANTINE, columns)


def _retried(stores: Stores) -> pl.DataFrame:
    verdicts = [
        (each.file_id, each.offset, each.record_index, each.retried_at, each.reason)
        for each in QuarantineRetries(stores.ledger).retried()
    ]
    return pl.DataFrame(
        verdicts,
        schema={
            **{name: QUARANTINE.schema[name] for name in _KEY},
            "retried_at": UTC_TIME,
            "newer_reason": pl.String(),
        },
        orient="row",
    )


def _with_retries(entries: pl.DataFrame, retried: pl.DataFrame) -> pl.DataFrame:
    known = entries.with_columns(pl.col("record_index").fill_null(WHOLE_LINE))
    joined = known.join(retried, on=_KEY, how="left").with_columns(
        reason=pl.coalesce("newer_reason", "reason"),
        resolved=pl.col("retried_at").is_not_null() & pl.col("newer_reason").is_null(),
    )
    return joined.drop("newer_reason")


def find_file(stores: Stores, file_id: str) -> LandingFile | None:
    """Return the current file of an entry; None if it is gone. Its inode may be reused."""
    source = SourceFiles(stores.ledger).get(file_id)
    identity = (source.device, source.inode)
    files, _ = stores.landing.list_files({identity})
    return next((each for each in files if (each.device, each.inode) == identity), None)


def to_entries(frame: pl.DataFrame) -> list[QuarantineEntry]:
    """Convert rows of ``all_entries``."""
    return [QuarantineEntry(**row) for row in frame.iter_rows(named=True)]


def group_entries(frame: pl.DataFrame) -> list[QuarantineGroup]:
    """Group rows of ``all_entries`` by file and reason, the newest group first."""
    grouped = (
        frame.with_columns(kind=without_numbers(pl.col("reason")))
        .sort("quarantined_at", *_KEY)
        .group_by("path", "kind")
        .agg(pl.sum("lines").alias("entries"), pl.all().exclude("path", "kind").last())
        .sort("quarantined_at", "path", "kind", descending=[True, False, False])
    )
    return [
        QuarantineGroup(row["path"], row.pop("kind"), row.pop("entries"), QuarantineEntry(**row))
        for row in grouped.iter_rows(named=True)
    ]


def without_numbers(reason: pl.Expr) -> pl.Expr:
    """Return reasons with N for each number, so that those of one cause are equal."""
    return reason.str.replace_all(r"\d+", "N").str.replace_many(_STANDARDS)


def find_entry(frame: pl.DataFrame, name: str) -> QuarantineEntry:
    """Return the entry with this name, or the only one whose name begins so.

    Raises:
        NoSuchEntryError: No entry has this name, or several names begin so.
    """
    file_id, _, position = name.rpartition(":")
    offset, _, record = position.partition("#")
    if offset.isdecimal() and (not record or record.isdecimal()):
        index = int(record) if record else WHOLE_LINE
        chosen = frame.filter(
            pl.col("file_id") == file_id,
            pl.col("offset") == int(offset),
            pl.col("record_index") == index,
        )
        for entry in to_entries(chosen):
            return entry
    named = frame.filter(pl.col("file_id").str.starts_with(name.partition(":")[0]))
    found = [each for each in to_entries(named) if name and each.name.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        examples = ", ".join(each.name for each in found[:3])
        raise NoSuchEntryError(f"{name!r} is the beginning of {len(found)} entries: {examples} ...")
    raise NoSuchEntryError(
        f"The quarantine has no entry {name!r}. List the names with: "
        "evaluation-pipelines quarantine list --entries"
    )
