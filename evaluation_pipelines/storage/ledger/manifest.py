"""Manifest: the valid Parquet files of the lake."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, fields
from datetime import date, datetime, timedelta
from typing import Any, TypeAlias

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.engine import chunks, lock_for_manifest, reading, writing
from evaluation_pipelines.storage.ledger.errors import PartsNotCurrentError
from evaluation_pipelines.storage.ledger.ledger import Ledger, shared_time
from evaluation_pipelines.storage.ledger.tables.telemetry import (
    PART_ORIGINS,
    PARTS,
    PUBLISHED_DATABASES,
    TOUCHED_DATES,
)
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.storage.parts import NewPart, Part, PartDate, PartOrigin

Version: TypeAlias = tuple[int, int, int]
"""Tells two sets of current parts apart."""

_PART = PARTS.c
_ORIGIN = PART_ORIGINS.c
_PUBLISHED = PUBLISHED_DATABASES.c
_DATE = TOUCHED_DATES.c
_CLOCK_MARGIN = timedelta(hours=1)
_PLACE_KEPT = timedelta(days=7)
_IS_CURRENT = _PART.superseded_at.is_(None)

_OF_SLOT = ("table_name", "session_date", "slot", "first_bucket", "last_bucket")


def _bound(name: str) -> sa.BindParameter[Any]:
    return sa.bindparam(f"of_{name}", type_=_PART[name].type)


_SUPERSEDE = sa.update(PARTS).where(
    _PART.table_name == _bound("table_name"),
    _PART.session_date.is_not_distinct_from(_bound("session_date")),
    _PART.slot == _bound("slot"),
    _PART.first_bucket <= _bound("last_bucket"),
    _PART.last_bucket >= _bound("first_bucket"),
    _IS_CURRENT,
)
"""Supersedes what a new part replaces, see ``NewPart.replaces``."""

_PARTS_IN_ORDER = sa.select(PARTS).order_by(_PART.slot, _PART.part_id)
_CURRENT = _PARTS_IN_ORDER.where(
    _PART.table_name == _bound("table_name"),
    _PART.session_date.is_not_distinct_from(_bound("session_date")),
    _IS_CURRENT,
)
"""Current parts of a partition; asked hundreds of times by a build."""

# Values are bound when it is executed: compiling a statement again takes longer than running it.
_INSERT_PART = sa.insert(PARTS).returning(_PART.part_id)
_INSERT_ORIGIN = sa.insert(PART_ORIGINS)


class Manifest:
    """Operations on ``parts``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def current(self, table_name: str, session_date: date | None) -> list[Part]:
        """Return the current parts of one partition of a table, by slot or in the order added."""
        bound = {"of_table_name": table_name, "of_session_date": session_date}
        return self._parts(_CURRENT, bound)

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
            now = shared_time(connection, now)
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
            for chunk in chunks(old):
                connection.execute(
                    sa.update(PART_ORIGINS)
                    .where(_ORIGIN.part_id.in_(chunk))
                    .values(part_id=part_id)
                )
            _join_origins(connection, part_id)
            return part_id

    def origins(self, part_id: int) -> list[PartOrigin]:
        """Return the bytes that a landed part was read from, in the order of the files."""
        columns = [_ORIGIN[field.name] for field in fields(PartOrigin)]
        query = (
            sa.select(*columns)
            .where(_ORIGIN.part_id == part_id)
            .order_by(_ORIGIN.file_id, _ORIGIN.from_offset)
        )
        with reading(self._engine) as connection:
            return [PartOrigin(**row) for row in connection.execute(query).mappings()]

    def all_current(self, table_name: str) -> list[Part]:
        """Return the current parts of all partitions of a table, the oldest date first."""
        found = self._select(_PART.table_name == table_name, _IS_CURRENT)
        return sorted(found, key=lambda part: part.session_date or date.min)

    def all_tables(self) -> list[Part]:
        """Return the current parts of all tables, as of one moment."""
        return self._select(_IS_CURRENT)

    def of_date(self, day: date | None) -> list[Part]:
        """Return the current parts of all tables in a partition."""
        return self._select(_IS_CURRENT, _PART.session_date.is_not_distinct_from(day))

    def version(self) -> Version:
        """Return number, sum and largest of the ids of all current parts.

        It changes whenever another part becomes current or a current one no longer is: ids are
        never used again, and a superseded part stays so.
        """
        found = sa.func.count(), _total(_PART.part_id, "ids"), sa.func.max(_PART.part_id)
        with reading(self._engine) as connection:
            number, ids, newest = connection.execute(sa.select(*found).where(_IS_CURRENT)).one()
        return number, ids or 0, newest or 0

    def is_published(self) -> bool:
        """Return whether no part was added since the analysts' database was published last."""
        newest = sa.select(_PART.created_at).order_by(_PART.part_id.desc()).limit(1)
        with reading(self._engine) as connection:
            added = connection.scalar(newest)
            published = connection.scalar(sa.select(sa.func.max(_PUBLISHED.published_at)))
        return added is None or (published is not None and added <= published)

    def newest(self, table_name: str) -> datetime | None:
        """Return when the newest current part of a table was added; ``None`` without parts."""
        is_current = _PART.table_name == table_name, _IS_CURRENT
        with reading(self._engine) as connection:
            found: datetime | None = connection.scalar(
                sa.select(sa.func.max(_PART.created_at)).where(*is_current)
            )
        return found

    def switch(
        self,
        parts: Collection[NewPart],
        now: datetime,
        hold: Hold | None = None,
    ) -> None:
        """Make parts current in place of those that they replace (``NewPart``), all at once.

        Args:
            parts: The parts.
            now: The current time.
            hold: The locks of who makes them current.

        Raises:
            LockLostError: The locks of ``hold`` are lost; nothing has changed.
        """
        with writing(self._engine) as connection:
            # Two writers of a slot that see each other's part too late would both stay current.
            lock_for_manifest(connection)
            if hold is not None:
                hold.check(connection)
            now = shared_time(connection, now)
            rows = [asdict(part) | {"created_at": now} for part in parts]
            if rows:
                of = [{f"of_{name}": row[name] for name in _OF_SLOT} for row in rows]
                connection.execute(_SUPERSEDE.values(superseded_at=now), of)
                connection.execute(sa.insert(PARTS), rows)

    def withdraw(self, part_id: int, now: datetime) -> None:
        """Take a part out of its table without another one in its place."""
        update = sa.update(PARTS).where(_PART.part_id == part_id, _IS_CURRENT)
        with writing(self._engine) as connection:
            now = shared_time(connection, now)
            connection.execute(update.values(superseded_at=now))

    def sweepable(self, time: datetime) -> list[Part]:
        """Return parts that were superseded before a time, and that no published database names.

        A part can have been current until an hour after ``superseded_at``: its writer waits for the
        ledger, or merges, after it has looked at the clock.
        """
        with reading(self._engine) as connection:
            published = connection.scalar(sa.select(sa.func.min(_PUBLISHED.published_at)))
        latest = time if published is None else min(time, published - _CLOCK_MARGIN)
        return self._select(_PART.superseded_at < latest)

    def note_published(
        self,
        file: str,
        published_at: datetime,
        kept: Collection[str],
        *,
        place: str = "",
        hold: Hold | None = None,
    ) -> None:
        """Note that a new database names the parts of a time, and which older ones still exist.

        Those of another ``place`` are its own affair; one that has not published for a week is
        forgotten, since it may no longer exist.

        Raises:
            LockLostError: The locks of ``hold`` are lost; nothing has changed.
        """
        names = [f"{place}{name}" for name in (*kept, file)]
        is_here = _PUBLISHED.file.startswith(place, autoescape=True)
        has_place = _PUBLISHED.file.contains("/")  # earlier versions noted none
        is_gone = sa.and_(sa.or_(is_here, ~has_place), _PUBLISHED.file.not_in([*names, *kept]))
        is_old = _PUBLISHED.published_at < published_at - _PLACE_KEPT
        with writing(self._engine) as connection:
            if hold is not None:
                hold.check(connection)
            is_forgotten = sa.and_(~is_here, has_place, is_old)
            connection.execute(sa.delete(PUBLISHED_DATABASES).where(sa.or_(is_gone, is_forgotten)))
            row = {"file": f"{place}{file}", "published_at": published_at}
            connection.execute(sa.insert(PUBLISHED_DATABASES).values(row))

    def delete_superseded(self, part_ids: Collection[int]) -> int:
        """Remove superseded parts from the manifest after their files were deleted.

        Returns:
            Number of removed parts; current parts are never removed.
        """
        with writing(self._engine) as connection:
            return sum(_delete(connection, chunk) for chunk in chunks(part_ids))

    def known_paths(self, session_date: date | None) -> set[str]:
        """Return all paths of a date in the manifest, of every table, including superseded ones.

        All other files of the date are leftovers of crashes.
        """
        query = sa.select(_PART.path).where(_PART.session_date.is_not_distinct_from(session_date))
        with reading(self._engine) as connection:
            return set(connection.scalars(query))

    def note_damage(self, part: NewPart, error: str) -> None:
        """Note in the rebuild queue that a part of a date is damaged, if it is a current one.

        An error that is noted there already stays. The date is not queued for a rebuild.
        """
        is_current = sa.exists().where(_PART.path == part.path, _IS_CURRENT)
        is_new = (_DATE.session_date == part.session_date, _DATE.last_error.is_(None), is_current)
        with reading(self._engine) as connection:
            if connection.scalar(sa.select(_DATE.session_date).where(*is_new)) is None:
                return
        with writing(self._engine) as connection:
            connection.execute(sa.update(TOUCHED_DATES).where(*is_new).values(last_error=error))

    def _select(self, *conditions: sa.ColumnElement[bool]) -> list[Part]:
        return self._parts(_PARTS_IN_ORDER.where(*conditions), {})

    def _parts(self, query: sa.Select[Any], bound: Mapping[str, Any]) -> list[Part]:
        with reading(self._engine) as connection:
            found = connection.execute(query, bound)
            names = tuple(found.keys())
            # Of thousands of rows, as mappings they take half as long again.
            return [Part(**dict(zip(names, row, strict=True))) for row in found]


