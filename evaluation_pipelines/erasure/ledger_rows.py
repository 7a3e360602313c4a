"""Rows of the ledger that are erased or expire, and the record of each erasure."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime
from typing import Any

import sqlalchemy as sa

from evaluation_pipelines.people.domain.identities import Identities
from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED
from evaluation_pipelines.storage.ledger.engine import chunks, insert_into, reading, writing
from evaluation_pipelines.storage.ledger.errors import PartsNotCurrentError
from evaluation_pipelines.storage.ledger.ledger import Ledger, shared_time
from evaluation_pipelines.storage.ledger.rebuild_queue import Expired, touch
from evaluation_pipelines.storage.ledger.tables.judging import (
    ANCHOR_SCORES,
    AUDIT_SAMPLES,
    AUDIT_STEPS,
    JUDGE_ANCHORS,
    OVERRIDES,
    SESSION_SCORES,
    WAITING_DATES,
)
from evaluation_pipelines.storage.ledger.tables.people import (
    ALERTS,
    IDENTITIES,
    RETRACTIONS,
    SERVICE_EVENTS,
    SUBMITTED_EVALUATIONS,
)
from evaluation_pipelines.storage.ledger.tables.telemetry import (
    ERASED_EVENTS,
    ERASED_ROWS,
    ERASURES,
    EXPIRED_DATES,
    PART_ORIGINS,
    PARTS,
    SESSION_INDEX,
    SOURCE_FILES,
    TOUCHED_DATES,
)
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.storage.parts import NewPart, Part, PartOrigin
from evaluation_pipelines.telemetry.domain.forgotten import Forgotten, names_forgotten
from evaluation_pipelines.telemetry.domain.organizations import ANY_ORGANIZATION
from evaluation_pipelines.telemetry.ledger.forgotten_store import add_forgotten
from evaluation_pipelines.telemetry.received import organization_of
from evaluation_pipelines.times import to_us

_ERASURE = ERASURES.c
_ROWS = ERASED_ROWS.c
_PART = PARTS.c


@dataclass(frozen=True, slots=True)
class Erasure:
    """One erasure; ``rows`` has the number of rows that were taken out, by store."""

    erasure_id: int
    subject: str
    requested_by: str
    requested_at: datetime
    completed_at: datetime | None
    rows: Mapping[str, int]


class Erasures:
    """Operations on ``erasures``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def begin(
        self, subject: str, requested_by: str, hashes: Mapping[str, datetime | None], now: datetime
    ) -> int:
        """Record an erasure and what must not come back; return its id.

        From now on no ingest stores anything of it.
        """
        row = {"subject": subject, "requested_by": requested_by, "requested_at": now}
        with writing(self._engine) as connection:
            insert = sa.insert(ERASURES).values(row).returning(_ERASURE.erasure_id)
            erasure_id: int = connection.execute(insert).scalar_one()
            add_forgotten(connection, hashes, erasure_id)
            return erasure_id

    def complete(self, now: datetime) -> None:
        """Record that nothing is left of all that was forgotten so far."""
        update = sa.update(ERASURES).where(_ERASURE.completed_at.is_(None))
        with writing(self._engine) as connection:
            connection.execute(update.values(completed_at=now))

    def all(self) -> list[Erasure]:
        """Return all erasures, the oldest first."""
        with reading(self._engine) as connection:
            rows: dict[int, dict[str, int]] = {}
            for row in connection.execute(sa.select(ERASED_ROWS).order_by(_ROWS.store)):
                rows.setdefault(row.erasure_id, {})[row.store] = row.row_count
            found = connection.execute(sa.select(ERASURES).order_by(_ERASURE.erasure_id))
            return [
                Erasure(**row, rows=rows.get(row["erasure_id"], {})) for row in found.mappings()
            ]

    def erased_dates(self) -> list[date]:
        """Return the session dates that events were taken out of, oldest first."""
        query = sa.select(ERASED_EVENTS.c.session_date).order_by(ERASED_EVENTS.c.session_date)
        with reading(self._engine) as connection:
            return list(connection.scalars(query))

    def add_rows(self, erasure_id: int, store: str, number: int) -> None:
        """Count rows that were taken out of a store without transactions."""
        with writing(self._engine) as connection:
            add_rows(connection, erasure_id, store, number)


def add_rows(connection: sa.Connection, erasure_id: int, store: str, number: int) -> None:
    """Count rows that are taken out of a store, within the caller's transaction."""
    if number:
        insert = insert_into(connection, ERASED_ROWS)
        row = {"erasure_id": erasure_id, "store": store, "row_count": number}
        connection.execute(
            insert.on_conflict_do_update(
                index_elements=[_ROWS.erasure_id, _ROWS.store],
                set_={"row_count": _ROWS.row_count + insert.excluded.row_count},
            ),
            row,
        )


