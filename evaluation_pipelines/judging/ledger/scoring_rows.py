"""Rows of a table of scorings within one transaction: locks, changes, replies and events."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from evaluation_pipelines.judging.ledger.errors import (
    ScoreEndedError,
    ScoreLeaseLostError,
    UnknownScoreError,
)
from evaluation_pipelines.judging.ledger.score_queries import score_of
from evaluation_pipelines.judging.ledger.score_records import Phase, ReceivedReply
from evaluation_pipelines.schemas.judge_score import OPEN, TERMINAL, Score, ScoreStatus
from evaluation_pipelines.storage.ledger.tables.judging import SESSION_SCORES
from evaluation_pipelines.times import to_us

NO_LEASE: dict[str, Any] = {
    "status": "pending",
    "lease_owner": None,
    "lease_expires_at_us": None,
    "reserved_cost_usd": None,
}

_SUBJECT = ("score_id", "organization_id", "session_id", "session_key", "session_date")
_DETAILS = ("phase", "total_score", "error_message")


@dataclass(frozen=True, slots=True)
class ScoringRows:
    """The rows of one table of scorings, as one transaction sees and changes them.

    ``events`` collects what is appended to ``service_events`` at the end of the transaction.
    """

    connection: sa.Connection
    table: sa.Table
    events: list[dict[str, Any]] = field(default_factory=list)

    def past_statuses(self, new: Score) -> list[tuple[str, bool]]:
        """Return the status of each other scoring of the session by the profile.

        The flag says whether it is of the same content and profile version.
        """
        columns = self.table.c
        is_same = sa.and_(
            columns.content_hash == new.content_hash,
            columns.judge_profile_version == new.judge_profile_version,
        )
        key = ("organization_id", "session_key", "judge_profile_id")
        query = sa.select(columns.status, is_same).where(
            *(columns[name] == getattr(new, name) for name in key),
            columns.score_id != new.score_id,
        )
        return [(status, bool(same)) for status, same in self.connection.execute(query)]

    def lock(self, score_id: str) -> sa.RowMapping:
        """Return a row, locked until the transaction ends."""
        table = self.table
        query = sa.select(table).where(table.c.score_id == score_id).with_for_update()
        row = self.connection.execute(query).mappings().one_or_none()
        if row is None:
            raise UnknownScoreError(f"The ledger has no scoring {score_id}.")
        return row

    def lock_leased(self, score_id: str, owner: str) -> sa.RowMapping:
        """Return a row, locked, if ``owner`` still holds its lease."""
        row = self.lock(score_id)
        if row["status"] not in OPEN or row["lease_owner"] != owner:
            raise refusal(row, f"changed by {owner}")
        return row

    def change_open(self, score_id: str, values: Mapping[str, Any]) -> sa.RowMapping:
        """Change a scoring that has not ended, and return its row."""
        columns = self.table.c
        update = sa.update(self.table).where(columns.score_id == score_id, columns.status.in_(OPEN))
        changed = update.values(values).returning(self.table)
        return self.connection.execute(changed).mappings().one()

    def end(
        self, row: sa.RowMapping, status: ScoreStatus, now: datetime, values: Mapping[str, Any]
    ) -> Score:
        """Set a final status and release the lease."""
        ending = {**NO_LEASE, "status": status, "completed_at_us": to_us(now), **values}
        return score_of(self.change_open(row["score_id"], ending))

    def log_reply(self, reply: ReceivedReply) -> None:
        """Append a reply to the turn log of its scoring and add its cost to the sums."""
        score_id, turn = reply.score_id, reply.turn
        row = self.lock_leased(score_id, reply.owner)
        logged = row["turn_log"]
        if any(each["turn"] == turn.turn for each in logged):
            raise ValueError(f"Turn {turn.turn} of scoring {score_id} has its reply already.")
        sums = {
            name: _known_sum(row[name], value, is_first=not logged)
            for name, value in (
                ("input_tokens", turn.input_tokens),
                ("cached_tokens", turn.cached_tokens),
                ("output_tokens", turn.output_tokens),
                ("judge_cost_usd", turn.cost_usd),
                ("latency_ms", turn.latency_ms),
            )
        }
        values: dict[str, Any] = {"turn_log": [*logged, asdict(turn)], "booked_at_us": turn.at_us}
        if reply.booked_usd is not None:
            values["booked_cost_usd"] = reply.booked_usd
            values["reserved_cost_usd"] = reply.reserved_usd
        self.change_open(score_id, values | sums)
        if reply.next_phase is not None:
            self.log_event(row, "progress", turn.at_us, phase=reply.next_phase)

    def log_start(self, row: sa.RowMapping, now: datetime) -> None:
        """Log the start of a scoring and its first phase."""
        self.log_event(row, "started", to_us(now))
        first: Phase = "analyzing_methodology"
        self.log_event(row, "progress", to_us(now), phase=first)

    def log_event(self, row: sa.RowMapping, type_: str, time_us: int, **details: object) -> None:
        """Collect an event; those of anchors are not followed."""
        if self.table is not SESSION_SCORES:
            return
        subject = {name: row[name] for name in _SUBJECT}
        known = dict.fromkeys(_DETAILS) | details
        self.events.append({"type": f"scoring.{type_}", "timestamp_us": time_us} | subject | known)


def refusal(row: sa.RowMapping, change: str) -> ScoreEndedError | ScoreLeaseLostError:
    """Return the error that says why a scoring cannot be changed."""
    subject = f"Scoring {row['score_id']} of session {row['session_key']} was not {change}:"
    if row["status"] in TERMINAL:
        return ScoreEndedError(f"{subject} it is {row['status']}, which is final.")
    owner = row["lease_owner"]
    if owner is None:
        return ScoreLeaseLostError(f"{subject} it is not leased. Claim it first.")
    return ScoreLeaseLostError(f"{subject} {owner} holds its lease. Leave it to that process.")


def _known_sum(before: float | None, added: float | None, *, is_first: bool) -> float | None:
    """Return a sum that is unknown as soon as one part is unknown."""
    if is_first:
        return added
    return None if before is None or added is None else before + added
