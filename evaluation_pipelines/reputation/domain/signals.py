"""Signals and evaluations about identities: those of sessions here, and of other systems."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID, uuid5

import msgspec
import polars as pl

from evaluation_pipelines.outcomes.domain.by_session import CONTRADICTED
from evaluation_pipelines.schemas import (
    AGENT_EVALUATIONS,
    REPUTATION_EVENTS,
    REPUTATION_SCORES,
    SESSION_KEY,
)

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
    zeros = dict.fromkeys(REPUTATION_SCORES.schema, 0.0)
    counts = dict.fromkeys(("total_events", "positive_events", "negative_events"), 0)
    unknown = dict.fromkeys(("score_7d_ago", "score_30d_ago", "overall_observed"))
    named = {"identity_id": identity, "computed_at": as_of, "categories_observed": []}
    return {**zeros, **counts, **unknown, **named}


def _derived(kind: str, *parts: str) -> UUID:
    # Lengths keep ("a", "bc") and ("ab", "c") apart.
    return uuid5(_NAMESPACE, "".join(f"{len(part)}:{part}" for part in (kind, *parts)))


AGENT_NAME = pl.coalesce("agent_id", "source_cli", pl.lit("unknown"))
"""Name of the agent of a session, as its signal and its evaluation have it."""

FAILED_BELOW = 40.0
LATENCY_BUDGET_MS = 120_000.0
"""Latency budget of the mean API request of a session."""

_NEUTRAL = 50.0
_SURENESS = {"override": 1.0, "judge": 0.7, "composite": 0.5, "status": 0.5}
"""Confidence of a score by its source; a scorecard has its own."""


def session_signals(sessions: pl.DataFrame) -> pl.DataFrame:
    """Return one signal per session with an effective score: REPUTATION_EVENTS, ``session_date``.

    ``score_delta = (effective_100 - 50) / 50``; the event is ``task_failed`` if the session
    failed or scored below 40, otherwise ``task_completed``.

    Args:
        sessions: Rows of ``session_evaluations``.
    """
    scored = _scored(sessions)
    failed = (pl.col("status") == "failed") | (pl.col("effective_100") < FAILED_BELOW)
    return scored.select(
        event_id=_ids(scored, "session_key", session_event_id),
        timestamp=pl.col("ended_at").dt.cast_time_unit("ms"),
        identity_id=_ids(scored, "agent_id", identity_id),
        category=pl.lit("task_quality"),
        event_type=pl.when(failed).then(pl.lit("task_failed")).otherwise(pl.lit("task_completed")),
        score_delta=(pl.col("effective_100") - _NEUTRAL) / _NEUTRAL,
        confidence=_sureness(),
        reference_type=pl.lit("session"),
        reference_id=pl.col("session_key"),
        attributes=_columns_as_attributes(
            "agent_id", "effective_source", "organization_id", "session_date"
        ),
        session_date="session_date",
    ).cast(REPUTATION_EVENTS.schema)


_OUTCOME_TYPES = pl.DataFrame(
    {
        "kind": ["merged", "task_closed", "reverted", "task_reopened", "accepted", "accepted"],
        "value": [1.0, 1.0, 1.0, 1.0, 1.0, 0.0],
        "event_type": [
            *("task_completed", "task_completed", "task_failed", "task_failed"),
            *("review_positive", "review_negative"),
        ],
    }
)
_INFERRED = 0.5
"""Confidence of an outcome of a commit found by author, time and branch."""


def outcome_signals(
    outcomes: pl.DataFrame, sessions: pl.DataFrame, deltas: Mapping[str, float]
) -> pl.DataFrame:
    """Return the signals of outcomes: REPUTATION_EVENTS, ``session_date``.

    Several sources of one outcome are one signal, and none if they contradict. Instead of an
    unknown or impossible time, before the session or after ``read_at``, it has the session's end.

    Args:
        outcomes: Rows of ``session_outcomes``.
        sessions: Rows of ``session_evaluations``, with or without a score.
        deltas: Event type -> delta; overrides EVENT_TYPES.
    """
    one, session = [*SESSION_KEY, "kind", "reference"], [*SESSION_KEY, "session_date"]
    meant = outcomes.filter(~CONTRADICTED).join(_OUTCOME_TYPES, on=["kind", "value"])
    first = meant.sort("inferred", "source").unique(one, keep="first", maintain_order=True)
    agents = _with_agents(sessions).select(*session, "agent_id", "started_at", "ended_at")
    rows, time = first.join(agents, on=session), pl.col("happened_at")
    ids = [_derived("outcome", *(value or "" for value in row)) for row in rows.select(one).rows()]
    usual = {name: deltas.get(name, delta) for name, (_, delta) in EVENT_TYPES.items()}
    return rows.select(
        event_id=pl.Series(map(str, ids), dtype=pl.String),
        timestamp=pl.when(time.is_between("started_at", "read_at"))
        .then(time)
        .otherwise("ended_at")
        .dt.cast_time_unit("ms"),
        identity_id=_ids(rows, "agent_id", identity_id),
        category=pl.lit("task_quality"),
        event_type="event_type",
        score_delta=pl.col("event_type").replace_strict(usual, return_dtype=pl.Float64),
        confidence=pl.when("inferred").then(_INFERRED).otherwise(1.0),
        reference_type=pl.lit("session"),
        reference_id="session_key",
        attributes=_columns_as_attributes(
            "agent_id", "kind", "organization_id", "reference", "session_date"
        ),
        session_date="session_date",
    ).cast(REPUTATION_EVENTS.schema)


def agent_session_evaluations(sessions: pl.DataFrame) -> pl.DataFrame:
    """Return one evaluation (AGENT_EVALUATIONS) per ended session with an effective score.

    Args:
        sessions: Rows of ``session_evaluations`` with ``mean_api_ms`` of ``agent_sessions`` and
            ``is_terminal``.
    """
    scored = _scored(sessions).filter("is_terminal")
    return scored.select(
        evaluation_id=_ids(scored, "session_key", session_event_id),
        organization_id=pl.col("organization_id"),
        agent_id=pl.col("agent_id"),
        evaluated_at=pl.col("ended_at"),
        passed=pl.col("passed"),
        latency_ms=pl.col("mean_api_ms"),
        latency_budget_ms=pl.lit(LATENCY_BUDGET_MS),
        model=pl.col("model"),
        source=pl.lit("session"),
        reference_id=pl.col("session_key"),
    ).cast(AGENT_EVALUATIONS.schema)


def agent_external_evaluations(external: pl.DataFrame, sessions: pl.DataFrame) -> pl.DataFrame:
    """Return the evaluations (AGENT_EVALUATIONS) by other programs with a pass or fail.

    Each belongs to the agent it names, or else to the agent of its session.

    Args:
        external: EXTERNAL_EVALUATIONS.
        sessions: Rows of ``session_evaluations``.
    """
    session = ["organization_id", "session_id"]
    agents = sessions.sort("started_at").unique(session, keep="first", maintain_order=True)
    agents = agents.select(*session, of_session=pl.coalesce("agent_id", "source_cli"))
    named = external.drop_nulls("passed").join(agents, on=session, how="left")
    return (
        named.with_columns(agent_id=pl.coalesce("agent_id", "of_session"))
        .drop_nulls("agent_id")
        .select(
            *("evaluation_id", "organization_id", "agent_id", "evaluated_at", "passed"),
            latency_ms=None,
            latency_budget_ms=pl.lit(LATENCY_BUDGET_MS),
            model=None,
            source=pl.lit("opentelemetry"),
            reference_id=pl.coalesce("session_id", "evaluation_id"),
        )
        .cast(AGENT_EVALUATIONS.schema)
    )


def _scored(sessions: pl.DataFrame) -> pl.DataFrame:
    return _with_agents(sessions.filter(pl.col("effective_100").is_not_null()))


def _with_agents(sessions: pl.DataFrame) -> pl.DataFrame:
    """Return sessions with an agent in each: without one, the program counts as one."""
    return sessions.with_columns(agent_id=AGENT_NAME)


def _ids(sessions: pl.DataFrame, column: str, derive: Callable[[str, str], UUID]) -> pl.Series:
    pairs = zip(sessions["organization_id"], sessions[column], strict=True)
    return pl.Series([str(derive(*pair)) for pair in pairs], dtype=pl.String)


def _sureness() -> pl.Expr:
    by_source = pl.col("effective_source").replace_strict(
        _SURENESS, default=None, return_dtype=pl.Float64
    )
    return pl.coalesce(by_source, "confidence")


def _columns_as_attributes(*names: str) -> pl.Expr:
    pairs = [
        pl.struct(key=pl.lit(name), value=pl.col(name).cast(pl.String).fill_null(""))
        for name in names
    ]
    return pl.concat_list(pairs)


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

SESSION_DATE = "session_date"
"""Attribute of the signals about sessions of this project."""

_OWN_TYPE_CATEGORY = "task_quality"
GATE_BUDGET_MS = 100.0
"""How long an evaluation may take unless it says so, milliseconds."""

_EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
_AHEAD = timedelta(days=366)
"""How far in the future a signal may be; it counts when its time has come."""

_Line = TypeVar("_Line", bound=msgspec.Struct)


class UnusableLineError(ValueError):
    """A line is no signal or evaluation; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Retraction:
    """A signal or an evaluation that was taken back.

    ``owner`` is the identity of a signal, or organization and agent of an evaluation; None for the
    signal of any identity.
    """

    id: str
    owner: tuple[str, ...] | None


