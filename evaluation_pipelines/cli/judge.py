"""What the terminal program prints of the judge's scores and runs."""

import getpass
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from evaluation_pipelines.as_of import read_stores_as_of
from evaluation_pipelines.build.judge_scores import publish_scores, unpublished_dates
from evaluation_pipelines.cli.dates import AS_OF, DATES_TO_LIST, parse_as_of, parse_days, within
from evaluation_pipelines.cli.missing_tools import show_missing_tools
from evaluation_pipelines.cli.output import (
    counted,
    one_line,
    print_error,
    print_line,
    print_table,
    progress_bar,
)
from evaluation_pipelines.judging.domain.due import ExtraDue
from evaluation_pipelines.judging.domain.score import Score, reader_record
from evaluation_pipelines.judging.judge import judge, judge_session
from evaluation_pipelines.judging.ledger.score_queries import Subject
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import PlanOverrides, load_plans, prompt_hashes
from evaluation_pipelines.judging.runner.run_report import JudgeReport
from evaluation_pipelines.judging.runner.run_request import RunRequest
from evaluation_pipelines.judging.score_requests import (
    RequestResult,
    SessionQuery,
    look_up,
    request_score,
)
from evaluation_pipelines.schemas import AGENT_SESSIONS, JUDGE_SCORES
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import Stores, open_stores, read_stores

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

REFUSALS = {
    "conflict": "is being scored: wait for that, or leave --force out",
    "not_terminal": "has not ended yet",
    "unknown": "is no session of the lake; see `evaluation-pipelines sessions`",
}
"""Why a request is refused, by its answer."""


class ScoreFormat(StrEnum):
    """How a score is printed."""

    TEXT = "text"
    JSON = "json"


def print_score(score: Score, current_prompt_hash: str | None, form: ScoreFormat) -> None:
    """One scoring, for people or as the record that a program gets."""
    record = reader_record(score, current_prompt_hash)
    if form is ScoreFormat.JSON:
        print_line(json.dumps(record, indent=2, default=str))
        return
    print_line(f"{one_line(score.session_key)}: {_verdict(score)}")
    for name, value in _facts(score, is_current=record["current_prompt_used"]).items():
        print_line(f"  {name:16} {one_line(str(value))}")
    for title, text in (
        ("Analysis", score.score_analysis),
        ("Missing tools", score.missing_tools_analysis),
    ):
        if text:
            print_line(f"\n{title}\n\n{text}")


def print_report(report: JudgeReport) -> None:
    """What a run did; what it did not do is never left out."""
    if report.skipped is not None:
        print_error(f"warning: {report.summary()}")
        return
    print_line(f"judge: {report.summary()}")
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
    print_line("They stay as they are.")
    if not all(is_done):
        left = counted(is_done.count(False), "score")
        print_line(f"To score {left} again: judge run --obsolete")


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


ONE_SESSION = "session"
"""The command that a session without a command in front of it means."""


class JudgeGroup(TyperGroup):
    """Takes what is no command for the session of ``judge session``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the name of the command in front where it was left out."""
        asks_for_help = bool(args) and args[0] in ctx.help_option_names
        if args and args[0] not in self.commands and not asks_for_help:
            args = [ONE_SESSION, *args]
        return super().parse_args(ctx, args)


judge_app = typer.Typer(
    cls=JudgeGroup,
    no_args_is_help=True,
    help="Let the judge score sessions: judge SESSION, judge run. See what it said: "
    "judge show SESSION; and which tools it missed: judge missing-tools.",
)

_SESSION = typer.Argument(metavar="SESSION", help="A session key, or a session id.")
_ORGANIZATION = typer.Option("--organization", help="Where several have such a session.")
_FORM = typer.Option("--format", help="How to print it.")


@judge_app.command(ONE_SESSION)
def one_session(
    session: Annotated[str, _SESSION],
    force: Annotated[
        bool, typer.Option("--force", help="Score it again although it is scored.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Judge it now, and wait for the result.")
    ] = False,
    by: Annotated[str | None, typer.Option(metavar="NAME", help="Who asks.")] = None,
    organization: Annotated[str | None, _ORGANIZATION] = None,
    form: Annotated[ScoreFormat, _FORM] = ScoreFormat.TEXT,
) -> None:
    """Ask for the score of one session; without --wait it is left to the next judge run.

    The same as `judge SESSION`.
    """
    settings = load_settings()
    if settings.why_no_judge is not None:
        print_error(f"error: {settings.why_no_judge}")
        raise typer.Exit(1)
    wanted = SessionQuery(session, organization)
    order = RunRequest(by or getpass.getuser())
    with open_stores(settings) as stores:
        now = datetime.now(UTC)
        plans = load_plans(stores, now)
        report = None
        if wait:
            requested, report = judge_session(stores, plans, wanted, order, force=force)
            _write_table(stores)
        else:
            requested = request_score(stores, plans, wanted, order.triggered_by, now, force=force)
        _print(stores, requested, session, form)
    if not wait and requested.score is not None and requested.score.is_open:
        print_error("It waits for the next judge run: judge run, or Dagster's sensor.")
    if report is not None and report.totals and requested.score is not None:
        print_error(f"Its scorecards follow with the next build of {requested.score.session_date}.")
    if wait and requested.score is not None and requested.score.is_open:
        why = "somebody else is at work on it" if report is None else report.summary()
        print_error(f"error: it is not scored yet: {one_line(why)}")
        raise typer.Exit(1)
    if wait and requested.score is not None and requested.score.status == "failed":
        raise typer.Exit(1)  # why stands in what was printed


