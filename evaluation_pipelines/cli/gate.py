"""Command ``gate``: pass or fail a change, for a pull request."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from evaluation_pipelines.cli.compare import time_range
from evaluation_pipelines.cli.conventions import USAGE, known_number
from evaluation_pipelines.cli.filters import DATES_STARTED, parse_arm, with_session_filter
from evaluation_pipelines.cli.output import (
    DATA,
    OUTPUT_FILE,
    OutputFormat,
    format_option,
    json_text,
    one_line,
    print_error,
    print_line,
    print_table,
    write_output,
)
from evaluation_pipelines.cli.rows import rows_as_csv
from evaluation_pipelines.comparison.domain.compare import Question
from evaluation_pipelines.comparison.domain.gate import (
    CODES,
    HEADINGS,
    METRICS,
    Gate,
    metric_of,
    rows,
    sentences,
)
from evaluation_pipelines.comparison.gate import Arms, GateFile, read_gate_file, run_gate
from evaluation_pipelines.errors import UserError
from evaluation_pipelines.formatting import bullets, escaped, markdown_table
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import read_stores


@with_session_filter
def gate(  # noqa: PLR0913, PLR0917 - one parameter per option
    base: Annotated[
        str, typer.Option(metavar="FILTER=VALUE,...", help="Sessions of the base: branch=main.")
    ],
    head: Annotated[str, typer.Option(metavar="FILTER=VALUE,...", help="Sessions of the change.")],
    margin: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            max=100,
            callback=known_number,
            help="Points by which the head may be worse, or percent of costs. Default: 10.",
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=f"{', '.join(METRICS)}, or outcome:NAME such as outcome:merged (may be "
            "repeated: all must pass). Default: effective.",
        ),
    ] = None,
    look: Annotated[
        int | None,
        typer.Option(
            min=1, max=1000, help="Number of this look. Default: one more than the latest look."
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(help="YAML with margin, metrics and tasks, preferably of the base."),
    ] = None,
    dates: Annotated[str | None, DATES_STARTED] = None,
    form: Annotated[OutputFormat, format_option(*DATA, OutputFormat.MARKDOWN)] = OutputFormat.TABLE,
    output: Annotated[Path | None, OUTPUT_FILE] = None,
    which: SessionFilter = ALL_SESSIONS,
) -> None:
    """Pass or fail a change by the runs of two arms.

    0: passed, 1: worse, 3: not decided, 2: no answer. Default: the last 28 days until now.
    """
    now = datetime.now(UTC)
    if base == head:
        raise typer.BadParameter("--base and --head must be different sessions")
    for name in metric or ():
        try:
            metric_of(name)
        except UserError as error:
            raise typer.BadParameter(f"--metric: {error}") from error
    if file is not None and (margin is not None or metric):
        raise typer.BadParameter("--file has margin and metrics: leave --margin and --metric out")
    if dates is None and which.until is None:  # a gate follows its runs at once
        which = replace(which, until=now)
    question = Question(
        *time_range(dates, which, now),
        label=which.label,
        organization=which.organization,
        sessions=replace(which, label=None, organization=None, since=None, until=None),
    )
    arms = Arms((base, head), parse_arm(base, "--base"), parse_arm(head, "--head"))
    try:
        demands = _demands(margin, metric) if file is None else read_gate_file(file)
        with read_stores(load_settings()) as stores:
            found = run_gate(stores, arms, demands, question, now, look)
    # 1 is for a worse change, not for a failure of the gate.
    except UserError as error:
        print_error(f"error: {error}")
        raise typer.Exit(USAGE) from error
    _write(found, f"{base} against {head}", form, output)
    raise typer.Exit(CODES[found.result])


def _demands(margin: float | None, metrics: list[str] | None) -> GateFile:
    given: dict[str, Any] = {"margin": margin, "metrics": metrics or None}
    return GateFile(**{name: value for name, value in given.items() if value is not None})


def _write(found: Gate, title: str, form: OutputFormat, output: Path | None) -> None:
    if form is OutputFormat.TABLE and output is None:
        print_line(one_line(f"Gate: {found.result} ({title})"))
        print_table("", HEADINGS, rows(found), essential=4)
        for sentence in sentences(found):
            print_line(one_line(sentence))
        return
    write_output(_encode(found, title, form), output)


def _encode(found: Gate, title: str, form: OutputFormat) -> str:
    if form is OutputFormat.MARKDOWN:
        return "\n\n".join(
            [
                f"## Gate: {found.result}",
                escaped(title),
                markdown_table(HEADINGS, rows(found)),
                f"{bullets(sentences(found))}\n",
            ]
        )
    items = [
        {
            "metric": measured.metric.name,
            "result": result,
            "improvement": measured.value,
            "low": measured.low,
            "high": measured.high,
            "margin": measured.margin,
            "based_on": measured.based_on,
            "reason": measured.reason,
            "needed": measured.more,
        }
        for measured, result in zip(found.found, found.results, strict=True)
    ]
    if form is OutputFormat.JSON:
        return json_text({"result": found.result, "look": found.look, "items": items})
    return rows_as_csv(items)
