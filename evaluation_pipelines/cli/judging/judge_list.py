"""Command ``judge list``: scores, failures, spending, events, obsolete scores, batches."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, TypeAlias

import polars as pl
import typer

from evaluation_pipelines.as_of import read_stores_as_of
from evaluation_pipelines.cli.conventions import refuse_unused
from evaluation_pipelines.cli.filters import AS_OF, option_names, parse_as_of, with_session_filter
from evaluation_pipelines.cli.judging.score_output import score_record, time_of
from evaluation_pipelines.cli.output import (
    OutputFormat,
    csv_text,
    fenced,
    one_line,
    pluralize,
    print_json,
    print_line,
    print_table,
    write_output,
)
from evaluation_pipelines.cli.rows import FORMAT, record_of, write_rows
from evaluation_pipelines.cli.session_lines import waiting_of
from evaluation_pipelines.formatting import usd
from evaluation_pipelines.judging.domain.badge import Badge, badge, flags_of
from evaluation_pipelines.judging.domain.missing_tools import MissingToolCounts, Period, most_named
from evaluation_pipelines.judging.ledger.batch_store import BatchStore, JudgeBatch
from evaluation_pipelines.judging.ledger.score_queries import spending_line, spent_today
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import current_prompt_hashes
from evaluation_pipelines.judging.score_table import last_period, missing_tools
from evaluation_pipelines.judging.session_windows import WindowKey
from evaluation_pipelines.schemas import SCORE_FLAGS
from evaluation_pipelines.schemas.judge_score import Score, shown_badge
from evaluation_pipelines.scorecards.domain.withheld import REVIEW_DUE, SessionKey
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter
from evaluation_pipelines.sessions.find import chosen_of
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.ledger.service_events import ServiceEvent
from evaluation_pipelines.storage.stores import Stores

_MISSING_TOOLS = (
    *("tool", "sessions #", "of #", "mentions #", "last", "masques", "models", "organization"),
    "for example",
)


def list_missing_tools(
    stores: Stores, which: SessionFilter, limit: int, form: OutputFormat, now: datetime
) -> None:
    """List the tools that judges missed in chosen sessions, by default of 28 complete days."""
    found = missing_tools(stores, _period(which, now), which.organization, which)
    if form is not OutputFormat.TABLE:
        write_rows(found.tools, form, **_record(found))
    else:
        _print_missing_tools(found, limit)


def _period(which: SessionFilter, now: datetime) -> Period:
    if which.dates is None:
        return last_period(now)
    first, last = which.dates
    return Period(first, last + timedelta(days=1))


def _print_missing_tools(found: MissingToolCounts, limit: int) -> None:
    period = found.period
    if found.tools.is_empty():
        print_line(f"No judge named a missing tool in sessions of {period}.")
    else:
        shown = most_named(found.tools).head(limit)
        rows = [
            (
                *(row["tool"], row["sessions"], row["asked_sessions"], row["mentions"]),
                *(row["last_date"], ", ".join(row["masques"]), ", ".join(row["agent_models"])),
                row["organization_id"],
                next((example["rationale"] for example in row["examples"]), None),
            )
            for row in shown.iter_rows(named=True)
        ]
        print_table(f"Missing tools, sessions of {period}", _MISSING_TOOLS, rows, essential=4)
        if shown.height < found.tools.height:
            print_line(f"{found.tools.height - shown.height:,} more: use --limit, or --format csv")
    for line in found.lines():
        print_line(one_line(line))


def _record(found: MissingToolCounts) -> dict[str, Any]:
    return {
        "period_start": found.period.start,
        "period_end": found.period.end,
        "answers": dict(found.answers),
        "unparsed": dict(found.unparsed),
        "nameless_items": found.nameless_items,
    }


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


class Listed(StrEnum):
    """What ``judge list`` lists."""

    SCORES = "scores"
    OBSOLETE = "obsolete"
    EVENTS = "events"
    BATCHES = "batches"
    MISSING_TOOLS = "missing-tools"


@with_session_filter
def list_judge(  # noqa: PLR0913, PLR0917 - one parameter per option
    what: Annotated[
        Listed, typer.Argument(metavar=f"[{'|'.join(Listed)}]", help="What to list.")
    ] = Listed.SCORES,
    status: Annotated[Status | None, typer.Option(help="Only judgments in this state.")] = None,
    flag: Annotated[Flag | None, typer.Option(help="Only scores with this flag.")] = None,
    judge_model: Annotated[str | None, typer.Option(help="Only scores by this model.")] = None,
    every: Annotated[
        bool,
        typer.Option("--all", help="Every judgment, not only the latest, and finished batches."),
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Only the latest N. Default: 50."),
    ] = None,
    as_of: Annotated[str | None, AS_OF] = None,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
    which: SessionFilter = ALL_SESSIONS,
) -> None:
    """List judge scores, outdated ones, events, batches, or missing tools.

    scores: totals from 0 to 100 and failures, oldest first, and today's cost. json has all text,
    also every reply of a failed judgment. obsolete: scores by another rubric, or wording, than
    would judge the session now. events: started, progress, completed, failed. batches: unfinished
    ones at the provider. missing-tools: tools that judges missed; without --date, in the last 28
    complete days.
    """
    chosen = _Choice(status, flag, judge_model, every=every)
    is_scores, is_batches = what is Listed.SCORES, what is Listed.BATCHES
    refuse_unused(
        f"judge list {what}",
        {
            "--status": status is not None and not is_scores,
            "--flag": flag is not None and not is_scores,
            "--judge-model": judge_model is not None and not is_scores,
            "--all": every and not (is_scores or is_batches),
            **dict.fromkeys(option_names(which), is_batches),
            "--limit": limit is not None and is_batches,
            "--as-of": as_of is not None and not (is_scores or what is Listed.MISSING_TOOLS),
        },
    )
    then = parse_as_of(as_of)
    now = then or datetime.now(UTC)
    with read_stores_as_of(load_settings(), then) as stores:
        match what:
            case Listed.SCORES:
                scores = _chosen_scores(stores, chosen, which)
                _print(stores, scores, limit or _LIMIT, form, now)
            case Listed.OBSOLETE:
                list_obsolete(stores, which, limit, form)
            case Listed.EVENTS:
                _list_events(stores, which, limit or _LIMIT, form)
            case Listed.BATCHES:
                list_batches(stores, form, every=every)
            case Listed.MISSING_TOOLS:
                list_missing_tools(stores, which, limit or _LIMIT, form, now)


@dataclass(frozen=True, slots=True)
class _Choice:
    """Scores that are listed: in a state, with a flag, by a model; every one of a session."""

    status: Status | None
    flag: Flag | None
    judge_model: str | None
    every: bool

    def has(self, score: Score) -> bool:
        return (
            self.status in {None, score.status}
            and (self.flag is None or self.flag in flags_of(score))
            and self.judge_model in {None, score.judge_model}
        )


def _chosen_scores(stores: Stores, chosen: _Choice, which: SessionFilter) -> list[Score]:
    scorings = _scorings(stores, which, every=chosen.every)
    return [scoring for scoring in scorings if chosen.has(scoring)]


def _list_events(stores: Stores, which: SessionFilter, limit: int, form: OutputFormat) -> None:
    """List what happened to judgments, oldest first: started, progress, completed, failed."""
    score_ids = None
    if not which.is_empty:
        score_ids = [scoring.score_id for scoring in _scorings(stores, which, every=True)]
    events = ScoreStore(stores.ledger).newest_events(limit, score_ids)
    waiting = {key for _, key in waiting_of(stores)}
    records = [{name: getattr(event, name) for name in _EVENT_NAMES} for event in events]
    if form is not OutputFormat.TABLE:
        write_rows(records, form, _EVENT_NAMES)
    elif not events:
        print_line("There are no judgment events.")
    else:
        rows = [
            (
                *(time_of(event.timestamp_us), event.type, event.session_key),
                _event_details(event, is_withheld=event.session_key in waiting),
                event.event_id,
            )
            for event in events
        ]
        print_table("Judgment events", _EVENT_COLUMNS, rows, 4)


def _event_details(event: ServiceEvent, *, is_withheld: bool) -> str | None:
    """Return the phase, the total or the error of an event."""
    return REVIEW_DUE if is_withheld and event.total_score is not None else event.detail


_EVENT_NAMES = (
    *("event_id", "type", "score_id", "session_id", "session_key", "timestamp_us", "phase"),
    *("total_score", "error_message"),
)


def _scorings(stores: Stores, which: SessionFilter, *, every: bool) -> list[Score]:
    """Return the judgments of chosen sessions, without text, oldest first."""
    since, until = which.dates or (None, None)
    found = ScoreStore(stores.ledger).listed(since, until)
    if not every:
        newest = {(*_key(score), score.judge_profile_id): score.score_id for score in found}
        found = [score for score in found if score.score_id in set(newest.values())]
    return chosen_of(stores.lake, replace(which, dates=None), found)


def _key(score: Score) -> tuple[str, str]:
    return score.organization_id, score.session_key


def _print(
    stores: Stores, chosen: Sequence[Score], limit: int, form: OutputFormat, now: datetime
) -> None:
    shown = chosen[-limit:]
    if form is OutputFormat.TABLE:
        _print_table(stores, chosen, shown, now)
        return
    whole = ScoreStore(stores.ledger).with_ids([score.score_id for score in shown])
    scores = [whole[score.score_id] for score in shown]
    if form is OutputFormat.JSON:
        hashes = current_prompt_hashes(stores, scores)
        settings = stores.settings
        print_json(
            {
                "items": [score_record(score, hashes.get(_key(score))) for score in scores],
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
        print_line("No matching judgments. Remove a filter.")
    else:
        waiting = waiting_of(stores)
        rows = [_row(score, is_withheld=_key(score) in waiting) for score in shown]
        print_table("Judge scores", _COLUMNS, rows, 4)
        print_line("judge: total from 0 to 100, red below 50, yellow below 75, then green")
    if len(chosen) > len(shown):
        older = pluralize(len(chosen) - len(shown), "older judgment")
        print_line(f"{older} not shown: use --limit or --date")
    _print_failures(stores, chosen)
    counts = ", ".join(f"{name} {number}" for name, number in _flag_counts(chosen).items())
    if counts:
        left_out = ", ".join(stores.settings.judge_exclude_flagged) or "none"
        print_line(f"flags: {counts} (left out by EVAL_JUDGE_EXCLUDE_FLAGGED: {left_out})")
    print_line(spending_line(stores.ledger, stores.settings, now))


def _row(score: Score, *, is_withheld: bool) -> tuple[object, ...]:
    found = Badge(REVIEW_DUE, model=score.judge_model) if is_withheld else badge(score)
    return (
        *(score.session_key, shown_badge(found.text)),
        *(score.agent_id, score.agent_model, score.judge_model),
        ", ".join(found.flags) or None,
        time_of(score.completed_at_us or score.scored_at_us),
        None if score.judge_cost_usd is None else f"{score.judge_cost_usd:.4f}",
        *(score.judge_profile_id, score.organization_id),
    )


def _print_failures(stores: Stores, chosen: Sequence[Score]) -> None:
    """Print the newest failures with what the model said last."""
    failed = [score for score in chosen if score.status == "failed"]
    if not failed:
        return
    newest = [score.score_id for score in failed[-_MAX_FAILURES:]]
    print_line(f"\n{pluralize(len(failed), 'failure')}, the latest with the model's last words:")
    for score in ScoreStore(stores.ledger).with_ids(newest).values():
        print_line(f"  {one_line(score.session_key)}: {one_line(score.error_message or '')}")
        if words := _last_words(score):
            cut = words if len(words) <= _MAX_WORDS else f"…{words[-_MAX_WORDS:]}"
            print_line(fenced(one_line(cut)))
    print_line("show SESSION --judge has every reply.\n")


def _last_words(score: Score) -> str | None:
    """Return the last reply of a failed scoring on one line; ``None`` if there was none."""
    if score.status != "failed" or not score.turn_log:
        return None
    return " ".join(score.turn_log[-1].text.split())


def _flag_counts(scores: Sequence[Score]) -> dict[str, int]:
    found = Counter(name for score in scores for name in flags_of(score))
    return {name: found[name] for name in SCORE_FLAGS if found[name]}


_OBSOLETE = (
    *("session_key", "organization_id", "total_score", "rubric", "prompt_hash", "completed_at_us"),
    "is_scored_again",
)


Subject: TypeAlias = tuple[str, str, str, str]
"""Organization, session key, judge profile and content hash of a score."""


def list_obsolete(
    stores: Stores, which: SessionFilter, limit: int | None, form: OutputFormat
) -> None:
    """List scores by another rubric, or wording, than would judge their sessions now."""
    scorings = ScoreStore(stores.ledger).listed()
    scores = [scoring for scoring in scorings if scoring.status == "completed"]
    hashes = current_prompt_hashes(stores, scores)
    found = chosen_of(stores.lake, which, obsolete_among(scores, hashes))
    found = found if limit is None else found[-limit:]
    scored_last = scored_last_by(scores, hashes)
    if form is not OutputFormat.TABLE:
        write_obsolete(found, scored_last, form)
    elif found:
        print_obsolete(found, scored_last, waiting_of(stores))
    else:
        of_these = "" if which.is_empty else " of these sessions"
        print_line(f"Every score{of_these} is by the rubric that would judge its session now.")


def obsolete_among(
    scores: Iterable[Score], prompt_hashes: Mapping[WindowKey, str | None]
) -> list[Score]:
    """Return the scores by another rubric, or wording, than would judge their sessions now."""
    return [score for score in scores if not _is_current(score, prompt_hashes)]


def scored_last_by(
    scores: Iterable[Score], prompt_hashes: Mapping[WindowKey, str | None]
) -> dict[Subject, int]:
    """Return the time of the last score by the current rubric (microseconds)."""
    last: dict[Subject, int] = {}
    for score in scores:
        if _is_current(score, prompt_hashes):
            last[_subject(score)] = max(last.get(_subject(score), 0), score.completed_at_us or 0)
    return last


def _is_current(score: Score, prompt_hashes: Mapping[WindowKey, str | None]) -> bool:
    key = (score.organization_id, score.session_key)
    return prompt_hashes.get(key) == score.prompt_hash


def write_obsolete(
    scores: Sequence[Score], scored_last: Mapping[Subject, int], form: OutputFormat
) -> None:
    """Write obsolete scores as records."""
    write_rows([_obsolete_record(score, scored_last) for score in scores], form, _OBSOLETE)


def _obsolete_record(score: Score, scored_last: Mapping[Subject, int]) -> dict[str, Any]:
    stored = {name: getattr(score, name) for name in _OBSOLETE[:-1]}
    return {**stored, _OBSOLETE[-1]: _is_scored_again(score, scored_last)}


def _is_scored_again(score: Score, scored_last: Mapping[Subject, int]) -> bool:
    return scored_last.get(_subject(score), 0) > (score.completed_at_us or 0)


def print_obsolete(
    scores: Sequence[Score], scored_last: Mapping[Subject, int], waiting: Collection[SessionKey]
) -> None:
    """Print obsolete scores, oldest first, and how to score their sessions again.

    The totals of ``waiting`` sessions, which wait for a blind review, are not shown.
    """
    is_done = [_is_scored_again(score, scored_last) for score in scores]
    rows = [
        (
            *(score.session_key, score.organization_id, _total(score, waiting), score.rubric),
            *(score.prompt_hash[:12], time_of(score.completed_at_us), "yes" if done else "no"),
        )
        for score, done in zip(scores, is_done, strict=True)
    ]
    columns = (
        *("session key", "organization", "total #", "rubric"),
        *("prompt hash", "scored (UTC)", "scored again"),
    )
    print_table(pluralize(len(rows), "obsolete score"), columns, rows, essential=3)
    print_line("Obsolete scores are kept.")
    if not all(is_done):
        undone = {_subject(score) for score, done in zip(scores, is_done, strict=True) if not done}
        left = pluralize(len(undone), "session")
        print_line(f"To score {left} again: judge run --obsolete")


def _total(score: Score, waiting: Collection[SessionKey]) -> object:
    key = (score.organization_id, score.session_key)
    return REVIEW_DUE if key in waiting else score.total_score


def _subject(score: Score) -> Subject:
    return (score.organization_id, score.session_key, score.judge_profile_id, score.content_hash)


_BATCH_COLUMNS = (
    *("batch", "state", "at the provider", "requests #", "answered #", "failed #"),
    *("reserved #", "sent (UTC)", "expected by (UTC)", "model", "note"),
)


_NAMES = [*(field.name for field in fields(JudgeBatch)), "reserved_usd"]


def list_batches(stores: Stores, form: OutputFormat, *, every: bool) -> None:
    """List unfinished batches, as they were when last polled; with ``every``, finished ones too."""
    store = BatchStore(stores.ledger)
    batches = store.newest(100)[::-1] if every else store.unfinished()
    reserved = store.reserved_usd()
    if form is not OutputFormat.TABLE:
        records = [_batch_record(batch, reserved.get(batch.batch_id)) for batch in batches]
        write_rows(records, form, _NAMES)
    elif not batches:
        print_line("No open batches.")
    else:
        _print_batches(batches, reserved)


def _print_batches(batches: Sequence[JudgeBatch], reserved: dict[str, float]) -> None:
    rows = [
        (
            *(batch.batch_id[:8], batch.state, batch.provider_status, batch.requests),
            *(batch.completed_requests, batch.failed_requests, usd(reserved.get(batch.batch_id))),
            *(time_of(batch.submitting_at_us), time_of(batch.expected_by_us)),
            *(batch.judge_model, batch.error_message),
        )
        for batch in batches
    ]
    print_table("Judge batches", _BATCH_COLUMNS, rows, essential=4)


def _batch_record(batch: JudgeBatch, reserved_usd: float | None) -> dict[str, Any]:
    return {**record_of(batch), "reserved_usd": reserved_usd}