_ORIGIN = PART_ORIGINS.c


def replace_without_rows(
    hold: Hold,
    old: Part,
    new: NewPart,
    left: Mapping[PartOrigin, int],
    erasure_id: int,
    now: datetime,
) -> None:
    """Replace a part in one transaction with the counts, and queue its date for a rebuild.

    Args:
        hold: The lock of its date, or of the erasure.
        old: The part that is current.
        new: The same without some of its rows.
        left: Rows of the new part by the bytes that the old one was read from.
        erasure_id: The erasure that counts them.
        now: The current time.

    Raises:
        PartsNotCurrentError: The old part is no longer current; nothing changed.
        LockLostError: The lock is lost; nothing changed.
    """
    number = old.row_count - new.row_count
    is_old = sa.and_(_PART.part_id == old.part_id, _PART.superseded_at.is_(None))
    with writing(hold.ledger.engine) as connection:
        hold.check(connection)
        update = sa.update(PARTS).where(is_old).values(superseded_at=now)
        if connection.execute(update).rowcount == 0:
            raise PartsNotCurrentError(f"{old.path} was merged or replaced meanwhile.")
        insert = sa.insert(PARTS).values(**asdict(new), created_at=now)
        part_id = connection.execute(insert.returning(_PART.part_id)).scalar_one()
        for origin, rows in left.items():
            connection.execute(
                sa.update(PART_ORIGINS)
                .where(
                    _ORIGIN.part_id == old.part_id,
                    _ORIGIN.file_id == origin.file_id,
                    _ORIGIN.from_offset == origin.from_offset,
                )
                .values(part_id=part_id, row_count=rows)
            )
        if old.session_date is not None:
            touch(connection, [old.session_date], now)
        if old.table_name == AGENT_EVENTS_LANDED.name:
            _count_erased(connection, old.session_date, number)
        add_rows(connection, erasure_id, old.table_name, number)


def _count_erased(connection: sa.Connection, day: date | None, number: int) -> None:
    """Count landed events that go, for the books."""
    if number:
        insert = insert_into(connection, ERASED_EVENTS)
        events = ERASED_EVENTS.c.events + insert.excluded.events
        connection.execute(
            insert.on_conflict_do_update(
                index_elements=[ERASED_EVENTS.c.session_date], set_={"events": events}
            ),
            {"session_date": day, "events": number},
        )


def superseded_parts(ledger: Ledger) -> list[tuple[int, str]]:
    """Return id and path of all parts that are not current."""
    query = sa.select(_PART.part_id, _PART.path).where(_PART.superseded_at.is_not(None))
    with reading(ledger.engine) as connection:
        return [(row.part_id, row.path) for row in connection.execute(query)]


ERASED = "erased"
"""What stands in place of a name that is part of a row that stays."""

_Test = Callable[[Sequence[Any]], bool]


@dataclass(frozen=True, slots=True)
class _Rule:
    """Which rows of a table are deleted: those whose ``columns`` are of what was forgotten."""

    table: sa.Table
    columns: tuple[str, ...]
    is_gone: Callable[[Forgotten], _Test]


def _session(forgotten: Forgotten) -> _Test:
    return lambda row: (
        row[1] is not None
        and forgotten.has_session(None if row[0] == ANY_ORGANIZATION else row[0], row[1])
    )


def _session_of_key(forgotten: Forgotten) -> _Test:
    return lambda row: (
        row[1] is not None and forgotten.has_session(row[0], row[1].rpartition("#")[0])
    )


def _organization(forgotten: Forgotten) -> _Test:
    return lambda row: forgotten.has_organization(row[0])


def _words(forgotten: Forgotten) -> _Test:
    return lambda row: any(names_forgotten(text or "", forgotten) for text in row)


_SESSION_COLUMNS = ("organization_id", "session_id")
_KEY_COLUMNS = ("organization_id", "session_key")

_RULES = (
    _Rule(SESSION_SCORES, _SESSION_COLUMNS, _session),
    _Rule(ANCHOR_SCORES, _SESSION_COLUMNS, _session),
    _Rule(JUDGE_ANCHORS, _SESSION_COLUMNS, _session),
    _Rule(SESSION_INDEX, _SESSION_COLUMNS, _session),
    _Rule(OVERRIDES, _KEY_COLUMNS, _session_of_key),
    _Rule(AUDIT_SAMPLES, _KEY_COLUMNS, _session_of_key),
    _Rule(AUDIT_STEPS, _KEY_COLUMNS, _session_of_key),
    _Rule(SERVICE_EVENTS, _KEY_COLUMNS, _session_of_key),
    _Rule(SERVICE_EVENTS, ("error_message", "payload"), _words),
    _Rule(ALERTS, ("cause", "title", "text"), _words),
    _Rule(SUBMITTED_EVALUATIONS, ("organization_id",), _organization),
    _Rule(SUBMITTED_EVALUATIONS, ("evaluation_id", "agent_id", "model", "source"), _words),
    _Rule(RETRACTIONS, ("owner",), _words),
)

