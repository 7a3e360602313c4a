"""Load signals and evaluations of other systems from the landing folder into ClickHouse.

Loading a file again changes nothing, so a file that differs from what was loaded last is read again
from its beginning.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import partial
from itertools import count, islice, takewhile
from typing import Any

import polars as pl

from evaluation_pipelines.reputation.domain.signals import (
    Retraction,
    UnusableLineError,
    evaluation_retraction,
    read_evaluation,
    read_signal,
    signal_retraction,
)
from evaluation_pipelines.reputation.store import (
    ReputationStore,
    is_retracted,
    revision_at,
    row_key,
)
from evaluation_pipelines.reputation.submitted import Retractions
from evaluation_pipelines.schemas import (
    AGENT_EVALUATIONS,
    EXTERNAL_SIGNALS,
    REPUTATION_EVENTS,
    Table,
)
from evaluation_pipelines.storage.landing import LandingFile, SkippedFile
from evaluation_pipelines.storage.raw_lines import RawLine, read_lines
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.domain.forgotten import names_forgotten
from evaluation_pipelines.telemetry.ledger.forgotten_store import read_forgotten

REJECTS_SHOWN = 10_000
_TEXT_SHOWN = 200
_FOLDERS = ("signals", "evaluations")
_ROWS_AT_A_TIME = 50_000


def load_external_signals(stores: Stores, store: ReputationStore, now: datetime) -> pl.DataFrame:
    """Load every new or changed file; return all files ever loaded (EXTERNAL_SIGNALS).

    Of two files that have a line with one id, the one whose name sorts last counts. So the files
    after a changed one are loaded again: when a file grows, its old lines must not count twice.

    Raises:
        ClickHouseError: the rows of a file were rejected; the next run loads it again.
        LakeError: the list of loaded files cannot be read or written.
        OSError: a file cannot be read.
    """
    table, loading = EXTERNAL_SIGNALS, _Loading(stores, store, now)
    rows = {row["path"]: row for row in loaded_files(stores).to_dicts()}
    for kind in loading.kinds():
        files, _ = stores.landing.list_external(kind.folder)
        known = takewhile(lambda file: loading.knows(file, rows.get(file.path)), files)
        for file in files[len(list(known)) :]:
            rows[file.path] = loading.load(kind, file)
    frame = pl.DataFrame(list(rows.values()), schema=table.schema).sort(table.order)
    stores.lake.write(frame, table, None, store.hold)
    return frame


def retract_external(
    stores: Stores, store: ReputationStore, kind: str, retraction: Retraction, now: datetime
) -> int:
    """Take back a row of other systems, ``kind`` "signals" or "evaluations", for good.

    Returns:
        How many rows counted until now.

    Raises:
        ClickHouseError: the row could not be withdrawn; repeating it completes it.
        LedgerError: the ledger cannot be used.
    """
    table = REPUTATION_EVENTS if kind == _FOLDERS[0] else AGENT_EVALUATIONS
    Retractions(stores.ledger).add(table, [retraction], now)
    return store.retract(table, [retraction], revision_at(now))


def changed_files(stores: Stores) -> list[LandingFile]:
    """Return files that changed since they were loaded, without asking ClickHouse.

    Raises:
        LakeError: the list of loaded files cannot be read.
    """
    rows = {row["path"]: row for row in loaded_files(stores).to_dicts()}
    files = (file for kind in _FOLDERS for file in stores.landing.list_external(kind)[0])
    return [file for file in files if not _is_same(file, rows.get(file.path))]


def skipped_files(stores: Stores) -> list[SkippedFile]:
    """Return the files in the folders of signals and evaluations that are not read, and why."""
    return [file for kind in _FOLDERS for file in stores.landing.list_external(kind)[1]]


def loaded_files(stores: Stores) -> pl.DataFrame:
    """Return the files loaded last (EXTERNAL_SIGNALS).

    Raises:
        LakeError: the list cannot be read.
    """
    return stores.lake.read_whole(EXTERNAL_SIGNALS)


@dataclass(frozen=True, slots=True)
class _Kind:
    """A folder of the landing folder, the table of its lines, and the parser of a line."""

    folder: str
    table: Table
    read: Callable[[bytes], dict[str, Any]]
    retraction: Callable[[bytes], Retraction | None]


class _Loading:
    """One run over all files."""

    def __init__(self, stores: Stores, store: ReputationStore, now: datetime) -> None:
        self._stores, self._store, self._now = stores, store, now
        self._made_at = store.made_at()
        self._retractions = Retractions(stores.ledger)
        self._forgotten = read_forgotten(stores.ledger, stores.settings.forgotten_key_path)
        # Each batch outdoes those before it: of two lines with one id the later one wins.
        self._revisions = count(revision_at(now))

    def kinds(self) -> tuple[_Kind, ...]:
        deltas = self._stores.settings.signal_deltas
        signal = partial(read_signal, now=self._now, deltas=deltas)
        return (
            _Kind(
                _FOLDERS[0], REPUTATION_EVENTS, signal, partial(signal_retraction, now=self._now)
            ),
            _Kind(
                _FOLDERS[1],
                AGENT_EVALUATIONS,
                partial(read_evaluation, now=self._now),
                evaluation_retraction,
            ),
        )

    def knows(self, file: LandingFile, loaded: Mapping[str, Any] | None) -> bool:
        """True if the file was loaded in its present form into the present ClickHouse."""
        is_here = loaded is not None and loaded["store_made_at"] == self._made_at
        return is_here and _is_same(file, loaded)

    def load(self, kind: _Kind, file: LandingFile) -> dict[str, Any]:
        """Load one file; return its row of EXTERNAL_SIGNALS."""
        tally, table = _Tally(), kind.table
        retracted = self._retractions.of(table)
        with self._stores.landing.open(file) as handle:
            lines = read_lines(handle, 0, self._stores.settings.max_line_bytes)
            kept_lines = self._without_forgotten(lines, tally)
            for rows in _batched(_read_rows(kind, kept_lines, tally), _ROWS_AT_A_TIME):
                frame = pl.DataFrame(rows, schema=table.schema).with_columns(row_key(table))
                last = frame.unique("key", keep="last", maintain_order=True).drop("key")
                tally.repeated += frame.height - last.height
                kept = last.filter(~is_retracted(table, retracted))
                tally.withheld += last.height - kept.height
                self._store.upsert(table, kept, next(self._revisions))
        # For good, whichever line or file comes first: noted before any of them is withdrawn.
        self._retractions.add(table, tally.taken_back, self._now)
        # With those that a command noted meanwhile: it may not have seen these rows.
        meanwhile = self._retractions.of(table) - retracted
        self._store.retract(table, [*meanwhile.union(tally.taken_back)], next(self._revisions))
        return {
            "path": file.path,
            "kind": kind.folder,
            "size_bytes": file.size_bytes,
            "modified_at": _modified_at(file),
            "loaded_at": self._now,
            "store_made_at": self._made_at,
            **tally.columns(),
        }

    def _without_forgotten(self, lines: Iterable[RawLine], tally: "_Tally") -> Iterator[RawLine]:
        """Yield the lines that name nothing that was forgotten; the others are withheld."""
        for line in lines:
            text = line.text.decode(errors="replace")
            if self._forgotten and names_forgotten(text, self._forgotten):
                tally.withheld += 1
                # A blank line in its place: the numbers of the others stay.
                yield replace(line, text=b"", length_bytes=line.length_bytes)
            else:
                yield line


@dataclass(slots=True)
class _Tally:
    """Counts of the lines of one file."""

    lines: int = 0
    accepted: int = 0
    repeated: int = 0
    retracted: int = 0
    withheld: int = 0
    rejected: int = 0
    unfinished: bool = False
    rejects: list[dict[str, Any]] = field(default_factory=list)
    taken_back: list[Retraction] = field(default_factory=list)

    def columns(self) -> dict[str, Any]:
        """Return the counts as columns of EXTERNAL_SIGNALS."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        del values["taken_back"]
        return values

    def reject(self, number: int, reason: str, text: bytes) -> None:
        """Count a line that cannot be used, and keep the first ones as examples."""
        self.rejected += 1
        if len(self.rejects) < REJECTS_SHOWN:
            shown = text[:_TEXT_SHOWN].decode(errors="backslashreplace")
            self.rejects.append({"line": number, "reason": reason, "text": shown})


