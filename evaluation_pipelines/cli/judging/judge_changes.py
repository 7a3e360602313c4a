"""Command ``judge changes``: what another judge did to the scores."""

import getpass
from datetime import UTC, datetime
from typing import Annotated

import typer

from evaluation_pipelines.cli.conventions import NOTHING, of_parts
from evaluation_pipelines.cli.judging.score_output import unless_judged
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
from evaluation_pipelines.formatting import interval, points, signed, usd
from evaluation_pipelines.judge_changes.anchors import JudgeHistory, NoBridgeError, read_history
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
from evaluation_pipelines.judge_changes.measure import (
    anchor_rows,
    change_rows,
    judge_changes,
    measure,
    write_judge_changes,
)
from evaluation_pipelines.judge_changes.score_anchors import AnchorRun, estimate_cost
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
        for each in chosen:
            print_line(one_line(f"{each.change_id} {title(each)}: {judges_line(each)}"))
            number, calls, cost = estimate_cost(stores, history, each, now)
            about = "at an unknown price" if cost is None else f"about {usd(cost)}"
            left = f"{calls} calls left, {about}" if calls else "nothing left to score"
            print_line(f"  {number} anchors, {left}")
            if not estimate and (calls or not number):
                finished.append(_score(stores, history, each, max_cost_usd))
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
    open_ones = [
        each
        for each in {each.change_id: each for each in reversed(recent)}.values()
        if measure(stores, history, each, now).row["state"] in {"not drawn", "incomplete"}
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
    print_table("Changes of judges, the newest first", _COLUMNS, map(_row, changes), essential=6)
    for each in changes:
        print_line(f"\n{one_line(title(each.change))}")
        for sentence in (headline(each.row), *sentences(each)):
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
