"""Ledger storage of the identities."""

from collections.abc import Collection
from datetime import date, datetime

import sqlalchemy as sa

from evaluation_pipelines.people.domain.identities import NO_IDENTITIES, Identities
from evaluation_pipelines.storage.ledger.engine import reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.rebuild_queue import outdate_begun, touch
from evaluation_pipelines.storage.ledger.tables.people import IDENTITIES

_VERSION = IDENTITIES.c


class IdentityStore:
    """Operations on ``identities``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine
        self._as_of = ledger.as_of

    def current(self) -> Identities:
        """Return the identities, as of the ledger's time if it has one; no people if none."""
        return self.registered() or NO_IDENTITIES

    def registered(self) -> Identities | None:
        """Return the identities as ``current`` does; None if none were ever registered."""
        with reading(self._engine) as connection:
            return _stored(connection, self._as_of)

    def register(self, identities: Identities, dates: Collection[date], now: datetime) -> None:
        """Store a new version, and queue the dates whose sessions it changes.

        A build that has begun reads the people of before: its dates stay due.
        """
        row = {
            "content_hash": identities.content_hash,
            "definition": identities.model_dump_json(),
            "registered_at": now,
        }
        with writing(self._engine) as connection:
            is_other = (_stored(connection) or NO_IDENTITIES) != identities
            connection.execute(sa.insert(IDENTITIES).values(row))
            if is_other:
                outdate_begun(connection)
            touch(connection, dates, now)


def _stored(connection: sa.Connection, as_of: datetime | None = None) -> Identities | None:
    query = sa.select(_VERSION.definition).order_by(_VERSION.version.desc()).limit(1)
    if as_of is not None:
        query = query.where(_VERSION.registered_at <= as_of)
    definition = connection.scalar(query)
    return None if definition is None else Identities.model_validate_json(definition)
