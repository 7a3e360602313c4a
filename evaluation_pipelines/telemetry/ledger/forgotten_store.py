"""Ledger storage of the keyed hashes of what was forgotten."""

from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.engine import (
    chunks,
    insert_into,
    lock_for_forgotten,
    reading,
)
from evaluation_pipelines.storage.ledger.errors import LedgerError
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.telemetry import ERASURES, FORGOTTEN
from evaluation_pipelines.storage.store import SecretKeyError, read_key
from evaluation_pipelines.telemetry.domain.forgotten import Forgotten


class ForgottenMeanwhileError(LedgerError):
    """Something was forgotten after the events of the batch were looked at."""


_NOTHING = Forgotten()
_VERSION = sa.select(
    sa.select(sa.func.count()).select_from(FORGOTTEN).scalar_subquery()
    + sa.select(sa.func.count()).select_from(ERASURES).scalar_subquery()
)
"""Grows with each erasure, and with each session that is found to belong to one."""


def read_forgotten(ledger: Ledger, key_path: Path, known: Forgotten = _NOTHING) -> Forgotten:
    """Return what was forgotten; ``known`` if it is still that.

    Raises:
        SecretKeyError: Something was forgotten and its key is missing: it would come back.
    """
    query = sa.select(FORGOTTEN.c.hash, FORGOTTEN.c.until)
    with reading(ledger.engine) as connection:
        version = connection.execute(_VERSION).scalar_one()
        if version == known.version:
            return known
        hashes = {row.hash: row.until for row in connection.execute(query)}
    key = read_key(key_path)
    if key is None:
        raise SecretKeyError(
            f"{key_path}, the key of erased data, is missing. Without it, erased data would "
            "be read again. Restore the file from a backup, or set EVAL_FORGOTTEN_KEY_PATH."
        )
    return Forgotten(key, hashes, version)


def check_forgotten(connection: sa.Connection, version: int) -> None:
    """Check within the caller's transaction that nothing was forgotten since ``version``.

    Raises:
        ForgottenMeanwhileError: It was; events must be looked at again.
    """
    lock_for_forgotten(connection)
    if connection.execute(_VERSION).scalar_one() != version:
        raise ForgottenMeanwhileError(
            "Something was forgotten since the events were read: nothing was stored. Read what was "
            "forgotten again, and leave it out."
        )


def add_forgotten(
    connection: sa.Connection,
    hashes: Mapping[str, datetime | None],
    erasure_id: int,
) -> None:
    """Add hashes within the caller's transaction; of known ones the later time counts."""
    lock_for_forgotten(connection)
    insert = insert_into(connection, FORGOTTEN)
    new = insert.excluded
    later = sa.case(
        (sa.or_(FORGOTTEN.c.until.is_(None), new.until.is_(None)), None),
        (FORGOTTEN.c.until > new.until, FORGOTTEN.c.until),
        else_=new.until,
    )
    update = insert.on_conflict_do_update(index_elements=[FORGOTTEN.c.hash], set_={"until": later})
    rows = [
        {"hash": hashed, "until": until, "erasure_id": erasure_id}
        for hashed, until in sorted(hashes.items())
    ]
    for chunk in chunks(rows):
        connection.execute(update, chunk)


def follow_forgotten(connection: sa.Connection, sessions: Collection[str]) -> None:
    """Add hashes of sessions that are forgotten because of their people, to the last erasure."""
    if sessions:
        newest = connection.scalar(sa.select(sa.func.max(FORGOTTEN.c.erasure_id)))
        add_forgotten(connection, dict.fromkeys(sessions), newest)
