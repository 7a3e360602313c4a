"""Queries of judgments, of their events, and of the money that a day has spent.

The daily budget counts spent and reserved money of all judging of a day (UTC).

The functions run within a transaction; ``lock_day_budget`` must come first in it.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, TypeAlias

import sqlalchemy as sa

from evaluation_pipelines.judging.domain.badge import ScoringsOfDay
from evaluation_pipelines.judging.domain.budget import DayReservation, Deferred, day_begin_us
from evaluation_pipelines.judging.domain.due import PastScore
from evaluation_pipelines.schemas.judge_score import OPEN, TERMINAL, LoggedTurn, Score
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.ledger.engine import chunks, lock_for_budget, reading
from evaluation_pipelines.storage.ledger.errors import LedgerError
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.service_events import ServiceEvent, ServiceEvents
from evaluation_pipelines.storage.ledger.tables.judging import (
    ANCHOR_SCORES,
    SESSION_SCORES,
)
from evaluation_pipelines.storage.ledger.tables.people import SERVICE_EVENTS
from evaluation_pipelines.storage.lock import JUDGE, holders
from evaluation_pipelines.times import from_us, to_us


class ScoringOpenError(LedgerError):
    """The same profile and model score the session already, or did so a moment ago."""


class DayBudgetReachedError(LedgerError):
    """A reservation does not fit into the budget of the day.

    Attributes:
        refused: The limit that was reached, with a sentence about it.
        is_held: True if it may fit after judgments in progress, of any run, have ended.
    """

    def __init__(self, refused: Deferred, *, is_held: bool) -> None:
        super().__init__(refused.reason)
        self.refused = refused
        self.is_held = is_held


class UnknownScoreError(LedgerError):
    """No judgment has this id."""


class ScoreEndedError(LedgerError):
    """The judgment is completed or failed and cannot be changed."""


PastByProfile: TypeAlias = dict[tuple[str, str, str], list[PastScore]]
"""Scorings by (organization_id, session_key, judge_profile_id), oldest first."""

_EVENT = SERVICE_EVENTS.c
_IS_OF_SCORING = _EVENT.type.like("scoring.%")


@dataclass(frozen=True, slots=True)
class WindowScorings:
    """Number and cost of the judgments of a session window.

    ``cost_usd`` is ``None`` if one of the prices is unknown.
    """

    organization_id: str
    session_key: str
    scorings: int
    cost_usd: float | None


class ScoreQueries:
    """Reader of scores; every method sees one consistent state of the ledger."""

    def __init__(self, ledger: Ledger, table: sa.Table = SESSION_SCORES) -> None:
        """Read from ``table``, which has the columns of ``session_scores``."""
        self._ledger, self._engine = ledger, ledger.engine
        self._service_events = ServiceEvents(ledger)
        self._as_of = ledger.as_of
        self._table, self._score = table, table.c
        self._oldest_first = (table.c.scored_at_us, table.c.score_id)

    def get(self, score_id: str) -> Score:
        """Return the current state of one scoring.

        Raises:
            UnknownScoreError: No judgment has this id.
        """
        found = self._select(self._score.score_id == score_id)
        if not found:
            raise UnknownScoreError(f"The ledger has no judgment {score_id}.")
        return found[0]

    def by_session(self, organization_id: str, session_key: str) -> list[Score]:
        """Return all judgments of a session window, oldest first."""
        return self._select(
            self._score.session_key == session_key, self._score.organization_id == organization_id
        )

    def on_date(self, session_date: date) -> list[Score]:
        """Return all judgments of the sessions of a date, oldest first."""
        return self._select(self._score.session_date == session_date)

    def by_window(self, session_date: date) -> list[WindowScorings]:
        """Return number and cost of all judgments of a date, sorted by session window."""
        window = self._score.organization_id, self._score.session_key
        is_answered = sa.func.json_array_length(self._score.turn_log) > 0
        is_unpriced = sa.and_(is_answered, self._score.judge_cost_usd.is_(None))
        unpriced = sa.func.sum(sa.case((is_unpriced, 1), else_=0))
        cost = sa.func.coalesce(sa.func.sum(self._score.judge_cost_usd), 0.0)
        query = sa.select(*window, sa.func.count(), sa.case((unpriced == 0, cost)))
        query = query.where(self._score.session_date == session_date).group_by(*window)
        with reading(self._engine) as connection:
            return [WindowScorings(*row) for row in connection.execute(query.order_by(*window))]

    def listed(self, since: date | None = None, until: date | None = None) -> list[Score]:
        """Return the judgments of the sessions of some dates without their texts, oldest first.

        Args:
            since: First session date; ``None`` for the oldest.
            until: Last session date; ``None`` for the newest.
        """
        day = self._score.session_date
        conditions = [] if since is None else [day >= since]
        conditions += [] if until is None else [day <= until]
        return self._select(
            *conditions, columns=[column for column in self._score if not _is_text(column)]
        )

    def listed_of(self, session_keys: Collection[str]) -> list[Score]:
        """Return the judgments of some session keys, of any organization, oldest first.

        Of their texts they have ``error_message`` alone.
        """
        columns = [column for column in self._score if not _is_text(column)]
        found = [
            score
            for chunk in chunks(session_keys)
            for score in self._select(
                self._score.session_key.in_(chunk), columns=[*columns, self._score.error_message]
            )
        ]
        return sorted(found, key=lambda score: (score.scored_at_us, score.score_id))

    def keys_to_look_up(self, days: Collection[date], flags: Collection[str]) -> set[str]:
        """Return the keys of sessions whose badge may differ from the total of their last build.

        These have a judgment that is open or has failed, or one with a flag, or are of some days.

        Args:
            days: Session dates.
            flags: Names in SCORE_FLAGS.
        """
        reasons = [self._score.status != "completed", self._score.session_date.in_(sorted(days))]
        reasons += [self._score[name].is_(True) for name in flags]
        query = sa.select(self._score.session_key).where(sa.or_(*reasons))
        with reading(self._engine) as connection:
            return set(connection.scalars(query.distinct()))

    def with_ids(self, score_ids: Collection[str]) -> dict[str, Score]:
        """Return whole judgments by their id."""
        found = [
            score
            for chunk in chunks(score_ids)
            for score in self._select(self._score.score_id.in_(chunk))
        ]
        return {score.score_id: score for score in found}

    def dates(self) -> list[date]:
        """Return the dates that have judgments, oldest first."""
        query = sa.select(self._score.session_date).distinct().order_by(self._score.session_date)
        with reading(self._engine) as connection:
            return list(connection.scalars(query))

    def newest_changes(self) -> dict[date, tuple[int, int | None]]:
        """Return number of judgments and time of the last change (microseconds) by date."""
        changed = sa.func.coalesce(
            self._score.completed_at_us, self._score.started_at_us, self._score.scored_at_us
        )
        query = sa.select(self._score.session_date, sa.func.count(), sa.func.max(changed))
        with reading(self._engine) as connection:
            rows = connection.execute(query.group_by(self._score.session_date))
            return {day: (int(number), newest) for day, number, newest in rows}

    def open_scores(self) -> list[Score]:
        """Return all judgments that have not ended, oldest first."""
        return self._select(self._score.status.in_(OPEN))

    def past(self, session_dates: Collection[date]) -> PastByProfile:
        """Return the past judgments of the sessions of ``session_dates``."""
        columns = [
            self._score[name]
            for name in (
                "organization_id",
                "session_key",
                "judge_profile_id",
                "status",
                "judge_profile_version",
                "content_hash",
                "retriable",
                "completed_at_us",
                "error_message",
                "prompt_hash",
            )
        ]
        past: PastByProfile = defaultdict(list)
        with reading(self._engine) as connection:
            for chunk in chunks(session_dates):
                query = sa.select(*columns).where(self._score.session_date.in_(chunk))
                for row in connection.execute(query.order_by(*self._oldest_first)):
                    *key, status, version, content, retriable, ended_us, error, prompt_hash = row
                    ended = None if ended_us is None else from_us(ended_us)
                    past[key[0], key[1], key[2]].append(
                        PastScore(status, version, content, prompt_hash, retriable, ended, error)
                    )
        return dict(past)

    def requests(self, now: datetime) -> list[Score]:
        """Return the judgments that people wait for and no judge works on, oldest first."""
        is_asked = self._score.requested_by.is_not(None)
        waiting = self._select(self._score.status.in_(OPEN), is_asked)
        now_us = to_us(now)
        return [
            score
            for score in waiting
            if score.status == "pending" and (score.next_try_at_us or 0) <= now_us
        ]

    def events(self, score_id: str) -> list[ServiceEvent]:
        """Return the events of a judgment in order."""
        return self._events(0, _EVENT.score_id == score_id)

    def events_after(self, event_id: int) -> list[ServiceEvent]:
        """Return all events after ``event_id``, for consumers that follow the events."""
        return self._events(event_id)

    def newest_events(
        self, limit: int, score_ids: Collection[str] | None = None
    ) -> list[ServiceEvent]:
        """Return the newest events in order.

        Args:
            limit: Maximum number of events.
            score_ids: The judgments; ``None`` for all, anchors of judge changes among them.
        """
        newest = self._service_events.newest
        if score_ids is None:
            return newest(limit, _IS_OF_SCORING)
        found = [
            event
            for chunk in chunks(score_ids)
            for event in newest(limit, _IS_OF_SCORING, _EVENT.score_id.in_(chunk))
        ]
        return sorted(found, key=lambda event: event.event_id)[-limit:]

    def _select(
        self, *conditions: sa.ColumnElement[bool], columns: Sequence[sa.Column[Any]] | None = None
    ) -> list[Score]:
        what = [self._table] if columns is None else columns
        query = sa.select(*what).where(*conditions).order_by(*self._oldest_first)
        if self._as_of is not None:
            # The ledger does not keep earlier states of unfinished judgments.
            query = query.where(self._score.completed_at_us <= to_us(self._as_of))
        with reading(self._engine) as connection:
            found = [score_of(row) for row in connection.execute(query).mappings()]
        return self._as_they_are(found)

    def _as_they_are(self, scores: list[Score]) -> list[Score]:
        """Return what a judge that died left in progress as ``pending``: no process works on it."""
        if not any(map(_is_at_work, scores)):
            return scores
        if any(holder.name == JUDGE for holder in holders(self._ledger)):
            return scores
        return [
            replace(score, status="pending") if _is_at_work(score) else score for score in scores
        ]

    def _events(self, after: int, *conditions: sa.ColumnElement[bool]) -> list[ServiceEvent]:
        return self._service_events.after(after, _IS_OF_SCORING, *conditions)


def _is_at_work(score: Score) -> bool:
    """Return whether a process is to be at work: what waits in a batch needs none."""
    return score.status == "in_progress" and score.batch_id is None


def _is_text(column: sa.Column[Any]) -> bool:
    """True for columns that may be long: a list of thousands of judgments does without them."""
    return column.name == "turn_log" or isinstance(column.type, sa.Text)


def score_of(row: sa.RowMapping) -> Score:
    """Return a row as a ``Score``; columns that were not selected have their defaults."""
    turns = tuple(LoggedTurn(**turn) for turn in row.get("turn_log", ()))
    return Score(**{**row, "turn_log": turns})


_SCORE = SESSION_SCORES.c


def day_scorings(
    ledger: Ledger, now: datetime, organization_id: str | None = None
) -> ScoringsOfDay:
    """Return today's numbers, of one organization or of all.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    is_of_day = _SCORE.status.in_(TERMINAL) & (_SCORE.started_at_us >= day_begin_us(now))
    cost = _SCORE.judge_cost_usd
    counted = (sa.func.count(), sa.func.coalesce(sa.func.sum(cost), 0.0), sa.func.count(cost))
    group = (_SCORE.status, _SCORE.judge_model)
    query = sa.select(*group, *counted).where(is_of_day | _SCORE.status.in_(OPEN))
    if organization_id is not None:
        query = query.where(_SCORE.organization_id == organization_id)
    with reading(ledger.engine) as connection:
        rows = connection.execute(query.group_by(*group)).all()
    number: Counter[str] = Counter()
    for status, _, count, _, _ in rows:
        number[status] += count
    ended = [row for row in rows if row[0] in TERMINAL]
    return ScoringsOfDay(
        completed=number["completed"],
        failed=number["failed"],
        open=sum(number[status] for status in OPEN),
        cost_usd=float(sum(usd for *_, usd, _ in ended)),
        without_cost=sum(count - known for *_, count, _, known in ended),
        models=tuple(sorted(model for status, model, *_ in rows if status == "completed")),
    )