def _delete(connection: sa.Connection, part_ids: Collection[int]) -> int:
    stale = sa.select(_PART.part_id).where(_PART.part_id.in_(part_ids), ~_IS_CURRENT)
    connection.execute(sa.delete(PART_ORIGINS).where(_ORIGIN.part_id.in_(stale)))
    return connection.execute(sa.delete(PARTS).where(_PART.part_id.in_(stale))).rowcount


def add_part(
    connection: sa.Connection, part: NewPart, origins: Iterable[PartOrigin], now: datetime
) -> None:
    """Add a new part, and the bytes it was read from, within the caller's transaction."""
    part_id = connection.execute(_INSERT_PART, asdict(part) | {"created_at": now}).scalar_one()
    for origin in origins:
        connection.execute(_INSERT_ORIGIN, asdict(origin) | {"part_id": part_id})


def _join_origins(connection: sa.Connection, part_id: int) -> None:
    """Join origins with the same bytes: rows had moved to another part."""
    bytes_of = (_ORIGIN.file_id, _ORIGIN.from_offset)
    first, rows = sa.func.min(_ORIGIN.origin_id), _total(_ORIGIN.row_count, "rows")
    same = sa.select(*bytes_of, first.label("first"), rows).where(_ORIGIN.part_id == part_id)
    same = same.group_by(*bytes_of).having(sa.func.count() > 1)
    for row in connection.execute(same).all():
        is_first = _ORIGIN.origin_id == row.first
        is_same = _ORIGIN.file_id == row.file_id, _ORIGIN.from_offset == row.from_offset
        connection.execute(sa.update(PART_ORIGINS).where(is_first).values(row_count=row.rows))
        others = sa.delete(PART_ORIGINS).where(_ORIGIN.part_id == part_id, *is_same, ~is_first)
        connection.execute(others)


def _total(column: sa.ColumnElement[int], label: str) -> sa.Label[int]:
    """Return an integer sum: PostgreSQL sums BIGINT to NUMERIC."""
    return sa.cast(sa.func.sum(column), sa.BigInteger).label(label)
