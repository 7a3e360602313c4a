"""Scores by another rubric than would judge their sessions now, as they are printed."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from evaluation_pipelines.cli.judging.score_output import time_of
from evaluation_pipelines.cli.output import OutputFormat, pluralize, print_line, print_table
from evaluation_pipelines.cli.rows import write_rows
from evaluation_pipelines.judging.session_windows import WindowKey
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.scorecards.domain.withheld import REVIEW_DUE, SessionKey

_COLUMNS = (
    *("session_key", "organization_id", "total_score", "rubric", "prompt_hash", "completed_at_us"),
    "is_scored_again",
)


Subject: TypeAlias = tuple[str, str, str, str]
"""Organization, session key, judge profile and content hash of a score."""


def obsolete_among(
    scores: Iterable[Score], prompt_hashes: Mapping[WindowKey, str | None]
) -> list[Score]:
    """Return the scores by another rubric, or wording, than would judge their sessions now."""
    return [each for each in scores if not _is_current(each, prompt_hashes)]


def scored_last_by(
    scores: Iterable[Score], prompt_hashes: Mapping[WindowKey, str | None]
) -> dict[Subject, int]:
    """Return the time of the last score by the current rubric (microseconds)."""
    last: dict[Subject, int] = {}
    for each in scores:
        if _is_current(each, prompt_hashes):
            last[_subject(each)] = max(last.get(_subject(each), 0), each.completed_at_us or 0)
    return last


def _is_current(score: Score, prompt_hashes: Mapping[WindowKey, str | None]) -> bool:
    key = (score.organization_id, score.session_key)
    return prompt_hashes.get(key) == score.prompt_hash


def write_obsolete(
    scores: Sequence[Score], scored_last: Mapping[Subject, int], form: OutputFormat
) -> None:
    """Write obsolete scores as records."""
    write_rows([_record(each, scored_last) for each in scores], form, _COLUMNS)


def _record(score: Score, scored_last: Mapping[Subject, int]) -> dict[str, Any]:
    stored = {name: getattr(score, name) for name in _COLUMNS[:-1]}
    return {**stored, _COLUMNS[-1]: _is_scored_again(score, scored_last)}


def _is_scored_again(score: Score, scored_last: Mapping[Subject, int]) -> bool:
    return scored_last.get(_subject(score), 0) > (score.completed_at_us or 0)


def print_obsolete(
    scores: Sequence[Score], scored_last: Mapping[Subject, int], waiting: Collection[SessionKey]
) -> None:
    """Print obsolete scores, oldest first, and how to score their sessions again.

    The totals of ``waiting`` sessions, which wait for a blind review, are not shown.
    """
    is_done = [_is_scored_again(each, scored_last) for each in scores]
    rows = [
        (
            *(each.session_key, each.organization_id, _total(each, waiting), each.rubric),
            *(each.prompt_hash[:12], time_of(each.completed_at_us), "yes" if done else "no"),
        )
        for each, done in zip(scores, is_done, strict=True)
    ]
    columns = (
        *("session key", "organization", "total #", "rubric"),
        *("prompt hash", "scored (UTC)", "scored again"),
    )
    print_table(pluralize(len(rows), "obsolete score"), columns, rows, essential=3)
    print_line("Obsolete scores are kept.")
    if not all(is_done):
        undone = {_subject(each) for each, done in zip(scores, is_done, strict=True) if not done}
        left = pluralize(len(undone), "session")
        print_line(f"To score {left} again: judge run --obsolete")


def _total(score: Score, waiting: Collection[SessionKey]) -> object:
    key = (score.organization_id, score.session_key)
    return REVIEW_DUE if key in waiting else score.total_score


def _subject(score: Score) -> Subject:
    return (score.organization_id, score.session_key, score.judge_profile_id, score.content_hash)
