"""Who is scored over time, and under which ids: always the same id for the same thing."""

from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

_NAMESPACE = UUID("6d1c2a52-9c0e-5a55-8f57-5f6b7a0f2c11")
"""Any fixed value; a change of it would count everything that was ever loaded a second time."""


def identity_id(organization_id: str, agent_id: str) -> UUID:
    """The identity of an agent of an organization."""
    return _derived("identity", organization_id, agent_id)


def session_event_id(organization_id: str, session_key: str) -> UUID:
    """The one signal about a session, whatever it scores and however often it is scored."""
    return _derived("session", organization_id, session_key)


def signal_event_id(*about: str) -> UUID:
    """The signal that an outside source described by these values without giving it an id."""
    return _derived("signal", *about)


def unknown_identity(identity: str, as_of: datetime) -> dict[str, Any]:
    """The record (REPUTATION_SCORES) of an identity without any signal: zeros, not an error."""
    return {
        "identity_id": identity,
        "computed_at": as_of,
        "overall_score": 0.0,
        "task_quality_score": 0.0,
        "economic_score": 0.0,
        "identity_hygiene_score": 0.0,
        "total_events": 0,
        "positive_events": 0,
        "negative_events": 0,
        "confidence": 0.0,
        "score_7d_ago": None,
        "score_30d_ago": None,
        "overall_observed": None,
        "categories_observed": [],
        "weighted_overall": 0.0,
    }


def _derived(kind: str, *parts: str) -> UUID:
    # Lengths keep ("a", "bc") and ("ab", "c") apart.
    return uuid5(_NAMESPACE, "".join(f"{len(part)}:{part}" for part in (kind, *parts)))
