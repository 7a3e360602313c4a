"""Reviews and corrections of the demo, by a script in place of people, and its alerts.

The oldest nights of the audit sample are answered, the newer ones wait: the first visitor of
the page of reviews finds an audit in progress.
"""

import hashlib
import logging
from dataclasses import dataclass, replace
from datetime import date, datetime
from math import floor

from evaluation_pipelines.attention.checks import check_alerts
from evaluation_pipelines.profiles.domain.profile import ProfileError
from evaluation_pipelines.schemas import SESSION_EVALUATIONS, SESSION_KEY
from evaluation_pipelines.scorecards.audit_review import AuditReview
from evaluation_pipelines.scorecards.blind_reviews import draw_samples, undrawn_dates
from evaluation_pipelines.scorecards.overrides import HumanVerdict, new_override
from evaluation_pipelines.scorecards.scorecard_queries import (
    Target,
    read_session_lookup,
)
from evaluation_pipelines.scorecards.store import AuditSample, OverrideStore
from evaluation_pipelines.sessions.domain.find_session import SessionNotFoundError
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.storage.stores import Stores

DEMO_REVIEWER, DEMO_LEAD = "demo-reviewer", "demo-lead"
"""Names that say that no person was asked."""

_ANSWERED_NIGHTS, _CORRECTIONS = 2, 3
_EARLIER_CONTENT = hashlib.sha256(b"the session before it continued").hexdigest()
_KIND_EVERY, _TOO_KIND_BY = 4, 0.15
"""The script finds every fourth score too kind, by that share of the scale."""

_SILENT = logging.getLogger("evaluation_pipelines.demo.alerts")
_SILENT.disabled = True  # the alerts are for the overview, not for the terminal


@dataclass(frozen=True, slots=True)
class DemoReviews:
    """Numbers of answers to the audit sample, of corrections, and of samples that wait.

    The last correction does not count: it is of an earlier content of its session.
    """

    answered: int
    corrected: int
    waiting: int


def review_demo(stores: Stores, now: datetime) -> DemoReviews | None:
    """Answer the oldest samples and correct scores; ``None`` if it was done before.

    Raises:
        LedgerError: The ledger cannot be used.
        LakeError: A file cannot be read.
    """
    if not OverrideStore(stores.ledger).of_dates().is_empty():
        return None
    draw_samples(stores, undrawn_dates(stores, now.date()), now)
    review = AuditReview(stores, DEMO_REVIEWER)
    review.begin(now)
    waiting = review.waiting()
    nights = sorted({each.session_date for each in waiting})
    answered = _answer(review, _of(waiting, nights[:_ANSWERED_NIGHTS]), now)
    corrected = _correct(stores, waiting, nights[:1], now)
    return DemoReviews(answered, corrected, len(review.waiting()))


def raise_demo_alerts(stores: Stores, now: datetime) -> None:
    """Raise the alerts of the demo in the ledger alone: no webhook gets them."""
    settings = stores.settings.model_copy(update={"alert_webhook_url": None})
    check_alerts(replace(stores, settings=settings), now, _SILENT)


def _of(samples: list[AuditSample], nights: list[date]) -> list[AuditSample]:
    return [each for each in samples if each.session_date in nights]


def _answer(review: AuditReview, samples: list[AuditSample], now: datetime) -> int:
    """Answer samples as the script sees them; return how many."""
    answered = 0
    for number, sample in enumerate(samples):
        try:
            target = review.target(sample)
        except (SessionNotFoundError, ProfileError):
            continue
        is_too_kind = number % _KIND_EVERY == 0
        given = review.answer(target, _score(target, is_too_kind=is_too_kind), now)
        criterion = target.profile.criterion_ids[0] if is_too_kind else None
        is_right = given.new.is_confirmation
        reason = "as the steps say" if not is_too_kind else "the result was not checked"
        review.explain(given, target, reason, None if is_right else criterion, now)
        answered += 1
    return answered


def _score(target: Target, *, is_too_kind: bool) -> float:
    """Return a whole score near the automatic one; the middle of the scale without any."""
    scale = target.profile.scale
    automatic = target.automatic_score
    if automatic is None:
        return (scale.min + scale.max) / 2
    by = _TOO_KIND_BY * (scale.max - scale.min) if is_too_kind else 0
    return max(scale.min, float(floor(automatic - by + 0.5)))


def _correct(stores: Stores, samples: list[AuditSample], nights: list[date], now: datetime) -> int:
    """Correct scores that were not drawn, as people do who happen to see them; return how many."""
    drawn = {each.key for each in samples}
    evaluated = stores.lake.read(
        SESSION_EVALUATIONS, nights, [*SESSION_KEY, "effective_source"]
    ).filter(effective_source="scorecard")
    keys = evaluated.select(SESSION_KEY).sort(SESSION_KEY).rows()
    chosen = [each for each in keys if each not in drawn][:_CORRECTIONS]
    lookup = read_session_lookup(stores, {session for _, session in chosen})
    corrections = []
    for organization, session in chosen:
        target = lookup.find(SessionName(session, organization))
        verdict = HumanVerdict(target.profile.scale.min, DEMO_LEAD, "it broke the build afterwards")
        corrections.append(new_override(target, verdict, "person"))
    corrections[-1] = replace(corrections[-1], content_hash=_EARLIER_CONTENT)
    OverrideStore(stores.ledger).add(corrections, now)
    return len(chosen)
