"""Manifest: the valid Parquet files of the lake."""

from collections.abc import Collection, Iterable
from dataclasses import asdict
from datetime import date, datetime

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.engine import chunks, reading, writing
from evaluation_pipelines.storage.ledger.errors import PartsNotCurrentError
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.telemetry import PARTS
from evaluation_pipelines.storage.parts import NewPart, Part, PartDate

_PART = PARTS.c
_IS_CURRENT = _PART.superseded_at.is_(None)


class Manifest:
    """Operations on ``parts``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def current(self, table_name: str, session_date: date | None) -> list[Part]:
        """Return the current parts of one partition of a table, in the order they were added."""
        return self._select(
            _PART.table_name == table_name,
            _PART.session_date.is_not_distinct_from(session_date),
            _IS_CURRENT,
        )

    def dates(self, table_name: str) -> list[PartDate]:
        """Return the dates of a table with current parts, oldest first, with their totals."""
        query = (
            sa.select(
                _PART.session_date,
                sa.func.count().label("parts"),
                _total(_PART.row_count, "rows"),
                _total(_PART.size_bytes, "size_bytes"),
            )
            .where(_PART.table_name == table_name, _PART.session_date.is_not(None), _IS_CURRENT)
            .group_by(_PART.session_date)
            .order_by(_PART.session_date)
        )
        with reading(self._engine) as connection:
            return [PartDate(**row) for row in connection.execute(query).mappings()]

    def replace(self, old_part_ids: Collection[int], new: NewPart, now: datetime) -> int:
        """Replace current parts by one merged part; the old files stay until they are deleted.

        Returns:
            The id of the new part.

        Raises:
            PartsNotCurrentError: some of the old parts are not current parts of the same table and
                date; nothing changed.
        """
        old = set(old_part_ids)
        if not old:
            raise ValueError("A merged part must replace at least one part.")
        update = sa.update(PARTS).where(
            _PART.table_name == new.table_name,
            _PART.session_date.is_not_distinct_from(new.session_date),
            _IS_CURRENT,
        )
        with writing(self._engine) as connection:
            found = sum(
                connection.execute(
                    update.where(_PART.part_id.in_(chunk)).values(superseded_at=now)
                ).rowcount
                for chunk in chunks(old)
            )
            if found != len(old):
                raise PartsNotCurrentError(
                    f"{len(old) - found} of {len(old)} parts of {new.table_name} on "
                    f"{new.session_date} are no longer current: another run has merged them. "
                    f"Discard {new.path} and read the manifest again."
                )
            insert = sa.insert(PARTS).values(**asdict(new), created_at=now)
            part_id: int = connection.execute(insert.returning(_PART.part_id)).scalar_one()
            return part_id

    def superseded_before(self, time: datetime) -> list[Part]:
        """Return parts that were superseded before a time."""
        return self._select(_PART.superseded_at < time)

    def delete_superseded(self, part_ids: Collection[int]) -> int:
        """Remove superseded parts from the manifest after their files were deleted.

        Returns:
            Number of removed parts; current parts are never removed.
        """
        with writing(self._engine) as connection:
            return sum(
                connection.execute(
                    sa.delete(PARTS).where(_PART.part_id.in_(chunk), ~_IS_CURRENT)
                ).rowcount
                for chunk in chunks(part_ids)
            )

    def known_paths(self, table_name: str, session_date: date | None) -> set[str]:
        """Return all paths of one partition in the manifest, including superseded ones.

        All other files of the partition are leftovers of crashes.
        """
        query = sa.select(_PART.path).where(
            _PART.table_name == table_name, _PART.session_date.is_not_distinct_from(session_date)
        )
        with reading(self._engine) as connection:
            return set(connection.scalars(query))

    def _select(self, *conditions: sa.ColumnElement[bool]) -> list[Part]:
        query = sa.select(PARTS).where(*conditions).order_by(_PART.part_id)
        with reading(self._engine) as connection:
            return [Part(**row) for row in connection.execute(query).mappings()]


def add_parts(
    connection: sa.Connection,
    parts: Iterable[NewPart],
    file_id: str,
    offsets: tuple[int, int],
    now: datetime,
) -> None:
    """Add new parts to the manifest, within the caller's transaction."""
    origin = {"file_id": file_id, "from_offset": offsets[0], "to_offset": offsets[1]}
    rows = [{**asdict(part), **origin, "created_at": now} for part in parts]
    if rows:
        connection.execute(sa.insert(PARTS), rows)


def _total(column: sa.ColumnElement[int], label: str) -> sa.Label[int]:
    """Return an integer sum: PostgreSQL sums BIGINT to NUMERIC."""
    return sa.cast(sa.func.sum(column), sa.BigInteger).label(label)
