"""What a reviewer of the audit sample is shown of a session: first its work, then its score."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial

import polars as pl

from evaluation_pipelines.judging.domain.prompt.redaction import redact
from evaluation_pipelines.judging.domain.prompt.transcript import Transcript, build_transcript
from evaluation_pipelines.judging.rubric_files import RubricError, load_rubrics
from evaluation_pipelines.judging.session_windows import read_events, read_windows, window_key
from evaluation_pipelines.profiles.domain.profile import JudgeProfile
from evaluation_pipelines.scorecards.scorecard_queries import CardQuery, query_cards
from evaluation_pipelines.scorecards.session_lookup import Target
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.stores import Stores

WHOLE_TRANSCRIPT = 10**9
"""Tokens of a transcript that is not shortened."""


@dataclass(frozen=True, slots=True)
class ReviewCriterion:
    """A criterion of a profile; ``weight`` is its share of 1, ``description`` may be empty."""

    id: str
    weight: float
    description: str


@dataclass(frozen=True, slots=True)
class AutomaticResult:
    """How a scorecard was scored: reasoning, and scores of the criteria on the profile's scale."""

    reasoning: str | None
    criteria: dict[str, float | None]


def review_criteria(profile: JudgeProfile, settings: Settings) -> list[ReviewCriterion]:
    """Return the criteria of a profile; those of a judge are described by its rubric."""
    described = _rubric_descriptions(profile, settings)
    computed = {each.id for each in profile.computed}
    criteria = (*profile.computed, *profile.judged)
    total = sum(each.weight for each in criteria)
    return [
        ReviewCriterion(
            each.id,
            each.weight / total,
            each.description
            or ("computed" if each.id in computed else described.get(each.id, each.name)),
        )
        for each in criteria
    ]


def review_transcript(
    stores: Stores, target: Target, max_tokens: int, now: datetime
) -> Transcript | None:
    """Return the transcript that the judge reads, without model and secrets.

    Args:
        stores: Lake and settings.
        target: The session.
        max_tokens: Estimated tokens; a longer one is shortened and says where.
        now: The time.

    Returns:
        The transcript; ``None`` if the session has new events since its date was built.

    Raises:
        LakeError: A file cannot be read.
        QueryError: The SQL failed.
    """
    session, settings = target.session, stores.settings
    day, ids = session["session_date"], [session["session_id"]]
    windows = read_windows(stores.lake, [day], now, settings.session_idle_minutes, ids)
    key = (session["organization_id"], session["session_key"])
    events = read_events(stores.lake, day, [each for each in windows if window_key(each) == key])
    if key not in events:
        return None
    redactor = partial(redact, emails=settings.judge_redact_emails)
    return build_transcript(events[key], session["content_level"], max_tokens, redactor)


def automatic_result(stores: Stores, target: Target) -> AutomaticResult:
    """Return what the current scorecard of the target says about its score."""
    session, profile = target.session, target.profile
    query = CardQuery(
        session=session["session_key"],
        organization=session["organization_id"],
        profile=profile.id,
        history=True,
    )
    cards = query_cards(stores, query).filter(
        pl.col("content_hash") == session["content_hash"],
        pl.col("profile_version") == profile.version,
    )
    if cards.is_empty():
        return AutomaticResult(None, {})
    card = cards.row(-1, named=True)
    criteria = {each["key"]: each["value"] for each in card["criteria_scores"] or ()}
    return AutomaticResult(card["reasoning"], criteria)


def _rubric_descriptions(profile: JudgeProfile, settings: Settings) -> dict[str, str]:
    """Return descriptions by criterion; none if the rubric cannot be read."""
    try:
        rubrics = load_rubrics(settings.judge_rubrics_dir)
    except RubricError:
        return {}
    rubric = rubrics.get(profile.rubric or "")
    return {} if rubric is None else {each.id: each.description for each in rubric.criteria}
