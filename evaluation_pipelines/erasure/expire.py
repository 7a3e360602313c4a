"""Texts, events, sessions, quarantine and landing files whose time to be kept has passed.

Each date is one transaction, under the lock that builds take. A run that is killed is continued by
the next.
"""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime

import polars as pl

from evaluation_pipelines.erasure.context import NotForgottenError
from evaluation_pipelines.erasure.domain.expiry import DuePlan, Kept, plan_expiry, without_texts
from evaluation_pipelines.erasure.lake_rows import lock_date
from evaluation_pipelines.erasure.ledger_rows import dates_judged_since, expire_parts
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    EVENT_TEXTS_LANDED,
    QUARANTINE,
    TABLES,
)
from evaluation_pipelines.settings.data import ExpirySettings
from evaluation_pipelines.storage.compaction import sweep_superseded
from evaluation_pipelines.storage.landing import LandingFile
from evaluation_pipelines.storage.ledger.errors import PartsNotCurrentError
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import Expired
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.storage.parts import NewPart, Part
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.documents import file_format
from evaluation_pipelines.telemetry.ledger.ingest_batches import SourceFile, SourceFiles
from evaluation_pipelines.telemetry.unread_files import (
    is_same_file,
    is_unread,
    known_identities,
    newest_generations,
)


@dataclass(frozen=True, slots=True)
class ReadFile:
    """A landing file of which nothing is unread."""

    file: LandingFile
    changed_on: date


def files_read(stores: Stores) -> Iterator[ReadFile]:
    """Yield the landing files that were read to their end."""
    known = newest_generations(SourceFiles(stores.ledger).all())
    files, _ = stores.landing.list_files(known_identities(stores))
    for file in files:
        source = known.get((file.device, file.inode))
        if source is not None and _is_read(stores, file, source):
            changed = datetime.fromtimestamp(file.modified_at_ns / 1e9, UTC)
            yield ReadFile(file, changed.date())


def _is_read(stores: Stores, file: LandingFile, source: SourceFile) -> bool:
    if not stores.landing.grows:
        return source.unfinished is None and source.finished_size_bytes == file.size_bytes
    try:
        with stores.landing.open(file) as handle:
            if not is_same_file(handle, source) or source.unfinished is not None:
                return False
            is_stream = file_format(handle).is_stream
    except OSError:
        return False
    return not is_unread(source, file.size_bytes, is_stream=is_stream)


_TABLES = {each.name: each for each in TABLES}
_EVENTS = (AGENT_EVENTS_LANDED.name, EVENT_TEXTS_LANDED.name, AGENT_EVENTS.name)


