"""The command that compares models: table, JSON, CSV, or the report."""

import json
import sys
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from evaluation_pipelines.cli.dates import AS_OF, parse_as_of, parse_time
from evaluation_pipelines.cli.output import csv_of, one_line, print_error, print_line, print_table
from evaluation_pipelines.comparison.compare_models import compare_models, last_days, tables_of
from evaluation_pipelines.comparison.domain.compare import MIN_RUNS, Comparison, Question
from evaluation_pipelines.comparison.domain.coverage import coverage
from evaluation_pipelines.comparison.domain.findings import Finding, findings
from evaluation_pipelines.reporting.domain.comparison_report.markdown import flat, markdown_report
from evaluation_pipelines.reporting.domain.comparison_report.markup import Cell
from evaluation_pipelines.reporting.domain.comparison_report.page import html_page
from evaluation_pipelines.reporting.domain.comparison_report.sections import (
    MODEL_HEADINGS,
    PAIR_HEADINGS,
    errors_line,
    judge_lines,
    model_cells,
    pair_cells,
    span_line,
)
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import read_stores


class ComparisonFormat(StrEnum):
    """How a comparison is printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    HTML = "html"
    MARKDOWN = "markdown"


def compare(  # noqa: PLR0913, PLR0917 - an option each
    label: Annotated[str | None, typer.Option(help="Only this classification label.")] = None,
    since: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Started then or later, UTC.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Started before, UTC.")
    ] = None,
    profile: Annotated[str | None, typer.Option(help="Only scores by this judge profile.")] = None,
    organization: Annotated[str | None, typer.Option(help="Only this organization.")] = None,
    as_of: Annotated[str | None, AS_OF] = None,
    min_runs: Annotated[
        int, typer.Option(min=2, help="Models with fewer runs are not ranked.")
    ] = MIN_RUNS,
    form: Annotated[
        ComparisonFormat, typer.Option("--format", help="How to print it.")
    ] = ComparisonFormat.TABLE,
    output: Annotated[Path | None, typer.Option(help="Write to a file, not to the screen.")] = None,
) -> None:
    """Compare models by quality and cost; the 28 complete days before now unless told otherwise."""
    now = datetime.now(UTC)
    then = parse_as_of(as_of)
    question = Question(
        *_span(since, until, then or now),
        label=label,
        profile=profile,
        organization=organization,
        min_runs=min_runs,
    )
    with read_stores(load_settings()) as stores:
        found = compare_models(stores, question, now, then)
    if form is ComparisonFormat.TABLE and output is None:
        _print(found)
        return
    text = _encoded(found, form)
    if output is None:
        sys.stdout.write(text)
        return
    staged = output.with_name(f".{output.name}.new")
    staged.write_text(text, encoding="utf-8")
    staged.replace(output)
    print_error(f"{output}: {one_line(span_line(found))}")


def _span(since: str | None, until: str | None, now: datetime) -> tuple[datetime, datetime]:
    first, last = last_days(now)
    if until is not None:
        last = parse_time(until, "--to")
        first = last_days(last)[0]
    if since is not None:
        first = parse_time(since, "--from")
    if first >= last:
        raise typer.BadParameter(f"the range ends ({last:%Y-%m-%d %H:%M}) before it begins")
    return first, last


def print_answers(found: Comparison) -> None:
    """The answer for each label, the largest first."""
    answers = [each for each in findings(found) if each.is_main]
    if not answers:
        print_line(
            "There is no scored session in this time: evaluation-pipelines sessions lists all."
        )
    for each in answers:
        if each.ranked:
            print_line(f"\n{one_line(each.headline)}")
            for sentence in each.sentences:
                print_line(f"  {one_line(sentence)}")
    if without := [one_line(each.label) for each in answers if not each.ranked]:
        print_line(f"\nToo few runs to compare models: {', '.join(without)}.")


def _print(found: Comparison) -> None:
    """Answers first, then the figures they rest on."""
    print_line(one_line(span_line(found)))
    print_answers(found)
    for each in findings(found):
        if each.ranked:
            _print_figures(each)
    left = [each for each in coverage(found) if each.what != "ranked"]
    if left:
        rows = [(each.what, each.sessions, each.why) for each in left]
        print_table("\nNot in the ranking", ("what", "sessions #", "why"), rows, essential=2)


def _print_figures(found: Finding) -> None:
    title = f"\n{one_line(found.label)}: {one_line(found.scored_by)}"
    print_table(title, MODEL_HEADINGS, _rows(map(model_cells, found.models)), essential=4)
    if found.pairs:
        pairs = _rows(map(pair_cells, found.pairs))
        print_table("Every two models", PAIR_HEADINGS, pairs, essential=2)
    for sentence in (errors_line(found.ranked), *judge_lines(found)):
        print_line(one_line(sentence))


def _rows(rows: Any) -> list[list[str]]:
    return [[_cell(cell) for cell in row] for row in rows]


def _cell(cell: Cell) -> str:
    # What stands beside a verdict is said above the tables.
    return cell.shown if cell.kind == "said" else flat(cell)


def _encoded(found: Comparison, form: ComparisonFormat) -> str:
    if form is ComparisonFormat.HTML:
        return html_page(found)
    if form is ComparisonFormat.MARKDOWN:
        return markdown_report(found)
    if form is ComparisonFormat.JSON:
        tables = {table.name: frame.to_dicts() for table, frame in tables_of(found)}
        return f"{json.dumps(tables, indent=2, default=str)}\n"
    return csv_of(found.models)
