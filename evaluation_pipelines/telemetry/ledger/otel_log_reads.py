"""Ledger of what was read from ``otel_logs``: position, rows that may be met again, counts."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.telemetry import OTEL_LOG_MINUTES, OTEL_LOG_READS
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.telemetry.domain.otel_log_rows import HASH_BYTES

NS_PER_MINUTE = 60 * 10**9
MINUTES_PER_DAY = 24 * 60

_DAYS_COUNTED = 8
"""Days before the position whose minutes are kept."""

_READ, _MINUTE = OTEL_LOG_READS.c, OTEL_LOG_MINUTES.c


@dataclass(frozen=True, slots=True)
class OtelLogRead:
    """Rows that were read into one landing file.

    Attributes:
        source: Server, database and table.
        number: Grows with each file of a source.
        path: The file, relative to the landing folder.
        position_ns: Time up to which rows of the source were read, then.
        first_ns: Time of the oldest row.
        last_ns: Time of the newest row.
        row_hashes: Hashes of the rows, one after the other.
        read_at: When it is committed.
    """

    source: str
    number: int
    path: str
    position_ns: int
    first_ns: int
    last_ns: int
    row_hashes: bytes
    read_at: datetime


class OtelLogReads:
    """Operations on the two tables of ``otel_logs``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def last(self, source: str) -> OtelLogRead | None:
        """Return the newest read of a source."""
        query = sa.select(OTEL_LOG_READS).where(_READ.source == source)
        with reading(self._engine) as connection:
            row = connection.execute(query.order_by(_READ.number.desc()).limit(1)).mappings()
            return next((OtelLogRead(**each) for each in row), None)

    def paths(self) -> list[str]:
        """Return the landing files of all reads that are kept, the newest of each source as well.

        On another machine, which was stopped between commit and name, not only the newest file can
        be hidden.
        """
        with reading(self._engine) as connection:
            return list(connection.scalars(sa.select(_READ.path)))

    def hashes(self, source: str, low_ns: int, high_ns: int) -> set[bytes]:
        """Return the hashes of reads with rows between two times; they have others as well."""
        query = sa.select(_READ.row_hashes).where(
            _READ.source == source, _READ.last_ns >= low_ns, _READ.first_ns < high_ns
        )
        with reading(self._engine) as connection:
            return {
                each[begin : begin + HASH_BYTES]
                for each in connection.scalars(query)
                for begin in range(0, len(each), HASH_BYTES)
            }

    def minutes(self, source: str) -> Counter[int]:
        """Return how many rows each of the last minutes had when it was read."""
        query = sa.select(_MINUTE.minute, _MINUTE.row_count).where(_MINUTE.source == source)
        with reading(self._engine) as connection:
            return Counter({row.minute: row.row_count for row in connection.execute(query)})

    def commit(
        self, read: OtelLogRead, minutes: Mapping[int, int], kept_from_ns: int, hold: Hold
    ) -> None:
        """Move the position, and forget the hashes of rows before ``kept_from_ns``.

        Args:
            read: What was read.
            minutes: All rows of the minutes that were read, new and known.
            kept_from_ns: Nanoseconds since 1970.
            hold: The lock of the reader.

        Raises:
            LockLostError: Another process may read the source now; nothing has changed.
            LedgerError: The ledger cannot be used; nothing has changed.
        """
        with writing(self._engine) as connection:
            hold.check(connection)
            old = sa.delete(OTEL_LOG_READS).where(
                _READ.source == read.source, _READ.last_ns < kept_from_ns
            )
            connection.execute(old)
            connection.execute(sa.insert(OTEL_LOG_READS).values(asdict(read)))
            counted_from = read.position_ns // NS_PER_MINUTE - _DAYS_COUNTED * MINUTES_PER_DAY
            connection.execute(
                sa.delete(OTEL_LOG_MINUTES).where(
                    _MINUTE.source == read.source, _MINUTE.minute < counted_from
                )
            )
            recent = {each: rows for each, rows in minutes.items() if each >= counted_from}
            _count(connection, read.source, recent)

    def count(self, source: str, minutes: Mapping[int, int], hold: Hold) -> None:
        """Store the rows of minutes in which no row is new; raises as ``commit`` does."""
        with writing(self._engine) as connection:
            hold.check(connection)
            _count(connection, source, minutes)


def _count(connection: sa.Connection, source: str, minutes: Mapping[int, int]) -> None:
    """Replace the counts of minutes: each read of a minute sees all of its rows."""
    insert = insert_into(connection, OTEL_LOG_MINUTES)
    replaced = insert.on_conflict_do_update(
        index_elements=[_MINUTE.source, _MINUTE.minute],
        set_={"row_count": insert.excluded.row_count},
    )
    rows = [{"source": source, "minute": each, "row_count": n} for each, n in minutes.items()]
    if rows:
        connection.execute(replaced, rows)