def _read_rows(kind: _Kind, lines: Iterable[RawLine], tally: _Tally) -> Iterator[dict[str, Any]]:
    for number, line in _numbered(lines):
        if not line.text.strip():
            continue
        try:
            taken_back = kind.retraction(line.text)
            row = None if taken_back else kind.read(line.text)
        except UnusableLineError as error:
            if not line.is_terminated and not line.is_overlong:
                tally.unfinished = True  # still being written: read when it has grown
                return
            tally.lines += 1
            tally.reject(number, "too long" if line.is_overlong else str(error), line.text)
        else:
            tally.lines += 1
            if row is not None:
                tally.accepted += 1
                yield row
            elif taken_back is not None:
                tally.retracted += 1
                tally.taken_back.append(taken_back)


def _numbered(lines: Iterable[RawLine]) -> Iterator[tuple[int, RawLine]]:
    """Yield lines with their numbers in the file; consecutive empty lines come as one."""
    number = 1
    for line in lines:
        yield number, line
        number += line.next_offset - line.offset - line.length_bytes  # the newlines behind it


def _batched(rows: Iterator[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    while batch := list(islice(rows, size)):
        yield batch


def _is_same(file: LandingFile, loaded: Mapping[str, Any] | None) -> bool:
    return loaded is not None and (
        (loaded["size_bytes"], loaded["modified_at"]) == (file.size_bytes, _modified_at(file))
    )


def _modified_at(file: LandingFile) -> datetime:
    return datetime.fromtimestamp(file.modified_at_ns // 1000 / 1_000_000, UTC)
