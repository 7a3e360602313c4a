"""Blind review of the audit sample: a person scores a session before seeing its score."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import polars as pl

from evaluation_pipelines.judging.domain.prompt.fence import unsealed
from evaluation_pipelines.judging.domain.prompt.redaction import redact
from evaluation_pipelines.judging.domain.prompt.transcript import Transcript, build_transcript
from evaluation_pipelines.judging.rubric_files import load_rubrics
from evaluation_pipelines.judging.session_windows import read_events, window_key, window_of
from evaluation_pipelines.profiles.domain.heuristics import HEURISTICS
from evaluation_pipelines.profiles.domain.profile import JudgeProfile
from evaluation_pipelines.schemas import EVENTS_WITH_TEXTS
from evaluation_pipelines.scorecards.blind_reviews import waiting_samples
from evaluation_pipelines.scorecards.domain.criteria import criterion_name
from evaluation_pipelines.scorecards.domain.withheld import SessionKey
from evaluation_pipelines.scorecards.overrides import (
    HumanVerdict,
    checked_annotator,
    new_override,
)
from evaluation_pipelines.scorecards.scorecard_queries import (
    CardQuery,
    Target,
    find_target,
    query_cards,
)
from evaluation_pipelines.scorecards.store import (
    AuditSample,
    NewOverride,
    OverrideStore,
    newest_round,
    note_step,
    sessions_seen,
    shown_to_others,
)
from evaluation_pipelines.sessions.domain.find_session import SessionRow
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.ledger.rebuild_queue import Expired
from evaluation_pipelines.storage.stores import Stores

WHOLE_TRANSCRIPT = 10**9
"""Tokens of a transcript that is not shortened."""


_NO_TRANSCRIPT = Transcript(
    text="The events of this session have expired.",
    task="",
    tokens=0,
    truncated=False,
    injection_suspected=False,
    redactions={},
    content_level="none",
)


@dataclass(frozen=True, slots=True)
class ReviewCriterion:
    """A criterion of a profile; ``weight`` is its share of 1, ``description`` may be empty."""

    id: str
    name: str
    weight: float
    description: str


def review_criteria(profile: JudgeProfile, settings: Settings) -> list[ReviewCriterion]:
    """Return the criteria of a profile; those of a judge are described by its rubric.

    What a computed one measures is the same in every profile: it has the same words.
    """
    described = _rubric_descriptions(profile, settings)
    criteria = (*profile.computed, *profile.judged)
    total = sum(criterion.weight for criterion in criteria)
    return [
        ReviewCriterion(
            criterion.id,
            (criterion.name if criterion.id not in HEURISTICS else "")
            or criterion_name(criterion.id),
            criterion.weight / total,
            HEURISTICS[criterion.id].words
            if criterion.id in HEURISTICS
            else criterion.description or described.get(criterion.id, criterion.name),
        )
        for criterion in criteria
    ]


def review_facts(target: Target) -> dict[str, str]:
    """Return what a reviewer sees of a session: neither its score nor its model."""
    session, profile = target.session, target.profile
    prompts, calls = session["prompts"], session["total_tools"]
    asked = "" if prompts is None else f"{prompts} prompt{'s' * (prompts != 1)}, "
    done = f"{session['tools_ok']} of {calls} tool calls succeeded"
    if calls is None:
        done = "tool calls unknown"
    return {
        "label": session["classification_label"],
        "started": f"{session['started_at']:%Y-%m-%d %H:%M} UTC",
        "active": f"{session['active_s']:.0f} s",
        "work": f"{asked}{done}, {session['status']}",
        "profile": f"{profile.id} version {profile.version}: {profile.name}",
    }


def current_card(stores: Stores, target: Target) -> Mapping[str, Any]:
    """Return the current row of ``scorecards`` of a target; empty if there is none.

    Raises:
        LakeError: A file cannot be read.
    """
    session, profile = target.session, target.profile
    query = CardQuery(
        session=session["session_key"],
        organization=session["organization_id"],
        profile=profile.id,
        days=[session["session_date"]],
    )
    cards = query_cards(stores, query).filter(profile_version=profile.version)
    return cards.row(0, named=True) if cards.height else {}


def session_transcript(
    stores: Stores, session: SessionRow, max_tokens: int, now: datetime
) -> Transcript | None:
    """Return the transcript that the judge reads, without model and secrets.

    Args:
        stores: Lake and settings.
        session: Row of ``agent_sessions``.
        max_tokens: Estimated tokens; a longer one is shortened and says where.
        now: The time.

    Returns:
        The transcript of this content, which says what of it has expired; ``None`` if the session
        has continued since.

    Raises:
        LakeError: A file cannot be read.
        QueryError: The SQL failed.
    """
    found = session_events(stores, session, now)
    if found is None:
        return None
    if found.expired == "events":
        return _NO_TRANSCRIPT
    redactor = partial(redact, personal=stores.settings.judge_redact_personal)
    transcript = build_transcript(found.events, found.content_level, max_tokens, redactor)
    text = "\n".join(filter(None, (found.note, unsealed(transcript.text))))
    return replace(transcript, text=text, task=unsealed(transcript.task))


@dataclass(frozen=True, slots=True)
class SessionEvents:
    """Events of a session with their texts, as far as they have not expired.

    Attributes:
        events: EVENTS_WITH_TEXTS, in order.
        content_level: ``full``, ``prompts`` or ``none``: how much text is left.
        expired: What has expired: its ``texts``, or its ``events`` with them.
    """

    events: pl.DataFrame
    content_level: str
    expired: Expired | None

    @property
    def note(self) -> str:
        """What has expired, in a sentence; empty if nothing has."""
        return "" if self.expired is None else f"The {self.expired} of this session have expired."


def session_events(stores: Stores, session: SessionRow, now: datetime) -> SessionEvents | None:
    """Return the events of a session with their texts.

    Args:
        stores: Lake and settings.
        session: Row of ``agent_sessions``.
        now: The time.

    Returns:
        The events of this content; ``None`` if the session has continued since.

    Raises:
        LakeError: A file cannot be read.
        QueryError: The SQL failed.
    """
    window = window_of(stores, session, now)
    if window.expired == "events":
        return SessionEvents(EVENTS_WITH_TEXTS.to_frame(), window.content_level, window.expired)
    events = read_events(stores.lake, window.session_date, [window]).get(window_key(window))
    if events is None:
        return None
    return SessionEvents(events, window.content_level, window.expired)


def _rubric_descriptions(profile: JudgeProfile, settings: Settings) -> dict[str, str]:
    """Return descriptions by criterion; none if the rubric cannot be used."""
    rubric = load_rubrics(settings.judge_rubrics_dir).get(profile.rubric or "")
    return (
        {}
        if rubric is None
        else {criterion.id: criterion.description for criterion in rubric.criteria}
    )


NO_REASON = "no reason given"
"""Reason of an answer until the reviewer gives one, after the automatic score was shown."""

_STORED = frozenset(field.name for field in fields(NewOverride))

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
class GivenScore:
    """A stored score of a reviewer; ``is_answer`` is false if another one answered first."""

    override_id: int
    new: NewOverride
    is_answer: bool

    @property
    def key(self) -> SessionKey:
        """Organization and key of the session."""
        return self.new.organization_id, self.new.session_key

    @property
    def automatic(self) -> str | None:
        """The automatic score, and how far it is from this one; ``None`` if there is none."""
        automatic, human = self.new.automatic_score, self.new.override_score
        if automatic is None:
            return None
        by = round(abs(automatic - human), 1)
        side = "above" if automatic > human else "below"
        return f"{automatic:.1f}, {f'{by:.1f} {side} yours' if by else 'the same as yours'}"


class AuditReview:
    """One reviewer's round through the audit sample; every step is stored at once.

    Several reviewers can work at the same time: a sample has one answer, the first.
    """

    def __init__(
        self,
        stores: Stores,
        annotator: str,
        organization: str | None = None,
        recorded_by: str | None = None,
    ) -> None:
        """Take a reviewer.

        Args:
            stores: The stores.
            annotator: Name of the reviewer.
            organization: Only samples of this organization; ``None`` for all.
            recorded_by: The key that sends the answers, if any. What it has looked at, its
                reviewers have seen, whatever their names are.

        Raises:
            OverrideError: The name is empty or too long.
        """
        self._stores, self._ledger = stores, stores.ledger
        self._annotator = checked_annotator(annotator)
        self._organization, self._recorded_by = organization, recorded_by
        self._overrides = OverrideStore(stores.ledger)

    def begin(self, now: datetime) -> None:
        """Begin a round; sessions that were skipped before are asked in their order again."""
        note_step(self._ledger, self._annotator, "begin", now)

    def resume(self, now: datetime) -> None:
        """Continue the newest round, or begin the first."""
        if newest_round(self._ledger, self._annotator) is None:
            self.begin(now)

    def next_sample(self, seen: Collection[SessionKey], now: datetime) -> AuditSample | None:
        """Return the next sample without an answer, or ``None`` if there is none.

        Samples that other reviewers are looking at come after the rest, skipped ones last. Samples
        whose score this reviewer has seen are left to others.

        Args:
            seen: Sessions that were shown since the command was started.
            now: The time.
        """
        skipped, passed = self.skipped(), {*seen, *self.not_blind()}
        with_others = shown_to_others(self._ledger, self._annotator, now - LOOKING_TIME)
        unseen = [sample for sample in self.waiting() if sample.key not in passed]
        return min(
            unseen,
            key=lambda sample: (sample.key in skipped, sample.key in with_others),
            default=None,
        )

    def waiting(self) -> list[AuditSample]:
        """Return the samples without an answer, the oldest first."""
        return waiting_samples(self._stores, self._organization)

    def sample(self, key: SessionKey) -> AuditSample | None:
        """Return the newest sample of a session, whether it is answered or not."""
        found = self._overrides.samples(key) if self._sees(key[0]) else []
        return found[-1] if found else None

    def not_blind(self) -> frozenset[SessionKey]:
        """Return the sessions whose score this reviewer has seen without an answer that counts."""
        return sessions_seen(self._ledger, {self._annotator, self._recorded_by or ""})

    def skipped(self) -> frozenset[SessionKey]:
        """Return what was skipped in this round."""
        newest = newest_round(self._ledger, self._annotator)
        return frozenset() if newest is None else newest[1]

    def progress(self) -> ReviewProgress | None:
        """Return how far the reviewer is in this round; ``None`` before the first."""
        newest = newest_round(self._ledger, self._annotator)
        if newest is None:
            return None
        begun_at, skipped = newest
        answers = {sample.override_id for sample in self._overrides.samples()}
        own = [row for row in self._own_scores() if row["made_at"] >= begun_at]
        answered = sum(row["override_id"] in answers for row in own)
        waiting = [sample.key in skipped for sample in self.waiting()]
        return ReviewProgress(answered, answered + len(waiting), sum(waiting))

    def target(self, of: AuditSample | NewOverride) -> Target:
        """Return the session of a sample or a score.

        Raises:
            SessionNotFoundError: The session no longer exists.
            ProfileError: The profile no longer scores it.
        """
        name = SessionName(of.session_key, of.organization_id, of.profile_id)
        return find_target(self._stores, name)

    def show(self, sample: AuditSample, now: datetime) -> None:
        """Record that the reviewer is looking at a sample."""
        note_step(self._ledger, self._annotator, "show", now, sample.key)

    def skip(self, sample: AuditSample, now: datetime) -> None:
        """Leave a sample for later."""
        note_step(self._ledger, self._annotator, "skip", now, sample.key)

    def answer(self, target: Target, score: float, now: datetime) -> GivenScore:
        """Store the score that the reviewer gave before seeing the automatic one.

        If another reviewer was faster, it is an override by choice.

        Raises:
            OverrideError: The score is not on the scale.
        """
        verdict = HumanVerdict(score, self._annotator, NO_REASON, recorded_by=self._recorded_by)
        new = new_override(target, verdict, "audit")
        override_id, is_answer = self._overrides.answer(new, now)
        stored = replace(new, source="audit" if is_answer else "person")
        return GivenScore(override_id, stored, is_answer)

    def newest_given(self, key: SessionKey | None = None) -> GivenScore | None:
        """Return the newest answer of this reviewer that counts; ``None`` if there is none.

        With the ``key`` of a session that is the newest score for it, also one that came too late
        to be the answer.
        """
        answers = {sample.override_id for sample in self._overrides.samples()}
        for row in reversed(self._own_scores()):
            new = NewOverride(**{name: value for name, value in row.items() if name in _STORED})
            given = GivenScore(row["override_id"], new, row["override_id"] in answers)
            if given.is_answer if key is None else given.key == key:
                return given
        return None

    def undo(self, now: datetime, override_id: int | None = None) -> tuple[str, str, float] | None:
        """Take back the newest answer of this reviewer, such as a mistyped one.

        Args:
            now: The time.
            override_id: Only this answer: who asks twice takes back one.

        Returns:
            Organization and key of its session, and the score; ``None`` if there is no answer.
        """
        own = {row["override_id"] for row in self._own_scores()}
        if override_id is not None and override_id not in own:
            return None
        return self._overrides.undo(self._annotator, now, override_id)

    def explain(
        self, given: GivenScore, target: Target, reason: str, criterion: str | None, now: datetime
    ) -> None:
        """Add a reason (empty: none) and the criterion that was wrong to a stored answer.

        Raises:
            OverrideError: The reason is too long, or the profile has no such criterion.
        """
        new, text = given.new, reason.strip() or NO_REASON
        verdict = HumanVerdict(new.override_score, self._annotator, text, criterion)
        self._overrides.explain(given.override_id, new_override(target, verdict, new.source), now)

    def _own_scores(self) -> list[dict[str, Any]]:
        """Return OVERRIDE_ROWS of this reviewer, the newest last."""
        rows = self._overrides.of_dates().filter(annotator=self._annotator).rows(named=True)
        return [row for row in rows if self._sees(row["organization_id"])]

    def _sees(self, organization_id: str) -> bool:
        return self._organization in {None, organization_id}