_DEFAULT_ORGANIZATION = "default"


class _Retracted(msgspec.Struct):
    retracted: bool = False


class _RetractedSignal(msgspec.Struct):
    event_id: UUID | None = None
    identity_id: UUID | None = None
    organization_id: _Name | None = None
    agent_id: _Name | None = None


class _RetractedEvaluation(msgspec.Struct):
    evaluation_id: _Name
    agent_id: _Name
    organization_id: _Name = _DEFAULT_ORGANIZATION


class _Signal(msgspec.Struct):
    timestamp: _Time
    event_type: _Name
    reference_type: Literal["session", "transaction", "attestation"]
    reference_id: _Name
    event_id: UUID | None = None
    identity_id: UUID | None = None
    organization_id: _Name = _DEFAULT_ORGANIZATION
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
    organization_id: _Name = _DEFAULT_ORGANIZATION
    latency_ms: _Milliseconds | None = None
    latency_budget_ms: _Budget = GATE_BUDGET_MS
    model: str | None = None


_NAMES = frozenset(
    field.encode_name
    for kind in (_Signal, _Evaluation, _Retracted)
    for field in msgspec.structs.fields(kind)
)
_NAME_SHOWN = 100


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
    if SESSION_DATE in signal.attributes:
        raise UnusableLineError(f"attribute {SESSION_DATE} is kept for sessions of this project")
    return {
        "event_id": _event_id(signal, timestamp),
        "timestamp": timestamp,
        "identity_id": str(_identity(signal)),
        "category": category,
        "event_type": signal.event_type,
        "score_delta": delta,
        "confidence": signal.confidence,
        "reference_type": signal.reference_type,
        "reference_id": signal.reference_id,
        "attributes": [
            {"key": key, "value": value} for key, value in sorted(_attributes(signal).items())
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


def signal_retraction(line: bytes, now: datetime) -> Retraction | None:
    """Return the signal that a line takes back; None if it does not.

    Such a line has ``"retracted": true`` and ``event_id``, or what a signal without one is known
    by: identity or agent, ``reference_type, reference_id, event_type, timestamp``.

    Raises:
        UnusableLineError: the line does not say which signal.
    """
    if not _is_retraction(line):
        return None
    named = _decoded(line, _RetractedSignal)
    if named.event_id is None:
        signal = _decoded(line, _Signal)
        owner = (str(_identity(signal)),)
        return Retraction(_event_id(signal, _utc(signal.timestamp, now)), owner)
    if named.agent_id is None and named.organization_id is not None:
        raise UnusableLineError("organization_id without agent_id: it names no identity")
    is_of_one = named.identity_id is not None or named.agent_id is not None
    return Retraction(str(named.event_id), (str(_identity(named)),) if is_of_one else None)


def evaluation_retraction(line: bytes) -> Retraction | None:
    """Return the evaluation that a line takes back; None if it does not.

    Raises:
        UnusableLineError: the line does not say which evaluation of which agent.
    """
    if not _is_retraction(line):
        return None
    named = _decoded(line, _RetractedEvaluation)
    return Retraction(named.evaluation_id, (named.organization_id, named.agent_id))


def _is_retraction(line: bytes) -> bool:
    return b'"retracted"' in line and _decoded(line, _Retracted).retracted


def _decoded(line: bytes, kind: type[_Line]) -> _Line:
    try:
        decoded = msgspec.json.decode(line, type=kind)
        names = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnusableLineError(str(error)) from None
    for name in names.keys() - _NAMES:
        if meant := _similar_name(name):
            raise UnusableLineError(f"no such name: {name[:_NAME_SHOWN]!r}: write {meant}")
    return decoded


@lru_cache(1024)
def _similar_name(name: str) -> str | None:
    """Return the name that another one resembles: a line must not count for another agent."""
    found = get_close_matches(name[:_NAME_SHOWN].lower(), _NAMES, n=1, cutoff=0.8)
    return found[0] if found else None


def _meaning(signal: _Signal, deltas: Mapping[str, float]) -> tuple[str, float]:
    """Return category and delta: as given, otherwise the defaults of the event type."""
    known = EVENT_TYPES.get(signal.event_type)
    own = _OWN_TYPE_CATEGORY if signal.event_type in deltas else None
    category = signal.category or (known[0] if known else own)
    if category is None:
        raise UnusableLineError(f"event_type {signal.event_type!r} is not known: give a category")
    usual = deltas.get(signal.event_type, known[1] if known else None)
    delta = usual if signal.score_delta is None else signal.score_delta
    if delta is None:
        raise UnusableLineError(f"event_type {signal.event_type!r} is not known: give score_delta")
    return category, delta


def _identity(signal: _Signal | _RetractedSignal) -> UUID:
    if signal.agent_id is None:
        if signal.identity_id is None:
            raise UnusableLineError("neither identity_id nor agent_id says whom it is about")
        return signal.identity_id
    of_agent = identity_id(signal.organization_id or _DEFAULT_ORGANIZATION, signal.agent_id)
    if signal.identity_id not in {None, of_agent}:
        raise UnusableLineError(
            f"identity_id is not that of agent {signal.agent_id} of organization "
            f"{signal.organization_id}, {of_agent}: give one of the two"
        )
    return of_agent


def _attributes(signal: _Signal) -> dict[str, str]:
    """Return the attributes of a line, with the agent: an identity does not tell its name."""
    if signal.agent_id is None:
        return signal.attributes
    agent = {"agent_id": signal.agent_id, "organization_id": signal.organization_id}
    return {**signal.attributes, **agent}


def _event_id(signal: _Signal, timestamp: datetime) -> str:
    """Return the id of a signal; without one it is derived from what a correction keeps."""
    if signal.event_id is not None:
        return str(signal.event_id)
    about = (signal.reference_type, signal.reference_id, signal.event_type)
    return str(signal_event_id(str(_identity(signal)), *about, timestamp.isoformat()))


def is_plausible(time: datetime, now: datetime) -> bool:
    """Return whether a time lies between 2000 and a year ahead."""
    return _EARLIEST <= time <= now + _AHEAD


def _utc(time: datetime, now: datetime) -> datetime:
    if not is_plausible(time, now):
        raise UnusableLineError("its time lies before 2000 or more than a year ahead")
    return time.astimezone(UTC)
