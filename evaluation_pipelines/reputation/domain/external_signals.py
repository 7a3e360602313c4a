"""Signals and evaluations of other systems, one JSON object per line."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

import msgspec

from evaluation_pipelines.reputation.domain.identity import identity_id, signal_event_id

EVENT_TYPES: Mapping[str, tuple[str, float]] = {
    "task_completed": ("task_quality", 0.5),
    "task_failed": ("task_quality", -0.5),
    "review_positive": ("task_quality", 0.8),
    "review_negative": ("task_quality", -0.8),
    "payment_completed": ("economic", 0.5),
    "payment_failed": ("economic", -0.7),
    "settlement_delayed": ("economic", -0.3),
    "key_rotated": ("identity_hygiene", 0.3),
    "session_expired": ("identity_hygiene", -0.1),
    "credential_leaked": ("identity_hygiene", -1.0),
}
"""Event type -> category and default delta."""

_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Delta = Annotated[float, msgspec.Meta(ge=-1, le=1)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
_Milliseconds = Annotated[float, msgspec.Meta(ge=0)]
_Budget = Annotated[float, msgspec.Meta(gt=0)]
_Time = Annotated[datetime, msgspec.Meta(tz=True)]

_GATE_BUDGET_MS = 100.0
_EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
_AHEAD = timedelta(days=366)
"""How far in the future a signal may be; it counts when its time has come."""

_Line = TypeVar("_Line", bound=msgspec.Struct)


class UnusableLineError(ValueError):
    """A line is no signal or evaluation; the message says what is wrong with it."""


class _Signal(msgspec.Struct):
    timestamp: _Time
    event_type: _Name
    reference_type: Literal["session", "transaction", "attestation"]
    reference_id: _Name
    event_id: UUID | None = None
    identity_id: UUID | None = None
    organization_id: _Name = "default"
    agent_id: _Name | None = None
    category: Literal["task_quality", "economic", "identity_hygiene"] | None = None
    score_delta: _Delta | None = None
    confidence: _Share = 1.0
    attributes: dict[str, str] = {}


class _Evaluation(msgspec.Struct):
    evaluation_id: _Name
    agent_id: _Name
    evaluated_at: _Time
    passed: bool
    source: _Name
    organization_id: _Name = "default"
    latency_ms: _Milliseconds | None = None
    latency_budget_ms: _Budget = _GATE_BUDGET_MS
    model: str | None = None


def read_signal(line: bytes, now: datetime, deltas: Mapping[str, float]) -> dict[str, Any]:
    """Parse a signal into one row of REPUTATION_EVENTS.

    Args:
        line: A JSON object with ``timestamp, event_type, reference_type, reference_id``, with
            ``identity_id`` or ``agent_id`` (and ``organization_id``), and optionally ``event_id,
            category, score_delta, confidence, attributes``.
        now: The present time.
        deltas: Event type -> default delta; overrides EVENT_TYPES.

    Raises:
        UnusableLineError: the line is no signal.
    """
    signal = _decoded(line, _Signal)
    timestamp = _utc(signal.timestamp, now)
    category, delta = _meaning(signal, deltas)
    return {
        "event_id": str(signal.event_id or signal_event_id(*_values(signal, timestamp))),
        "timestamp": timestamp,
        "identity_id": str(_identity(signal)),
        "category": category,
        "event_type": signal.event_type,
        "score_delta": delta,
        "confidence": signal.confidence,
        "reference_type": signal.reference_type,
        "reference_id": signal.reference_id,
        "attributes": [
            {"key": key, "value": value} for key, value in sorted(signal.attributes.items())
        ],
    }


def read_evaluation(line: bytes, now: datetime) -> dict[str, Any]:
    """Parse an evaluation into one row of AGENT_EVALUATIONS.

    Args:
        line: A JSON object with ``evaluation_id, agent_id, evaluated_at, passed, source``, and
            optionally ``organization_id, latency_ms, latency_budget_ms, model``.
        now: The present time.

    Raises:
        UnusableLineError: the line is no evaluation.
    """
    evaluation = _decoded(line, _Evaluation)
    if evaluation.source == "session":
        raise UnusableLineError("source 'session' is kept for the sessions of this project")
    return {
        **msgspec.structs.asdict(evaluation),
        "evaluated_at": _utc(evaluation.evaluated_at, now),
        "reference_id": evaluation.evaluation_id,
    }


def _decoded(line: bytes, kind: type[_Line]) -> _Line:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnusableLineError(str(error)) from None


def _meaning(signal: _Signal, deltas: Mapping[str, float]) -> tuple[str, float]:
    """Return category and delta: as given, otherwise the defaults of the event type."""
    known = EVENT_TYPES.get(signal.event_type)
    category = signal.category or (known[0] if known else None)
    if category is None:
        raise UnusableLineError(f"event_type {signal.event_type!r} is not known: give a category")
    usual = deltas.get(signal.event_type, known[1] if known else None)
    delta = usual if signal.score_delta is None else signal.score_delta
    if delta is None:
        raise UnusableLineError(f"event_type {signal.event_type!r} is not known: give score_delta")
    return category, delta


def _identity(signal: _Signal) -> UUID:
    if signal.identity_id is not None:
        return signal.identity_id
    if signal.agent_id is None:
        raise UnusableLineError("neither identity_id nor agent_id says whom it is about")
    return identity_id(signal.organization_id, signal.agent_id)


def _values(signal: _Signal, timestamp: datetime) -> list[str]:
    """Return the values that identify a signal without an id."""
    values = msgspec.structs.asdict(signal) | {
        "timestamp": timestamp.isoformat(),
        "attributes": sorted(signal.attributes.items()),
    }
    return [f"{name}={value}" for name, value in values.items()]


def _utc(time: datetime, now: datetime) -> datetime:
    if not _EARLIEST <= time <= now + _AHEAD:
        raise UnusableLineError("its time lies before 2000 or more than a year ahead")
    return time.astimezone(UTC)