def newest_scoring(
    ledger: Ledger, judge_model: str | None, organization_id: str | None = None
) -> datetime | None:
    """Return when the newest score of a model was begun, of one organization or of all.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    query = sa.select(_SCORE.started_at_us).where(
        _SCORE.status == "completed",
        _SCORE.started_at_us.is_not(None),
        _SCORE.judge_model == judge_model,
    )
    if organization_id is not None:
        query = query.where(_SCORE.organization_id == organization_id)
    with reading(ledger.engine) as connection:
        found = connection.scalar(query.order_by(_SCORE.started_at_us.desc()).limit(1))
    return None if found is None else from_us(found)


def lock_day_budget(connection: sa.Connection, reservation: DayReservation | None) -> None:
    """Serialize transactions that reserve money under a daily limit."""
    if reservation is not None and reservation.max_day_usd is not None:
        lock_for_budget(connection)


def reserve(
    connection: sa.Connection,
    score_id: str,
    reservation: DayReservation | None,
    now: datetime,
    booked_usd: float = 0.0,
    reserved_usd: float = 0.0,
) -> dict[str, Any]:
    """Return the column values of a judgment that reserves more money.

    Args:
        connection: Connection of the transaction.
        score_id: The judgment.
        reservation: The money to reserve; ``None`` if the price is unknown.
        now: The time.
        booked_usd: Amount that the judgment has booked already.
        reserved_usd: Amount that the judgment has reserved already.

    Returns:
        Values for its row; empty if the price is unknown.

    Raises:
        DayBudgetReachedError: The reservation does not fit into the rest of the daily budget.
    """
    if reservation is None:
        return {}
    check_day_budget(connection, reservation, now, score_id, booked_usd + reserved_usd)
    return {
        "booked_cost_usd": booked_usd + reservation.now_usd,
        "reserved_cost_usd": reserved_usd + reservation.later_usd,
        "booked_at_us": to_us(now),
    }


def check_day_budget(
    connection: sa.Connection,
    reservation: DayReservation,
    now: datetime,
    score_id: str | None = None,
    already_usd: float = 0.0,
) -> None:
    """Raise an error if a reservation does not fit into the rest of the daily budget.

    Args:
        connection: Connection of the transaction.
        reservation: The money to reserve.
        now: The time.
        score_id: The judgment that reserves it; ``None`` if it is not for a judgment.
        already_usd: Amount that this judgment has booked or reserved already.

    Raises:
        DayBudgetReachedError: The reservation does not fit.
    """
    if reservation.max_day_usd is not None:
        others_usd, is_held = _others_usage(connection, score_id, now)
        refused = reservation.refusal(others_usd + already_usd)
        if refused is not None:
            fits_empty_budget = reservation.refusal(0.0) is None
            raise DayBudgetReachedError(refused, is_held=is_held and fits_empty_budget)


def spent_today(ledger: Ledger, now: datetime) -> float:
    """Return the US dollars that all judging of the day has spent or reserved.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    with reading(ledger.engine) as connection:
        usd, _ = _others_usage(connection, None, now)
    return usd


