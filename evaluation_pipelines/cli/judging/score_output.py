"""What commands of the judge print: a score, and who judges already."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from typing import Any

import typer

from evaluation_pipelines.cli.conventions import NOTHING
from evaluation_pipelines.cli.output import (
    OutputFormat,
    fenced,
    one_line,
    pluralize,
    print_error,
    print_line,
)
from evaluation_pipelines.cli.rows import write_record
from evaluation_pipelines.cli.session_lines import waiting_of
from evaluation_pipelines.judging.domain.badge import badge, flags_of
from evaluation_pipelines.judging.plans import current_rubrics
from evaluation_pipelines.judging.score_requests import RequestResult, look_up, waiting
from evaluation_pipelines.schemas import SCORE_FLAGS
from evaluation_pipelines.schemas.judge_score import Score, reader_record
from evaluation_pipelines.scorecards.domain.withheld import REVIEW_DUE
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.storage.lock import JUDGE, LockTimeoutError
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.times import from_us


@contextmanager
def unless_judged() -> Iterator[None]:
    """Exit with 3 if another process judges, and name it: one judge works at a time."""
    try:
        yield
    except LockTimeoutError as busy:
        if busy.name != JUDGE:
            raise
        print_error(f"error: {one_line(busy.holder)} is judging: try again when it has ended")
        raise typer.Exit(NOTHING) from None


_REFUSALS = {
    "conflict": "is being judged: wait for the result, or omit --force",
    "not_terminal": "has not ended yet",
    "expired": "is not judged anymore: its text has expired (EVAL_KEEP_TEXTS_DAYS or "
    "EVAL_KEEP_EVENTS_DAYS), its score stays",
    "unknown": "is not a session of the lake: see `evaluation-pipelines sessions`",
}
"""Action of a refused request -> reason."""


def show_judge_score(
    stores: Stores, query: SessionName, session: str, now: datetime, form: OutputFormat
) -> None:
    """Print the latest judge score of a session; exit with 1 if there is none.

    Args:
        stores: The stores, as of ``now``.
        query: The session.
        session: The session as it was named.
        now: The time of which the score is.
        form: Table, JSON or CSV.
    """
    found = look_up(stores, query, now)
    if found.window is not None and found.score is None:
        print_error(f"error: {one_line(found.window.session_key)} has no judge score yet")
        raise typer.Exit(1)
    print_request(stores, found, session, form)


def print_request(stores: Stores, result: RequestResult, session: str, form: OutputFormat) -> None:
    """Print the answer to a request; a refusal is an error."""
    answer = result.answer
    if answer.http_status >= 400:
        why = _REFUSALS[answer.action]
        print_error(f"error: {one_line(session)} {why}")
        raise typer.Exit(1)
    if result.score is None:
        return
    label = "" if result.window is None else result.window.classification_label
    record = score_record(result.score, current_rubrics(stores).prompt_hash(label))
    waits = waiting(stores, result.score)
    if form is not OutputFormat.TABLE:
        write_record(record if waits is None else {**record, **asdict(waits)}, form)
    elif (result.score.organization_id, result.score.session_key) in waiting_of(stores):
        judge = f"judged by {result.score.judge_model}. Score it first on the page /reviews"
        print_line(one_line(f"{result.score.session_key}: {REVIEW_DUE} ({judge})"))
    else:
        print_score(result.score, is_current=record["current_prompt_used"])
        if waits is not None and waits.mode == "batch":
            by = waits.expected_by
            when = "" if by is None else f", this turn is expected by {by:%Y-%m-%d %H:%M} UTC"
            print_line(f"  {'mode':16} batch{when}")
        elif waits is not None and result.score.status == "pending":
            why = "" if waits.deferred_because is None else f": {waits.deferred_because}"
            print_line(one_line(f"  {waits.next_try}{why}"))


def print_score(score: Score, *, is_current: bool) -> None:
    """Print a scoring with its texts; of a failed one, every reply of the model."""
    print_line(f"{one_line(score.session_key)}: {_outcome(score)}")
    for name, value in _facts(score, is_current=is_current).items():
        print_line(f"  {name:16} {one_line(str(value))}")
    for title, text in (
        ("Analysis", score.score_analysis),
        ("Missing tools", score.missing_tools_analysis),
    ):
        if text:
            print_line(f"\n{title}\n\n{fenced(text)}")
    for turn in score.turn_log if score.status == "failed" else ():
        print_line(f"\nReply to {one_line(turn.turn)} ({one_line(turn.finish_reason)})\n")
        print_line(fenced(turn.text))


def score_record(score: Score, current_prompt_hash: str | None) -> dict[str, Any]:
    """Return a scoring for JSON; of a failed one, with every reply of the model."""
    found = badge(score)
    replies = [
        {"turn": turn.turn, "finish_reason": turn.finish_reason, "text": turn.text}
        for turn in score.turn_log
        if score.status == "failed"
    ]
    record = reader_record(score, current_prompt_hash)
    return {**record, "badge": found.text, "flags": list(found.flags), "replies": replies}


def _outcome(score: Score) -> str:
    if score.total_score is not None:
        return f"{score.total_score} of 100"
    return score.status if score.status != "in_progress" else "in progress"


def _facts(score: Score, *, is_current: bool) -> dict[str, object]:
    criteria = score.criteria_scores or {}
    tags = score.failure_tags
    facts: dict[str, object | None] = {
        "criteria": ", ".join(
            f"{name} {'-' if points is None else points}" for name, points in criteria.items()
        )
        or None,
        "failure tags": None if tags is None else ", ".join(tags) or "none",
        "samples": _samples(score),
        "error": _error(score),
        "missing tools": score.missing_tools_error,
        "remarks": ", ".join(_remarks(score, is_current=is_current)) or None,
        "judge": f"{score.judge_model}, rubric {score.rubric}, profile {score.judge_profile_id} "
        f"version {score.judge_profile_version}",
        "requested by": f"{score.score_triggered_by}, {time_of(score.scored_at_us)} UTC",
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
    advice = "a retry may help" if score.retriable else "a retry would not help"
    return f"{score.error_message} (attempt {score.attempt}, {advice})"


def _remarks(score: Score, *, is_current: bool) -> list[str]:
    old = not is_current and score.status == "completed"
    remarks = ["not by the rubric that would judge it now"] if old else []
    remarks += [f"{name} ({SCORE_FLAGS[name]})" for name in flags_of(score)]
    redacted = sum((score.redactions or {}).values())
    secrets = [f"{pluralize(redacted, 'secret')} removed"] if redacted else []
    return remarks + secrets


def _cost(score: Score) -> str | None:
    if not score.turn_log:
        return None
    price = "unknown price" if score.judge_cost_usd is None else f"${score.judge_cost_usd:.4f}"
    counts = (score.input_tokens, score.cached_tokens, score.output_tokens)
    tokens = "unknown tokens" if None in counts else "{} in, {} cached, {} out".format(*counts)
    return f"{price}, {tokens}, {pluralize(len(score.turn_log), 'reply', 'replies')}"


def time_of(time_us: int | None) -> str | None:
    """Return a time of the ledger in UTC, to the second."""
    if time_us is None:
        return None
    return f"{from_us(time_us):%Y-%m-%d %H:%M:%S}"