@judge_app.command()
def show(
    session: Annotated[str, _SESSION],
    organization: Annotated[str | None, _ORGANIZATION] = None,
    as_of: Annotated[str | None, AS_OF] = None,
    form: Annotated[ScoreFormat, _FORM] = ScoreFormat.TEXT,
) -> None:
    """Show what the judge said of a session last."""
    then = parse_as_of(as_of)
    with read_stores_as_of(load_settings(), then) as stores:
        found = look_up(stores, SessionQuery(session, organization), then or datetime.now(UTC))
        if found.window is not None and found.score is None:
            print_error(f"error: {one_line(found.window.session_key)} is not scored (HTTP 404)")
            raise typer.Exit(1)
        _print(stores, found, session, form)


@judge_app.command()
def obsolete() -> None:
    """List scores that were made by other words of their rubric than today's."""
    settings = load_settings()
    with read_stores(settings) as stores:
        words = prompt_hashes(settings)
        found = ScoreStore(stores.ledger).obsolete(words)
        newest = ScoreStore(stores.ledger).scored_last(words)
    if found:
        print_obsolete(found, newest)
    else:
        print_line("Every score was made by the words that its rubric has today.")


@judge_app.command()
def run(  # noqa: PLR0913, PLR0917 - a command has as many arguments as options
    dates: Annotated[str | None, DATES_TO_LIST] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also what is scored or has failed.")
    ] = False,
    obsolete: Annotated[
        bool, typer.Option("--obsolete", help="Also what other words of the rubric scored.")
    ] = False,
    include_thin: Annotated[
        bool, typer.Option("--include-thin", help="Also sessions without any text.")
    ] = False,
    profile: Annotated[str | None, typer.Option(help="Only this judge profile.")] = None,
    model: Annotated[str | None, typer.Option(help="Another model than is set.")] = None,
    samples: Annotated[int | None, typer.Option(min=1, max=15, help="Scores a session.")] = None,
    sample_rate: Annotated[
        float | None, typer.Option(min=0, max=1, help="Share of the sessions.")
    ] = None,
    max_sessions: Annotated[int | None, typer.Option(min=0, help="At most so many.")] = None,
    max_cost_usd: Annotated[float | None, typer.Option(min=0, help="At most so much.")] = None,
    by: Annotated[str | None, typer.Option(metavar="NAME", help="Who asks.")] = None,
) -> None:
    """Judge all sessions that are due, or those of some dates, within the budget."""
    days = None if dates is None else parse_days(dates)
    asked = ExtraDue(force=force, include_thin=include_thin, obsolete=obsolete)
    order = RunRequest(by or getpass.getuser(), asked, max_sessions, max_cost_usd)
    overrides = PlanOverrides(profile, model, samples, sample_rate)
    with open_stores(load_settings()) as stores:
        there = within(stores.lake.partitions(AGENT_SESSIONS), days)
        with progress_bar() as progress:
            report = judge(stores, order, there, overrides, progress)
        _write_table(stores)
        print_report(report)
    if report.skipped is not None or report.is_endpoint_down or report.unreadable:
        raise typer.Exit(1)


judge_app.command("missing-tools")(show_missing_tools)


def _print(stores: Stores, found: RequestResult, session: str, form: ScoreFormat) -> None:
    answer = found.answer
    if answer.http_status >= 400:
        why = REFUSALS[answer.action]
        print_error(f"error: {one_line(session)} {why} (HTTP {answer.http_status})")
        raise typer.Exit(1)
    if found.score is not None:
        current = prompt_hashes(stores.settings).get(found.score.rubric)
        print_score(found.score, current, form)


def _write_table(stores: Stores) -> None:
    """Bring the table of the scores up to date wherever the ledger knows more."""
    for each in publish_scores(stores, unpublished_dates(stores)):
        where = f"{JUDGE_SCORES.name} of {each.session_date}"
        print_error(f"error: {where} was not written: {one_line(each.error)}")
