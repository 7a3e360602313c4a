"""Transcripts of this machine become landing files, every line once.

Records of new lines are written to a landing file, which is synced. Then one ledger transaction
moves the positions. A kill between them writes the same records again, with the same ids: they
count once.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from io import BytesIO
from platform import node
from typing import BinaryIO

import msgspec

from evaluation_pipelines.progress import Progress
from evaluation_pipelines.storage.landing import Head, SkippedFile, read_head
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.storage.received_files import ReceivedFiles, ReceivedRecord
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.domain.dialects.transcript import LineKind, TranscriptHead
from evaluation_pipelines.telemetry.ledger.transcript_reads import TranscriptRead, TranscriptReads
from evaluation_pipelines.telemetry.local_transcripts import (
    TranscriptFile,
    born,
    copied_ids,
    find_transcripts,
    older_relatives,
    read_transcript,
)
from evaluation_pipelines.telemetry.reading import infrequent_gc

FOLDER = "transcripts"
"""Folder of the landing folder with records of transcripts."""

_FILE_BYTES = 256 * 1024 * 1024
_COMMITTED_BYTES = 8 * 1024 * 1024
_RESTING_NS = 3600 * 10**9
"""After an hour without a change, an open call of a transcript counts as it is."""


@dataclass(slots=True)
class TranscriptReport:
    """Result of a reading of transcripts.

    Attributes:
        found: Transcripts on this machine.
        files: Transcripts with new lines.
        lines: Their new lines.
        unknown: Program and kind of lines that no reader knows -> their number.
        skipped: Unread transcripts, each with its reason.
    """

    found: int = 0
    files: int = 0
    lines: int = 0
    unknown: Counter[tuple[str, str]] = field(default_factory=Counter)
    skipped: list[SkippedFile] = field(default_factory=list)


@dataclass(slots=True)
class TranscriptIngest:
    """Reads transcripts into the landing folder while it holds the lock ``ingest``."""

    stores: Stores
    hold: Hold
    clock: Callable[[], datetime]
    report: TranscriptReport = field(default_factory=TranscriptReport)
    _written: list[bytes] = field(default_factory=list)
    _reads: dict[str, TranscriptRead] = field(default_factory=dict)
    _lines: Counter[tuple[str, LineKind]] = field(default_factory=Counter)

    def run(self, progress: Progress) -> TranscriptReport:
        """Read all new lines of all transcripts.

        Raises:
            OSError: The landing file cannot be written. Earlier commits stay.
            LockLostError: Another process may ingest by now.
            LedgerError: The ledger cannot be used.
        """
        root = self.stores.landing.folder
        if root is None:
            raise OSError("transcripts become landing files: EVAL_LANDING_DIR must be a folder")
        files, skipped = find_transcripts()
        self.report.found = len(files)
        self.report.skipped += skipped
        known = TranscriptReads(self.stores.ledger).known([_hash(file) for file in files])
        changed = [file for file in files if self._has_changed(file, known.get(_hash(file)))]
        progress.begin("reading transcripts", sum(file.size_bytes for file in changed))
        heads = _heads(files, frozenset(changed), known)
        writer = ReceivedFiles(root, _FILE_BYTES, self.clock)
        with closing(writer), infrequent_gc():
            # Parents before their forks: copies of a line in both are the parent's.
            for file in sorted(changed, key=lambda found: born(found, heads[found])):
                try:
                    self._read(file, heads, known.get(_hash(file)), writer)
                except OSError as error:
                    shown = str(error.strerror or error)
                    self.report.skipped.append(SkippedFile(str(file.path), shown))
                progress.advance(file.size_bytes)
            self._commit(writer)
        return self.report

    def _has_changed(self, file: TranscriptFile, known: TranscriptRead | None) -> bool:
        now = file.size_bytes, file.modified_at_ns
        if known is None or (known.size_bytes, known.modified_at_ns) != now:
            return file.size_bytes > 0
        return known.is_open and self._rests(file)

    def _rests(self, file: TranscriptFile) -> bool:
        return self.clock().timestamp() * 1e9 - file.modified_at_ns > _RESTING_NS

    def _read(
        self,
        file: TranscriptFile,
        heads: dict[TranscriptFile, TranscriptHead],
        known: TranscriptRead | None,
        writer: ReceivedFiles,
    ) -> None:
        head, rests = heads[file], self._rests(file)
        with BytesIO() if file.program.has_store else file.open() as handle:
            position, text = 0, "{}"
            if known is not None and (file.program.has_store or _continues(handle, file, known)):
                position, text = 0 if file.program.has_store else known.position, known.context
            pieces = read_transcript(
                file,
                self.stores.settings,
                position,
                known_ids=copied_ids(older_relatives(file, heads)),
                context=msgspec.json.decode(text),
                is_final=rests,
            )
            for piece in pieces:
                first = Head(0, "") if file.program.has_store else read_head(handle, piece.end)
                self._written.append(piece.content)
                self._lines.update(
                    {(file.program.source_cli, kind): n for kind, n in piece.lines.items()}
                )
                self._reads[_hash(file)] = TranscriptRead(
                    path_hash=_hash(file),
                    program=file.program.source_cli,
                    head_bytes=first.size_bytes,
                    head_sha256=first.sha256,
                    # A reading that is killed in mid-file goes on there.
                    size_bytes=file.size_bytes if piece.is_last else -1,
                    modified_at_ns=file.modified_at_ns,
                    position=piece.end,
                    is_open=not rests and (file.program.has_store or piece.end < file.size_bytes),
                    first_id=head.first_id,
                    first_time=head.first_time,
                    context=msgspec.json.encode(piece.context).decode(),
                )
                if sum(map(len, self._written)) >= _COMMITTED_BYTES:
                    self._commit(writer)
        self.report.files += 1

    def _commit(self, writer: ReceivedFiles) -> None:
        """Write the records to the landing folder, then move the positions."""
        content = b"".join(self._written)
        if content:
            (failure,) = writer.append([ReceivedRecord(FOLDER, "jsonl", content)])
            if failure is not None:
                raise failure
        TranscriptReads(self.stores.ledger).commit(
            list(self._reads.values()), self._lines, self.hold
        )
        self.report.lines += self._lines.total()
        for (program, kind), number in self._lines.items():
            if not kind.is_known:
                self.report.unknown[program, kind.kind] += number
        self._written, self._reads, self._lines = [], {}, Counter()


def _hash(file: TranscriptFile) -> str:
    """Return the key of a transcript in the ledger: its path may name people and projects."""
    where = f"{node()}\0{file.path}".encode()
    return hashlib.blake2b(where, digest_size=16).hexdigest()


def _continues(handle: BinaryIO, file: TranscriptFile, known: TranscriptRead) -> bool:
    """Return True if a file only grew: a shorter one, or one with another head, is read again."""
    if file.is_document:
        return False
    head = Head(known.head_bytes, known.head_sha256)
    return file.size_bytes >= known.position and read_head(handle, known.head_bytes) == head


def _heads(
    files: Sequence[TranscriptFile],
    changed: frozenset[TranscriptFile],
    known: dict[str, TranscriptRead],
) -> dict[TranscriptFile, TranscriptHead]:
    """Return the heads of all files. Only new ones are opened."""
    heads = {}
    for file in files:
        read = known.get(_hash(file))
        if read is None or read.first_id is None:
            heads[file] = file.head() if file in changed else TranscriptHead()
        else:
            heads[file] = TranscriptHead(None, read.first_id, read.first_time)
    return heads
