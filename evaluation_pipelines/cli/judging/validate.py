"""Command ``judge validate``: how good a judge is, measured by sessions with known flaws."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from evaluation_pipelines.cli.conventions import known_number, refuse_unused
from evaluation_pipelines.cli.judging.score_output import unless_judged
from evaluation_pipelines.cli.output import (
    OutputFormat,
    one_line,
    pluralize,
    print_error,
    print_json,
    print_line,
    print_table,
    progress_bar,
    write_output,
)
from evaluation_pipelines.cli.rows import FORMAT, rows_as_csv
from evaluation_pipelines.formatting import interval, number, signed, usd
from evaluation_pipelines.judging.plans import PlanOverrides, load_plans
from evaluation_pipelines.judging.validation import (
    ended_runs,
    load_labeled,
    validate,
    validation_report,
    with_attacks,
)
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import open_stores

_COMPARED = (
    *("verdict_rate", "rank_agreement", "pairs_in_order", "right_above_wrong", "false_alarms"),
    "attack_success",
)


def validate_judge(
    sessions: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder with your own labeled sessions."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Judge model, instead of the setting.")] = None,
    rubric: Annotated[str | None, typer.Option(help="Rubric, instead of the setting.")] = None,
    attacks: Annotated[
        bool | None,
        typer.Option(
            "--attacks/--no-attacks", help="Also sessions with hostile text. Default: yes."
        ),
    ] = None,
    max_cost_usd: Annotated[
        float | None, typer.Option(min=0, callback=known_number, help="Maximum cost.")
    ] = None,
    last: Annotated[
        bool, typer.Option("--last", help="Show the latest run without judging.")
    ] = False,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
) -> None:
    """Measure the judge on sessions with known flaws.

    A run that ends early, also by Ctrl-C, prints and keeps the verdicts that have arrived.
    """
    if last:
        unused = {"--sessions": sessions, "--attacks": attacks, "--max-cost-usd": max_cost_usd}
        given = {name: value is not None for name, value in unused.items()}
        refuse_unused("judge validate --last", given)
    settings = load_settings()
    with open_stores(settings) as stores:
        if last:
            runs = [
                ended_run
                for ended_run in ended_runs(stores.ledger)
                if model in {None, ended_run.judge_model} and rubric in {None, ended_run.rubric}
            ]
            if not runs:
                print_error("error: the judge was never validated: see judge validate --help")
                raise typer.Exit(1)
            run = runs[-1]
        else:
            if settings.why_no_judge is not None:
                print_error(f"error: {settings.why_no_judge}")
                raise typer.Exit(1)
            labeled = load_labeled(sessions)
            overrides = PlanOverrides(model=model, rubric=rubric)
            plan = load_plans(stores, datetime.now(UTC), overrides).default
            chosen = labeled if attacks is False else with_attacks(labeled)
            with unless_judged(), progress_bar() as progress:
                run = validate(stores, plan, chosen, max_cost_usd, progress)
        report = validation_report(run, ended_runs(stores.ledger))
    if form is OutputFormat.JSON:
        print_json(report)
    elif form is OutputFormat.CSV:
        runs_shown = [
            report,
            *([report["last"]] if report["last"] else []),
            *report["others"],
        ]
        rows = [_facts(run) | figure for run in runs_shown for figure in run["figures"]]
        write_output(rows_as_csv(rows))
    else:
        _print(report)
    if run.stop_reason is not None:
        print_error(f"error: stopped early: {one_line(run.stop_reason)}")
        raise typer.Exit(1)


def _facts(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if not isinstance(value, list | dict)}


def _print(report: dict[str, Any]) -> None:
    last = report["last"]
    before = {} if last is None else _values(last)
    rows = [
        (
            figure["figure"],
            number(figure["value"], 2),
            interval(number(figure["low"], 2), number(figure["high"], 2)),
            figure["number"],
            before.get(figure["figure"]),
        )
        for figure in report["figures"]
    ]
    judge = f"{one_line(report['judge_model'])}, rubric {one_line(report['rubric'])}"
    columns = ("figure", "value #", "95% interval", "of #", "last run #")
    print_table(f"Validation of {judge}", columns, rows, essential=3)
    used = "unknown" if report["tokens"] is None else number(report["tokens"], 0)
    print_line(
        f"{pluralize(report['judged_sessions'], 'session')} asked, "
        f"{report['unreachable_sessions']} unreachable, {number(report['seconds'], 1)} s of "
        f"replies, {used} tokens, {usd(report['cost_usd'])}"
    )
    if last is not None:
        value, low, high = (signed(points) for points in report["change_of_totals"].values())
        print_line(f"Totals since the last run: {value} points ({interval(low, high)})")
    problems = Counter(
        (session["is_unreachable"], session["problem"])
        for session in report["sessions"]
        if session["problem"]
    )
    for (is_unreachable, reason), count in problems.items():
        what = "Unreachable" if is_unreachable else "No verdict"
        print_line(f"{what}, {pluralize(count, 'session')}: {one_line(reason)}")
    if report["others"]:
        shown = [
            (
                *(other["judge_model"], other["rubric"]),
                *map(_values(other).get, _COMPARED),
                usd(other["cost_usd"]),
            )
            for other in (report, *report["others"])
        ]
        figures = [f"{column.replace('_', ' ')} #" for column in _COMPARED]
        headings = ("judge", "rubric", *figures, "cost #")
        print_table("\nThe same sessions by other judges", headings, shown, essential=4)


def _values(record: dict[str, Any]) -> dict[str, str]:
    return {figure["figure"]: number(figure["value"], 2) for figure in record["figures"]}
