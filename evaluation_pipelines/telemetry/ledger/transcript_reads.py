"""Ledger of transcripts: read positions, and kinds of lines by version."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.engine import chunks, insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.telemetry import TRANSCRIPT_LINES, TRANSCRIPTS
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.telemetry.domain.dialects.transcript import LineKind

_TRANSCRIPT, _LINE = TRANSCRIPTS.c, TRANSCRIPT_LINES.c


@dataclass(frozen=True, slots=True)
class TranscriptRead:
    """Read position of a transcript: columns of ``transcripts``."""

    path_hash: str
    program: str
    head_bytes: int
    head_sha256: str
    size_bytes: int
    modified_at_ns: int
    position: int
    is_open: bool
    first_id: str | None
    first_time: str | None
    context: str


class TranscriptReads:
    """Operations on the tables of transcripts. Every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def known(self, path_hashes: Collection[str]) -> dict[str, TranscriptRead]:
        """Return known transcripts by the hash of their path."""
        with reading(self._engine) as connection:
            rows = [
                TranscriptRead(**row)
                for chunk in chunks(path_hashes)
                for row in connection.execute(
                    sa.select(TRANSCRIPTS).where(_TRANSCRIPT.path_hash.in_(chunk))
                ).mappings()
            ]
        return {row.path_hash: row for row in rows}

    def commit(
        self,
        reads: Sequence[TranscriptRead],
        lines: Mapping[tuple[str, LineKind], int],
        hold: Hold,
    ) -> None:
        """Move positions, and count lines by program and kind.

        Raises:
            LockLostError: Another process may read transcripts now. Nothing has changed.
            LedgerError: The ledger cannot be used. Nothing has changed.
        """
        with writing(self._engine) as connection:
            hold.check(connection)
            insert = insert_into(connection, TRANSCRIPTS)
            names = [field.name for field in fields(TranscriptRead)][1:]
            moved = insert.on_conflict_do_update(
                index_elements=[_TRANSCRIPT.path_hash],
                set_={name: insert.excluded[name] for name in names},
            )
            if reads:
                connection.execute(moved, [asdict(read) for read in reads])
            insert = insert_into(connection, TRANSCRIPT_LINES)
            added = insert.on_conflict_do_update(
                index_elements=[_LINE.program, _LINE.version, _LINE.kind, _LINE.is_known],
                set_={"line_count": _LINE.line_count + insert.excluded.line_count},
            )
            rows = [
                {"program": program, **kind._asdict(), "line_count": number}
                for (program, kind), number in sorted(lines.items())
            ]
            if rows:
                connection.execute(added, rows)

    def lines(self) -> Counter[tuple[str, LineKind]]:
        """Return how many lines of each program and kind were read."""
        with reading(self._engine) as connection:
            return Counter(
                {
                    (row.program, LineKind(row.version, row.kind, row.is_known)): row.line_count
                    for row in connection.execute(sa.select(TRANSCRIPT_LINES))
                }
            )
