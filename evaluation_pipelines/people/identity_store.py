"""Ledger storage of the identities."""

from collections.abc import Collection
from datetime import date, datetime

import sqlalchemy as sa

from evaluation_pipelines.people.domain.identities import Identities
from evaluation_pipelines.storage.ledger.engine import reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.rebuild_queue import touch
from evaluation_pipelines.storage.ledger.tables.people import IDENTITIES

_VERSION = IDENTITIES.c


class IdentityStore:
    """Operations on ``identities``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine
        self._as_of = ledger.as_of

    def current(self) -> Identities:
        """Return the identities, as of the ledger's time if it has one; no people if none."""
        return self.registered() or Identities()

    def registered(self) -> Identities | None:
        """Return the identities as ``current`` does; None if none were ever registered."""
        query = sa.select(_VERSION.definition).order_by(_VERSION.version.desc()).limit(1)
        if self._as_of is not None:
            query = query.where(_VERSION.registered_at <= self._as_of)
        with reading(self._engine) as connection:
            definition = connection.scalar(query)
        return None if definition is None else Identities.model_validate_json(definition)

    def register(self, identities: Identities, dates: Collection[date], now: datetime) -> None:
        """Store a new version, and queue the dates whose sessions it changes."""
        row = {
            "content_hash": identities.content_hash,
            "definition": identities.model_dump_json(),
            "registered_at": now,
        }
        with writing(self._engine) as connection:
            connection.execute(sa.insert(IDENTITIES).values(row))
            touch(connection, dates, now)