_TEXTS = (
    *((OVERRIDES, name) for name in ("annotator", "recorded_by", "reason")),
    (AUDIT_STEPS, "annotator"),
    *((AUDIT_SAMPLES, name) for name in ("classification_label", "model")),
    (SESSION_SCORES, "score_triggered_by"),
    (ANCHOR_SCORES, "score_triggered_by"),
)
"""Columns with names of whoever did something, and texts, in rows about sessions of others."""


def erase_ledger_rows(hold: Hold, forgotten: Forgotten, erasure_id: int) -> int:
    """Delete all rows about what was forgotten in one transaction; return their number.

    Texts that name what was forgotten, in rows that stay, are replaced.

    Raises:
        LockLostError: The lock of the erasure is lost; nothing changed.
    """
    with writing(hold.ledger.engine) as connection:
        hold.check(connection)
        numbers = [_apply(connection, rule, forgotten, erasure_id) for rule in _RULES]
        numbers += [
            _rename(connection, table, name, forgotten, erasure_id) for table, name in _TEXTS
        ]
        numbers.append(_erase_people(connection, forgotten, erasure_id))
        _erase_paths(connection, forgotten)
        _erase_errors(connection, forgotten)
        return sum(numbers)


def _apply(connection: sa.Connection, rule: _Rule, forgotten: Forgotten, erasure_id: int) -> int:
    columns = [rule.table.c[name] for name in rule.columns]
    is_gone = rule.is_gone(forgotten)
    gone = [
        tuple(row) for row in connection.execute(sa.select(*columns).distinct()) if is_gone(row)
    ]
    number = sum(_delete(connection, rule.table, columns, row) for row in gone)
    add_rows(connection, erasure_id, rule.table.name, number)
    return number


def _delete(
    connection: sa.Connection,
    table: sa.Table,
    columns: Iterable[sa.Column[Any]],
    row: Sequence[Any],
) -> int:
    is_row = [
        column.is_not_distinct_from(value) for column, value in zip(columns, row, strict=True)
    ]
    return connection.execute(sa.delete(table).where(*is_row)).rowcount


def _rename(
    connection: sa.Connection, table: sa.Table, name: str, forgotten: Forgotten, erasure_id: int
) -> int:
    column = table.c[name]
    names = [
        each
        for each in connection.scalars(sa.select(column).distinct())
        if each is not None and (forgotten.has_id(each) or names_forgotten(each, forgotten))
    ]
    number = sum(
        connection.execute(
            sa.update(table).where(column.in_(chunk)).values({name: ERASED})
        ).rowcount
        for chunk in chunks(names)
    )
    add_rows(connection, erasure_id, table.name, number)
    return number


def _erase_people(connection: sa.Connection, forgotten: Forgotten, erasure_id: int) -> int:
    """Take forgotten people out of all versions of the identities."""
    version, number = IDENTITIES.c, 0
    for row in list(connection.execute(sa.select(version.version, version.definition))):
        identities = Identities.model_validate_json(row.definition)
        kept = without_forgotten(identities, forgotten)
        if kept != identities:
            values = {"definition": kept.model_dump_json(), "content_hash": kept.content_hash}
            connection.execute(
                sa.update(IDENTITIES).where(version.version == row.version).values(values)
            )
            number += 1
    add_rows(connection, erasure_id, IDENTITIES.name, number)
    return number


def without_forgotten(identities: Identities, forgotten: Forgotten) -> Identities:
    """Return the identities without forgotten people."""
    kept = (each for each in identities.people if not forgotten.has_id(each.person_id))
    return Identities(people=tuple(kept))


def _erase_paths(connection: sa.Connection, forgotten: Forgotten) -> None:
    """Take the names of forgotten organizations out of the paths of files that are gone or empty.

    A file is known by its inode: a path that is wrong is corrected when it is read.
    """
    file = SOURCE_FILES.c
    for row in list(connection.execute(sa.select(file.file_id, file.path))):
        if forgotten.has_organization(organization_of(row.path)):
            is_file = sa.update(SOURCE_FILES).where(file.file_id == row.file_id)
            connection.execute(is_file.values(path=ERASED, changed_at_ns=None))


