"""Ledger of what was read from ``otel_logs``: the position, and rows that may be met again."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date, datetime

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.leases import Numbers, check_leases
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.telemetry import OTEL_LOG_DAYS, OTEL_LOG_READS
from evaluation_pipelines.telemetry.domain.otel_log_rows import HASH_BYTES

_READ, _DAY = OTEL_LOG_READS.c, OTEL_LOG_DAYS.c


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
    """Operations on ``otel_log_reads`` and ``otel_log_days``; every method is one transaction."""

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

    def days(self, source: str) -> dict[date, int]:
        """Return how many rows of each day were read."""
        query = sa.select(_DAY.day, _DAY.row_count).where(_DAY.source == source)
        with reading(self._engine) as connection:
            return {row.day: row.row_count for row in connection.execute(query)}

    def commit(
        self, read: OtelLogRead, days: Mapping[date, int], kept_from_ns: int, leases: Numbers
    ) -> None:
        """Move the position, and forget the hashes of rows before ``kept_from_ns``.

        Raises:
            StaleLeaseError: Another process reads the source now; nothing has changed.
            LedgerError: The ledger cannot be used; nothing has changed.
        """
        with writing(self._engine) as connection:
            check_leases(connection, leases)
            old = sa.delete(OTEL_LOG_READS).where(
                _READ.source == read.source, _READ.last_ns < kept_from_ns
            )
            connection.execute(old)
            connection.execute(sa.insert(OTEL_LOG_READS).values(asdict(read)))
            for day, rows in days.items():
                insert = insert_into(connection, OTEL_LOG_DAYS)
                values = {"source": read.source, "day": day, "row_count": rows}
                added = {"row_count": _DAY.row_count + insert.excluded.row_count}
                connection.execute(
                    insert.values(values).on_conflict_do_update(
                        index_elements=[_DAY.source, _DAY.day], set_=added
                    )
                )

    def lower_days(self, source: str, days: Mapping[date, int]) -> None:
        """Lower the rows of days to those that there are, if more were counted."""
        with writing(self._engine) as connection:
            for day, rows in days.items():
                of_day = (_DAY.source == source, _DAY.day == day, _DAY.row_count > rows)
                connection.execute(sa.update(OTEL_LOG_DAYS).where(*of_day).values(row_count=rows))
