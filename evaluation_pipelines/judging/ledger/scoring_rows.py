"""Rows of a table of scorings within one transaction: locks, changes, replies and events."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from evaluation_pipelines.judging.ledger.errors import ScoreEndedError, UnknownScoreError
from evaluation_pipelines.judging.ledger.score_queries import score_of
from evaluation_pipelines.judging.ledger.score_records import Phase, ReceivedReply
from evaluation_pipelines.schemas.judge_score import OPEN, TERMINAL, Score, ScoreStatus
from evaluation_pipelines.storage.ledger.tables.judging import SESSION_SCORES
from evaluation_pipelines.times import to_us

WAITS: dict[str, Any] = {"status": "pending", "batch_id": None, "reserved_cost_usd": None}
"""Of a scoring that no process works on; money that was reserved and not booked is free again."""

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

    def lock_open(self, score_id: str) -> sa.RowMapping:
        """Return the row of a scoring that has not ended, locked."""
        row = self.lock(score_id)
        if row["status"] in TERMINAL:
            raise ScoreEndedError(
                f"Scoring {score_id} of session {row['session_key']} was not changed: it is "
                f"{row['status']}, which is final."
            )
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
        """Set a final status."""
        ending = {**WAITS, "status": status, "completed_at_us": to_us(now), **values}
        return score_of(self.change_open(row["score_id"], ending))

    def log_reply(self, reply: ReceivedReply) -> None:
        """Append a reply to the turn log of its scoring and add its cost to the sums."""
        score_id, turn = reply.score_id, reply.turn
        row = self.lock_open(score_id)
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
        self.change_open(
            score_id,
            {
                "turn_log": [*logged, asdict(turn)],
                **without_unused(row, reply.unused_usd),
                "reserved_cost_usd": _without(row["reserved_cost_usd"], reply.released_usd),
                "booked_at_us": turn.at_us,
                **sums,
            },
        )
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


def without_unused(row: sa.RowMapping, unused_usd: float) -> dict[str, Any]:
    """Return the booked amount of a scoring without what it does not need anymore.

    Amounts are changed, never set: a reply that arrives late, when another judge works on the
    scoring, takes nothing away from what that one has booked.
    """
    if not unused_usd:
        return {}
    return {"booked_cost_usd": _without(row["booked_cost_usd"] or 0.0, unused_usd)}


def _without(amount: float | None, less: float) -> float | None:
    return None if amount is None else max(round(amount - less, 9), 0.0)


def _known_sum(before: float | None, added: float | None, *, is_first: bool) -> float | None:
    """Return a sum that is unknown as soon as one part is unknown."""
    if is_first:
        return added
    return None if before is None or added is None else before + added
