"""Keys in the ledger, and the ones that a service knows."""

import secrets
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from evaluation_pipelines.access.domain.keys import (
    SECRET_BYTES,
    AccessKey,
    Caller,
    Role,
    check_key,
    find_key,
    key_text,
    secret_hash,
)
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


REFRESH_SECONDS = 1.0
"""How long a revoked key may still be accepted."""


def create_key(
    ledger: Ledger,
    name: str,
    role: Role,
    organization: str | None,
    *,
    expires_at: datetime | None = None,
    now: datetime,
) -> str:
    """Store a new key and return its text, which is kept nowhere.

    Raises:
        KeyNameError: name or organization cannot be used.
        KeyTakenError: a key in use has the name.
    """
    check_key(name, organization)
    key_id = secrets.token_hex(6)
    text = key_text(key_id, secrets.token_bytes(SECRET_BYTES))
    key = AccessKey(key_id, name, organization, role, secret_hash(text), now, expires_at)
    KeyStore(ledger).add(key)
    return text


class KeyRing:
    """The keys of a ledger, read again when they are older than a second.

    Threads may share one. ``clock`` returns the time, ``monotonic`` seconds that only grow.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = KeyStore(ledger)
        self._clock, self._monotonic = clock, monotonic
        self._keys: dict[str, AccessKey] = {}
        self._read_at: float | None = None

    @property
    def is_current(self) -> bool:
        """True if a question can be answered without asking the ledger."""
        return self._read_at is not None and self._monotonic() - self._read_at < REFRESH_SECONDS

    def refresh(self) -> None:
        """Read the keys if they are not current.

        Raises:
            LedgerError: the ledger cannot be used.
        """
        if not self.is_current:
            read_at = self._monotonic()
            self._keys = {key.key_id: key for key in self._store.all()}
            self._read_at = read_at

    def has_keys(self) -> bool:
        """Return True if there ever was a key."""
        self.refresh()
        return bool(self._keys)

    def has_valid_keys(self) -> bool:
        """Return True if there is a key that is accepted now."""
        self.refresh()
        return any(key.is_valid(self._clock()) for key in self._keys.values())

    def caller(self, text: str) -> Caller | None:
        """Return who holds a key; None if it is not accepted."""
        self.refresh()
        key = find_key(text, self._keys, self._clock())
        return None if key is None else key.caller
