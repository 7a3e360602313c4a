"""Command ``publish``: the tables that only analysts read, and their database."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated

import typer

from evaluation_pipelines.cli.exits import PARTLY
from evaluation_pipelines.cli.output import (
    OutputFormat,
    one_line,
    print_error,
    print_line,
)
from evaluation_pipelines.cli.rows import FORMAT, write_rows
from evaluation_pipelines.comparison.masque_lift import write_masque_lift
from evaluation_pipelines.judging.missing_tools import last_period, write_missing_tools
from evaluation_pipelines.reporting.comparison_report import refresh_comparison
from evaluation_pipelines.reporting.judge_changes_report import refresh_judge_changes
from evaluation_pipelines.reporting.publish import publish_analytics
from evaluation_pipelines.reporting.report_files import Report
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.daily_table import ANY_ERROR
from evaluation_pipelines.storage.stores import Stores, open_stores


def publish(
    with_texts: Annotated[
        bool,
        typer.Option("--with-texts", help="Add prompts, replies and parameters: event_texts."),
    ] = False,
    form: Annotated[OutputFormat, FORMAT] = OutputFormat.TABLE,
) -> None:
    """Publish the tables of the lake as one database for analysts.

    Exits with 4 if a table or report could not be made again, and is published as before.
    """
    settings = load_settings()
    if with_texts:
        settings = settings.model_copy(update={"publish_texts": True})
    with open_stores(settings) as stores:
        publish_database(stores, form)


def publish_database(stores: Stores, form: OutputFormat = OutputFormat.TABLE) -> None:
    """Publish the analysts' database and print its tables.

    A table or report that cannot be made again is published as it was before.

    Raises:
        typer.Exit: Some could not be made; the others are published.
        AnalyticsError: The database cannot be published.
    """
    now = datetime.now(UTC)
    reports: list[Report] = []
    # The build does not write these.
    are_made = [
        _is_made("masque_lift", lambda: write_masque_lift(stores, now)),
        _is_made("missing_tools", lambda: write_missing_tools(stores, last_period(now))),
        _is_made("the changes of judges", lambda: refresh_judge_changes(stores, now)),
        _is_made(
            "the comparison of models",
            lambda: reports.append(refresh_comparison(stores, now)[1]),
        ),
    ]
    published = publish_analytics(stores, now)
    if form is OutputFormat.TABLE:
        rows = ", ".join(f"{number} {table}" for table, number in published.rows.items())
        print_line(f"published {published.link}: {rows}")
        for report in reports:
            print_line(f"report {report.html}")
    else:
        tables = [{"table": name, "rows": number} for name, number in published.rows.items()]
        paths = [str(report.html) for report in reports]
        write_rows(tables, form, database=str(published.link), reports=paths)
    if not all(are_made):
        raise typer.Exit(PARTLY)


def _is_made(name: str, make: Callable[[], object]) -> bool:
    try:
        make()
    except ANY_ERROR as error:
        reason = f"{type(error).__name__}: {one_line(str(error))}"
        print_error(f"error: {name} could not be made, and is published as before: {reason}")
        return False
    return True
