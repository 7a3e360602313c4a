"""Parts of the manifest that are replaced by parts without some of their rows."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime

import sqlalchemy as sa

from evaluation_pipelines.erasure.ledger.erasures import add_rows
from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED
from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.errors import PartsNotCurrentError
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.rebuild_queue import touch
from evaluation_pipelines.storage.ledger.tables.telemetry import ERASED_EVENTS, PART_ORIGINS, PARTS
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.storage.parts import NewPart, Part, PartOrigin

_PART = PARTS.c
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
            _count_erased(connection, old, number)
        add_rows(connection, erasure_id, old.table_name, number)


def _count_erased(connection: sa.Connection, part: Part, number: int) -> None:
    insert = insert_into(connection, ERASED_EVENTS)
    row = {"session_date": part.session_date, "events": number}
    events = ERASED_EVENTS.c.events + insert.excluded.events
    connection.execute(
        insert.on_conflict_do_update(
            index_elements=[ERASED_EVENTS.c.session_date], set_={"events": events}
        ),
        row,
    )


def superseded_parts(ledger: Ledger) -> list[tuple[int, str]]:
    """Return id and path of all parts that are not current."""
    query = sa.select(_PART.part_id, _PART.path).where(_PART.superseded_at.is_not(None))
    with reading(ledger.engine) as connection:
        return [(row.part_id, row.path) for row in connection.execute(query)]