def _erase_errors(connection: sa.Connection, forgotten: Forgotten) -> None:
    """Take errors that name what was forgotten out of the rebuild queue."""
    date = TOUCHED_DATES.c
    for row in list(connection.execute(sa.select(date.session_date, date.last_error))):
        if names_forgotten(row.last_error or "", forgotten):
            is_date = sa.update(TOUCHED_DATES).where(date.session_date == row.session_date)
            connection.execute(is_date.values(last_error=ERASED))


_OF_DATE = (
    *(SESSION_SCORES, ANCHOR_SCORES, JUDGE_ANCHORS, OVERRIDES, AUDIT_SAMPLES, SERVICE_EVENTS),
    *(SESSION_INDEX, TOUCHED_DATES, WAITING_DATES, EXPIRED_DATES),
)
"""Tables whose rows go with their session date."""


def expire_parts(
    hold: Hold,
    old: Collection[Part],
    new: Sequence[NewPart],
    day: date,
    what: Expired | None,
    now: datetime,
) -> bool:
    """Replace parts of a date by others, and note that its texts or events have expired.

    Without ``what``, everything of the date goes, and its rows of the ledger with it.

    Returns:
        False if a part is no longer current; nothing changed.

    Raises:
        LockLostError: The lock of the date is lost; nothing changed.
    """
    with writing(hold.ledger.engine) as connection:
        hold.check(connection)
        ids = [each.part_id for each in old]
        update = sa.update(PARTS).where(_PART.part_id.in_(ids), _PART.superseded_at.is_(None))
        savepoint = connection.begin_nested()
        superseded = update.values(superseded_at=shared_time(connection, now))
        if connection.execute(superseded).rowcount != len(ids):
            savepoint.rollback()
            return False
        if new:
            connection.execute(
                sa.insert(PARTS), [asdict(each) | {"created_at": now} for each in new]
            )
        landed = [each for each in old if each.table_name == AGENT_EVENTS_LANDED.name]
        _count_erased(connection, day, sum(each.row_count for each in landed))
        if what is not None:
            _note(connection, day, what, now)
            _delete_texts(connection, day)
        else:
            for table in _OF_DATE:
                connection.execute(sa.delete(table).where(table.c.session_date == day))
        savepoint.commit()
    return True


def dates_judged_since(ledger: Ledger) -> set[date]:
    """Return dates whose texts expired while a judge was at work on them: it wrote new ones."""
    found: set[date] = set()
    with reading(ledger.engine) as connection:
        for table in (SESSION_SCORES, ANCHOR_SCORES):
            is_same = table.c.session_date == EXPIRED_DATES.c.session_date
            last = sa.func.max(table.c.completed_at_us)
            query = (
                sa.select(EXPIRED_DATES.c.session_date, EXPIRED_DATES.c.expired_at, last)
                .join(table, is_same)
                .group_by(EXPIRED_DATES.c.session_date, EXPIRED_DATES.c.expired_at)
            )
            for day, expired_at, last_us in connection.execute(query):
                if last_us is not None and last_us > to_us(expired_at):
                    found.add(day)
    return found


def _note(connection: sa.Connection, day: date, what: Expired, now: datetime) -> None:
    """Note what has expired, and take the date out of the rebuild queue."""
    insert = insert_into(connection, EXPIRED_DATES)
    # Events that are gone stay gone when texts that came later expire.
    kept = sa.case((EXPIRED_DATES.c.what == "events", "events"), else_=insert.excluded.what)
    connection.execute(
        insert.on_conflict_do_update(
            index_elements=[EXPIRED_DATES.c.session_date],
            set_={"what": kept, "expired_at": insert.excluded.expired_at},
        ),
        {"session_date": day, "what": what, "expired_at": now},
    )
    date_ = TOUCHED_DATES.c
    values: dict[str, Any] = {
        "built_version": date_.version,
        "attempts": 0,
        "last_error": None,
        "next_attempt_at": None,
        "parked": False,
    }
    connection.execute(sa.update(TOUCHED_DATES).where(date_.session_date == day).values(values))
    connection.execute(sa.delete(WAITING_DATES).where(WAITING_DATES.c.session_date == day))


def _delete_texts(connection: sa.Connection, day: date) -> None:
    """Delete what judges wrote about sessions of a date; tokens, costs and points stay."""
    for table in (SESSION_SCORES, ANCHOR_SCORES):
        of_day = table.c.session_date == day
        analyses = {"score_analysis": None, "missing_tools_analysis": None}
        connection.execute(sa.update(table).where(of_day).values(analyses))
        query = sa.select(table.c.score_id, table.c.turn_log).where(of_day)
        for row in list(connection.execute(query)):
            turns = [{**turn, "text": ""} for turn in row.turn_log]
            if json.dumps(turns) != json.dumps(row.turn_log):
                is_row = sa.update(table).where(table.c.score_id == row.score_id)
                connection.execute(is_row.values(turn_log=turns))
