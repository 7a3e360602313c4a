"""What the terminal program prints of the judge's scores and runs."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from evaluation_pipelines.adapters.ledger.score_queries import Subject
from evaluation_pipelines.cli.terminal import complain, counted, one_line, print_table, say
from evaluation_pipelines.domain.judging.score import Score, reader_record
from evaluation_pipelines.stages.judging.report import JudgeReport

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

REFUSALS = {
    "conflict": "is being scored: wait for that, or leave --force out",
    "not_terminal": "has not ended yet",
    "unknown": "is no session of the lake; see `evaluation-pipelines sessions`",
}
"""Why a request is refused, by its answer."""


class Form(StrEnum):
    """How a score is printed."""

    TEXT = "text"
    JSON = "json"


def print_score(score: Score, current_prompt_hash: str | None, form: Form) -> None:
    """One scoring, for people or as the record that a program gets."""
    record = reader_record(score, current_prompt_hash)
    if form is Form.JSON:
        say(json.dumps(record, indent=2, default=str))
        return
    say(f"{one_line(score.session_key)}: {_verdict(score)}")
    for name, value in _facts(score, is_current=record["current_prompt_used"]).items():
        say(f"  {name:16} {one_line(str(value))}")
    for title, text in (
        ("Analysis", score.score_analysis),
        ("Missing tools", score.missing_tools_analysis),
    ):
        if text:
            say(f"\n{title}\n\n{text}")


def print_report(report: JudgeReport) -> None:
    """What a run did; what it did not do is never left out."""
    if report.skipped is not None:
        complain(f"warning: {report.summary()}")
        return
    say(f"judge: {report.summary()}")
    for title, counted_by in (
        ("Sessions by where they stood", report.states),
        ("Failed", report.failed),
        ("Deferred", report.deferred),
        ("Could not go on", report.lost),
        ("Failure tags", report.tags),
    ):
        _print_counts(title, counted_by)


def print_obsolete(scores: Sequence[Score], scored_last: Mapping[Subject, int]) -> None:
    """Scores by other words than today's, the oldest first, and what can be done about them."""
    is_done = [scored_last.get(_subject(each), 0) > (each.completed_at_us or 0) for each in scores]
    rows = [
        (
            each.session_key,
            each.organization_id,
            each.total_score,
            each.rubric,
            each.prompt_hash[:12],
            _time(each.completed_at_us),
            "yes" if done else "no",
        )
        for each, done in zip(scores, is_done, strict=True)
    ]
    names = ("session key", "organization", "total #", "rubric", "prompt hash", "scored (UTC)")
    print_table(
        f"{counted(len(rows), 'obsolete score')}", (*names, "scored again"), rows, essential=3
    )
    say("They stay as they are.")
    if not all(is_done):
        left = counted(is_done.count(False), "score")
        say(f"To score {left} again: judge run --obsolete")


def _subject(score: Score) -> Subject:
    return (score.organization_id, score.session_key, score.judge_profile_id, score.content_hash)


def _verdict(score: Score) -> str:
    if score.total_score is not None:
        return f"{score.total_score} of 100"
    return score.status if score.status != "in_progress" else "in progress"


def _facts(score: Score, *, is_current: bool) -> dict[str, object]:
    criteria = score.criteria_scores or {}
    tags = score.failure_tags
    facts: dict[str, object | None] = {
        "criteria": ", ".join(f"{name} {points}" for name, points in criteria.items()) or None,
        "failure tags": None if tags is None else ", ".join(tags) or "none",
        "samples": _samples(score),
        "error": _error(score),
        "missing tools": score.missing_tools_error,
        "marks": ", ".join(_marks(score, is_current=is_current)) or None,
        "judge": f"{score.judge_model}, rubric {score.rubric}, profile {score.judge_profile_id} "
        f"version {score.judge_profile_version}",
        "asked by": f"{score.score_triggered_by}, {_time(score.scored_at_us)} UTC",
        "cost": _cost(score),
    }
    return {name: value for name, value in facts.items() if value is not None}


def _samples(score: Score) -> str | None:
    totals = score.sample_totals or ()
    if len(totals) < 2 or score.score_spread is None:
        return None
    return f"{', '.join(map(str, totals))} (standard deviation {score.score_spread:.1f})"


def _error(score: Score) -> str | None:
    if score.error_message is None:
        return None
    again = "it may help to try again" if score.retriable else "it would not help to try again"
    return f"{score.error_message} (attempt {score.attempt}, {again})"


def _marks(score: Score, *, is_current: bool) -> list[str]:
    marks = {
        "made by other words than today's rubric": not is_current and score.status == "completed",
        "total and criteria do not add up": score.inconsistent_total,
        "text of the session addresses the judge": score.injection_suspected,
        "parts of the session were cut": score.truncated,
    }
    redacted = sum((score.redactions or {}).values())
    secrets = [f"{counted(redacted, 'secret')} taken out"] if redacted else []
    return [what for what, holds in marks.items() if holds] + secrets


def _cost(score: Score) -> str | None:
    if not score.turn_log:
        return None
    price = "unknown price" if score.judge_cost_usd is None else f"${score.judge_cost_usd:.4f}"
    tokens = (score.input_tokens, score.cached_tokens, score.output_tokens)
    told = "unknown tokens" if None in tokens else "{} in, {} cached, {} out".format(*tokens)
    return f"{price}, {told}, {counted(len(score.turn_log), 'reply', 'replies')}"


def _print_counts(title: str, counts: Mapping[str, int]) -> None:
    if counts:
        rows = sorted(((what, number) for what, number in counts.items()), key=lambda row: -row[1])
        print_table(f"\n{title}", ("what", "times #"), rows, essential=2)


def _time(time_us: int | None) -> str | None:
    if time_us is None:
        return None
    return f"{_EPOCH + timedelta(microseconds=time_us):%Y-%m-%d %H:%M:%S}"
