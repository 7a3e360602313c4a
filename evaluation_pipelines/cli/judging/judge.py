"""Commands ``judge`` and ``judge changes``: scores of sessions, and the effect of another judge."""

import getpass
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from evaluation_pipelines.attention.send import note_judge, note_whole_run
from evaluation_pipelines.build.build import publish_scores, unpublished_dates
from evaluation_pipelines.cli.conventions import (
    FAILED,
    NOTHING,
    ORGANIZATION,
    SESSION,
    DefaultCommandGroup,
    known_number,
    of_parts,
    refuse_unused,
)
from evaluation_pipelines.cli.filters import DATES_TO_LIST, dates_in, named_session, parse_dates
from evaluation_pipelines.cli.judging.judge_list import list_judge
from evaluation_pipelines.cli.judging.score_output import print_request, unless_judged
from evaluation_pipelines.cli.judging.validate import validate_judge
from evaluation_pipelines.cli.output import (
    OutputFormat,
    csv_text,
    format_option,
    one_line,
    print_error,
    print_json,
    print_line,
    print_table,
    progress_bar,
    write_output,
)
from evaluation_pipelines.cli.rows import FORMAT, write_record
from evaluation_pipelines.formatting import interval, points, signed, usd
from evaluation_pipelines.judge_changes.anchors import (
    JudgeHistory,
    NoBridgeError,
    anchor_rows,
    change_rows,
    judge_changes,
    measure,
    read_history,
    write_judge_changes,
)
from evaluation_pipelines.judge_changes.domain.judge_change import (
    NO_CHANGE,
    JudgeChange,
    headline,
    judges_line,
    names,
    sentences,
    title,
)
from evaluation_pipelines.judge_changes.domain.judges import Change
from evaluation_pipelines.judge_changes.score_anchors import AnchorRun, estimate_cost
from evaluation_pipelines.judging.domain.due import ExtraDue
from evaluation_pipelines.judging.ledger.batch_store import BatchStore
from evaluation_pipelines.judging.plans import PlanOverrides, load_plans
from evaluation_pipelines.judging.report import JudgeReport
from evaluation_pipelines.judging.run import (
    JudgeInterruptedError,
    RunRequest,
    judge,
    judge_session,
)
from evaluation_pipelines.judging.score_requests import (
    RequestResult,
    request_score,
)
from evaluation_pipelines.schemas import AGENT_SESSIONS, JUDGE_SCORES
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.lock import LockTimeoutError
from evaluation_pipelines.storage.stores import Stores, open_stores, read_stores

_COLUMNS = (
    *("change", "profile", "since", "former", "new", "trend"),
    *("judge's part #", "95% interval", "agents' part #", "anchors #", "state"),
)


def show_judge_changes(
    change: Annotated[
        str | None,
        typer.Argument(
            help="With --anchors: id of the change. Default: all open ones of the last 56 days."
        ),
    ] = None,
    anchors: Annotated[
        bool,
        typer.Option(
            "--anchors", help="Let both judges score the same anchor sessions, to adjust scores."
        ),
    ] = False,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="With --anchors: only estimate the cost.")
    ] = False,
    max_cost_usd: Annotated[
        float | None,
        typer.Option(min=0, callback=known_number, help="With --anchors: maximum cost."),
    ] = None,
    form: Annotated[
        OutputFormat,
        format_option(OutputFormat.TABLE, OutputFormat.JSON, OutputFormat.CSV),
    ] = OutputFormat.TABLE,
) -> None:
    """Show judge changes, and how much of a score shift comes from the judge.

    --anchors draws anchor sessions first. Run it again after an interruption: existing scores stay.
    It exits with 3 if no change needs anchors, with 4 if some were not scored.
    """
    if anchors:
        refuse_unused("judge changes --anchors", {"--format": form is not OutputFormat.TABLE})
        _score_anchors(change, max_cost_usd, estimate=estimate)
    if estimate or change is not None or max_cost_usd is not None:
        raise typer.BadParameter("CHANGE, --estimate and --max-cost-usd require --anchors")
    with read_stores(load_settings()) as stores:
        changes = judge_changes(stores, datetime.now(UTC))
    if form is OutputFormat.TABLE:
        _print(changes)
    elif form is OutputFormat.CSV:
        write_output(csv_text(change_rows(changes)))
    else:
        rows, of_anchors = change_rows(changes), anchor_rows(changes)
        print_json({"items": rows.to_dicts(), "anchors": of_anchors.to_dicts()})


