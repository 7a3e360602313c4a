"""Rows of the ledger and the manifest of dates of which something has expired."""

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict
from datetime import date, datetime
from typing import Any

import sqlalchemy as sa

from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED
from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger, shared_time
from evaluation_pipelines.storage.ledger.rebuild_queue import Expired
from evaluation_pipelines.storage.ledger.tables.judging import (
    ANCHOR_SCORES,
    AUDIT_SAMPLES,
    JUDGE_ANCHORS,
    OVERRIDES,
    SESSION_SCORES,
    WAITING_DATES,
)
from evaluation_pipelines.storage.ledger.tables.people import SERVICE_EVENTS
from evaluation_pipelines.storage.ledger.tables.telemetry import (
    ERASED_EVENTS,
    EXPIRED_DATES,
    PARTS,
    SESSION_INDEX,
    TOUCHED_DATES,
)
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.storage.parts import NewPart, Part
from evaluation_pipelines.times import to_us

_PART = PARTS.c
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
        _count_events(connection, old, day)
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


def _count_events(connection: sa.Connection, old: Collection[Part], day: date) -> None:
    """Count landed events that go, for the books."""
    landed = (each for each in old if each.table_name == AGENT_EVENTS_LANDED.name)
    if number := sum(each.row_count for each in landed):
        insert = insert_into(connection, ERASED_EVENTS)
        events = ERASED_EVENTS.c.events + insert.excluded.events
        connection.execute(
            insert.on_conflict_do_update(
                index_elements=[ERASED_EVENTS.c.session_date], set_={"events": events}
            ),
            {"session_date": day, "events": number},
        )


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
