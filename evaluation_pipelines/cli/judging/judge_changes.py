"""Command ``judge changes``: what another judge did to the scores."""

import getpass
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from evaluation_pipelines.cli.conventions import NOTHING, of_parts
from evaluation_pipelines.cli.judging.score_output import unless_judged
from evaluation_pipelines.cli.output import (
    OUTPUT_FILE,
    OutputFormat,
    csv_text,
    format_option,
    json_text,
    one_line,
    print_error,
    print_line,
    print_table,
    progress_bar,
    write_output,
)
from evaluation_pipelines.formatting import interval, points, signed, usd
from evaluation_pipelines.judge_changes.anchors import (
    JudgeHistory,
    NoAnchorsError,
    NoSuchJudgeError,
    read_history,
)
from evaluation_pipelines.judge_changes.domain.judge_change import (
    NO_CHANGE,
    JudgeChange,
    anchor_rows,
    change_rows,
    headline,
    judges_line,
    names,
    sentences,
    title,
)
from evaluation_pipelines.judge_changes.domain.judges import Change
from evaluation_pipelines.judge_changes.measure import judge_changes, measure, write_judge_changes
from evaluation_pipelines.judge_changes.score_anchors import (
    AnchorReport,
    AnchorRun,
    CostEstimate,
    estimate_cost,
)
from evaluation_pipelines.settings import load_settings
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
        bool, typer.Option("--estimate", help="With --anchors: only print what it would cost.")
    ] = False,
    max_cost_usd: Annotated[
        float | None, typer.Option(min=0, help="With --anchors: maximum cost.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="With --anchors: requester. Default: the login name.")
    ] = None,
    form: Annotated[
        OutputFormat,
        format_option(OutputFormat.TABLE, OutputFormat.JSON, OutputFormat.CSV),
    ] = OutputFormat.TABLE,
    output: Annotated[Path | None, OUTPUT_FILE] = None,
) -> None:
    """Show judge changes, and how much of a score shift comes from the judge.

    --anchors draws anchor sessions first. Run it again after an interruption: existing scores stay.
    It exits with 3 if no change needs anchors, with 4 if some were not scored.
    """
    if anchors:
        if form is not OutputFormat.TABLE or output is not None:
            raise typer.BadParameter("--anchors does not go with --format and --output")
        _score_anchors(change, by or getpass.getuser(), max_cost_usd, estimate=estimate)
        return
    if estimate or any(each is not None for each in (change, max_cost_usd, by)):
        raise typer.BadParameter("CHANGE, --estimate, --max-cost-usd and --by require --anchors")
    now = datetime.now(UTC)
    with read_stores(load_settings()) as stores:
        changes = judge_changes(stores, now)
    if form is OutputFormat.TABLE and output is None:
        _print(changes)
        return
    rows = change_rows(changes, now)
    if form is OutputFormat.CSV:
        write_output(csv_text(rows), output)
        return
    records = {"items": rows.to_dicts(), "anchors": anchor_rows(changes).to_dicts()}
    write_output(json_text(records), output)


def _score_anchors(
    change: str | None, by: str, max_cost_usd: float | None, *, estimate: bool
) -> None:
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
        for each in chosen:
            print_line(one_line(f"{each.change_id} {title(each)}: {judges_line(each)}"))
            cost = estimate_cost(stores, history, each, now)
            print_line(f"  {_estimate_line(cost)}")
            if not estimate and (cost.calls or not cost.anchors):
                finished.append(_score(stores, history, each, by, max_cost_usd))
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
        found = [each for each in history.changes if each.change_id == change_id]
        if not found:
            raise typer.BadParameter(f"there is no change {one_line(change_id)}: judge changes")
        return found[:1]
    recent = [each for each in history.changes if each.is_recent(now.date())]
    by_id = {each.change_id: each for each in reversed(recent)}
    states = {each: measure(stores, history, each, now).state for each in by_id.values()}
    open_ones = [each for each, state in states.items() if state in {"not drawn", "incomplete"}]
    if not open_ones:
        print_line("No recent change of a judge waits for anchors: judge changes shows all.")
    return open_ones


def _score(
    stores: Stores, history: JudgeHistory, change: Change, by: str, max_cost_usd: float | None
) -> bool:
    """Score the anchors of one change, and print the outcome; return whether it is finished."""
    try:
        with unless_judged(), progress_bar() as progress:
            run = AnchorRun(stores, history, change, by, max_cost_usd, progress)
            report = run.run()
    except (NoSuchJudgeError, NoAnchorsError) as error:
        print_error(f"error: no bridge is possible: {one_line(str(error))}")
        return False
    print_line(f"  {_report_line(report)}")
    for problem in (report.refusal, *report.problems):
        if problem is not None:
            print_error(f"warning: {one_line(problem)}")
    if report.is_finished:
        print_line(f"  {one_line(headline(measure(stores, history, change, datetime.now(UTC))))}")
    return report.is_finished


def _estimate_line(cost: CostEstimate) -> str:
    if not cost.calls:
        return f"{cost.anchors} anchors, nothing left to score"
    about = "at an unknown price" if cost.cost_usd is None else f"about {usd(cost.cost_usd)}"
    return f"{cost.anchors} anchors, {cost.calls} calls left, {about}"


def _report_line(report: AnchorReport) -> str:
    done = f"{report.finished} of {report.anchors} anchors scored by both judges"
    return f"{done}, {report.calls} calls, {usd(report.cost_usd)}"


def _print(changes: Sequence[JudgeChange]) -> None:
    if not changes:
        print_line(NO_CHANGE)
        return
    print_table("Changes of judges, the newest first", _COLUMNS, map(_row, changes), essential=6)
    for each in changes:
        print_line(f"\n{one_line(title(each.change))}")
        print_line(f"  {one_line(headline(each))}")
        for sentence in sentences(each):
            print_line(f"  {one_line(sentence)}")


def _row(found: JudgeChange) -> tuple[object, ...]:
    change, parts = found.change, found.split
    judges = None if parts is None else parts.judges_part.estimate
    agents = None if parts is None or parts.agents_part is None else parts.agents_part.value
    return (
        *(change.change_id, change.profile_id, change.changed_on, *names(change)),
        "bridged" if found.is_bridged else "cut",
        None if judges is None else signed(judges.value),
        None if judges is None else interval(points(judges.low), points(judges.high)),
        None if agents is None else signed(agents),
        len(found.counted),
        found.state,
    )
