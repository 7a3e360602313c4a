"""What the ledger has of sessions and people, erased or expired; and the record of erasures."""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import sqlalchemy as sa

from evaluation_pipelines.people.domain.identities import Identities
from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.rebuild_queue import Expired
from evaluation_pipelines.storage.ledger.tables.evaluations import (
    EVALUATION_DATES,
    EVALUATION_OUTBOX,
    EVALUATION_REFUSALS,
)
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
    LATE_OUTCOMES,
    RETRACTIONS,
    SERVICE_EVENTS,
    SUBMITTED_EVALUATIONS,
)
from evaluation_pipelines.storage.ledger.tables.telemetry import (
    ERASED_EVENTS,
    ERASED_ROWS,
    ERASURES,
    EXPIRED_DATES,
    SESSION_INDEX,
    SOURCE_FILES,
    TOUCHED_DATES,
)
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.storage.received_files import organization_of
from evaluation_pipelines.telemetry.domain.forgotten import Forgotten
from evaluation_pipelines.telemetry.domain.organizations import ANY_ORGANIZATION
from evaluation_pipelines.telemetry.ledger.forgotten_store import add_forgotten
from evaluation_pipelines.times import to_us

ERASED = "erased"
"""What stands in place of a name or text that is part of a row that stays."""


@dataclass(frozen=True, slots=True)
class _Store:
    """A table with something of sessions or people.

    Attributes:
        table: The table. If it has a ``session_date``, its rows expire with their date.
        session: Column of the session id or key: rows of forgotten sessions are deleted.
        words: Texts: rows are deleted that name what was forgotten in one of them.
        names: Texts and names of people who acted: replaced if they name what was forgotten.
        judged: True if its texts of a judge expire with those of the session.
    """

    table: sa.Table
    session: str | None = None
    words: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    judged: bool = False


_STORES = (
    _Store(SESSION_SCORES, "session_id", names=("score_triggered_by",), judged=True),
    _Store(ANCHOR_SCORES, "session_id", names=("score_triggered_by",), judged=True),
    _Store(JUDGE_ANCHORS, "session_id"),
    _Store(LATE_OUTCOMES, "session_id", words=("reference",)),
    _Store(SESSION_INDEX, "session_id"),
    _Store(OVERRIDES, "session_key", names=("annotator", "recorded_by", "reason")),
    _Store(AUDIT_SAMPLES, "session_key", names=("classification_label", "model")),
    _Store(AUDIT_STEPS, "session_key", names=("annotator",)),
    _Store(SERVICE_EVENTS, "session_key", words=("error_message", "payload")),
    _Store(EVALUATION_OUTBOX, "session_key"),
    _Store(EVALUATION_REFUSALS, "session_key", names=("reason",)),
    _Store(EVALUATION_DATES),
    _Store(ALERTS, words=("cause", "title", "text")),
    _Store(
        SUBMITTED_EVALUATIONS,
        words=("organization_id", "evaluation_id", "agent_id", "model", "source"),
    ),
    _Store(RETRACTIONS, words=("owner",)),
    _Store(TOUCHED_DATES, names=("last_error",)),
    _Store(WAITING_DATES),
)


def erase_ledger_rows(hold: Hold, forgotten: Forgotten, erasure_id: int) -> None:
    """Delete all rows about what was forgotten in one transaction.

    Texts that name what was forgotten, in rows that stay, are replaced.

    Raises:
        LockLostError: The lock of the erasure is lost; nothing changed.
    """

    def of_session(organization: str, session: str | None) -> bool:
        sent = None if organization == ANY_ORGANIZATION else organization
        return session is not None and forgotten.has_session(sent, session)

    def of_key(organization: str, key: str | None) -> bool:
        return key is not None and of_session(organization, key.rpartition("#")[0])

    def named(*texts: str | None) -> bool:
        return any(text is not None and forgotten.is_named_in(text) for text in texts)

    with writing(hold.ledger.engine) as connection:
        hold.check(connection)
        for store in _STORES:
            table, number = store.table, 0
            if store.session is not None:
                is_gone = of_session if store.session == "session_id" else of_key
                number += _change(connection, table, ("organization_id", store.session), is_gone)
            if store.words:
                number += _change(connection, table, store.words, named)
            for name in store.names:
                number += _change(connection, table, (name,), named, lambda _, n=name: {n: ERASED})
            add_rows(connection, erasure_id, table.name, number)
        # A file is known by its inode: a path that is wrong is corrected when it is read.
        _change(
            connection,
            SOURCE_FILES,
            ("path",),
            lambda path: forgotten.has_organization(organization_of(path)),
            lambda _: {"path": ERASED, "changed_at_ns": None},
        )
        versions = _change(
            connection,
            IDENTITIES,
            ("definition",),
            lambda text: _without(text, forgotten) is not None,
            lambda text: _without(text, forgotten),
        )
        add_rows(connection, erasure_id, IDENTITIES.name, versions)


def _change(
    connection: sa.Connection,
    table: sa.Table,
    columns: Collection[str],
    is_gone: Callable[..., bool],
    values: Callable[..., Any] | None = None,
) -> int:
    """Delete the rows whose columns are of what was forgotten, or give them other values."""
    named, keys = [table.c[name] for name in columns], list(table.primary_key)
    distinct = connection.execute(sa.select(*named).distinct())
    gone = {tuple(row) for row in distinct if is_gone(*row)}
    if not gone:
        return 0
    rows = connection.execute(sa.select(*named, *keys)).all()
    found = [
        {f"key_{key.name}": value for key, value in zip(keys, row[len(named) :], strict=True)}
        | ({} if values is None else values(*row[: len(named)]))
        for row in rows
        if tuple(row[: len(named)]) in gone
    ]
    change = sa.delete(table) if values is None else sa.update(table)
    # By key: any other column would be looked for in the whole table, once for each row.
    connection.execute(
        change.where(*(key == sa.bindparam(f"key_{key.name}") for key in keys)), found
    )
    return len(found)


