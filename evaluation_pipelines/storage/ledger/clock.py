"""The clock that all processes of a ledger share."""

from datetime import UTC, datetime

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.engine import reading
from evaluation_pipelines.storage.ledger.ledger import Ledger

_SERVER_TIME = sa.select(sa.func.clock_timestamp(type_=sa.DateTime(timezone=True)))


def shared_time(connection: sa.Connection, now: datetime) -> datetime:
    """Return the time of the database server, or ``now`` for SQLite, which one machine uses."""
    if connection.dialect.name != "postgresql":
        return now
    found: datetime = connection.execute(_SERVER_TIME).scalar_one()
    return found.astimezone(UTC)


def ledger_time(ledger: Ledger, now: datetime | None = None) -> datetime:
    """Return the time of the ledger; with SQLite ``now``, by default that of this machine."""
    now = datetime.now(UTC) if now is None else now
    if ledger.engine.dialect.name != "postgresql":
        return now
    with reading(ledger.engine) as connection:
        return shared_time(connection, now)
