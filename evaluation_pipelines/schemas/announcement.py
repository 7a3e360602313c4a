"""Events about effective scores of sessions."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import msgspec


@dataclass(frozen=True, slots=True)
class Announcement:
    """An event about the effective score of a session; ``payload`` is JSON text."""

    event_id: str
    kind: str
    session_date: date
    organization_id: str
    session_key: str
    agent_id: str | None
    effective_100: float
    payload: str

    def payload_values(self) -> dict[str, Any]:
        """Decode the payload."""
        values: dict[str, Any] = msgspec.json.decode(self.payload)
        return values


MAX_SHOWN = 50
"""A partition with more events only counts them: each would take memory, and time to show."""


@dataclass(frozen=True, slots=True)
class Announced:
    """Events that were recorded for the first time.

    ``events`` are the first of them, in their order; ``counts`` is the number of all, by kind.
    """

    events: tuple[Announcement, ...] = ()
    counts: Counter[str] = field(default_factory=Counter)