def _score_anchors(change: str | None, max_cost_usd: float | None, *, estimate: bool) -> None:
    """Score the anchors of one change, or of all open ones, and exit with the code of it."""
    settings = load_settings()
    if settings.why_no_judge is not None:
        print_error(f"error: {settings.why_no_judge}")
        raise typer.Exit(1)
    finished = list[bool]()
    with open_stores(settings) as stores:
        now = datetime.now(UTC)
        history = read_history(stores, now)
        chosen = _chosen(stores, history, change, now)
        for judge_change in chosen:
            heading = f"{judge_change.change_id} {title(judge_change)}"
            print_line(one_line(f"{heading}: {judges_line(judge_change)}"))
            number, calls, cost = estimate_cost(stores, history, judge_change, now)
            about = "at an unknown price" if cost is None else f"about {usd(cost)}"
            left = f"{calls} calls left, {about}" if calls else "nothing left to score"
            print_line(f"  {number} anchors, {left}")
            if not estimate and (calls or not number):
                finished.append(_score(stores, history, judge_change, max_cost_usd))
        if not estimate:
            write_judge_changes(stores, datetime.now(UTC))
    if not chosen:
        raise typer.Exit(NOTHING)
    raise typer.Exit(of_parts(finished.count(True), finished.count(False)))


def _chosen(
    stores: Stores, history: JudgeHistory, change_id: str | None, now: datetime
) -> list[Change]:
    """Return the change with an id, or all recent ones that can be measured and are not yet."""
    if change_id is not None:
        found = [change for change in history.changes if change.change_id == change_id]
        if not found:
            raise typer.BadParameter(f"there is no change {one_line(change_id)}: judge changes")
        return found[:1]
    recent = [change for change in history.changes if change.is_recent(now.date())]
    open_ones = [
        change
        for change in {change.change_id: change for change in reversed(recent)}.values()
        if measure(stores, history, change, now).row["state"] in {"not drawn", "incomplete"}
    ]
    if not open_ones:
        print_line("No recent change of a judge waits for anchors: judge changes shows all.")
    return open_ones


def _score(
    stores: Stores, history: JudgeHistory, change: Change, max_cost_usd: float | None
) -> bool:
    """Score the anchors of one change, and print the outcome; return whether it is finished."""
    try:
        with unless_judged(), progress_bar() as progress:
            by = getpass.getuser()
            report = AnchorRun(stores, history, change, by, max_cost_usd, progress).run()
    except NoBridgeError as error:
        print_error(f"error: no bridge is possible: {one_line(str(error))}")
        return False
    done = f"{report.finished} of {report.anchors} anchors scored by both judges"
    print_line(f"  {done}, {report.judged.calls} calls, {usd(report.judged.cost_usd)}")
    for problem in report.problems:
        print_error(f"warning: {one_line(problem)}")
    if report.is_finished:
        found = measure(stores, history, change, datetime.now(UTC))
        print_line(f"  {one_line(headline(found.row))}")
    return report.is_finished


def _print(changes: list[JudgeChange]) -> None:
    if not changes:
        print_line(NO_CHANGE)
        return
    print_table("Judge changes, latest first", _COLUMNS, map(_row, changes), essential=6)
    for change in changes:
        print_line(f"\n{one_line(title(change.change))}")
        for sentence in (headline(change.row), *sentences(change)):
            print_line(f"  {one_line(sentence)}")


def _row(found: JudgeChange) -> tuple[object, ...]:
    change, row = found.change, found.row
    judges, agents = row["judges_part"], row["agents_part"]
    ends = interval(points(row["judges_part_low"]), points(row["judges_part_high"]))
    return (
        *(change.change_id, change.profile_id, change.changed_on, *names(change), row["trend"]),
        None if judges is None else signed(judges),
        ends or None,
        None if agents is None else signed(agents),
        *(row["anchors"], row["state"]),
    )


_DEFAULT_COMMAND = "session"
"""The command that ``judge SESSION`` runs."""

_QUIET = logging.getLogger("evaluation_pipelines.cli.judge")
"""Of alerts: the command says itself what stopped the run."""

_QUIET.addHandler(logging.NullHandler())


class JudgeGroup(DefaultCommandGroup):
    """Command group that treats ``judge SESSION`` as ``judge session SESSION``."""

    default = _DEFAULT_COMMAND


app = typer.Typer(
    cls=JudgeGroup,
    no_args_is_help=True,
    help="Judge sessions, and list the judge's scores.",
)