@dataclass(slots=True)
class Expiry:
    """What an expiry took out, or would.

    Attributes:
        dates: Session dates by kind: texts, events, sessions.
        rows: Rows that went, by table.
        files: Landing files that went.
        freed_bytes: Bytes of files that went; of the lake an hour later, when readers are done.
        busy: Dates that were being built: the next run expires them.
        oldest: Kind -> the oldest date that is left.
    """

    dates: dict[str, list[date]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    freed_bytes: int = 0
    busy: list[str] = field(default_factory=list)
    oldest: dict[str, date] = field(default_factory=dict)


def kept_of(settings: ExpirySettings) -> Kept:
    """Return how long what is kept, by the settings."""
    return Kept(
        settings.keep_texts_days,
        settings.keep_events_days,
        settings.keep_sessions_days,
        settings.keep_quarantine_days,
        settings.keep_landing_days,
    )


@dataclass(frozen=True, slots=True)
class Expire:
    """Deletes what has expired; with ``dry_run`` nothing is changed."""

    stores: Stores
    dry_run: bool = False
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def run(self) -> Expiry:
        """Delete what has expired by now.

        Raises:
            LakeError: A table cannot be read or written.
            LedgerError: The ledger cannot be used.
            OSError: A landing file cannot be deleted.
        """
        result, kept = Expiry(), kept_of(self.stores.settings)
        plan = self._plan(kept)
        for day in plan.sessions:
            self._expire_date(result, day, None)
        for day in plan.events:
            self._expire_date(result, day, "events")
        for day in plan.texts:
            self._expire_date(result, day, "texts")
        self._expire_quarantine(result, kept)
        self._expire_landing(result, kept)
        if not self.dry_run:
            sweep_superseded(self.stores, self.clock())
        self._note_oldest(result)
        return result

    def _plan(self, kept: Kept) -> DuePlan:
        by_table = {name: self._dates_with_rows(name) for name in _EVENTS}
        landed, texts, built = by_table.values()
        everything = {
            part.session_date
            for part in Manifest(self.stores.ledger).all_tables()
            if part.session_date is not None
        }
        today = self.clock().date()
        texts |= dates_judged_since(self.stores.ledger)
        return plan_expiry(kept, today, everything, landed | built, texts)

    def _dates_with_rows(self, table_name: str) -> set[date]:
        parts = Manifest(self.stores.ledger).all_current(table_name)
        return {each.session_date for each in parts if each.session_date and each.row_count}

    def _expire_date(self, result: Expiry, day: date, what: Expired | None) -> None:
        """Delete texts or events of a date, or everything of it."""
        kind = what or "sessions"
        hold: Hold | None = None
        with ExitStack() as locks:
            if not self.dry_run:
                try:
                    hold = lock_date(self.stores, day, locks)
                except NotForgottenError as error:
                    result.busy.append(str(error))
                    return
            old = [each for each in self._parts(day) if _goes(each, what)]
            if hold is None:
                _count(result, old, [], kind, day)
                return
            new = list(self._replacements(old, what))
            is_done = expire_parts(hold, old, new, day, what, self.clock())
        if is_done:
            _count(result, old, new, kind, day)
        else:
            for part in new:
                self.stores.lake.store.delete(part.path)
            result.busy.append(f"telemetry of {day} has just been ingested; run this again.")

    def _parts(self, day: date) -> list[Part]:
        parts = Manifest(self.stores.ledger).all_tables()
        return [each for each in parts if each.session_date == day]

    def _replacements(self, old: Sequence[Part], what: Expired | None) -> Iterator[NewPart]:
        """Write what takes the place of parts: no rows, or rows without texts."""
        if what is None:
            return
        lake, emptied = self.stores.lake, set[str]()
        for part in old:
            table = _TABLES[part.table_name]
            if table.name not in _EVENTS:
                rows = without_texts(lake.read_part(part, table), table)
            elif table.name in emptied:
                continue
            else:
                emptied.add(table.name)
                rows = table.no_rows
            name = f"expired-{part.part_id}-{uuid.uuid4().hex[:8]}"
            new = lake.write_part(rows, table, part.session_date, name)
            is_all = table.name in _EVENTS
            yield _in_place_of(part, new, is_all=is_all)

    def _expire_quarantine(self, result: Expiry, kept: Kept) -> None:
        first = kept.first_kept("quarantine", self.clock().date())
        manifest, lake = Manifest(self.stores.ledger), self.stores.lake
        if first is None:
            return
        for part in manifest.current(QUARANTINE.name, None):
            if not lake.store.exists(part.path):  # users may delete them
                continue
            rows = lake.read_part(part, QUARANTINE)
            left = rows.filter(pl.col("quarantined_at").dt.date() >= first)
            if left.height == rows.height:
                continue
            result.rows[QUARANTINE.name] = (
                result.rows.get(QUARANTINE.name, 0) + rows.height - left.height
            )
            result.freed_bytes += part.size_bytes
            if self.dry_run:
                continue
            name = f"expired-{part.part_id}-{uuid.uuid4().hex[:8]}"
            new = lake.write_part(left, QUARANTINE, None, name)
            result.freed_bytes -= new.size_bytes
            try:
                manifest.replace([part.part_id], new, self.clock())
            except PartsNotCurrentError:
                lake.store.delete(new.path)
                result.busy.append("the quarantine was merged meanwhile; run this again.")

    def _expire_landing(self, result: Expiry, kept: Kept) -> None:
        first = kept.first_kept("landing", self.clock().date())
        if first is None:
            return
        landing = self.stores.landing
        for read in files_read(self.stores):
            if read.changed_on < first and (self.dry_run or landing.delete(read.file)):
                result.files.append(read.file.path)
                result.freed_bytes += read.file.size_bytes

    def _note_oldest(self, result: Expiry) -> None:
        for kind, table in (
            ("sessions", AGENT_SESSIONS),
            ("events", AGENT_EVENTS),
            ("texts", EVENT_TEXTS_LANDED),
        ):
            if dates := self._dates_with_rows(table.name):
                result.oldest[kind] = min(dates)


def _goes(part: Part, what: Expired | None) -> bool:
    """Return True if a part is deleted or replaced by one without texts."""
    match what:
        case None:
            return True
        case "events":
            return part.table_name in _EVENTS or _TABLES[part.table_name].has_texts
        case "texts":
            return _TABLES[part.table_name].has_texts


def _in_place_of(part: Part, new: NewPart, *, is_all: bool) -> NewPart:
    """Return a new part with the slot and the buckets of the one that it replaces."""
    first, last = (0, 255) if is_all else (part.first_bucket, part.last_bucket)
    return replace(new, slot=part.slot, first_bucket=first, last_bucket=last)


def _count(
    result: Expiry, old: Sequence[Part], new: Sequence[NewPart], kind: str, day: date
) -> None:
    result.dates.setdefault(kind, []).append(day)
    for part in old:
        if part.table_name in _EVENTS or kind == "sessions":
            rows = result.rows.get(part.table_name, 0)
            result.rows[part.table_name] = rows + part.row_count
    sizes = sum(each.size_bytes for each in old) - sum(each.size_bytes for each in new)
    result.freed_bytes += sizes
