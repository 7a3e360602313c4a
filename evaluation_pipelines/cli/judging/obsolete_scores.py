"""Scores that used an older wording of their rubric, as they are printed."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from evaluation_pipelines.cli.judging.score_output import time_of
from evaluation_pipelines.cli.output import OutputFormat, pluralize, print_line, print_table
from evaluation_pipelines.cli.rows import write_rows
from evaluation_pipelines.judging.domain.score import Score
from evaluation_pipelines.judging.ledger.score_queries import Subject
from evaluation_pipelines.scorecards.domain.withheld import REVIEW_DUE, SessionKey

_COLUMNS = (
    *("session_key", "organization_id", "total_score", "rubric", "prompt_hash", "completed_at_us"),
    "is_scored_again",
)


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
        left = pluralize(is_done.count(False), "session")
        print_line(f"To score {left} again: judge run --obsolete")


def _total(score: Score, waiting: Collection[SessionKey]) -> object:
    key = (score.organization_id, score.session_key)
    return REVIEW_DUE if key in waiting else score.total_score


def _subject(score: Score) -> Subject:
    return (score.organization_id, score.session_key, score.judge_profile_id, score.content_hash)
