"""The demo: the main job on genuine and on made-up telemetry, and what it found."""

import os
import shlex
import sys
from datetime import UTC, datetime
from itertools import chain

import typer

from evaluation_pipelines.cli.compare import print_answers
from evaluation_pipelines.cli.output import (
    counted,
    one_line,
    print_error,
    print_line,
    print_table,
    progress_bar,
)
from evaluation_pipelines.cli.reputation import print_leaderboard, update_reputation
from evaluation_pipelines.cli.sessions import print_sessions, stored_sessions
from evaluation_pipelines.cli.telemetry import build_tables, ingest_landing, publish_database
from evaluation_pipelines.comparison.compare_models import compare_models, last_days
from evaluation_pipelines.comparison.domain.compare import Question
from evaluation_pipelines.demo.landing import EXTENT, other_telemetry, put_telemetry
from evaluation_pipelines.schemas import AGENT_SESSIONS, SESSION_EVALUATIONS, SESSION_PERFORMANCE
from evaluation_pipelines.sessions.domain.masques import masque_table
from evaluation_pipelines.sessions.domain.summary import session_summary, to_yaml
from evaluation_pipelines.sessions.score import SessionRow
from evaluation_pipelines.settings import Settings, load_settings
from evaluation_pipelines.storage.clickhouse import ClickHouseError
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.landing import Landing
from evaluation_pipelines.storage.stores import Stores, open_stores

_NEWEST_OF_EACH = 2
_AGENTS_SHOWN = 8


def demo() -> None:
    """Run the main job on genuine and on made-up telemetry, and show what it found."""
    settings = load_settings()
    _refuse_to_mix(settings)
    with open_stores(settings) as stores:
        with progress_bar() as progress:
            progress.begin("making up telemetry", EXTENT.days)
            today = datetime.now(UTC).date()
            print_line(put_telemetry(stores.landing.root, today, progress.advance))
        if ingest_landing(stores).counts.quarantined:
            print_line(
                "  That is meant to be: some lines of the made-up team are broken on purpose."
            )
            print_line(f"  Which ones, and what is wrong with them: {_program()} status")
        build_tables(stores, None)
        has_reputation = _update_reputation(stores)
        publish_database(stores)
        sessions = stored_sessions(stores.lake, stores.lake.partitions(AGENT_SESSIONS))
        _print_newest(sessions)
        _print_masques(stores.lake)
        _print_best(sessions)
        if has_reputation:
            print_line()
            print_leaderboard(settings, _AGENTS_SHOWN)
        _print_comparison(stores)
        _print_places(stores)


def _update_reputation(stores: Stores) -> bool:
    """Bring everything to ClickHouse; all else goes on where there is none."""
    try:
        rejected = update_reputation(stores, stores.lake.partitions(SESSION_EVALUATIONS))
    except ClickHouseError as error:
        print_error(f"warning: reputation is left out. {error}")
        return False
    if rejected:
        print_line("  That, too, is meant to be: two lines of signals are broken on purpose.")
    return True


def _refuse_to_mix(settings: Settings) -> None:
    """Telemetry once read is not taken out again: somebody's own stays without made-up sessions."""
    others = other_telemetry(Landing(settings.landing_dir))
    if others:
        print_error(
            f"error: {settings.landing_dir} holds telemetry already ({one_line(others[0])}): the "
            "demo would mix made-up sessions with it. Give the demo a folder of its own: "
            "EVAL_DATA_DIR=data-demo make demo"
        )
        raise typer.Exit(1)


def _print_newest(sessions: list[SessionRow]) -> None:
    """Some of every agent program and organization: the newest of all would be much alike."""
    groups: dict[tuple[str, str], list[SessionRow]] = {}
    for row in sessions:
        groups.setdefault((row["source_cli"], row["organization_id"]), []).append(row)
    newest = [groups[name][-_NEWEST_OF_EACH:] for name in sorted(groups)]
    shown = list(chain.from_iterable(newest))
    print_sessions(shown, "\nThe newest sessions of each agent program, made up or genuine")
    others = counted(len(sessions) - len(shown), "other")
    print_line(f"{others}: {_program()} sessions --limit {len(sessions)}, or --date A..B")


def _print_masques(lake: Lake) -> None:
    """Masques side by side, and whether they get better."""
    dates = lake.partitions(SESSION_PERFORMANCE)
    table = masque_table(lake.read(SESSION_PERFORMANCE, dates), dates[-1])
    rows = [
        (
            row["masque"] or "baseline",
            row["sessions"],
            f"{row['composite']:.1f}",
            row["recommendation"],
            None if row["trend"] is None else f"{round(row['trend'], 1) + 0.0:+.1f}",
        )
        for row in table.iter_rows(named=True)
    ]
    print_table(
        "\nMasques (personas that agents put on; baseline: none), by the mean composite",
        ("masque", "sessions #", "composite #", "recommendation", "trend of 7 days #"),
        rows,
        essential=5,
    )
    print_line("(without remainders: what lies between two masques of one session)")


def _print_best(sessions: list[SessionRow]) -> None:
    """The summary of the best session of which all dimensions are known."""
    if scored := [row for row in sessions if row["scorable"] and not row["partial"]]:
        best = max(scored, key=lambda row: (row["composite"], row["total_tools"]))
        print_line(f"\nThe best one with all dimensions known, {one_line(best['session_key'])}:\n")
        print_line(to_yaml(session_summary(best)))


def _print_comparison(stores: Stores) -> None:
    """Which model is worth its money."""
    now = datetime.now(UTC)
    print_line(
        "\nWhich model is worth its money? (In truth aspen-4 and cedar-5 are alike, and better.)"
    )
    print_answers(compare_models(stores, Question(*last_days(now)), now))
    print_line()


def _print_places(stores: Stores) -> None:
    """Where everything lies, and what to do next."""
    settings, program = stores.settings, _program()
    ledger_url = stores.ledger.engine.url.render_as_string(hide_password=True)
    for what, where in (
        ("telemetry", f"{stores.landing.root}"),
        ("tables", f"{stores.lake.root}/<table>/session_date=<day>/<table>.parquet"),
        ("report", f"{settings.reports_dir}/model_comparison.html  (and .md)"),
        ("database", f"{settings.analytics_path}  (docs/analysts.md has questions to it)"),
        ("ledger", ledger_url),
        ("scorecards", f"{program} scorecards query --agent Codesmith  (docs/scorecards.md)"),
        ("state", f"{program} status"),
        ("agents", f"{program} reputation show Codesmith --organization orchard"),
        ("interface", f"{_folder_given()}make dev, then http://127.0.0.1:3000"),
        ("your own", "README.md tells how to point your agents at it, after removing this:"),
        (
            "remove",
            f"rm -r {settings.data_dir}  (and var, Dagster's memory, after make dev)",
        ),
    ):
        print_line(f"{what:10} {where}")


def _program() -> str:
    """The program as it was called, with the data folder that it was given."""
    return f"{_folder_given()}{sys.argv[0]}"


def _folder_given() -> str:
    """What stands before a command so that it finds the data of this demo; nothing by default."""
    folder = os.environ.get("EVAL_DATA_DIR")
    return "" if folder is None else f"EVAL_DATA_DIR={shlex.quote(folder)} "
