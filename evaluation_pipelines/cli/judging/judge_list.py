"""Commands ``judge list`` and ``judge events``: scores, failures, spending, history."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import polars as pl
import typer

from evaluation_pipelines.as_of import read_stores_as_of
from evaluation_pipelines.cli.dates import AS_OF, DATES_TO_LIST, DateRange, parse_as_of, parse_dates
from evaluation_pipelines.cli.filters import with_session_filter
from evaluation_pipelines.cli.judging.score_output import score_record, time_of
from evaluation_pipelines.cli.judging.spending import spending_line
from evaluation_pipelines.cli.output import (
    OutputFormat,
    csv_text,
    fenced,
    one_line,
    pluralize,
    print_json,
    print_line,
    print_table,
    shortened_to,
    write_output,
)
from evaluation_pipelines.cli.rows import FORMAT, write_rows
from evaluation_pipelines.cli.session_scores import waiting_of
from evaluation_pipelines.judging.current_rubrics import current_prompt_hashes
from evaluation_pipelines.judging.domain.badge import Badge, badge, flags_of
from evaluation_pipelines.judging.find_due import as_known
from evaluation_pipelines.judging.ledger.day_budget import spent_today
from evaluation_pipelines.judging.ledger.score_queries import ScoringEvent
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.schemas import SCORE_FLAGS
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.scorecards.domain.withheld import REVIEW_DUE
from evaluation_pipelines.sessions.chosen import chosen_of
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import Stores, read_stores

Status = StrEnum("Status", ["pending", "in_progress", "completed", "failed"])
Flag = StrEnum("Flag", {name: name for name in SCORE_FLAGS})  # type: ignore[misc]

_LIMIT = 50
_MAX_FAILURES = 5
_MAX_WORDS = 300
_COLUMNS = (
    *("session key", "judge", "agent", "agent model", "judge model", "flags", "scored (UTC)"),
    *("cost USD #", "profile", "organization"),
)
_EVENT_COLUMNS = ("time (UTC)", "event", "session key", "what", "id #")


@with_session_filter
def list_scores(  # noqa: PLR0913, PLR0917 - one parameter per option
    dates: Annotated[str | None, DATES_TO_LIST] = None,
    status: Annotated[Status | None, typer.Option(help="Only scorings in this state.")] = None,
    flag: Annotated[Flag | None, typer.Option(help="Only scores with this flag.")] = None,
    judge_model: Annotated[str | None, typer.Option(help="Only scores by this model.")] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every scoring, not only the newest of a profile.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number, the newest.")] = _LIMIT,
    as_of: Annotated[str | None, AS_OF] = None,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
    which: SessionFilter = ALL_SESSIONS,
) -> None:
    """List the judge's scores (0 to 100) and failures, oldest first, and what it spent today.

    Of each session and profile, the newest scoring is listed. json has all texts, and of failed
    scorings every reply of the model.
    """
    then = parse_as_of(as_of)
    now = then or datetime.now(UTC)
    with read_stores_as_of(load_settings(), then) as stores:
        scorings = _scorings(stores, parse_dates(dates), which, every=every)
        chosen = [
            each
            for each in (as_known(score, now) for score in scorings)
            if status in {None, each.status}
            and (flag is None or flag in flags_of(each))
            and judge_model in {None, each.judge_model}
        ]
        _print(stores, chosen, limit, form, now)


@with_session_filter
def list_events(
    dates: Annotated[str | None, DATES_TO_LIST] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number, the newest.")] = _LIMIT,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
    which: SessionFilter = ALL_SESSIONS,
) -> None:
    """List what happened to scorings, oldest first: started, progress, completed, failed."""
    date_range = parse_dates(dates)
    with read_stores(load_settings()) as stores:
        score_ids = None
        if date_range is not None or not which.is_empty:
            chosen = _scorings(stores, date_range, which, every=True)
            score_ids = [each.score_id for each in chosen]
        events = ScoreStore(stores.ledger).newest_events(limit, score_ids)
        waiting = {key for _, key in waiting_of(stores)}
    names = list(ScoringEvent.__slots__)
    records = [{name: getattr(each, name) for name in names} for each in events]
    if form is not OutputFormat.TABLE:
        write_rows(records, form, _EVENT_NAMES)
    elif not events:
        print_line("There are no events of scorings.")
    else:
        rows = [
            (
                *(time_of(each.timestamp_us), each.type, each.session_key),
                _what(each, is_withheld=each.session_key in waiting),
                each.event_id,
            )
            for each in events
        ]
        print_table("Events of scorings", _EVENT_COLUMNS, rows, 4)


def _what(event: ScoringEvent, *, is_withheld: bool) -> str | None:
    """Return the phase, the total or the error of an event."""
    return REVIEW_DUE if is_withheld and event.total_score is not None else event.detail


_EVENT_NAMES = (
    *("event_id", "type", "score_id", "session_id", "session_key", "timestamp_us", "phase"),
    *("total_score", "error_message"),
)


def _scorings(
    stores: Stores, dates: DateRange | None, which: SessionFilter, *, every: bool
) -> list[Score]:
    """Return the scorings of chosen sessions, without texts, oldest first."""
    since, until = dates or (None, None)
    found = ScoreStore(stores.ledger).listed(since, until)
    if not every:
        newest = {(*_key(each), each.judge_profile_id): each.score_id for each in found}
        found = [each for each in found if each.score_id in set(newest.values())]
    return chosen_of(stores.lake, which, found)


def _key(score: Score) -> tuple[str, str]:
    return score.organization_id, score.session_key


def _print(
    stores: Stores, chosen: Sequence[Score], limit: int, form: OutputFormat, now: datetime
) -> None:
    shown = chosen[-limit:]
    if form is OutputFormat.TABLE:
        _print_table(stores, chosen, shown, now)
        return
    whole = ScoreStore(stores.ledger).with_ids([each.score_id for each in shown])
    scores = [as_known(whole[each.score_id], now) for each in shown]
    if form is OutputFormat.JSON:
        hashes = current_prompt_hashes(stores, scores)
        settings = stores.settings
        print_json(
            {
                "items": [score_record(each, hashes.get(_key(each))) for each in scores],
                "scorings": len(chosen),
                "flags": _flag_counts(chosen),
                "spent_today_usd": spent_today(stores.ledger, now),
                "max_cost_per_day_usd": settings.judge_max_cost_per_day_usd,
                "max_cost_usd": settings.judge_max_cost_usd,
                "max_sessions": settings.judge_max_sessions,
            }
        )
    else:
        write_output(csv_text(pl.DataFrame(list(map(_flat, scores)), schema=_CSV_SCHEMA)))


_CSV_SCHEMA = {
    **dict.fromkeys(("session_key", "organization_id", "session_date"), pl.String),
    **dict.fromkeys(("status", "badge"), pl.String),
    "total_score": pl.Int64,
    **dict.fromkeys(("judge_model", "flags", "judge_profile_id", "agent_model"), pl.String),
    **dict.fromkeys(("completed_at", "error_message", "last_reply"), pl.String),
    "judge_cost_usd": pl.Float64,
}


def _flat(score: Score) -> dict[str, Any]:
    found, names = badge(score), set(Score.__slots__)
    values = {name: getattr(score, name) for name in _CSV_SCHEMA if name in names}
    return {
        **values,
        "session_date": str(score.session_date),
        "badge": found.text,
        "flags": " ".join(found.flags),
        "completed_at": time_of(score.completed_at_us),
        "last_reply": _last_words(score),
    }


def _print_table(
    stores: Stores, chosen: Sequence[Score], shown: Sequence[Score], now: datetime
) -> None:
    if not chosen:
        print_line("No scoring meets these conditions.")
    else:
        cut = {"agent": shortened_to(14), "agent model": shortened_to(16)}
        waiting = waiting_of(stores)
        rows = [_row(each, is_withheld=_key(each) in waiting) for each in shown]
        print_table("Scores by the judge", _COLUMNS, rows, 4, cut)
        print_line("judge: total from 0 to 100, red below 50, yellow below 75, then green")
    if len(chosen) > len(shown):
        older = pluralize(len(chosen) - len(shown), "older scoring")
        print_line(f"{older} not shown: use --limit or --date")
    _print_failures(stores, chosen)
    counts = ", ".join(f"{name} {number}" for name, number in _flag_counts(chosen).items())
    if counts:
        left_out = ", ".join(stores.settings.judge_exclude_flagged) or "none"
        print_line(f"flags: {counts} (left out by EVAL_JUDGE_EXCLUDE_FLAGGED: {left_out})")
    print_line(spending_line(stores, now))


def _row(score: Score, *, is_withheld: bool) -> tuple[object, ...]:
    found = Badge(REVIEW_DUE, model=score.judge_model) if is_withheld else badge(score)
    return (
        *(score.session_key, found.text, score.agent_id, score.agent_model, score.judge_model),
        ", ".join(found.flags) or None,
        time_of(score.completed_at_us or score.scored_at_us),
        None if score.judge_cost_usd is None else f"{score.judge_cost_usd:.4f}",
        *(score.judge_profile_id, score.organization_id),
    )


def _print_failures(stores: Stores, chosen: Sequence[Score]) -> None:
    """Print the newest failures with what the model said last."""
    failed = [each for each in chosen if each.status == "failed"]
    if not failed:
        return
    newest = [each.score_id for each in failed[-_MAX_FAILURES:]]
    print_line(f"\n{pluralize(len(failed), 'failure')}, the newest with the model's last words:")
    for score in ScoreStore(stores.ledger).with_ids(newest).values():
        print_line(f"  {one_line(score.session_key)}: {one_line(score.error_message or '')}")
        if words := _last_words(score):
            cut = words if len(words) <= _MAX_WORDS else f"…{words[-_MAX_WORDS:]}"
            print_line(fenced(one_line(cut)))
    print_line("judge show SESSION has every reply.\n")


def _last_words(score: Score) -> str | None:
    """Return the last reply of a failed scoring on one line; ``None`` if there was none."""
    if score.status != "failed" or not score.turn_log:
        return None
    return " ".join(score.turn_log[-1].text.split())


def _flag_counts(scores: Sequence[Score]) -> dict[str, int]:
    found = Counter(name for each in scores for name in flags_of(each))
    return {name: found[name] for name in SCORE_FLAGS if found[name]}
