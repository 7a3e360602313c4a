"""Writes of judgments: requests, starts, replies, results, and the rubrics that judged.

With its stored text, a rubric that was changed can be asked again.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

import sqlalchemy as sa

from evaluation_pipelines.judging.domain.budget import DayReservation
from evaluation_pipelines.judging.domain.prompt.rubric import Rubric, RubricCriterion
from evaluation_pipelines.judging.ledger.score_queries import (
    ScoreEndedError,
    ScoreQueries,
    ScoringOpenError,
    UnknownScoreError,
    lock_day_budget,
    reserve,
    score_of,
)
from evaluation_pipelines.schemas.judge_score import (
    FIELDS,
    OPEN,
    TERMINAL,
    LoggedTurn,
    Score,
    ScoreStatus,
)
from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.service_events import append_events
from evaluation_pipelines.storage.ledger.tables.judging import (
    ANCHOR_SCORES,
    JUDGE_BATCHES,
    RUBRIC_TEXTS,
    SESSION_SCORES,
)
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.times import from_us, to_us

Phase: TypeAlias = Literal["analyzing_methodology", "identifying_missing_tools"]


@dataclass(frozen=True, slots=True)
class ReceivedReply:
    """A reply of the judge to store; see ``ScoreStore.log_turn``.

    Attributes:
        score_id: The judgment.
        turn: The reply.
        unused_usd: What was booked for the judgment and is not needed anymore.
        next_phase: Phase that begins with the reply, for its event; ``None`` if none does.
        released_usd: What was reserved for it, of a batch.
    """

    score_id: str
    turn: LoggedTurn
    unused_usd: float = 0.0
    next_phase: Phase | None = None
    released_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class Failure:
    """Reason of a failed judgment; ``retriable`` is true if another attempt may succeed."""

    reason: str
    retriable: bool


WAITS: dict[str, Any] = {"status": "pending", "batch_id": None, "reserved_cost_usd": None}
"""Of a judgment that no process works on; money that was reserved and not booked is free again."""

_SUBJECT = ("score_id", "organization_id", "session_id", "session_key", "session_date")
_DETAILS = ("phase", "total_score", "error_message")


@dataclass(frozen=True, slots=True)
class ScoringRows:
    """The rows of one table of judgments, as one transaction sees and changes them.

    ``events`` collects what is appended to ``service_events`` at the end of the transaction.
    """

    connection: sa.Connection
    table: sa.Table
    events: list[dict[str, Any]] = field(default_factory=list)

    def past_statuses(self, new: Score) -> list[tuple[str, bool]]:
        """Return the status of each other judgment of the session by the profile.

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
            raise UnknownScoreError(f"The ledger has no judgment {score_id}.")
        return row

    def lock_open(self, score_id: str) -> sa.RowMapping:
        """Return the row of a judgment that has not ended, locked."""
        row = self.lock(score_id)
        if row["status"] in TERMINAL:
            raise ScoreEndedError(
                f"Judgment {score_id} of session {row['session_key']} was not changed: it is "
                f"{row['status']}, which is final."
            )
        return row

    def lock_waiting(self, score_id: str) -> sa.RowMapping:
        """Return the row of a judgment that no process works on, locked."""
        row = self.lock_open(score_id)
        if row["status"] != "pending":
            raise ScoringOpenError(f"Judgment {score_id} is in progress already.")
        return row

    def change_open(self, score_id: str, values: Mapping[str, Any]) -> sa.RowMapping:
        """Change a judgment that has not ended, and return its row."""
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
        """Append a reply to the turn log of its judgment and add its cost to the sums."""
        score_id, turn = reply.score_id, reply.turn
        row = self.lock_open(score_id)
        logged = row["turn_log"]
        if any(entry["turn"] == turn.turn for entry in logged):
            raise ValueError(f"Turn {turn.turn} of judgment {score_id} has its reply already.")
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
        """Log the start of a judgment and its first phase."""
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
    """Return the booked amount of a judgment without what it does not need anymore.

    Amounts are changed, never set: a reply that arrives late, when another judge works on the
    judgment, takes nothing away from what that one has booked.
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


def clear_left(ledger: Ledger, hold: Hold) -> None:
    """Make ``pending`` what a judge that died left in progress, before other work begins."""
    for scoring in _all_scorings(ledger, hold):
        scoring.clear_left()


def release(ledger: Ledger, hold: Hold) -> None:
    """Make ``pending`` what the judge that holds the lock does not finish."""
    for scoring in _all_scorings(ledger, hold):
        scoring.release()


def _all_scorings(ledger: Ledger, hold: Hold) -> list["ScoreStore"]:
    return [ScoreStore(ledger, table, hold) for table in (SESSION_SCORES, ANCHOR_SCORES)]


class ScoreStore(ScoreQueries):
    """Reader and writer of scores; every write is one transaction that also logs its event.

    The judging process passes the lock ``judge`` that it holds: a change of a status is refused
    once it is lost. Requests and replies are written without it.
    """

    def __init__(
        self, ledger: Ledger, table: sa.Table = SESSION_SCORES, hold: Hold | None = None
    ) -> None:
        super().__init__(ledger, table)
        self._hold = hold

    def create(
        self,
        new: Score,
        now: datetime,
        reservation: DayReservation | None = None,
        known_scorings: int | None = None,
    ) -> Score:
        """Create a judgment: ``pending``, or ``in_progress`` if its work begins now.

        Args:
            new: The judgment; its attempt is counted here.
            now: The time.
            reservation: The most that the judgment can cost; ``None`` if unknown.
            known_scorings: Number of judgments of the session by the profile that the caller has
                seen; ``None`` if it does not matter.

        Raises:
            ScoringOpenError: A judgment of the same session, profile and model has not ended, or
                the number of judgments is not ``known_scorings``.
            DayBudgetReachedError: The reservation does not fit into the daily budget.
            LockLostError: The work begins now, and the lock is lost.
        """
        is_started = new.status == "in_progress"
        values = {
            **{name: getattr(new, name) for name in FIELDS},
            "scored_at_us": to_us(now),
            "started_at_us": to_us(now) if is_started else None,
        }
        with self._rows(is_judge=is_started) as rows:
            connection = rows.connection
            lock_day_budget(connection, reservation)
            insert = insert_into(connection, self._table).values(values)
            added = insert.on_conflict_do_nothing().returning(self._score.score_id)
            is_added = connection.execute(added).one_or_none() is not None
            # Read after the insert: a concurrent judgment has ended by then, or waits for it.
            past = rows.past_statuses(new)
            if not is_added or known_scorings not in {None, len(past)}:
                raise ScoringOpenError(
                    f"Session {new.session_key} of {new.organization_id} is being judged by "
                    f"profile {new.judge_profile_id} and model {new.judge_model} already, or was "
                    "a moment ago. Use the result of that judgment."
                )
            attempt = past.count(("failed", True)) + 1
            money = reserve(connection, new.score_id, reservation, now)
            row = rows.change_open(new.score_id, {"attempt": attempt, **money})
            if is_started:
                rows.log_start(row, now)
            return score_of(row)

    def claim(
        self,
        score_id: str,
        now: datetime,
        prompt_facts: Mapping[str, Any] | None = None,
        reservation: DayReservation | None = None,
        batch_id: str | None = None,
    ) -> Score:
        """Begin or resume a judgment that no process works on, and return its state.

        The booked amount stays booked, since the outcome of earlier requests in flight is unknown;
        ``reservation`` is the most that the rest can cost.

        Raises:
            UnknownScoreError: No judgment has this id.
            ScoreEndedError: The judgment has ended.
            ScoringOpenError: It is in progress.
            DayBudgetReachedError: The reservation does not fit into the daily budget.
            LockLostError: The lock is lost.
        """
        with self._rows(is_judge=True) as rows:
            lock_day_budget(rows.connection, reservation)
            before = rows.lock_waiting(score_id)
            spent_usd = before["booked_cost_usd"] or 0.0
            values = {
                "status": "in_progress",
                "started_at_us": before["started_at_us"] or to_us(now),
                "batch_id": batch_id,
                "next_try_at_us": None,
                **(prompt_facts or {}),
                **reserve(rows.connection, score_id, reservation, now, spent_usd),
            }
            row = rows.change_open(score_id, values)
            if before["started_at_us"] is None:
                rows.log_start(row, now)
            return score_of(row)

    def request(self, score_id: str, by: str, now: datetime, endpoint: str | None = None) -> Score:
        """Note that a person waits for an unfinished judgment, which is tried at once."""
        with self._rows() as rows:
            row = rows.lock(score_id)
            asked: dict[str, Any] = {"next_try_at_us": None}
            if row["requested_by"] is None:
                asked |= {"requested_by": by, "endpoint": endpoint, "scored_at_us": to_us(now)}
            if row["status"] in OPEN:
                rows.change_open(score_id, asked)
        return self.get(score_id)

    def clear_left(self) -> int:
        """Make ``pending`` what a judge that died left in progress; return how many that were."""
        crashed = self._score.crashes + 1
        ended = sa.select(JUDGE_BATCHES.c.batch_id).where(
            JUDGE_BATCHES.c.state.in_(("closed", "discarded"))
        )
        batch_id = self._score.batch_id
        return self._set_waiting(batch_id.is_(None) | batch_id.in_(ended), crashes=crashed)

    def release(self) -> int:
        """Make ``pending`` what the judge that holds the lock does not finish."""
        return self._set_waiting(self._score.batch_id.is_(None))

    def release_batch(self, batch_id: str, charged_at: datetime | None = None) -> int:
        """Make ``pending`` what waits in a batch; return how many that were.

        With ``charged_at`` what was reserved is booked: the requests may have been charged.
        """
        booked: dict[str, Any] = {}
        if charged_at is not None:
            amounts = (self._score.booked_cost_usd, self._score.reserved_cost_usd)
            sums = sum((sa.func.coalesce(amount, 0.0) for amount in amounts), sa.literal(0.0))
            booked = {"booked_cost_usd": sums, "booked_at_us": to_us(charged_at)}
        return self._set_waiting(self._score.batch_id == batch_id, **booked)

    def _set_waiting(self, *conditions: sa.ColumnElement[bool], **values: Any) -> int:
        is_open = self._score.status == "in_progress"
        update = sa.update(self._table).where(is_open, *conditions).values(WAITS | values)
        with self._rows(is_judge=True) as rows:
            return rows.connection.execute(update).rowcount

    def leave(self, score_id: str, now: datetime, unused_usd: float = 0.0) -> None:
        """Make a judgment ``pending`` and book its cost. Raises as ``claim``."""
        with self._rows(is_judge=True) as rows:
            row = rows.lock_open(score_id)
            money = without_unused(row, unused_usd) | {"booked_at_us": to_us(now)}
            rows.change_open(score_id, WAITS | money)

    def reserve_more(self, score_id: str, reservation: DayReservation, now: datetime) -> None:
        """Reserve money for a call that was not planned. Raises as ``claim``."""
        with self._rows(is_judge=True) as rows:
            lock_day_budget(rows.connection, reservation)
            row = rows.lock_open(score_id)
            before = row["booked_cost_usd"] or 0.0, row["reserved_cost_usd"] or 0.0
            money = reserve(rows.connection, score_id, reservation, now, *before)
            rows.change_open(score_id, money)

    def log_turn(self, reply: ReceivedReply) -> None:
        """Store a reply and its cost, whether or not the lock is held.

        A sum of tokens or money is unknown if one reply lacks its part.

        Raises:
            UnknownScoreError: No judgment has this id.
            ScoreEndedError: The judgment has ended.
            ValueError: The turn has a reply already.
        """
        with self._rows() as rows:
            rows.log_reply(reply)

    def complete(
        self, score_id: str, result: Mapping[str, Any], now: datetime, unused_usd: float = 0.0
    ) -> Score:
        """Complete a judgment with the fields of ``result``. Raises as ``claim``."""
        with self._rows(is_judge=True) as rows:
            row = rows.lock_open(score_id)
            money = without_unused(row, unused_usd) | {"booked_at_us": to_us(now)}
            ended = rows.end(row, "completed", now, {**result, **money})
            rows.log_event(row, "completed", to_us(now), total_score=result["total_score"])
            return ended

    def fail(
        self,
        score_id: str,
        failure: Failure,
        now: datetime,
        unused_usd: float = 0.0,
        *,
        is_left: bool = False,
    ) -> Score:
        """Mark a judgment as failed, with ``is_left`` one that waits. Raises as ``claim``."""
        with self._rows(is_judge=True) as rows:
            row = rows.lock_waiting(score_id) if is_left else rows.lock_open(score_id)
            money = without_unused(row, unused_usd) | {"booked_at_us": to_us(now)}
            values = {"error_message": failure.reason, "retriable": failure.retriable}
            ended = rows.end(row, "failed", now, values | money)
            rows.log_event(row, "failed", to_us(now), error_message=failure.reason)
            return ended

    def defer(
        self, score_id: str, reason: str, now: datetime, next_try_at: datetime | None = None
    ) -> None:
        """Tell those who follow a judgment why it is left for later; nothing if it has ended.

        With ``next_try_at`` it waits until then, and one more wait is counted.
        """
        with self._rows() as rows:
            row = rows.lock(score_id)
            if row["status"] not in OPEN:
                return
            if next_try_at is not None:
                waits = row["waits"] + 1
                rows.change_open(score_id, {"next_try_at_us": to_us(next_try_at), "waits": waits})
            rows.log_event(row, "deferred", to_us(now), error_message=reason)

    @contextmanager
    def _rows(self, *, is_judge: bool = False) -> Iterator[ScoringRows]:
        """Open a write transaction on the rows of judgments; it appends their events last.

        What only the judge may do is refused when its lock is lost.
        """
        with writing(self._engine) as connection:
            if is_judge and self._hold is not None:
                self._hold.check(connection)
            rows = ScoringRows(connection, self._table)
            yield rows
            append_events(connection, rows.events)


_TEXT = RUBRIC_TEXTS.c


class RubricTexts:
    """Reader and writer of ``rubric_texts``."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def keep(self, rubrics: Iterable[Rubric], now: datetime) -> None:
        """Store the rubrics that the ledger does not have."""
        by_hash = {rubric.prompt_hash: rubric for rubric in rubrics}
        with reading(self._engine) as connection:
            known = set(connection.scalars(sa.select(_TEXT.prompt_hash)))
        rows = [
            {
                "prompt_hash": prompt_hash,
                "rubric": rubric.name,
                "score_template": rubric.score_template,
                "missing_tools_template": rubric.missing_tools_template,
                "criteria": [asdict(criterion) for criterion in rubric.criteria],
                "first_used_at_us": to_us(now),
            }
            for prompt_hash, rubric in by_hash.items()
            if prompt_hash not in known
        ]
        if rows:
            with writing(self._engine) as connection:
                insert = insert_into(connection, RUBRIC_TEXTS).values(rows)
                connection.execute(insert.on_conflict_do_nothing())

    def first_used(self) -> dict[str, datetime]:
        """Return when each prompt hash was first seen."""
        query = sa.select(_TEXT.prompt_hash, _TEXT.first_used_at_us)
        with reading(self._engine) as connection:
            return {row[0]: from_us(row[1]) for row in connection.execute(query)}

    def find(self, prompt_hash: str) -> Rubric | None:
        """Return the rubric with a prompt hash; ``None`` if the ledger does not have it."""
        query = sa.select(RUBRIC_TEXTS).where(_TEXT.prompt_hash == prompt_hash)
        with reading(self._engine) as connection:
            row = connection.execute(query).mappings().one_or_none()
        if row is None:
            return None
        criteria = tuple(RubricCriterion(**criterion) for criterion in row["criteria"])
        templates = row["score_template"], row["missing_tools_template"]
        return Rubric(row["rubric"], *templates, criteria)
