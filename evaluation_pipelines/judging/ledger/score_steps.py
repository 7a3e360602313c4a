"""Steps within a transaction on ``session_scores``: what the store's operations are made of."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from evaluation_pipelines.judging.domain.score import OPEN, TERMINAL, Phase, Score, ScoreStatus
from evaluation_pipelines.judging.ledger.errors import (
    ScoreEndedError,
    ScoreLeaseLostError,
    UnknownScoreError,
)
from evaluation_pipelines.judging.ledger.score_queries import score_of
from evaluation_pipelines.judging.ledger.score_records import Lease, NewScore, ReceivedReply
from evaluation_pipelines.storage.ledger.tables.judging import SCORING_EVENTS, SESSION_SCORES
from evaluation_pipelines.times import to_us

NO_LEASE: dict[str, Any] = {
    "lease_owner": None,
    "lease_expires_at_us": None,
    "reserved_cost_usd": None,
}

_SCORE = SESSION_SCORES.c


def past_statuses(connection: sa.Connection, new: NewScore) -> list[tuple[str, bool]]:
    """Status of each other scoring of the session by the profile.

    With it, whether it is of the same content and version.
    """
    present = sa.and_(
        _SCORE.content_hash == new.content_hash,
        _SCORE.judge_profile_version == new.judge_profile_version,
    )
    same = ("organization_id", "session_key", "judge_profile_id")
    query = sa.select(_SCORE.status, present).where(
        *(_SCORE[name] == getattr(new, name) for name in same), _SCORE.score_id != new.score_id
    )
    return [(status, bool(is_present)) for status, is_present in connection.execute(query)]


def locked(connection: sa.Connection, score_id: str) -> sa.RowMapping:
    """The row, which nobody else changes until the transaction ends."""
    query = sa.select(SESSION_SCORES).where(_SCORE.score_id == score_id).with_for_update()
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        raise UnknownScoreError(f"The ledger knows no scoring {score_id}.")
    return row


def held(connection: sa.Connection, score_id: str, owner: str) -> sa.RowMapping:
    """The row, locked, if the owner still holds it."""
    row = locked(connection, score_id)
    if row["status"] not in OPEN or row["lease_owner"] != owner:
        raise refused(row, f"changed by {owner}")
    return row


def refused(row: sa.RowMapping, what: str) -> ScoreEndedError | ScoreLeaseLostError:
    """The error that says why a scoring may not be changed."""
    about = f"Scoring {row['score_id']} of session {row['session_key']} was not {what}:"
    if row["status"] in TERMINAL:
        return ScoreEndedError(f"{about} it is {row['status']}, and stays so.")
    holder = row["lease_owner"]
    return ScoreLeaseLostError(f"{about} {holder or 'nobody'} holds it. Leave it to them.")


def open_row(score_id: str) -> sa.Update:
    """An update that finds nothing once the scoring has come to its end."""
    return sa.update(SESSION_SCORES).where(_SCORE.score_id == score_id, _SCORE.status.in_(OPEN))


def taken(lease: Lease, now: datetime, started_at_us: int) -> dict[str, Any]:
    """Values of a scoring that somebody works on from now."""
    return {
        "status": "in_progress",
        "started_at_us": started_at_us,
        "lease_owner": lease.owner,
        "lease_expires_at_us": expiry(lease, now),
    }


def booked(usd: float | None, now: datetime) -> dict[str, Any]:
    """Values of a scoring for which so much counts against the budget; nothing if unknown."""
    return {} if usd is None else {"booked_cost_usd": usd, "booked_at_us": to_us(now)}


def expiry(lease: Lease, now: datetime) -> int:
    """When a lease that is taken now expires, in microseconds since 1970."""
    return to_us(now) + int(lease.seconds * 1e6)


def end(
    connection: sa.Connection,
    row: sa.RowMapping,
    status: ScoreStatus,
    now: datetime,
    values: Mapping[str, Any],
) -> Score:
    """Bring a scoring to its end: from there nothing leads on."""
    ending = {"status": status, "completed_at_us": to_us(now), **NO_LEASE, **values}
    update = open_row(row["score_id"]).values(ending).returning(SESSION_SCORES)
    return score_of(connection.execute(update).mappings().one())


def known_sum(before: float | None, added: float | None, *, is_first: bool) -> float | None:
    """A sum that is unknown as soon as one part of it is."""
    if is_first:
        return added
    return None if before is None or added is None else before + added


def keep_reply(connection: sa.Connection, arrived: ReceivedReply) -> None:
    """Add a reply to the turn log of its scoring, and what it cost to the sums."""
    score_id, turn = arrived.score_id, arrived.turn
    row = held(connection, score_id, arrived.owner)
    logged = row["turn_log"]
    if any(each["turn"] == turn.turn for each in logged):
        raise ValueError(f"Turn {turn.turn} of scoring {score_id} has its reply already.")
    sums = {
        name: known_sum(row[name], value, is_first=not logged)
        for name, value in (
            ("input_tokens", turn.input_tokens),
            ("cached_tokens", turn.cached_tokens),
            ("output_tokens", turn.output_tokens),
            ("judge_cost_usd", turn.cost_usd),
            ("latency_ms", turn.latency_ms),
        )
    }
    values: dict[str, Any] = {"turn_log": [*logged, asdict(turn)], "booked_at_us": turn.at_us}
    if arrived.booked_usd is not None:
        values["booked_cost_usd"] = arrived.booked_usd
        values["reserved_cost_usd"] = arrived.reserved_usd
    connection.execute(open_row(score_id).values(values | sums))
    if arrived.next_phase is not None:
        note(connection, row, "progress", turn.at_us, phase=arrived.next_phase)


def note_start(connection: sa.Connection, row: sa.RowMapping, now: datetime) -> None:
    """Note that work on a scoring has begun, and with what."""
    note(connection, row, "started", to_us(now))
    first: Phase = "analyzing_methodology"
    note(connection, row, "progress", to_us(now), phase=first)


def note(
    connection: sa.Connection, row: sa.RowMapping, type_: str, time_us: int, **details: object
) -> None:
    """Note what happened to a scoring, as a row of ``scoring_events``."""
    about = {name: row[name] for name in ("score_id", "session_id", "session_key")}
    event = {"type": f"scoring.{type_}", "timestamp_us": time_us, **about, **details}
    connection.execute(sa.insert(SCORING_EVENTS).values(event))
