"""Who asks the service for something, and what roles may do."""

from dataclasses import dataclass, field
from enum import StrEnum


class Role(StrEnum):
    """What a key is for."""

    INGEST = "ingest"
    READER = "reader"
    REVIEWER = "reviewer"
    OPERATOR = "operator"

    def includes(self, needed: "Role") -> bool:
        """Return True if whoever has this role may do what ``needed`` is for."""
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
    Role.READER: "read figures, no texts",
    Role.REVIEWER: "read figures and texts, override scores",
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
