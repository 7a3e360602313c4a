"""Ledger storage of the keys of the service."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from evaluation_pipelines.access.domain.caller import Role
from evaluation_pipelines.access.domain.keys import AccessKey
from evaluation_pipelines.errors import UserError
from evaluation_pipelines.storage.ledger.engine import reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.people import ACCESS_KEYS

_KEY = ACCESS_KEYS.c


class KeyTakenError(UserError):
    """A key in use has the name already."""


class NoSuchKeyError(UserError):
    """No key in use has the name."""


class KeyStore:
    """Operations on ``access_keys``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def all(self) -> list[AccessKey]:
        """Return all keys, also revoked and expired ones, in the order of their making."""
        query = sa.select(ACCESS_KEYS).order_by(_KEY.created_at, _KEY.key_id)
        with reading(self._engine) as connection:
            return [_key(row) for row in connection.execute(query).mappings()]

    def add(self, key: AccessKey) -> None:
        """Store a new key.

        Raises:
            KeyTakenError: a key that was not revoked has its name.
        """
        row = {column.name: getattr(key, column.name) for column in ACCESS_KEYS.columns}
        with writing(self._engine) as connection:
            if connection.scalar(sa.select(_KEY.key_id).where(_in_use(key.name))):
                raise KeyTakenError(
                    f"There is a key {key.name} already. Revoke it first "
                    f"(evaluation-pipelines keys revoke {key.name}), or choose another name."
                )
            connection.execute(sa.insert(ACCESS_KEYS).values({**row, "role": key.role.value}))

    def revoke(self, name: str, now: datetime) -> None:
        """Revoke the key in use that has a name.

        Raises:
            NoSuchKeyError: there is none.
        """
        statement = sa.update(ACCESS_KEYS).where(_in_use(name)).values(revoked_at=now)
        with writing(self._engine) as connection:
            if connection.execute(statement).rowcount == 0:
                raise NoSuchKeyError(
                    f"No key in use has the name {name}: see evaluation-pipelines keys list."
                )


def _in_use(name: str) -> sa.ColumnElement[bool]:
    return (_KEY.name == name) & _KEY.revoked_at.is_(None)


def _key(row: Mapping[Any, Any]) -> AccessKey:
    return AccessKey(**{**row, "role": Role(row["role"])})