def _others_usage(
    connection: sa.Connection, score_id: str | None, now: datetime
) -> tuple[float, bool]:
    """Return the money that others spent and reserved today, and whether a call holds any of it.

    A judgment in progress counts completely, whenever its money was booked or reserved.
    """
    scorings = [
        _scorings_usage(connection, table, score_id, now)
        for table in (SESSION_SCORES, ANCHOR_SCORES)
    ]
    return sum(score for score, _ in scorings), any(is_held for _, is_held in scorings)


def _scorings_usage(
    connection: sa.Connection, table: sa.Table, score_id: str | None, now: datetime
) -> tuple[float, bool]:
    """Return the same for the other judgments of one table."""
    score = table.c
    is_in_progress = score.status == "in_progress"
    # Scorings that wait in a batch hold their money for hours: waiting for it would be in vain.
    is_held = sa.and_(is_in_progress, score.batch_id.is_(None))
    counted = sa.func.coalesce(score.booked_cost_usd, 0.0) + sa.func.coalesce(
        score.reserved_cost_usd, 0.0
    )
    sums = sa.select(
        sa.func.coalesce(sa.func.sum(counted), 0.0),
        sa.func.coalesce(sa.func.sum(sa.case((is_held, 1), else_=0)), 0),
    ).where(
        (score.booked_at_us >= day_begin_us(now)) | is_in_progress,
        score.score_id.is_distinct_from(score_id),
    )
    usd, held = connection.execute(sums).one()
    return float(usd), held > 0


def spending_line(ledger: Ledger, settings: Settings, now: datetime) -> str:
    """Return the money of the day and the limits of the settings in one line."""
    said = f"judge: ${spent_today(ledger, now):.4f} spent or reserved today (UTC)"
    limits = settings.judge_limits
    if limits:
        return f"{said}, limits: {limits}"
    why_not = settings.why_no_judge
    return f"{said}, {why_not or 'no limit is set: EVAL_JUDGE_MAX_COST_PER_DAY_USD sets one'}"
