"""Command ``compare``: comparison of models or other groups by quality and cost."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from evaluation_pipelines.cli.conventions import known_number, refuse_unused
from evaluation_pipelines.cli.filters import (
    AS_OF,
    DATES_STARTED,
    option_names,
    parse_arm,
    parse_as_of,
    parse_dates,
    with_session_filter,
)
from evaluation_pipelines.cli.output import (
    DATA,
    OUTPUT_FILE,
    OutputFormat,
    csv_text,
    format_option,
    json_text,
    one_line,
    print_error,
    print_line,
    print_table,
    write_output,
)
from evaluation_pipelines.cli.rows import rows_as_csv
from evaluation_pipelines.cli.session_lines import waiting_of
from evaluation_pipelines.comparison.compare_models import (
    compare_by_outcome,
    compare_models,
    last_days,
    tables_of,
)
from evaluation_pipelines.comparison.domain.compare import (
    MIN_RUNS,
    Comparison,
    Question,
    for_reviewer,
)
from evaluation_pipelines.comparison.domain.findings import verdict_list
from evaluation_pipelines.comparison.domain.groups import WHAT as WHAT_TO_COMPARE
from evaluation_pipelines.comparison.domain.groups import (
    Grouping,
    GroupingError,
    grouping,
)
from evaluation_pipelines.comparison.domain.outcomes import (
    RULES,
    OutcomeComparison,
    outcome_tables,
    rule_of,
)
from evaluation_pipelines.comparison.domain.outcomes import sentences as outcome_sentences
from evaluation_pipelines.comparison.domain.runs import MODELS, Nouns
from evaluation_pipelines.comparison.run_file import (
    OPTIONAL,
    REQUIRED,
    WHAT,
    compare_file,
    ignored_columns,
)
from evaluation_pipelines.errors import UserError
from evaluation_pipelines.reporting.comparison_report import html_page
from evaluation_pipelines.reporting.domain.comparison_report import (
    Report,
    markdown_report,
    report,
    span_line,
)
from evaluation_pipelines.reporting.domain.comparison_tables import Table
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import read_stores


class Within(StrEnum):
    """Strata of a comparison: columns of RUNS."""

    REPOSITORY = "repository"


@with_session_filter
def compare(  # noqa: PLR0913, PLR0917 - one parameter per option
    dates: Annotated[str | None, DATES_STARTED] = None,
    profile: Annotated[str | None, typer.Option(help="Only scores by this judge profile.")] = None,
    as_of: Annotated[str | None, AS_OF] = None,
    min_runs: Annotated[
        int | None,
        typer.Option(min=2, help=f"Models with fewer runs are not ranked. Default: {MIN_RUNS}."),
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            max=100,
            callback=known_number,
            help="Points a cheaper model may score below the best and still be best value. "
            "Default: EVAL_COMPARISON_MARGIN.",
        ),
    ] = None,
    form: Annotated[
        OutputFormat,
        format_option(*DATA, OutputFormat.HTML, OutputFormat.MARKDOWN),
    ] = OutputFormat.TABLE,
    output: Annotated[Path | None, OUTPUT_FILE] = None,
    runs: Annotated[
        Path | None,
        typer.Option(
            help="Compare the runs of this Parquet or CSV file: columns model and score (0-100), "
            "optionally provider, user_id, label, task_class, repository, cost_usd and started_at, "
            "or a list of sessions as it was exported."
        ),
    ] = None,
    by: Annotated[
        str,
        typer.Option(
            metavar="WHAT",
            help=f"Compare by {WHAT_TO_COMPARE}, or the values of a column of --runs.",
        ),
    ] = WHAT,
    arm: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILTER=VALUE,...",
            help="Compare the sessions of filters, such as branch=main with branch=new-prompt: "
            "give it once for each arm.",
        ),
    ] = None,
    alone: Annotated[
        bool, typer.Option("--alone", help="Correct verdicts within each label only.")
    ] = False,
    within: Annotated[
        Within | None,
        typer.Option(help="Compare models within each repository, as within each task class."),
    ] = None,
    outcome: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Compare by an outcome of all their sessions: {', '.join(RULES)} or x_...",
        ),
    ] = None,
    which: SessionFilter = ALL_SESSIONS,
) -> None:
    """Compare models or other groups of sessions.

    Default: the last 28 complete days.
    """
    now, settings = datetime.now(UTC), load_settings()
    points = settings.comparison_margin if margin is None else margin
    if outcome is not None:
        unused = {"--min-runs": min_runs, "--margin": margin, "--within": within}
        given = {name: value is not None for name, value in unused.items()}
        refuse_unused("compare --outcome", {**given, "--alone": alone})
    fewest = MIN_RUNS if min_runs is None else min_runs
    if runs is not None:
        others = {"--date": dates, "--profile": profile, "--as-of": as_of, "--arm": arm}
        others["--outcome"] = outcome
        _check_runs_options(others, which, form)
        found = compare_file(runs, now, fewest, by, alone=alone, margin=points, within=within)
        if ignored := ignored_columns(runs, by):
            print_error(
                f"{runs}: unused columns: {', '.join(ignored)}. Known columns: "
                f"{', '.join(REQUIRED + OPTIONAL)}"
            )
        as_list = json_text(verdict_list(found)) if form is OutputFormat.JSON else None
        _write(found, form, output, f"{found.runs.height} runs of {runs}", as_list)
        return
    compared_by = _grouping(by, arm)
    then = parse_as_of(as_of)
    question = Question(
        *time_range(dates, which, then or now),
        label=which.label,
        profile=profile,
        organization=which.organization,
        min_runs=fewest,
        alone=alone,
        margin=points,
        within=within,
        sessions=replace(which, label=None, organization=None, since=None, until=None),
        nouns=compared_by.nouns,
        by=compared_by,
    )
    if outcome is not None:
        try:
            rule = rule_of(outcome)
        except UserError as error:
            raise typer.BadParameter(f"--outcome: {error}") from error
        with read_stores(settings) as stores:
            _write_outcomes(compare_by_outcome(stores, question, rule, then), form, output)
        return
    with read_stores(settings) as stores:
        found = compare_models(stores, question, now, then)
        if form not in (OutputFormat.JSON, OutputFormat.CSV):
            found = for_reviewer(found, waiting_of(stores))
    _write(found, form, output)


def _check_runs_options(
    others: Mapping[str, object], which: SessionFilter, form: OutputFormat
) -> None:
    """Raise BadParameter for options that say nothing about a file of runs."""
    given = [name for name, value in others.items() if value is not None]
    if given := given + option_names(which):
        raise typer.BadParameter(f"--runs compares all runs of the file: leave {given[0]} out")
    if form in (OutputFormat.HTML, OutputFormat.MARKDOWN):
        raise typer.BadParameter("--runs has the formats table, json and csv: no session to show")


def _grouping(by: str, arms: Sequence[str] | None) -> Grouping:
    """Return the grouping that the options name.

    Raises:
        BadParameter: There is no such property, or a single arm.
    """
    if not arms:
        try:
            return grouping(by)
        except GroupingError as error:
            raise typer.BadParameter(f"--{error}") from error
    if by != WHAT:
        raise typer.BadParameter("give either --by or --arm")
    if len(set(arms)) < max(len(arms), 2):
        raise typer.BadParameter("give --arm at least twice, each time with other sessions")
    return Grouping(arms=tuple((arm, parse_arm(arm)) for arm in arms))


def _write(
    found: Comparison,
    form: OutputFormat,
    output: Path | None,
    title: str | None = None,
    text: str | None = None,
) -> None:
    """Write a comparison; ``title`` is what was compared, ``text`` is written in place of it."""
    title = span_line(found) if title is None else title
    if form is OutputFormat.TABLE and output is None:
        _print(title, report(found), found.question.nouns)
        return
    write_output(_encode(found, form) if text is None else text, output)
    if output is not None:
        print_error(f"{output}: {one_line(title)}")


def _write_outcomes(found: OutcomeComparison, form: OutputFormat, output: Path | None) -> None:
    if form is OutputFormat.TABLE and output is None:
        for title, headings, rows in outcome_tables(found):
            print_table(title, headings, rows, essential=3)
        for sentence in outcome_sentences(found):
            print_line(one_line(sentence))
        return
    if form not in DATA:
        raise typer.BadParameter("--outcome has the formats table, json and csv")
    document = asdict(found)
    text = json_text(document) if form is OutputFormat.JSON else rows_as_csv(document["pairs"])
    write_output(text, output)


def time_range(dates: str | None, which: SessionFilter, now: datetime) -> tuple[datetime, datetime]:
    """Return the asked time range, by default the 28 complete days before ``now``.

    Raises:
        BadParameter: It is given twice, or empty.
    """
    begin, end = which.since, which.until
    if (date_range := parse_dates(dates)) is not None:
        if begin is not None or end is not None:
            raise typer.BadParameter("give either --date or --from and --to")
        begin, end = (datetime.combine(day, time(), UTC) for day in date_range)
        end += timedelta(days=1)
    last = last_days(now)[1] if end is None else end
    first = last_days(last)[0] if begin is None else begin
    if first >= last:
        raise typer.BadParameter(f"the range ends ({last:%Y-%m-%d %H:%M}) before it starts")
    return first, last


def print_answers(shown: Report) -> None:
    """Print a row for each label, what got worse, and the answers in full."""
    if not shown.labels.rows:
        print_line("No session of this time has a score: evaluation-pipelines sessions lists all.")
        return
    every, *how = shown.overview
    if shown.caveat:
        print_line(one_line(shown.caveat))
    _print_table("", shown.labels, essential=3)
    print_line(one_line(every))
    for alert in shown.alerts:
        print_line(f"\nRegression: {one_line(alert.alert.sentence)}")
    if shown.alerts:
        print_line(shown.watch_coverage)
    for section in shown.sections:
        if section.answers:
            found = section.finding
            print_line(f"\n{one_line(found.label)} ({one_line(found.scored_by)})")
        for answer in section.answers:
            print_line(f"  {answer.name}: {one_line(answer.sentence)}")
    print_line("")
    for sentence in how:
        print_line(one_line(sentence))


def _print(title: str, shown: Report, nouns: Nouns) -> None:
    """Print the answers, then the tables that support them."""
    print_line(one_line(title))
    if not shown.labels.rows and nouns.session != MODELS.session:
        print_line(f"No {nouns.session} of the file has a score.")
    else:
        print_answers(shown)
    for section in shown.sections:
        if not section.finding.ranked:
            continue
        title = f"\n{one_line(section.finding.label)}: {one_line(section.finding.scored_by)}"
        _print_table(title, section.models, essential=4)
        if section.pairs.rows:
            for fact in section.facts:
                print_line(one_line(fact))
            _print_table(section.pairs.title, section.pairs, essential=2)
        for sentence in (section.errors, *section.corrected):
            print_line(one_line(sentence))
    if shown.coverage.rows:
        _print_table(f"\n{shown.coverage.title}", shown.coverage, essential=2)


def _print_table(title: str, table: Table, essential: int) -> None:
    # The details of a verdict are in the sentences above the tables.
    rows = [
        [cell.shown if cell.kind == "said" else cell.flat for cell in row] for row in table.rows
    ]
    print_table(title, table.headings, rows, essential=essential)


def _encode(found: Comparison, form: OutputFormat) -> str:
    if form is OutputFormat.HTML:
        return html_page(found)
    if form is OutputFormat.MARKDOWN:
        return markdown_report(found)
    if form is OutputFormat.JSON:
        return json_text({table.name: rows.to_dicts() for table, rows in tables_of(found)})
    return csv_text(found.models)
