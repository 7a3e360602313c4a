"""Commands of the judge: score one session or all that are due, and see what it said."""

import getpass
from datetime import UTC, datetime
from typing import Annotated

import typer

from evaluation_pipelines.cli import verdicts
from evaluation_pipelines.cli.dates import AS_OF, DATES_TO_LIST, parse_as_of, parse_days, within
from evaluation_pipelines.cli.judge_group import ONE_SESSION, JudgeGroup
from evaluation_pipelines.cli.missing_tools import show_missing_tools
from evaluation_pipelines.cli.terminal import complain, one_line, progress_bar, say
from evaluation_pipelines.domain.judging.due import Asked
from evaluation_pipelines.domain.schemas import AGENT_SESSIONS, JUDGE_SCORES
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.stages.as_of import read_stores_as_of
from evaluation_pipelines.stages.judging.judge import judge, judge_session
from evaluation_pipelines.stages.judging.order import Order
from evaluation_pipelines.stages.judging.plans import Overrides, load_plans, prompt_hashes
from evaluation_pipelines.stages.judging.publishing import publish_scores, unpublished_dates
from evaluation_pipelines.stages.judging.requests import (
    Requested,
    Wanted,
    look_up,
    request_score,
)
from evaluation_pipelines.stages.stores import Stores, open_stores, read_stores

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
    form: Annotated[verdicts.Form, _FORM] = verdicts.Form.TEXT,
) -> None:
    """Ask for the score of one session; without --wait it is left to the next judge run.

    The same as `judge SESSION`.
    """
    settings = load_settings()
    if settings.why_no_judge is not None:
        complain(f"error: {settings.why_no_judge}")
        raise typer.Exit(1)
    wanted = Wanted(session, organization)
    order = Order(by or getpass.getuser())
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
        complain("It waits for the next judge run: judge run, or Dagster's sensor.")
    if report is not None and report.totals and requested.score is not None:
        complain(f"Its scorecards follow with the next build of {requested.score.session_date}.")
    if wait and requested.score is not None and requested.score.is_open:
        why = "somebody else is at work on it" if report is None else report.summary()
        complain(f"error: it is not scored yet: {one_line(why)}")
        raise typer.Exit(1)
    if wait and requested.score is not None and requested.score.status == "failed":
        raise typer.Exit(1)  # why stands in what was printed


@judge_app.command()
def show(
    session: Annotated[str, _SESSION],
    organization: Annotated[str | None, _ORGANIZATION] = None,
    as_of: Annotated[str | None, AS_OF] = None,
    form: Annotated[verdicts.Form, _FORM] = verdicts.Form.TEXT,
) -> None:
    """Show what the judge said of a session last."""
    then = parse_as_of(as_of)
    with read_stores_as_of(load_settings(), then) as stores:
        found = look_up(stores, Wanted(session, organization), then or datetime.now(UTC))
        if found.window is not None and found.score is None:
            complain(f"error: {one_line(found.window.session_key)} is not scored (HTTP 404)")
            raise typer.Exit(1)
        _print(stores, found, session, form)


@judge_app.command()
def obsolete() -> None:
    """List scores that were made by other words of their rubric than today's."""
    settings = load_settings()
    with read_stores(settings) as stores:
        words = prompt_hashes(settings)
        found = stores.ledger.scores.obsolete(words)
        newest = stores.ledger.scores.scored_last(words)
    if found:
        verdicts.print_obsolete(found, newest)
    else:
        say("Every score was made by the words that its rubric has today.")


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
    asked = Asked(force=force, include_thin=include_thin, obsolete=obsolete)
    order = Order(by or getpass.getuser(), asked, max_sessions, max_cost_usd)
    overrides = Overrides(profile, model, samples, sample_rate)
    with open_stores(load_settings()) as stores:
        there = within(stores.lake.partitions(AGENT_SESSIONS), days)
        with progress_bar() as progress:
            report = judge(stores, order, there, overrides, progress)
        _write_table(stores)
        verdicts.print_report(report)
    if report.skipped is not None or report.is_endpoint_down or report.unreadable:
        raise typer.Exit(1)


judge_app.command("missing-tools")(show_missing_tools)


def _print(stores: Stores, found: Requested, session: str, form: verdicts.Form) -> None:
    answer = found.answer
    if answer.http_status >= 400:
        why = verdicts.REFUSALS[answer.action]
        complain(f"error: {one_line(session)} {why} (HTTP {answer.http_status})")
        raise typer.Exit(1)
    if found.score is not None:
        current = prompt_hashes(stores.settings).get(found.score.rubric)
        verdicts.print_score(found.score, current, form)


def _write_table(stores: Stores) -> None:
    """Bring the table of the scores up to date wherever the ledger knows more."""
    for each in publish_scores(stores, unpublished_dates(stores)):
        where = f"{JUDGE_SCORES.name} of {each.session_date}"
        complain(f"error: {where} was not written: {one_line(each.error)}")
