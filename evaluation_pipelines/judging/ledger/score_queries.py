"""What is asked of ``session_scores`` and ``scoring_events``; nothing here changes them."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import TypeAlias

import sqlalchemy as sa

from evaluation_pipelines.judging.domain.due import PastScore
from evaluation_pipelines.judging.domain.score import OPEN, LoggedTurn, Score
from evaluation_pipelines.judging.ledger.errors import UnknownScoreError
from evaluation_pipelines.judging.ledger.score_records import ScoringEvent, WindowScorings
from evaluation_pipelines.storage.ledger.engine import chunks, reading
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.judging import SCORING_EVENTS, SESSION_SCORES
from evaluation_pipelines.times import to_us

PastByProfile: TypeAlias = dict[tuple[str, str, str], list[PastScore]]
"""(organization_id, session_key, judge_profile_id) -> scorings, the oldest first."""

Subject: TypeAlias = tuple[str, str, str, str]
"""(organization_id, session_key, judge_profile_id, content_hash)"""

_SCORE = SESSION_SCORES.c
_EVENT = SCORING_EVENTS.c
_OLDEST_FIRST = (_SCORE.scored_at_us, _SCORE.score_id)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ScoreQueries:
    """Reads the scores; every method sees one state of the ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine
        self._as_of = ledger.as_of

    def get(self, score_id: str) -> Score:
        """One scoring as it stands now.

        Raises:
            UnknownScoreError: no such scoring.
        """
        found = self._select(_SCORE.score_id == score_id)
        if not found:
            raise UnknownScoreError(f"The ledger knows no scoring {score_id}.")
        return found[0]

    def by_session(self, organization_id: str, session_key: str) -> list[Score]:
        """All scorings of a session window, the oldest first."""
        return self._select(
            _SCORE.session_key == session_key, _SCORE.organization_id == organization_id
        )

    def on_date(self, session_date: date) -> list[Score]:
        """All scorings of the sessions of a date, the oldest first."""
        return self._select(_SCORE.session_date == session_date)

    def by_window(self, session_date: date) -> list[WindowScorings]:
        """Scorings of a date, whatever became of them, by session window and in its order."""
        window = _SCORE.organization_id, _SCORE.session_key
        unpriced = sa.func.count(_SCORE.latency_ms) - sa.func.count(_SCORE.judge_cost_usd)
        cost = sa.func.coalesce(sa.func.sum(_SCORE.judge_cost_usd), 0.0)
        query = sa.select(*window, sa.func.count(), sa.case((unpriced == 0, cost)))
        query = query.where(_SCORE.session_date == session_date).group_by(*window)
        with reading(self._engine) as connection:
            return [WindowScorings(*row) for row in connection.execute(query.order_by(*window))]

    def dates(self) -> list[date]:
        """The dates with scorings, oldest first."""
        query = sa.select(_SCORE.session_date).distinct().order_by(_SCORE.session_date)
        with reading(self._engine) as connection:
            return list(connection.scalars(query))

    def newest_changes(self) -> dict[date, tuple[int, int | None]]:
        """For each date with scorings: how many, and when the newest changed last (us)."""
        changed = sa.func.coalesce(
            _SCORE.completed_at_us, _SCORE.started_at_us, _SCORE.scored_at_us
        )
        query = sa.select(_SCORE.session_date, sa.func.count(), sa.func.max(changed))
        with reading(self._engine) as connection:
            rows = connection.execute(query.group_by(_SCORE.session_date))
            return {day: (int(number), newest) for day, number, newest in rows}

    def open_scores(self) -> list[Score]:
        """All scorings that have not come to their end, held by somebody or not; oldest first."""
        return self._select(_SCORE.status.in_(OPEN))

    def past(self, session_dates: Collection[date]) -> PastByProfile:
        """What was scored of the sessions of some dates, in short."""
        columns = [
            _SCORE[name]
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
        found: PastByProfile = defaultdict(list)
        with reading(self._engine) as connection:
            for chunk in chunks(session_dates):
                query = sa.select(*columns).where(_SCORE.session_date.in_(chunk))
                for row in connection.execute(query.order_by(*_OLDEST_FIRST)):
                    *key, status, version, content, retriable, ended_us, error, words = row
                    ended = None if ended_us is None else _EPOCH + timedelta(microseconds=ended_us)
                    found[key[0], key[1], key[2]].append(
                        PastScore(status, version, content, words, retriable, ended, error)
                    )
        return dict(found)

    def obsolete(self, prompt_hashes: Mapping[str, str]) -> list[Score]:
        """Completed scores that were made by other words than those of today, the oldest first.

        Args:
            prompt_hashes: rubric -> hash of its templates as they are now; scores by a rubric that
                is missing here are obsolete too.
        """
        return self._select(_SCORE.status == "completed", ~_by_words(prompt_hashes))

    def scored_last(self, prompt_hashes: Mapping[str, str]) -> dict[Subject, int]:
        """When (us) each session's content was scored last by the words of today."""
        subject = _SCORE.organization_id, _SCORE.session_key, _SCORE.judge_profile_id
        columns = (*subject, _SCORE.content_hash)
        query = sa.select(*columns, sa.func.max(_SCORE.completed_at_us)).group_by(*columns)
        query = query.where(_SCORE.status == "completed", _by_words(prompt_hashes))
        with reading(self._engine) as connection:
            return {(row[0], row[1], row[2], row[3]): row[4] for row in connection.execute(query)}

    def lease_owners(self) -> list[str]:
        """Who holds scorings that have not come to their end, or has left them with a lease."""
        query = (
            sa.select(_SCORE.lease_owner)
            .where(_SCORE.status.in_(OPEN), _SCORE.lease_owner.is_not(None))
            .distinct()
        )
        with reading(self._engine) as connection:
            return list(connection.scalars(query.order_by(_SCORE.lease_owner)))

    def events(self, score_id: str) -> list[ScoringEvent]:
        """What happened to a scoring, in its order."""
        return self._events(_EVENT.score_id == score_id)

    def events_after(self, event_id: int) -> list[ScoringEvent]:
        """Everything that happened after an event, for those who follow along."""
        return self._events(_EVENT.event_id > event_id)

    def _select(self, *conditions: sa.ColumnElement[bool]) -> list[Score]:
        query = sa.select(SESSION_SCORES).where(*conditions).order_by(*_OLDEST_FIRST)
        if self._as_of is not None:
            # How far the others had come by then is not kept.
            query = query.where(_SCORE.completed_at_us <= to_us(self._as_of))
        with reading(self._engine) as connection:
            return [score_of(row) for row in connection.execute(query).mappings()]

    def _events(self, *conditions: sa.ColumnElement[bool]) -> list[ScoringEvent]:
        query = sa.select(SCORING_EVENTS).where(*conditions).order_by(_EVENT.event_id)
        with reading(self._engine) as connection:
            return [ScoringEvent(**row) for row in connection.execute(query).mappings()]


def _by_words(prompt_hashes: Mapping[str, str]) -> sa.ColumnElement[bool]:
    of_rubrics = [
        sa.and_(_SCORE.rubric == rubric, _SCORE.prompt_hash == prompt_hash)
        for rubric, prompt_hash in prompt_hashes.items()
    ]
    return sa.or_(sa.false(), *of_rubrics)


def score_of(row: sa.RowMapping) -> Score:
    """A row as a value."""
    turns = tuple(LoggedTurn(**each) for each in row["turn_log"])
    return Score(**{**row, "turn_log": turns})
