"""Scores of stored sessions, as the lists of the terminal show them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import polars as pl

from evaluation_pipelines.cli.session_lines import ShownScore, print_sessions, session_key_of
from evaluation_pipelines.formatting import points
from evaluation_pipelines.judging.domain.badge import Badge, badges_of, band
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.schemas import SESSION_EVALUATIONS
from evaluation_pipelines.scorecards.domain.evaluation import with_newest_overrides
from evaluation_pipelines.scorecards.domain.withheld import (
    REVIEW_DUE,
    SessionKey,
    without_scores,
)
from evaluation_pipelines.scorecards.ledger.override_store import OverrideStore
from evaluation_pipelines.scorecards.open_samples import open_samples
from evaluation_pipelines.sessions.domain.find_session import SessionRow
from evaluation_pipelines.storage.stores import Stores


@dataclass(frozen=True, slots=True)
class StoredScore:
    """Scores of a session.

    Attributes:
        effective_100: The score that counts, 0-100; ``None`` if there is none.
        effective_source: Where it comes from.
        provisional_100: The score so far of one that has not ended.
        badge: That of the judge.
    """

    effective_100: float | None
    effective_source: str
    provisional_100: float | None
    badge: Badge


StoredScores: TypeAlias = Mapping[SessionKey, StoredScore]
"""By (organization_id, session_key)."""


def stored_scores(stores: Stores, rows: Sequence[SessionRow]) -> StoredScores:
    """Return the scores of sessions; overrides count from the moment they are made.

    Raises:
        LakeError: A file cannot be read.
        LedgerError: The ledger cannot be used.
    """
    if not rows:
        return {}
    days = sorted({row["session_date"] for row in rows})
    scorings = ScoreStore(stores.ledger).listed(days[0], days[-1])
    badges = badges_of(scorings, {session_key_of(row): row["content_hash"] for row in rows})
    is_listed = pl.col("session_key").is_in({row["session_key"] for row in rows})
    evaluations = stores.lake.read(SESSION_EVALUATIONS, days, where=is_listed)
    overrides = OverrideStore(stores.ledger).of_dates(days)
    counting = {
        session_key_of(row): (row["effective_100"], row["effective_source"], row["provisional_100"])
        for row in with_newest_overrides(evaluations, overrides).iter_rows(named=True)
    }
    return {
        key: StoredScore(*counting.get(key, (None, "none", None)), badges[key]) for key in badges
    }


def waiting_of(stores: Stores) -> frozenset[SessionKey]:
    """Return the sessions that wait for a blind review: no table shows their scores."""
    if not open_samples(stores):
        return frozenset()
    from evaluation_pipelines.scorecards.blind_reviews import BlindReviews  # loads profiles

    return BlindReviews(stores).waiting()


def print_stored_sessions(
    stores: Stores, rows: Sequence[SessionRow], title: str = "Sessions"
) -> None:
    """Print a table of stored sessions, without the scores of those that wait for a review."""
    waiting, scores = waiting_of(stores), stored_scores(stores, rows)
    due = ShownScore(REVIEW_DUE, Badge(REVIEW_DUE))
    shown = {key: due if key in waiting else _shown(each) for key, each in scores.items()}
    lines = [without_scores(row) if session_key_of(row) in waiting else row for row in rows]
    print_sessions(lines, shown, title)


def _shown(found: StoredScore) -> ShownScore:
    score, so_far = found.effective_100, found.provisional_100
    if score is not None:
        return ShownScore(f"{points(score)} {band(score)}", found.badge)
    return ShownScore(None if so_far is None else f"{points(so_far)} provisional", found.badge)
