"""Commands that bring telemetry into tables: ingest, build, publish, status."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from evaluation_pipelines.cli import overview
from evaluation_pipelines.cli.dates import DATES_TO_BUILD, Days, parse_days, within
from evaluation_pipelines.cli.status import print_status
from evaluation_pipelines.cli.terminal import complain, progress_bar, say
from evaluation_pipelines.domain.schemas import AGENT_EVENTS_LANDED
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.stages.build import Build, DateFailed
from evaluation_pipelines.stages.comparison_report import refresh_comparison
from evaluation_pipelines.stages.ingest import Ingest, IngestReport
from evaluation_pipelines.stages.lift import write_masque_lift
from evaluation_pipelines.stages.missing_tools import last_period, write_missing_tools
from evaluation_pipelines.stages.publish import publish_analytics
from evaluation_pipelines.stages.stores import Stores, open_stores, read_stores


def ingest() -> None:
    """Read everything new in the landing folder into the lake."""
    with open_stores(load_settings()) as stores:
        ingest_landing(stores)


def build(
    dates: Annotated[str | None, DATES_TO_BUILD] = None,
    allow_fallback: Annotated[
        bool,
        typer.Option("--allow-fallback", help="Placeholder cards where no judge has scored."),
    ] = False,
) -> None:
    """Build events, sessions and scores: of all dates with something new, or of some."""
    days = None if dates is None else parse_days(dates)
    settings = load_settings()
    if allow_fallback:
        settings = settings.model_copy(update={"allow_fallback": True})
    with open_stores(settings) as stores:
        build_tables(stores, days)


def status() -> None:
    """Show how far every file is read, what is built, and what lies in quarantine."""
    with read_stores(load_settings()) as stores:
        print_status(stores, datetime.now(UTC))


def publish() -> None:
    """Publish the tables of the lake as one database for analysts."""
    with open_stores(load_settings()) as stores:
        publish_database(stores)


def publish_database(stores: Stores) -> None:
    """Publish the analysts' database and say what it holds."""
    now = datetime.now(UTC)
    write_masque_lift(stores, now)  # no build makes these three
    write_missing_tools(stores, last_period(now))
    _, report = refresh_comparison(stores, now)
    published = publish_analytics(stores, now)
    rows = ", ".join(f"{number} {table}" for table, number in published.rows.items())
    say(f"published {published.link}: {rows}")
    say(f"report {report.html}")


def ingest_landing(stores: Stores) -> IngestReport:
    """Ingest with a progress bar, and say what was read."""
    with progress_bar(of_bytes=True) as progress:
        report = Ingest(stores).run(progress)
    overview.print_ingest(report, stores.settings)
    return report


def build_tables(stores: Stores, days: Days | None) -> None:
    """Build with a progress bar, and say what was built; leaves with 1 where a date failed."""
    job = Build(stores)
    if days is None:
        dates = job.pending_dates()
    else:
        landed = stores.ledger.parts.dates(AGENT_EVENTS_LANDED.name)
        dates = within((each.session_date for each in landed), days)
        if not dates:
            complain("error: no telemetry has landed on these dates: see status")
            raise typer.Exit(1)
    with progress_bar() as progress:
        results = job.run(dates, progress)
    overview.print_build(results, stores.ledger.touched.all())
    if any(isinstance(result, DateFailed) for result in results):
        raise typer.Exit(1)
