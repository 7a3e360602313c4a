"""The terminal program ``evaluation-pipelines``: the steps of the code location, by hand."""

from importlib.metadata import version
from typing import Annotated

import typer

from evaluation_pipelines.adapters.analytics import AnalyticsError
from evaluation_pipelines.adapters.clickhouse import ClickHouseError
from evaluation_pipelines.adapters.lake import LakeError
from evaluation_pipelines.adapters.ledger.errors import LedgerError
from evaluation_pipelines.adapters.queries import QueryError
from evaluation_pipelines.adapters.rubric_files import RubricError
from evaluation_pipelines.cli import (
    judge,
    judges,
    lift,
    quarantine,
    reputation,
    scorecards,
    sessions,
    telemetry,
    tools,
)
from evaluation_pipelines.cli.books import books
from evaluation_pipelines.cli.compare import compare
from evaluation_pipelines.cli.demo import demo
from evaluation_pipelines.cli.terminal import complain, never_fail_on_letters, one_line, say
from evaluation_pipelines.domain.scorecards.profile import ProfileError
from evaluation_pipelines.settings import SettingsError
from evaluation_pipelines.stages.judging.plans import JudgeNotReadyError
from evaluation_pipelines.stages.overrides import OverrideError
from evaluation_pipelines.stages.quarantine import NoSuchEntryError
from evaluation_pipelines.stages.score import SessionNotFoundError
from evaluation_pipelines.stages.scorecard_queries import QueryTooWideError

app = typer.Typer(
    help="Agent telemetry in, trustworthy session scores out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(version("evaluation-pipelines"))
        raise typer.Exit


@app.callback()
def program(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print it."),
    ] = False,
) -> None:
    """Agent telemetry in, trustworthy session scores out."""


for command in (
    telemetry.ingest,
    telemetry.build,
    sessions.score,
    sessions.sessions,
    tools.tools,
    lift.lift,
    compare,
    books,
    telemetry.status,
    telemetry.publish,
    demo,
):
    app.command()(command)

for name, group in (
    ("judge", judge.judge_app),
    ("judges", judges.app),
    ("scorecards", scorecards.app),
    ("quarantine", quarantine.app),
    ("reputation", reputation.app),
):
    app.add_typer(group, name=name)

_MENDABLE = (
    AnalyticsError,
    ClickHouseError,
    JudgeNotReadyError,
    LakeError,
    LedgerError,
    NoSuchEntryError,
    OverrideError,
    ProfileError,
    QueryError,
    QueryTooWideError,
    RubricError,
    SessionNotFoundError,
    SettingsError,
)


def main() -> None:
    """Run the program; errors that people can mend are told in one line."""
    never_fail_on_letters()
    try:
        app()
    except _MENDABLE as error:
        complain(f"error: {error}")
        raise SystemExit(1) from None
    except OSError as error:
        where = f"{one_line(str(error.filename))}: " if error.filename else ""
        complain(f"error: {where}{error.strerror or error}")
        raise SystemExit(1) from None