_BY = typer.Option(metavar="NAME", help="Name of the requester. Default: the login name.")


@app.command(_DEFAULT_COMMAND)
def one_session(
    session: Annotated[str, SESSION],
    force: Annotated[
        bool, typer.Option("--force", help="Judge the session even if already judged.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Judge the session now and wait for the result.")
    ] = False,
    by: Annotated[str | None, _BY] = None,
    organization: Annotated[str | None, ORGANIZATION] = None,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
) -> None:
    """Request the judge score of one session: `judge SESSION`.

    Without --wait, the next judge run scores it.
    """
    settings = load_settings()
    if settings.why_no_judge is not None:
        print_error(f"error: {settings.why_no_judge}")
        raise typer.Exit(1)
    run_request = RunRequest(by or getpass.getuser())
    with open_stores(settings) as stores:
        query = named_session(stores.lake, session, organization)
        now = datetime.now(UTC)
        plans = load_plans(stores, now)
        report = None
        if wait:
            result, report = judge_session(
                stores, plans, query, run_request, force=force, on_wait=_Told()
            )
            if report is not None:
                note_judge(stores, report, datetime.now(UTC), _QUIET)
            _publish_scores(stores)
        else:
            by = run_request.triggered_by
            result = request_score(stores, plans, query, by, now, force=force)
        if result.answer.http_status == 202:
            _note_request(stores, run_request.triggered_by, result)
        print_request(stores, result, session, form)
    score = result.score
    if score is None:
        return
    in_batch = score.batch_id is not None
    if not wait and score.is_open and not in_batch:
        print_error("The next judge run scores it: use judge run, or Dagster's sensor starts one.")
    if report is not None and report.totals:
        print_error(f"The next build of {score.session_date} adds its scorecards.")
    if wait and score.is_open:
        why = "it waits in a batch" if report is None else report.summary()
        print_error(f"error: it is not scored yet: {one_line(why)}")
        raise typer.Exit(1)
    if wait and score.status == "failed":
        raise typer.Exit(1)  # the printed score has the reason


def _note_request(stores: Stores, by: str, result: RequestResult) -> None:
    """Let the person see the score who asked for it."""
    from evaluation_pipelines.scorecards.blind_reviews import note_request  # loads profiles

    if result.score is not None:
        key = (result.score.organization_id, result.score.session_key)
        note_request(stores, by, key, datetime.now(UTC))


@app.command()
def run(  # noqa: PLR0913, PLR0917 - one parameter per option
    dates: Annotated[str | None, DATES_TO_LIST] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also sessions already scored or failed.")
    ] = False,
    obsolete: Annotated[
        bool,
        typer.Option(
            "--obsolete", help="Also rescore sessions judged with an older rubric version."
        ),
    ] = False,
    failed: Annotated[
        bool, typer.Option("--failed", help="Also retry failed sessions now.")
    ] = False,
    include_thin: Annotated[
        bool, typer.Option("--include-thin", help="Also sessions without any text.")
    ] = False,
    profile: Annotated[str | None, typer.Option(help="Only this judge profile.")] = None,
    model: Annotated[str | None, typer.Option(help="Judge model, instead of the setting.")] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, max=15, help="Number of scores per session.")
    ] = None,
    sample_rate: Annotated[
        float | None,
        typer.Option(min=0, max=1, callback=known_number, help="Share of the sessions to score."),
    ] = None,
    max_sessions: Annotated[
        int | None, typer.Option(min=0, help="Maximum number of sessions.")
    ] = None,
    max_cost_usd: Annotated[
        float | None, typer.Option(min=0, callback=known_number, help="Maximum cost.")
    ] = None,
    collect: Annotated[
        bool,
        typer.Option("--collect", help="Only collect finished batches and send the next turns."),
    ] = False,
    by: Annotated[str | None, _BY] = None,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
) -> None:
    """Judge all sessions that are due, or those of some dates, within the budget.

    Exits with 4 if some were judged and others failed or were postponed, with 1 if none was judged.
    Exits with 3 if another process judges, with --collect also if no batch is unfinished.
    """
    date_range = parse_dates(dates)
    extra = ExtraDue(force=force, include_thin=include_thin, obsolete=obsolete, failed=failed)
    run_request = RunRequest(by or getpass.getuser(), extra, max_sessions, max_cost_usd)
    others = (dates, profile, model, samples, sample_rate, max_sessions, max_cost_usd)
    if collect:
        if extra != ExtraDue() or any(other is not None for other in others):
            raise typer.BadParameter("--collect goes only with --by and --format")
        _collect(run_request.triggered_by, form)
        return
    overrides = PlanOverrides(profile, model, samples, sample_rate)
    with open_stores(load_settings()) as stores:
        days = dates_in(stores.lake.partitions(AGENT_SESSIONS), date_range)
        with unless_judged(), _reported_when_interrupted(stores, form), progress_bar() as progress:
            report = judge(stores, run_request, days, overrides, progress)
        note_judge(stores, report, datetime.now(UTC), _QUIET)
        is_published = _publish_scores(stores)
        is_whole = dates is None and profile is None and sample_rate is None
        if is_whole and is_published and not report.deferred and not report.unreadable:
            note_whole_run(stores, report, (), datetime.now(UTC), _QUIET)
    _print_report(report, form)
    raise typer.Exit(_exit_code(report))


