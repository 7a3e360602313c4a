"""The audit samples that have no answer yet."""

from evaluation_pipelines.scorecards.ledger.override_store import AuditSample, OverrideStore
from evaluation_pipelines.scorecards.ledger.review_store import ReviewStore
from evaluation_pipelines.sessions.chosen import chosen_of
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter
from evaluation_pipelines.storage.stores import Stores


def open_samples(stores: Stores, which: SessionFilter = ALL_SESSIONS) -> list[AuditSample]:
    """Return the samples of chosen sessions that still get an answer, the oldest first."""
    unanswered = [
        each for each in OverrideStore(stores.ledger).samples() if each.override_id is None
    ]
    left = ReviewStore(stores.ledger).left() if unanswered else ()
    found = [each for each in unanswered if (each.organization_id, each.session_key) not in left]
    return chosen_of(stores.lake, which, found)


def waiting_samples(stores: Stores, organization: str | None) -> list[AuditSample]:
    """Return the samples without an answer of one organization, or of all, the oldest first."""
    return [each for each in open_samples(stores) if organization in {None, each.organization_id}]
