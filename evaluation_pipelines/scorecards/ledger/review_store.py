"""Store of what reviewers of the audit sample do, apart from their answers."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import sqlalchemy as sa

from evaluation_pipelines.scorecards.domain.withheld import SessionKey
from evaluation_pipelines.storage.ledger.engine import reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.judging import AUDIT_STEPS

_STEP = AUDIT_STEPS.c


@dataclass(frozen=True, slots=True)
class ReviewRound:
    """The newest round of a reviewer: when it began, and what was skipped in it."""

    begun_at: datetime
    skipped: frozenset[SessionKey]


class ReviewStore:
    """Operations on ``audit_steps``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def begin(self, annotator: str, now: datetime) -> None:
        """Begin a round; what was skipped in earlier rounds no longer counts."""
        self._add(annotator, now, "begin", (None, None))

    def show(self, annotator: str, key: SessionKey, now: datetime) -> None:
        """Record that a reviewer is looking at a session."""
        self._add(annotator, now, "show", key)

    def skip(self, annotator: str, key: SessionKey, now: datetime) -> None:
        """Skip a session in the newest round."""
        self._add(annotator, now, "skip", key)

    def look(self, annotator: str, key: SessionKey, now: datetime) -> None:
        """Record that a reviewer looks at the automatic score of a session without an answer."""
        self._add(annotator, now, "look", key)

    def leave(self, annotator: str, key: SessionKey, now: datetime) -> None:
        """Record that a session leaves the sample, because a person asked for its score."""
        self._add(annotator, now, "leave", key)

    def left(self) -> frozenset[SessionKey]:
        """Return the sessions that have left the sample."""
        query = sa.select(_STEP.organization_id, _STEP.session_key).where(_STEP.step == "leave")
        with reading(self._engine) as connection:
            return frozenset((row[0], row[1]) for row in connection.execute(query))

    def newest_round(self, annotator: str) -> ReviewRound | None:
        """Return the newest round; ``None`` before the first."""
        mine = sa.select(AUDIT_STEPS).where(_STEP.annotator == annotator).order_by(_STEP.position)
        found: ReviewRound | None = None
        with reading(self._engine) as connection:
            for row in connection.execute(mine).mappings():
                if row["step"] == "begin":
                    found = ReviewRound(row["made_at"], frozenset())
                elif row["step"] == "skip" and found is not None:
                    skipped = found.skipped | {(row["organization_id"], row["session_key"])}
                    found = ReviewRound(found.begun_at, skipped)
        return found

    def not_blind(self, annotators: Collection[str]) -> frozenset[SessionKey]:
        """Return the sessions whose automatic score reviewers have seen and not answered.

        They took their answer back, or looked at the score.
        """
        query = sa.select(_STEP.organization_id, _STEP.session_key).where(
            _STEP.annotator.in_(annotators), _STEP.step.in_(("undo", "look"))
        )
        with reading(self._engine) as connection:
            return frozenset((row[0], row[1]) for row in connection.execute(query))

    def shown_to_others(self, annotator: str, since: datetime) -> frozenset[SessionKey]:
        """Return the sessions at which other reviewers are looking: shown since, and no step later.

        Nothing is locked: a reviewer who has gone holds nothing up.
        """
        newest = sa.select(sa.func.max(_STEP.position)).group_by(_STEP.annotator)
        query = sa.select(_STEP.organization_id, _STEP.session_key).where(
            _STEP.position.in_(newest),
            _STEP.step == "show",
            _STEP.annotator != annotator,
            _STEP.made_at >= since,
        )
        with reading(self._engine) as connection:
            return frozenset((row[0], row[1]) for row in connection.execute(query))

    def _add(
        self,
        annotator: str,
        now: datetime,
        step: Literal["begin", "show", "skip", "look", "leave"],
        key: tuple[str | None, str | None],
    ) -> None:
        values = {"annotator": annotator, "step": step, "made_at": now}
        organization_id, session_key = key
        insert = sa.insert(AUDIT_STEPS).values(
            **values, organization_id=organization_id, session_key=session_key
        )
        with writing(self._engine) as connection:
            connection.execute(insert)
