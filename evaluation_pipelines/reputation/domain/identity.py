"""Stable ids of identities and signals."""

from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

_NAMESPACE = UUID("6d1c2a52-9c0e-5a55-8f57-5f6b7a0f2c11")
"""Any fixed value; changing it would count everything that was ever loaded again."""


def identity_id(organization_id: str, agent_id: str) -> UUID:
    """Return the identity of an agent of an organization."""
    return _derived("identity", organization_id, agent_id)


def session_event_id(organization_id: str, session_key: str) -> UUID:
    """Return the id of the one signal about a session."""
    return _derived("session", organization_id, session_key)


def signal_event_id(*about: str) -> UUID:
    """Derive an id for a signal that came without one."""
    return _derived("signal", *about)


def unknown_identity(identity: str, as_of: datetime) -> dict[str, Any]:
    """Return the record (REPUTATION_SCORES) of an identity without signals: zeros, not an error."""
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
