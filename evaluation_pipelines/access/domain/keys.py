"""Keys of the service: their form, what is kept of them, and when one is valid.

A key is ``ep_<id>_<secret>``: the id finds the row of the ledger, which holds a SHA-256 of the
secret. The secret is 256 random bits, so that a slow hash would add nothing.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from evaluation_pipelines.access.domain.caller import Caller, Role
from evaluation_pipelines.errors import UserError

SECRET_BYTES = 32
_KEY = re.compile(r"ep_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_MAX_ORGANIZATION_BYTES = 80
"""In UTF-8; percent-encoded it is the name of a folder."""

_NO_SECRET = hashlib.sha256(b"").hexdigest()


class KeyNameError(UserError, ValueError):
    """A name or organization that a key cannot have."""


@dataclass(frozen=True, slots=True)
class AccessKey:
    """What the ledger keeps of a key. Times are in UTC."""

    key_id: str
    name: str
    organization: str | None
    role: Role
    secret_sha256: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    def is_valid(self, now: datetime) -> bool:
        """Return True if the key is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    @property
    def caller(self) -> Caller:
        """Whoever holds the key."""
        return Caller(self.name, self.organization, self.role, self.key_id)


def key_text(key_id: str, secret: bytes) -> str:
    """Return the key as its holder sends it."""
    return f"ep_{key_id}_{base64.urlsafe_b64encode(secret).decode().rstrip('=')}"


def secret_hash(text: str) -> str:
    """Return what is kept of a key's text: the SHA-256 of all of it, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def find_key(text: str, keys: Mapping[str, AccessKey], now: datetime) -> AccessKey | None:
    """Return the valid key that ``text`` is, by id; None if it is none of ``keys``.

    The time it takes does not depend on how much of the secret is right.
    """
    match = _KEY.fullmatch(text)
    key = keys.get(match.group(1)) if match else None
    is_right = hmac.compare_digest(secret_hash(text), key.secret_sha256 if key else _NO_SECRET)
    return key if key is not None and is_right and key.is_valid(now) else None


def has_key(text: str) -> bool:
    """Return True if there is a text in the form of a key anywhere in ``text``."""
    return _KEY.search(text) is not None


def check_key(name: str, organization: str | None) -> None:
    """Check the name and organization of a new key.

    Raises:
        KeyNameError: one of them cannot be used.
    """
    if not _NAME.fullmatch(name):
        raise KeyNameError(
            f"{name!r} cannot be the name of a key: 1 to 64 letters, digits, dots, hyphens, "
            "underscores and @, the first one a letter or digit"
        )
    if organization is None:
        return
    if not organization.strip() or not organization.isprintable():
        raise KeyNameError(f"{organization!r} cannot be an organization: it must be printable text")
    if (size := len(organization.encode())) > _MAX_ORGANIZATION_BYTES:
        raise KeyNameError(
            f"the organization has {size} bytes in UTF-8; {_MAX_ORGANIZATION_BYTES} are allowed"
        )
