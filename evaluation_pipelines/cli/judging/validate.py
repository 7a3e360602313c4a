"""Command ``judge validate``: how good a judge is, measured by sessions with known flaws."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

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
from evaluation_pipelines.judging.domain.validation import Figure, figures
from evaluation_pipelines.judging.plans import PlanOverrides, load_plans
from evaluation_pipelines.judging.validation import (
    ValidationReport,
    ValidationRun,
    ValidationStore,
    load_labelled,
    spent,
    validate,
    validation_report,
    with_attacks,
)
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import open_stores

_COMPARED = ("verdict_rate", "rank_agreement", "pairs_in_order", "false_alarms", "attack_success")


def validate_judge(
    sessions: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder with labelled sessions of your own."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Judge model, instead of the setting.")] = None,
    attacks: Annotated[
        bool, typer.Option("--attacks/--no-attacks", help="Also sessions with hostile texts.")
    ] = True,
    max_cost_usd: Annotated[float | None, typer.Option(min=0, help="Maximum cost.")] = None,
    last: Annotated[
        bool, typer.Option("--last", help="Show the newest run again and ask nothing.")
    ] = False,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
) -> None:
    """Measure how good the judge is: let it judge sessions whose flaws are known.

    A run that ends early, also by Ctrl-C, prints and keeps the verdicts that have arrived.
    """
    settings = load_settings()
    with open_stores(settings) as stores:
        store = ValidationStore(stores.ledger)
        if last:
            runs = [each for each in store.ended() if model in {None, each.judge_model}]
            if not runs:
                print_error("error: the judge was never validated: see judge validate --help")
                raise typer.Exit(1)
            run = runs[-1]
        else:
            if settings.why_no_judge is not None:
                print_error(f"error: {settings.why_no_judge}")
                raise typer.Exit(1)
            labelled = load_labelled(sessions)
            plan = load_plans(stores, datetime.now(UTC), PlanOverrides(model=model)).default
            chosen = with_attacks(labelled) if attacks else labelled
            with unless_judged(), progress_bar() as progress:
                run = validate(stores, plan, chosen, max_cost_usd, progress)
        report = validation_report(run, store.ended())
    if form is OutputFormat.JSON:
        print_json(report.record())
    elif form is OutputFormat.CSV:
        write_output(rows_as_csv(report.rows()))
    else:
        _print(report)
    if run.stop_reason is not None:
        print_error(f"error: stopped early: {one_line(run.stop_reason)}")
        raise typer.Exit(1)


def _print(report: ValidationReport) -> None:
    run = report.run
    seconds, tokens, cost_usd = spent(run)
    before = {} if report.last is None else _values(report.last)
    rows = [
        (each.name, _value(each), _interval(each), each.number, before.get(each.name))
        for each in report.figures
    ]
    judge = f"{one_line(run.judge_model)}, rubric {one_line(run.rubric)}"
    columns = ("figure", "value #", "95% interval", "of #", "last run #")
    print_table(f"Validation of {judge}", columns, rows, essential=3)
    unreachable = sum(each.is_unreachable for each in run.sessions)
    print_line(
        f"{pluralize(len(run.sessions), 'session')} asked, {unreachable} unreachable, "
        f"{number(seconds, 1)} s of replies, "
        f"{'unknown' if tokens is None else number(tokens, 0)} tokens, {usd(cost_usd)}"
    )
    if report.last is not None:
        change = report.change
        ends = interval(signed(change.low), signed(change.high))
        print_line(f"Totals since the last run: {signed(change.value)} points ({ends})")
    problems = Counter((e.is_unreachable, e.problem) for e in run.sessions if e.problem)
    for (is_unreachable, reason), count in problems.items():
        what = "Unreachable" if is_unreachable else "No verdict"
        print_line(f"{what}, {pluralize(count, 'session')}: {one_line(reason)}")
    if report.others:
        shown = [(each.judge_model, *_summary(each)) for each in (run, *report.others)]
        headings = ("judge", *(f"{each.replace('_', ' ')} #" for each in _COMPARED), "cost #")
        print_table("\nThe same sessions by other models", headings, shown, essential=3)


def _summary(run: ValidationRun) -> tuple[str | None, ...]:
    values = _values(run)
    return (*(values.get(each) for each in _COMPARED), usd(spent(run)[2]))


def _values(run: ValidationRun) -> dict[str, str]:
    return {each.name: _value(each) for each in figures(run.sessions)}


def _value(figure: Figure) -> str:
    return number(figure.estimate.value, 2)


def _interval(figure: Figure) -> str:
    return interval(number(figure.estimate.low, 2), number(figure.estimate.high, 2))
