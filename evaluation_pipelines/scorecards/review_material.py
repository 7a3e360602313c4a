"""What a reviewer of the audit sample sees: facts, criteria and transcript; after it the card."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import polars as pl

from evaluation_pipelines.judging.domain.prompt.fence import unsealed
from evaluation_pipelines.judging.domain.prompt.redaction import redact
from evaluation_pipelines.judging.domain.prompt.transcript import Transcript, build_transcript
from evaluation_pipelines.judging.rubric_files import load_rubrics
from evaluation_pipelines.judging.session_windows import read_events, window_key, window_of
from evaluation_pipelines.profiles.domain.profile import JudgeProfile
from evaluation_pipelines.schemas import EVENTS_WITH_TEXTS
from evaluation_pipelines.scorecards.domain.criterion_words import COMPUTED, criterion_name
from evaluation_pipelines.scorecards.scorecard_queries import CardQuery, query_cards
from evaluation_pipelines.scorecards.session_lookup import Target
from evaluation_pipelines.sessions.domain.find_session import SessionRow
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
    total = sum(each.weight for each in criteria)
    return [
        ReviewCriterion(
            each.id,
            (each.name if each.id not in COMPUTED else "") or criterion_name(each.id),
            each.weight / total,
            COMPUTED.get(each.id) or each.description or described.get(each.id, each.name),
        )
        for each in criteria
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


def review_transcript(
    stores: Stores, target: Target, max_tokens: int, now: datetime
) -> Transcript | None:
    """Return the transcript of a target: :func:`session_transcript`."""
    return session_transcript(stores, target.session, max_tokens, now)


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
    return {} if rubric is None else {each.id: each.description for each in rubric.criteria}
