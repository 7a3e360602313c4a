"""Texts, events, sessions, quarantine and landing files whose time to be kept has passed.

Each date is one transaction, under the lock that builds take. A run that is killed is continued by
the next.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

import polars as pl
import sqlalchemy as sa

from evaluation_pipelines.erasure.ledger_rows import (
    count_erased,
    dates_judged_since,
    expire_ledger_rows,
)
from evaluation_pipelines.erasure.parts import lock_date
from evaluation_pipelines.erasure.selection import NotForgottenError
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    EVENT_TEXTS_LANDED,
    JUDGE_SCORES,
    QUARANTINE,
    SCORECARDS,
    TOOL_REPORT_TEXTS,
    TOOL_REPORTS,
    Table,
)
from evaluation_pipelines.settings.data import ExpirySettings
from evaluation_pipelines.storage.compaction import sweep_superseded
from evaluation_pipelines.storage.landing import LandingFile
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import Expired
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.storage.parts import Part
from evaluation_pipelines.storage.replaced_parts import (
    TABLES_BY_NAME,
    Change,
    removed_rows,
    replace_parts,
)
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.documents import file_format
from evaluation_pipelines.telemetry.ledger.ingest_batches import SourceFile, SourceFiles
from evaluation_pipelines.telemetry.unread_files import (
    is_same_file,
    is_unread,
    known_identities,
    newest_generations,
)

_EVENTS = (AGENT_EVENTS_LANDED, EVENT_TEXTS_LANDED, AGENT_EVENTS)
_TEXT_COLUMNS = {
    JUDGE_SCORES.name: ("score_analysis", "missing_tools_analysis", "failed_reply"),
    SCORECARDS.name: ("reasoning",),
}
_KINDS: dict[str, Expired | None] = {"sessions": None, "events": "events", "texts": "texts"}
"""Kinds that expire by session date, in this order: whatever goes takes the next ones with it."""


def first_kept(settings: ExpirySettings, kind: str, today: date) -> date:
    """Return the first day that is kept of a kind, such as ``texts``; all days if it is not set."""
    days: int | None = getattr(settings, f"keep_{kind}_days")
    return date.min if days is None else today - timedelta(days=days)


def is_set(settings: ExpirySettings) -> bool:
    """Return True if anything expires."""
    return any(getattr(settings, name) is not None for name in ExpirySettings.model_fields)


def without_texts(rows: pl.DataFrame, table: Table) -> pl.DataFrame:
    """Return rows of a table with null in place of texts; event texts are a table of their own."""
    if table is TOOL_REPORTS:
        return rows.with_columns(
            pl.col(column).list.eval(
                pl.element().struct.with_fields(
                    *(pl.lit(None, pl.String).alias(name) for name in names)
                )
            )
            for column, names in TOOL_REPORT_TEXTS.items()
        ).cast(table.schema)
    nulls = (pl.lit(None, pl.String).alias(name) for name in _TEXT_COLUMNS.get(table.name, ()))
    return rows.with_columns(nulls)


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
        result, today = Expiry(), self.clock().date()
        for kind, days in self._due(today).items():
            for day in days:
                self._expire_date(result, day, kind)
        self._expire_quarantine(result, first_kept(self.stores.settings, "quarantine", today))
        self._expire_landing(result, first_kept(self.stores.settings, "landing", today))
        if not self.dry_run:
            sweep_superseded(self.stores, self.clock())
        for kind, table in zip(_KINDS, (AGENT_SESSIONS, *_EVENTS[:2]), strict=True):
            if dates := self._dates_with_rows(table):
                result.oldest[kind] = min(dates)
        return result

    def _due(self, today: date) -> dict[str, list[date]]:
        """Return by kind the dates that have expired, oldest first; each is in one list."""
        parts = Manifest(self.stores.ledger).all_tables()
        landed, texts, built = (self._dates_with_rows(table) for table in _EVENTS)
        dates = {
            "sessions": {part.session_date for part in parts if part.session_date is not None},
            "events": landed | built,
            "texts": texts | dates_judged_since(self.stores.ledger),
        }
        due, gone = dict[str, list[date]](), set[date]()
        for kind in _KINDS:
            first = first_kept(self.stores.settings, kind, today)
            due[kind] = sorted(day for day in dates[kind] - gone if day < first)
            gone.update(due[kind])
        return due

    def _dates_with_rows(self, table: Table) -> set[date]:
        parts = Manifest(self.stores.ledger).all_current(table.name)
        return {part.session_date for part in parts if part.session_date and part.row_count}

    def _expire_date(self, result: Expiry, day: date, kind: str) -> None:
        """Delete texts or events of a date, or everything of it."""
        with ExitStack() as locks:
            try:
                hold = None if self.dry_run else lock_date(self.stores, day, locks)
            except NotForgottenError as error:
                result.busy.append(str(error))
                return
            parts = Manifest(self.stores.ledger).of_date(day)
            left = [
                (part, self._remaining_rows(part, kind))
                for part in parts
                if _goes(part.table_name, kind)
            ]
            now = self.clock()

            def note(connection: sa.Connection, changes: Sequence[Change]) -> None:
                events = removed_rows(changes)[AGENT_EVENTS_LANDED.name]
                count_erased(connection, day, events)
                expire_ledger_rows(connection, day, _KINDS[kind], now)

            if self._replace(result, left, hold, note):
                result.dates.setdefault(kind, []).append(day)
            else:
                result.busy.append(f"telemetry of {day} has just been ingested. Run this again.")

    def _remaining_rows(self, part: Part, kind: str) -> pl.DataFrame | None:
        """Return what stays of a part; None if no part takes its place."""
        if kind == "sessions":
            return None
        table = TABLES_BY_NAME[part.table_name]
        if table in _EVENTS:
            return table.no_rows
        return without_texts(self.stores.lake.read_part(part, table), table)

    def _replace(
        self,
        result: Expiry,
        left: Sequence[tuple[Part, pl.DataFrame | None]],
        hold: Hold | None,
        also: Callable[[sa.Connection, Sequence[Change]], None] = lambda *_: None,
    ) -> bool:
        """Replace parts by what is left of them, and count; return False if one is not current."""
        done = (
            []
            if self.dry_run
            else replace_parts(self.stores.ledger, self.stores.lake, hold, left, self.clock(), also)
        )
        if done is None:
            return False
        result.freed_bytes -= sum(change.new.size_bytes for change in done if change.new)
        for part, rows in left:
            result.freed_bytes += part.size_bytes
            if gone := part.row_count - (0 if rows is None else rows.height):
                result.rows[part.table_name] = result.rows.get(part.table_name, 0) + gone
        return True

    def _expire_quarantine(self, result: Expiry, first: date) -> None:
        for part in Manifest(self.stores.ledger).current(QUARANTINE.name, None):
            if first == date.min or not self.stores.lake.store.exists(part.path):
                continue  # users may delete them
            rows = self.stores.lake.read_part(part, QUARANTINE)
            left = rows.filter(pl.col("quarantined_at").dt.date() >= first)
            if left.height < rows.height and not self._replace(result, [(part, left)], None):
                result.busy.append("the quarantine was merged meanwhile. Run this again.")

    def _expire_landing(self, result: Expiry, first: date) -> None:
        """Delete landing files that were read to their end."""
        if first == date.min:
            return
        landing = self.stores.landing
        known = newest_generations(SourceFiles(self.stores.ledger).all())
        for file in landing.list_files(known_identities(self.stores))[0]:
            source = known.get((file.device, file.inode))
            changed = datetime.fromtimestamp(file.modified_at_ns / 1e9, UTC).date()
            if changed >= first or source is None or not self._is_read(file, source):
                continue
            if self.dry_run or landing.delete(file):
                result.files.append(file.path)
                result.freed_bytes += file.size_bytes

    def _is_read(self, file: LandingFile, source: SourceFile) -> bool:
        if not self.stores.landing.grows:
            return source.unfinished is None and source.finished_size_bytes == file.size_bytes
        try:
            with self.stores.landing.open(file) as handle:
                is_stream = file_format(handle).is_stream
                is_whole = is_same_file(handle, source) and source.unfinished is None
        except OSError:
            return False
        return is_whole and not is_unread(source, file.size_bytes, is_stream=is_stream)


def _goes(table_name: str, kind: str) -> bool:
    """Return True if parts of a table are deleted, or replaced by ones without texts."""
    table = TABLES_BY_NAME.get(table_name)  # None: one of an earlier version
    if table is None or kind == "sessions":
        return kind == "sessions"
    return table.has_texts or (kind == "events" and table in _EVENTS)
