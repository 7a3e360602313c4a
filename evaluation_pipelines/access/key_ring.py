"""The keys of an installation: make one, and find out who sends one."""

import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime

from evaluation_pipelines.access.domain.caller import Caller, Role
from evaluation_pipelines.access.domain.keys import (
    SECRET_BYTES,
    AccessKey,
    check_key,
    find_key,
    key_text,
    secret_hash,
)
from evaluation_pipelines.access.ledger.key_store import KeyStore
from evaluation_pipelines.storage.ledger.ledger import Ledger

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
