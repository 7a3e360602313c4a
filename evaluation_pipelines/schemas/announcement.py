"""Events about effective scores of sessions."""

from dataclasses import dataclass
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
