"""Keys of the service, groups of a proxy, and what a caller may do."""

import base64
import hashlib
import hmac
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from evaluation_pipelines.errors import UserError


class Role(StrEnum):
    """What a key is for."""

    INGEST = "ingest"
    READER = "reader"
    REVIEWER = "reviewer"
    OPERATOR = "operator"

    def includes(self, needed: "Role") -> bool:
        """Return True if this role includes the rights of ``needed``."""
        return needed in _INCLUDED[self]


_INCLUDED = {
    # The key of an agent lies on every machine that runs one: it can write, and read nothing.
    Role.INGEST: frozenset({Role.INGEST}),
    Role.READER: frozenset({Role.READER}),
    Role.REVIEWER: frozenset({Role.READER, Role.REVIEWER}),
    Role.OPERATOR: frozenset(Role),
}

ROLE_MEANINGS = {
    Role.INGEST: "write telemetry and evaluations",
    Role.READER: "read numbers, no text",
    Role.REVIEWER: "read numbers and text, override scores",
    Role.OPERATOR: "everything: also score sessions, set profiles",
}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks.

    Attributes:
        name: The name of the key, or of a person behind a proxy.
        organization: Only its sessions exist for the caller; ``None``: all.
        role: What the caller may do.
        key_id: Whose limits count; empty without a key.
    """

    name: str
    organization: str | None
    role: Role
    key_id: str = field(default="", compare=False)

    def sees(self, organization: str | None) -> bool:
        """Return True if the caller may see what belongs to ``organization``."""
        return self.organization is None or self.organization == organization


LOCAL_CALLER = Caller("local", None, Role.OPERATOR)
"""A program on this machine while there are no keys."""


class GroupError(UserError, ValueError):
    """The meaning of a group cannot be read."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The role of a group, and its organization; ``None`` for that of the proxy's key."""

    group: str
    role: Role
    organization: str | None


def parse_grants(texts: Iterable[str]) -> tuple[Grant, ...]:
    """Return grants, written ``group=role`` or ``group=role@organization``.

    Raises:
        GroupError: a text has another form, or there is no such role.
    """
    return tuple(map(_parse, texts))


def _parse(text: str) -> Grant:
    group, _, meaning = text.partition("=")
    role, at, organization = meaning.partition("@")
    if not group or role not in set(Role) or (at and not organization):
        raise GroupError(
            f"{text!r} in EVAL_FORWARDED_GROUPS is not GROUP=ROLE or GROUP=ROLE@ORGANIZATION. "
            f"Roles are {', '.join(Role)}"
        )
    return Grant(group, Role(role), organization or None)


def narrowed(caller: Caller, grants: Sequence[Grant], groups: Collection[str]) -> Caller | None:
    """Return a caller as the first grant of one of its groups allows, ``None`` without any.

    A grant takes away from the role and organizations of the caller's key, and adds nothing.
    """
    grant = next((row for row in grants if row.group in groups), None)
    if grant is None or not caller.role.includes(grant.role):
        return None
    if grant.organization is None:
        return replace(caller, role=grant.role)
    if not caller.sees(grant.organization):
        return None
    return replace(caller, role=grant.role, organization=grant.organization)


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
        """The holder of the key."""
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
            f"the organization has {size} bytes in UTF-8, {_MAX_ORGANIZATION_BYTES} are allowed"
        )