def _without(definition: str, forgotten: Forgotten) -> dict[str, str] | None:
    """Return a version of the identities without forgotten people; None if it has none."""
    people = Identities.model_validate_json(definition).people
    kept = Identities(
        people=tuple(person for person in people if not forgotten.has_id(person.person_id))
    )
    if len(kept.people) == len(people):
        return None
    return {"definition": kept.model_dump_json(), "content_hash": kept.content_hash}


def expire_ledger_rows(
    connection: sa.Connection, day: date, what: Expired | None, now: datetime
) -> None:
    """Note that texts or events of a date have expired, within the caller's transaction.

    The date leaves the rebuild queue, and what judges wrote about its sessions goes; tokens, costs
    and points stay. Without ``what``, all rows of the date go, and its events do not come back.
    """
    insert = insert_into(connection, EXPIRED_DATES)
    # Events that are gone stay gone when texts that came later expire.
    kept = sa.case((EXPIRED_DATES.c.what == "events", "events"), else_=insert.excluded.what)
    connection.execute(
        insert.on_conflict_do_update(
            index_elements=[EXPIRED_DATES.c.session_date],
            set_={"what": kept, "expired_at": insert.excluded.expired_at},
        ),
        {"session_date": day, "what": what or "events", "expired_at": now},
    )
    if what is None:
        ids = sa.select(SESSION_INDEX.c.session_id).where(SESSION_INDEX.c.session_date == day)
        late = sa.delete(LATE_OUTCOMES).where(LATE_OUTCOMES.c.session_id.in_(ids))
        connection.execute(late)
        for store in _STORES:
            if "session_date" in store.table.c:
                connection.execute(sa.delete(store.table).where(store.table.c.session_date == day))
        return
    queued = TOUCHED_DATES.c
    fresh = {"attempts": 0, "last_error": None, "next_attempt_at": None, "parked": False}
    update = sa.update(TOUCHED_DATES).where(queued.session_date == day)
    connection.execute(update.values(built_version=queued.version, **fresh))
    connection.execute(sa.delete(WAITING_DATES).where(WAITING_DATES.c.session_date == day))
    for table in (store.table for store in _STORES if store.judged):
        of_day = table.c.session_date == day
        analyses = {"score_analysis": None, "missing_tools_analysis": None}
        connection.execute(sa.update(table).where(of_day).values(analyses))
        query = sa.select(table.c.score_id, table.c.turn_log).where(of_day)
        for row in connection.execute(query).all():
            turns = [{**turn, "text": ""} for turn in row.turn_log]
            if json.dumps(turns) != json.dumps(row.turn_log):
                is_row = table.c.score_id == row.score_id
                connection.execute(sa.update(table).where(is_row).values(turn_log=turns))


def dates_judged_since(ledger: Ledger) -> set[date]:
    """Return dates whose texts expired while a judge was at work on them: it wrote new ones."""
    found: set[date] = set()
    with reading(ledger.engine) as connection:
        for table in (store.table for store in _STORES if store.judged):
            is_same = table.c.session_date == EXPIRED_DATES.c.session_date
            columns = EXPIRED_DATES.c.session_date, EXPIRED_DATES.c.expired_at
            last = sa.func.max(table.c.completed_at_us)
            query = sa.select(*columns, last).join(table, is_same).group_by(*columns)
            found |= {
                day
                for day, expired_at, last_us in connection.execute(query)
                if last_us is not None and last_us > to_us(expired_at)
            }
    return found


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
            insert = sa.insert(ERASURES).values(row).returning(ERASURES.c.erasure_id)
            erasure_id: int = connection.execute(insert).scalar_one()
            add_forgotten(connection, hashes, erasure_id)
            return erasure_id

    def complete(self, now: datetime) -> None:
        """Record that nothing is left of all that was forgotten so far."""
        update = sa.update(ERASURES).where(ERASURES.c.completed_at.is_(None))
        with writing(self._engine) as connection:
            connection.execute(update.values(completed_at=now))

    def all(self) -> list[Erasure]:
        """Return all erasures, the oldest first."""
        rows: dict[int, dict[str, int]] = {}
        with reading(self._engine) as connection:
            for row in connection.execute(sa.select(ERASED_ROWS).order_by(ERASED_ROWS.c.store)):
                rows.setdefault(row.erasure_id, {})[row.store] = row.row_count
            found = connection.execute(sa.select(ERASURES).order_by(ERASURES.c.erasure_id))
            return [
                Erasure(**row, rows=rows.get(row["erasure_id"], {})) for row in found.mappings()
            ]


def add_rows(connection: sa.Connection, erasure_id: int, store: str, number: int) -> None:
    """Count rows that are taken out of a store, within the caller's transaction."""
    key = {"erasure_id": erasure_id, "store": store}
    _add(connection, ERASED_ROWS, key, "row_count", number)


def count_erased(connection: sa.Connection, day: date | None, number: int) -> None:
    """Count landed events that go, for the books, within the caller's transaction."""
    _add(connection, ERASED_EVENTS, {"session_date": day}, "events", number)


def _add(
    connection: sa.Connection, table: sa.Table, key: Mapping[str, Any], column: str, number: int
) -> None:
    if number:
        insert = insert_into(connection, table)
        total = table.c[column] + insert.excluded[column]
        update = insert.on_conflict_do_update(index_elements=list(key), set_={column: total})
        connection.execute(update, {**key, column: number})
