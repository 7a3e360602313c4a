"""Store of the rounds of reviewers through the audit sample."""

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.engine import reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.scorecards import AUDIT_STEPS

_STEP = AUDIT_STEPS.c

SkippedSession = tuple[str, str]
"""(organization_id, session_key)"""


@dataclass(frozen=True, slots=True)
class ReviewRound:
    """The newest round of a reviewer: when it began, and what was skipped in it."""

    begun_at: datetime
    skipped: frozenset[SkippedSession]


class ReviewStore:
    """Operations on ``audit_steps``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def begin(self, annotator: str, now: datetime) -> None:
        """Begin a round; what was skipped in earlier rounds no longer counts."""
        self._add(annotator, now, None, None)

    def skip(self, annotator: str, organization_id: str, session_key: str, now: datetime) -> None:
        """Skip a session in the newest round."""
        self._add(annotator, now, organization_id, session_key)

    def newest_round(self, annotator: str) -> ReviewRound | None:
        """Return the newest round; ``None`` before the first."""
        query = (
            sa.select(_STEP.organization_id, _STEP.session_key, _STEP.made_at)
            .where(_STEP.annotator == annotator)
            .order_by(_STEP.position)
        )
        found: ReviewRound | None = None
        with reading(self._engine) as connection:
            for organization_id, session_key, made_at in connection.execute(query):
                if session_key is None:
                    found = ReviewRound(made_at, frozenset())
                elif found is not None:
                    skipped = found.skipped | {(organization_id, session_key)}
                    found = ReviewRound(found.begun_at, skipped)
        return found

    def _add(
        self, annotator: str, now: datetime, organization_id: str | None, session_key: str | None
    ) -> None:
        step = sa.insert(AUDIT_STEPS).values(
            annotator=annotator,
            organization_id=organization_id,
            session_key=session_key,
            made_at=now,
        )
        with writing(self._engine) as connection:
            connection.execute(step)
