"""The quarantine as people see it: what could not be read, and what became of it."""

from dataclasses import dataclass
from datetime import datetime

import polars as pl

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.schemas import QUARANTINE
from evaluation_pipelines.schemas.table import UTC_TIME
from evaluation_pipelines.storage.landing import LandingFile
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.ledger.manifest import Manifest
from evaluation_pipelines.telemetry.ledger.quarantine_retries import WHOLE_LINE, QuarantineRetries
from evaluation_pipelines.telemetry.ledger.source_files import SourceFiles

_PLACE = ["file_id", "offset", "record_index"]

_STANDARDS = {"UTF-N": "UTF-8", "ISO N": "ISO 8601"}
"""Numbers that are names: they come back after all numbers of a reason were taken out."""


class NoSuchEntryError(UserError):
    """The quarantine holds no entry of this name."""


@dataclass(frozen=True, slots=True)
class QuarantineEntry:
    """One line, or one record of it, that could not be read.

    Attributes:
        file_id: Identity of its file.
        path: Where that lay when it was read, inside the landing folder.
        offset: Where the line begins.
        length_bytes: How long it is.
        record_index: Which record of the line; WHOLE_LINE for the line as a whole.
        reason: What is (or was) wrong with it, as last found.
        first_bytes: How the line begins.
        quarantined_at: When it was read first.
        retried_at: When it was read again; None when it never was.
        resolved: Whether it was read then.
    """

    file_id: str
    path: str
    offset: int
    length_bytes: int
    record_index: int
    reason: str
    first_bytes: str
    quarantined_at: datetime
    retried_at: datetime | None
    resolved: bool

    @property
    def name(self) -> str:
        """How people name it: ``<file id>:<offset>``, and ``#<record>`` where that is meant."""
        record = "" if self.record_index == WHOLE_LINE else f"#{self.record_index}"
        return f"{self.file_id}:{self.offset}{record}"


@dataclass(frozen=True, slots=True)
class QuarantineGroup:
    """Entries of one file with the same reason, numbers in it aside; ``newest`` is one of them."""

    path: str
    reason: str
    entries: int
    newest: QuarantineEntry


def all_entries(stores: Stores) -> pl.DataFrame:
    """A row per entry with the attributes of ``QuarantineEntry``, by file, offset and record.

    Parts whose files were deleted are left out: nothing but people needs them.

    Raises:
        LakeError: a part cannot be read.
    """
    paths = [each.path for each in Manifest(stores.ledger).current(QUARANTINE.name, None)]
    parts = [
        stores.lake.read_part(path, QUARANTINE)
        for path in paths
        if (stores.lake.root / path).exists()
    ]
    found = pl.concat([QUARANTINE.schema.to_frame(), *parts]).with_columns(
        pl.col("record_index").fill_null(WHOLE_LINE)
    )
    verdicts = [
        (each.file_id, each.offset, each.record_index, each.retried_at, each.reason)
        for each in QuarantineRetries(stores.ledger).retried()
    ]
    retried = pl.DataFrame(
        verdicts,
        schema={
            **{name: found.schema[name] for name in _PLACE},
            "retried_at": UTC_TIME,
            "newer_reason": pl.String(),
        },
        orient="row",
    )
    joined = found.join(retried, on=_PLACE, how="left").with_columns(
        reason=pl.coalesce("newer_reason", "reason"),
        resolved=pl.col("retried_at").is_not_null() & pl.col("newer_reason").is_null(),
    )
    return joined.drop("newer_reason").sort(_PLACE)


def find_file(stores: Stores, file_id: str) -> LandingFile | None:
    """Where the file of an entry lies now; None when it is gone. It may be another of its inode."""
    source = SourceFiles(stores.ledger).get(file_id)
    identity = (source.device, source.inode)
    files, _ = stores.landing.list_files()
    return next((each for each in files if (each.device, each.inode) == identity), None)


def entries(frame: pl.DataFrame) -> list[QuarantineEntry]:
    """The rows of ``all_entries``, or some of them."""
    return [QuarantineEntry(**row) for row in frame.iter_rows(named=True)]


def groups(frame: pl.DataFrame) -> list[QuarantineGroup]:
    """Rows of ``all_entries`` by file and reason, the group with the newest entry first."""
    grouped = (
        frame.with_columns(
            kind=pl.col("reason").str.replace_all(r"\d+", "N").str.replace_many(_STANDARDS)
        )
        .sort("quarantined_at", *_PLACE)
        .group_by("path", "kind")
        .agg(pl.len().alias("entries"), pl.all().exclude("path", "kind").last())
        .sort("quarantined_at", "path", "kind", descending=[True, False, False])
    )
    return [
        QuarantineGroup(row["path"], row.pop("kind"), row.pop("entries"), QuarantineEntry(**row))
        for row in grouped.iter_rows(named=True)
    ]


def find_entry(frame: pl.DataFrame, name: str) -> QuarantineEntry:
    """The entry of this name.

    Raises:
        NoSuchEntryError: there is none.
    """
    file_id, _, place = name.rpartition(":")
    offset, _, record = place.partition("#")
    if offset.isdecimal() and (not record or record.isdecimal()):
        index = int(record) if record else WHOLE_LINE
        chosen = frame.filter(
            pl.col("file_id") == file_id,
            pl.col("offset") == int(offset),
            pl.col("record_index") == index,
        )
        for entry in entries(chosen):
            return entry
    raise NoSuchEntryError(
        f"There is no entry {name!r} in the quarantine. See the names with: "
        "evaluation-pipelines quarantine list --entries"
    )
