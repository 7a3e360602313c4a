"""Blind review of the audit sample: a person scores a session before seeing its score."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.scorecards.audit_samples import open_samples
from evaluation_pipelines.scorecards.ledger.override_store import AuditSample, OverrideStore
from evaluation_pipelines.scorecards.ledger.review_store import (
    ReviewRound,
    ReviewStore,
    SessionKey,
)
from evaluation_pipelines.scorecards.overrides import (
    HumanVerdict,
    RecordedOverride,
    checked_annotator,
    new_override,
)
from evaluation_pipelines.scorecards.session_lookup import SessionName, Target, find_target
from evaluation_pipelines.storage.stores import Stores

NO_REASON = "no reason given"
"""Reason of an answer until the reviewer gives one, after the automatic score was shown."""

LOOKING_TIME = timedelta(minutes=10)
"""How long a session that one reviewer looks at is shown to others only after the rest."""


@dataclass(frozen=True, slots=True)
class ReviewProgress:
    """How far a reviewer is in a round.

    Attributes:
        answered: Sessions that this reviewer answered in this round.
        total: These and the sessions without an answer.
        skipped: Sessions without an answer that this reviewer skipped in this round.
    """

    answered: int
    total: int
    skipped: int

    def __str__(self) -> str:
        return f"{self.answered} of {self.total} answered, {self.skipped} skipped"


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """A stored answer; ``is_answer`` is false if another reviewer answered the sample first."""

    recorded: RecordedOverride
    is_answer: bool


class AuditReview:
    """One reviewer's round through the audit sample; every step is stored at once.

    Several reviewers can work at the same time: a sample has one answer, the first.
    """

    def __init__(self, stores: Stores, annotator: str) -> None:
        """Take the name of the reviewer; raises OverrideError if it is empty or too long."""
        self._stores = stores
        self._annotator = checked_annotator(annotator)
        self._reviews = ReviewStore(stores.ledger)
        self._overrides = OverrideStore(stores.ledger)
        self._registry = ProfileStore(stores.ledger).registry()

    def begin(self, now: datetime) -> None:
        """Begin a round; sessions that were skipped before are asked in their order again."""
        self._reviews.begin(self._annotator, now)

    def resume(self, now: datetime) -> None:
        """Continue the newest round, or begin the first."""
        if self._reviews.newest_round(self._annotator) is None:
            self.begin(now)

    def next_sample(self, seen: Collection[SessionKey], now: datetime) -> AuditSample | None:
        """Return the next sample without an answer, or ``None`` if there is none.

        Samples that other reviewers are looking at come after the rest, skipped ones last. Samples
        whose answer this reviewer took back are left to others: this one has seen the score.

        Args:
            seen: Sessions that were shown since the command was started.
            now: The time.
        """
        skipped = self._round().skipped
        with_others = self._reviews.shown_to_others(self._annotator, now - LOOKING_TIME)
        not_blind = self._reviews.undone(self._annotator)
        unseen = [
            each for each in open_samples(self._stores) if key_of(each) not in {*seen, *not_blind}
        ]
        return min(
            unseen,
            key=lambda each: (key_of(each) in skipped, key_of(each) in with_others),
            default=None,
        )

    def progress(self) -> ReviewProgress:
        """Return the progress in this round."""
        newest = self._round()
        waiting = [key_of(each) for each in open_samples(self._stores)]
        answered = self._answered(newest)
        skipped = sum(key in newest.skipped for key in waiting)
        return ReviewProgress(answered, answered + len(waiting), skipped)

    def target(self, sample: AuditSample) -> Target:
        """Return the session of a sample.

        Raises:
            SessionNotFoundError: The session no longer exists.
            ProfileError: The profile no longer scores it.
        """
        name = SessionName(sample.session_key, sample.organization_id, sample.profile_id)
        return find_target(self._stores, self._registry, name)

    def show(self, sample: AuditSample, now: datetime) -> None:
        """Record that the reviewer is looking at a sample."""
        self._reviews.show(self._annotator, key_of(sample), now)

    def skip(self, sample: AuditSample, now: datetime) -> None:
        """Leave a sample for later."""
        self._reviews.skip(self._annotator, key_of(sample), now)

    def answer(self, target: Target, score: float, now: datetime) -> RecordedAnswer:
        """Store the score that the reviewer gave before seeing the automatic one.

        If another reviewer was faster, it is an override by choice.

        Raises:
            OverrideError: The score is not on the scale.
        """
        new = new_override(target, HumanVerdict(score, self._annotator, NO_REASON), "audit")
        override_id, is_answer = self._overrides.answer(new, now)
        stored = replace(new, source="audit" if is_answer else "person")
        return RecordedAnswer(RecordedOverride(override_id, stored, target), is_answer)

    def undo(self, now: datetime) -> tuple[str, str, float] | None:
        """Take back the newest answer of this reviewer, such as a mistyped one.

        Returns:
            Organization and key of its session, and the score; ``None`` if there is no answer.
        """
        return self._overrides.undo(self._annotator, now)

    def explain(
        self, answered: RecordedAnswer, reason: str, criterion: str | None, now: datetime
    ) -> None:
        """Add a reason (empty: none) and the criterion that was wrong to a stored answer.

        Raises:
            OverrideError: The reason is too long, or the profile has no such criterion.
        """
        recorded = answered.recorded
        verdict = HumanVerdict(
            recorded.new.override_score, self._annotator, reason.strip() or NO_REASON, criterion
        )
        explained = new_override(recorded.target, verdict, recorded.new.source)
        self._overrides.explain(recorded.override_id, explained, now)

    def _round(self) -> ReviewRound:
        newest = self._reviews.newest_round(self._annotator)
        if newest is None:
            raise RuntimeError("begin() or resume() must be called first")
        return newest

    def _answered(self, newest: ReviewRound) -> int:
        answers = {each.override_id for each in self._overrides.samples()}
        rows = self._overrides.of_dates().select("override_id", "annotator", "made_at").iter_rows()
        return sum(
            override_id in answers and annotator == self._annotator and made_at >= newest.begun_at
            for override_id, annotator, made_at in rows
        )


def key_of(sample: AuditSample) -> SessionKey:
    """Return the key of the session of a sample."""
    return sample.organization_id, sample.session_key
