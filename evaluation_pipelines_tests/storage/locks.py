"""Locks as a test loses them."""

import uuid

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.engine import writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.telemetry import HOLDERS


def lose_lock(ledger: Ledger, name: str) -> None:
    """Let another process have taken a lock, as after a cut connection."""
    update = sa.update(HOLDERS).where(HOLDERS.c.name == name)
    with writing(ledger.engine) as connection:
        connection.execute(update.values(holder_id=uuid.uuid4().hex))


def cut_holders(url: str) -> int:
    """End the connections to PostgreSQL that hold locks; return how many there were."""
    engine = sa.create_engine(url)
    ended = sa.text(
        "SELECT count(pg_terminate_backend(pid, 5000)) FROM (SELECT DISTINCT pid FROM pg_locks"
        " WHERE locktype = 'advisory' AND database ="
        " (SELECT oid FROM pg_database WHERE datname = current_database())) AS holders"
    )
    with engine.begin() as connection:
        number: int = connection.scalar(ended)
    engine.dispose()
    return number