def _collect(by: str, form: OutputFormat) -> None:
    """Collect finished batches; exit with 3 if no batch was unfinished."""
    with open_stores(load_settings()) as stores:
        were_out = bool(BatchStore(stores.ledger).unfinished())
        with unless_judged(), _reported_when_interrupted(stores, form), progress_bar() as progress:
            request = RunRequest(by, only_continue=True)
            days = stores.lake.partitions(AGENT_SESSIONS)
            report = judge(stores, request, days, progress=progress)
        _publish_scores(stores)
    _print_report(report, form)
    if report.skip_reason or report.stop_reason or report.is_endpoint_down:
        raise typer.Exit(FAILED)
    raise typer.Exit(0 if were_out else NOTHING)


def _exit_code(report: JudgeReport) -> int:
    """Return whether all, some or none of the sessions of a run were scored or sent."""
    if report.skip_reason is not None:
        return FAILED
    missing = report.failed.total() + report.deferred.total() + len(report.unreadable)
    missing += report.faults.total()
    return of_parts(len(report.totals) + report.submitted, missing)


app.command("list")(list_judge)
app.command("changes")(show_judge_changes)
app.command("validate")(validate_judge)


class _Told:
    """Says once who judges already and will serve the request."""

    def __init__(self) -> None:
        self._is_told = False

    def __call__(self, busy: LockTimeoutError) -> None:
        if not self._is_told:
            print_error(f"{one_line(busy.holder)} is judging, and scores this session next")
        self._is_told = True


@contextmanager
def _reported_when_interrupted(stores: Stores, form: OutputFormat) -> Iterator[None]:
    """After Ctrl-C or SIGTERM say what was done until then, and end with the exit code of it."""
    try:
        yield
    except JudgeInterruptedError as interrupted:
        _publish_scores(stores)
        _print_report(interrupted.report, form)
        raise typer.Exit(130) from interrupted


def _publish_scores(stores: Stores) -> bool:
    """Copy judge scores that only the ledger has to the lake; return False if one stays there."""
    all_failed = publish_scores(stores, unpublished_dates(stores))
    for failed in all_failed:
        table = f"{JUDGE_SCORES.name} of {failed.session_date}"
        print_error(f"error: {table} was not written: {one_line(failed.error)}")
    return not all_failed


def _print_report(report: JudgeReport, form: OutputFormat) -> None:
    """Print what a run did and what it did not do."""
    if form is not OutputFormat.TABLE:
        write_record(_report_record(report), form)
    if report.skip_reason is not None:
        print_error(f"warning: {report.summary()}")
        return
    if form is not OutputFormat.TABLE:
        return
    print_line(f"judge: {report.summary()}")
    for heading, counts in (
        ("Sessions by state", report.states),
        ("Failed", report.failed),
        ("Deferred", report.deferred),
        ("Could not be resumed", report.discarded),
        ("Failure tags", report.tags),
        ("Flags", report.flags),
    ):
        if counts:
            rows = sorted(counts.items(), key=lambda row: -row[1])
            print_table(f"\n{heading}", ("what", "times #"), rows, essential=2)


def _report_record(report: JudgeReport) -> dict[str, Any]:
    return {
        "candidates": report.candidates,
        **report.metrics(),
        "mean_total": report.mean,
        "states": report.states,
        "failed_by": report.failed,
        "deferred_by": report.deferred,
        "discarded_by": report.discarded,
        "failure_tags": report.tags,
        "unreadable": {f"{day}": why for day, why in report.unreadable.items()},
        "stop_reason": report.stop_reason,
        "skip_reason": report.skip_reason,
    }
