"""Entries of the quarantine: lines, and records of lines, that could not be read."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime

import polars as pl

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.schemas import QUARANTINE
from evaluation_pipelines.storage.landing import LandingFile
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.domain.reader import EventBatch
from evaluation_pipelines.telemetry.forgotten_events import ForgottenEvents
from evaluation_pipelines.telemetry.ledger.ingest_batches import SourceFiles

WHOLE_LINE = -1

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


def quarantine_rows(
    batch: EventBatch,
    file_id: str,
    path: str,
    forgotten: ForgottenEvents,
    clock: Callable[[], datetime],
) -> pl.DataFrame:
    """Return what a batch has for the quarantine: QUARANTINE, without what was forgotten."""
    rows = [
        (
            *(file_id, path, line.offset, line.length_bytes, line.record_index, line.reason),
            *(forgotten.first_bytes(line.first_bytes), clock(), line.lines),
        )
        for line in batch.quarantined
        if not forgotten.names(line.first_bytes)
    ]
    return pl.DataFrame(rows, schema=QUARANTINE.schema, orient="row")


def all_entries(stores: Stores) -> pl.DataFrame:
    """Return a row per entry with the attributes of ``QuarantineEntry``, sorted by position.

    Parts whose files were deleted are skipped.

    Raises:
        LakeError: a part cannot be read.
    """
    parts = _parts(stores, QUARANTINE.schema.names())
    return pl.concat([with_index(QUARANTINE.no_rows), *parts]).sort(_KEY)


def newest_entries(
    stores: Stores, limit: int, since: date | None = None
) -> tuple[list[QuarantineEntry], int]:
    """Return the newest entries, of this day or later, and the number of lines of all of them.

    They are without their first bytes, and an entry counts all equal lines of a file. One part is
    in memory at a time: a file of another kind can have millions of bad lines.

    Raises:
        LakeError: a part cannot be read.
    """
    names = [name for name in QUARANTINE.schema.names() if name != "first_bytes"]
    newest, lines = with_index(QUARANTINE.no_rows.select(names)), 0
    order = ("quarantined_at", "file_id", "offset")
    for part in _parts(stores, names, since):
        both = pl.concat([newest, part])
        newest = both.sort(order, descending=[True, False, True]).head(limit)
        lines += int(part["lines"].sum())
    return to_entries(newest.with_columns(first_bytes=pl.lit(""))), lines


def _parts(
    stores: Stores, columns: Sequence[str], since: date | None = None
) -> Iterator[pl.DataFrame]:
    for part in Manifest(stores.ledger).current(QUARANTINE.name, None):
        if since is not None and part.created_at.date() < since:
            continue
        if stores.lake.store.exists(part.path):
            rows = with_index(stores.lake.read_part(part, QUARANTINE, columns))
            is_new = pl.lit(value=True) if since is None else since <= _DAY
            yield rows.filter(is_new)


_DAY = pl.col("quarantined_at").dt.date()


def with_index(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with WHOLE_LINE as the index of what is a line as a whole."""
    return rows.with_columns(pl.col("record_index").fill_null(WHOLE_LINE))


def find_file(stores: Stores, file_id: str) -> LandingFile | None:
    """Return the current file of an entry; None if it is gone. Its inode may be reused."""
    source = SourceFiles(stores.ledger).get(file_id)
    identity = (source.device, source.inode)
    files, _ = stores.landing.list_files({identity})
    return next((file for file in files if (file.device, file.inode) == identity), None)


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
    found = [entry for entry in to_entries(named) if name and entry.name.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        examples = ", ".join(entry.name for entry in found[:3])
        raise NoSuchEntryError(f"{len(found):,} entries start with {name!r}: {examples} ...")
    raise NoSuchEntryError(
        f"The quarantine has no entry {name!r}. List the names with: "
        "evaluation-pipelines quarantine list --entries"
    )
