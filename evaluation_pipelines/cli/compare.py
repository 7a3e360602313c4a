"""Command ``compare``: comparison of models by quality and cost."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from evaluation_pipelines.cli.dates import (
    AS_OF,
    DATES_STARTED,
    parse_as_of,
    parse_dates,
)
from evaluation_pipelines.cli.filters import option_names, with_session_filter
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
    write_output,
)
from evaluation_pipelines.cli.session_lines import waiting_of
from evaluation_pipelines.comparison.compare_models import compare_models, last_days, tables_of
from evaluation_pipelines.comparison.domain.answers import (
    demo_caveat,
    label_answers,
    overview,
)
from evaluation_pipelines.comparison.domain.compare import (
    MIN_RUNS,
    Comparison,
    Question,
    coverage,
    for_reviewer,
)
from evaluation_pipelines.comparison.domain.findings import (
    Finding,
    findings,
    got_worse,
    verdict_list,
    watch_coverage,
)
from evaluation_pipelines.comparison.run_file import (
    OPTIONAL,
    REQUIRED,
    WHAT,
    compare_file,
    ignored_columns,
)
from evaluation_pipelines.reporting.comparison_report import html_page
from evaluation_pipelines.reporting.domain.comparison_report.markdown import flat, markdown_report
from evaluation_pipelines.reporting.domain.comparison_report.sections import (
    LABEL_HEADINGS,
    MODEL_HEADINGS,
    PAIR_HEADINGS,
    Cell,
    errors_line,
    judge_lines,
    label_cells,
    model_cells,
    pair_cells,
    span_line,
)
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
        int, typer.Option(min=2, help="Models with fewer runs are not ranked.")
    ] = MIN_RUNS,
    margin: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            max=100,
            help="Points a cheaper model may score below the best and still be best value. "
            "Default: EVAL_COMPARISON_MARGIN.",
        ),
    ] = None,
    form: Annotated[
        OutputFormat,
        format_option(
            OutputFormat.TABLE,
            OutputFormat.JSON,
            OutputFormat.CSV,
            OutputFormat.HTML,
            OutputFormat.MARKDOWN,
        ),
    ] = OutputFormat.TABLE,
    output: Annotated[Path | None, OUTPUT_FILE] = None,
    runs: Annotated[
        Path | None,
        typer.Option(
            help="Compare the runs of this Parquet or CSV file: columns model and score (0-100), "
            "optionally provider, user_id, label, task_class, repository, cost_usd and started_at; "
            "or a list of sessions as it was exported."
        ),
    ] = None,
    by: Annotated[
        str,
        typer.Option(metavar="COLUMN", help="Compare the values of this column of --runs."),
    ] = WHAT,
    alone: Annotated[
        bool, typer.Option("--alone", help="Correct verdicts within each label only.")
    ] = False,
    within: Annotated[
        Within | None,
        typer.Option(help="Compare models within each repository, as within each task class."),
    ] = None,
    which: SessionFilter = ALL_SESSIONS,
) -> None:
    """Compare models by quality and cost.

    Default: the last 28 complete days.
    """
    now, settings = datetime.now(UTC), load_settings()
    points = settings.comparison_margin if margin is None else margin
    if runs is not None:
        others = {"--date": dates, "--profile": profile, "--as-of": as_of}
        _check_runs_options(others, which, form)
        found = compare_file(runs, now, min_runs, by, alone=alone, margin=points, within=within)
        if ignored := ignored_columns(runs, by):
            print_error(
                f"{runs}: not used: {', '.join(ignored)}; what is: {', '.join(REQUIRED + OPTIONAL)}"
            )
        as_list = json_text(verdict_list(found)) if form is OutputFormat.JSON else None
        words = Words.of(found, by)
        _write(found, form, output, (f"{found.runs.height} runs of {runs}", as_list), words)
        return
    if by != WHAT:
        raise typer.BadParameter("--by names a column of --runs: compare sessions by model alone")
    then = parse_as_of(as_of)
    question = Question(
        *_time_range(dates, which, then or now),
        label=which.label,
        profile=profile,
        organization=which.organization,
        min_runs=min_runs,
        alone=alone,
        margin=points,
        within=within,
        sessions=replace(which, label=None, organization=None, since=None, until=None),
    )
    with read_stores(settings) as stores:
        found = compare_models(stores, question, now, then)
        if form not in (OutputFormat.JSON, OutputFormat.CSV):
            found = for_reviewer(found, waiting_of(stores))
    _write(found, form, output, (span_line(found), None), NO_WORDS)


def _check_runs_options(
    others: dict[str, str | None], which: SessionFilter, form: OutputFormat
) -> None:
    """Raise BadParameter for options that say nothing about a file of runs."""
    given = [name for name, value in others.items() if value is not None]
    if given := given + option_names(which):
        raise typer.BadParameter(f"--runs compares all runs of the file: leave {given[0]} out")
    if form in (OutputFormat.HTML, OutputFormat.MARKDOWN):
        raise typer.BadParameter("--runs has the formats table, json and csv: no session to show")


@dataclass(frozen=True, slots=True)
class Words:
    """Words for what is compared, in place of models and their sessions."""

    nouns: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, found: Comparison, by: str) -> "Words":
        """Return the words for runs of a file, whose values of a column are compared."""
        names = found.models.select(_NAMES).unpivot()["value"].drop_nulls()
        if any(_WORD.search(name) for name in names):  # it would be changed as well
            return cls()
        return cls({"session": "run"} | ({} if by == WHAT else {"model": by.replace("_", " ")}))

    def __call__(self, text: str) -> str:
        """Return a text with these words."""
        return _WORD.sub(self._instead, text)

    def _instead(self, found: re.Match[str]) -> str:
        noun = self.nouns.get(found["noun"].lower())
        if noun is None:
            return found[0]
        article = "" if not found["article"] else "an " if noun[0] in "aeiou" else "a "
        shown = noun.capitalize() if found["noun"][0].isupper() else noun
        return f"{article}{shown}{found['plural']}"


_NAMES = ("model", "model_variant", "provider", "classification_label")
_WORD = re.compile(
    r"(?<![\w.-])(?P<article>an? )?(?P<noun>[Mm]odel|[Ss]ession)(?P<plural>s?)(?![\w-]|\.\w)"
)


NO_WORDS = Words()


def _write(
    found: Comparison,
    form: OutputFormat,
    output: Path | None,
    said: tuple[str, str | None],
    words: Words,
) -> None:
    """Write a comparison; ``said`` is what was compared, and its text if that is not the usual."""
    title, text = said
    if form is OutputFormat.TABLE and output is None:
        _print(found, title, words)
        return
    write_output(_encode(found, form) if text is None else text, output)
    if output is not None:
        print_error(f"{output}: {one_line(title)}")


def _time_range(
    dates: str | None, which: SessionFilter, now: datetime
) -> tuple[datetime, datetime]:
    begin, end = which.since, which.until
    if (date_range := parse_dates(dates)) is not None:
        if begin is not None or end is not None:
            raise typer.BadParameter("give either --date or --from and --to")
        begin, end = (datetime.combine(each, time(), UTC) for each in date_range)
        end += timedelta(days=1)
    last = last_days(now)[1] if end is None else end
    first = last_days(last)[0] if begin is None else begin
    if first >= last:
        raise typer.BadParameter(f"the range ends ({last:%Y-%m-%d %H:%M}) before it begins")
    return first, last


def print_answers(found: Comparison, words: Words = NO_WORDS) -> None:
    """Print a row for each label, what got worse, and the answers in full."""
    labels = label_answers(found)
    if not labels and words.nouns:
        print_line(words("No session of the file has a score."))
        return
    if not labels:
        print_line("No session of this time has a score: evaluation-pipelines sessions lists all.")
        return
    every, *how = overview(found)
    if caveat := demo_caveat(found):
        print_line(one_line(caveat))
    headings = [words(each) for each in LABEL_HEADINGS]
    print_table("", headings, _rows(map(label_cells, labels), words), essential=3)
    print_line(words(one_line(every)))
    alerts = got_worse(found)
    for alert in alerts:
        print_line(f"\nGot worse: {one_line(alert.sentence)}")
    if alerts:
        print_line(watch_coverage(found))
    for each in labels:
        if each.answers:
            print_line(f"\n{one_line(each.finding.label)} ({one_line(each.finding.scored_by)})")
        for answer in each.answers:
            print_line(words(f"  {answer.name}: {one_line(answer.sentence)}"))
    print_line("")
    for sentence in how:
        print_line(words(one_line(sentence)))


def _print(found: Comparison, title: str, words: Words) -> None:
    """Print the answers, then the tables that support them."""
    print_line(one_line(title))
    print_answers(found, words)
    for each in findings(found):
        if each.ranked:
            _print_tables(each, words)
    if unranked := [each for each in coverage(found) if each.what != "ranked"]:
        rows = [(words(each.what), each.sessions, words(each.why)) for each in unranked]
        columns = ("what", words("sessions #"), "why")
        print_table("\nNot in the ranking", columns, rows, essential=2)


def _print_tables(found: Finding, words: Words) -> None:
    title = f"\n{one_line(found.label)}: {one_line(found.scored_by)}"
    headings = [words(each) for each in MODEL_HEADINGS]
    print_table(title, headings, _rows(map(model_cells, found.models), words), essential=4)
    if found.pairs:
        pairs = _rows(map(pair_cells, found.pairs), words)
        for fact in found.facts:
            print_line(words(one_line(fact)))
        headings = [words(each) for each in PAIR_HEADINGS]
        print_table(words("All pairs of models"), headings, pairs, essential=2)
    for sentence in (errors_line(found.ranked), *judge_lines(found)):
        print_line(words(one_line(sentence)))


def _rows(rows: Any, words: Words) -> list[list[str]]:
    return [[words(_cell(cell)) for cell in row] for row in rows]


def _cell(cell: Cell) -> str:
    # The details of a verdict are in the sentences above the tables.
    return cell.shown if cell.kind == "said" else flat(cell)


def _encode(found: Comparison, form: OutputFormat) -> str:
    if form is OutputFormat.HTML:
        return html_page(found)
    if form is OutputFormat.MARKDOWN:
        return markdown_report(found)
    if form is OutputFormat.JSON:
        return json_text({table.name: rows.to_dicts() for table, rows in tables_of(found)})
    return csv_text(found.models)
