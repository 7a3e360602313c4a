"""Command ``demo``: all steps on recorded and generated telemetry, with their results."""

import os
import shlex
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import typer

from evaluation_pipelines.build import Build
from evaluation_pipelines.build.build import publish_scores, unpublished_dates
from evaluation_pipelines.cli.build import build_tables, publish_database
from evaluation_pipelines.cli.compare import print_answers
from evaluation_pipelines.cli.ingest import ingest_landing
from evaluation_pipelines.cli.output import (
    one_line,
    pluralize,
    print_error,
    print_line,
    print_table,
    progress_bar,
    write_output,
)
from evaluation_pipelines.cli.reputation import print_agents, update_reputation
from evaluation_pipelines.cli.session_lines import TABLE_COLUMNS, print_stored, waiting_of
from evaluation_pipelines.comparison.compare_models import compare_models, usual_question
from evaluation_pipelines.comparison.domain.compare import for_reviewer
from evaluation_pipelines.comparison.prediction import write_predictions
from evaluation_pipelines.demo.judge_demo import (
    DEMO_LEAD,
    DEMO_REVIEWER,
    judge_demo,
    measure_demo_change,
    raise_demo_alerts,
    review_demo,
)
from evaluation_pipelines.demo.landing import (
    other_telemetry,
    put_identities,
    put_telemetry,
    recorded_files,
)
from evaluation_pipelines.judge_changes.domain.judge_change import headline, title
from evaluation_pipelines.judging.domain.badge import badge, flags_of
from evaluation_pipelines.judging.domain.missing_tools import most_named
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.score_table import last_period, missing_tools
from evaluation_pipelines.people.domain.identities import sessions_by_team
from evaluation_pipelines.reporting.domain.comparison_report import report
from evaluation_pipelines.schemas import (
    AGENT_SESSIONS,
    DEMO_JUDGE,
    SESSION_EVALUATIONS,
    SESSION_KEY,
    SESSION_PERFORMANCE,
)
from evaluation_pipelines.scorecards.domain.withheld import WAITS
from evaluation_pipelines.sessions.domain.masques import masque_table
from evaluation_pipelines.sessions.domain.performance import is_counted
from evaluation_pipelines.sessions.domain.summary import session_summary, to_yaml
from evaluation_pipelines.settings import Settings, load_settings
from evaluation_pipelines.settings.data import START_DATE_FILE
from evaluation_pipelines.storage.clickhouse import ClickHouseError
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.landing import Landing
from evaluation_pipelines.storage.stores import Stores, open_stores
from evaluation_pipelines.views.agents import agents
from evaluation_pipelines.views.listing import SESSION_LISTING
from evaluation_pipelines.views.sessions import sessions, with_details

_SESSIONS_PER_GROUP = 2
_MAX_AGENTS = 8
_MAX_TOOLS = 4


def demo() -> None:
    """Run all steps on sample telemetry and show the results."""
    settings = load_settings()
    landing_dir = _landing_dir(settings)
    with open_stores(settings) as stores:
        with progress_bar() as progress:
            progress.begin("unpacking recorded telemetry", len(recorded_files()))
            today = datetime.now(UTC).date()
            print_line(put_telemetry(landing_dir, today, progress.advance))
        put_identities(settings.identities_path)
        if ingest_landing(stores).counts.quarantined:
            print_line(
                "  This is expected: some lines of the generated team are invalid on purpose."
            )
            print_line(f"  To see them and their errors: {_program()} status")
        build_tables(stores, None)
        _note_first_date(stores)
        _judge(stores)
        _review(stores)
        has_reputation = _update_reputation(stores)
        write_predictions(stores, datetime.now(UTC))
        publish_database(stores)
        # After the comparison, whose watch for models that got worse raises alerts.
        raise_demo_alerts(stores, datetime.now(UTC))
        days = stores.lake.partitions(AGENT_SESSIONS)
        rows = SESSION_LISTING.newest_first(sessions(stores, days, waiting=waiting_of(stores)))
        _print_newest(stores, rows)
        _print_judged(stores)
        _print_teams(stores)
        _print_masques(stores.lake, rows)
        _print_best(with_details(stores, rows, ("tool_mix",)))
        if has_reputation:
            print_line()
            now, waiting = datetime.now(UTC), rows.filter(WAITS)
            print_agents(agents(stores, now, waiting=waiting), _MAX_AGENTS)
        _print_comparison(stores)
        _print_next_steps(stores)


def _note_first_date(stores: Stores) -> None:
    """Let the partitions of this folder begin with its first session."""
    first = min(stores.lake.partitions(AGENT_SESSIONS))
    write_output(f"{first}\n", stores.settings.data_dir / START_DATE_FILE)


def _judge(stores: Stores) -> None:
    """Let the script judge, and build the dates again that have new scores."""
    with progress_bar() as progress:
        report = judge_demo(stores, progress)
    print_line(f"judge: {report.summary()}")
    print_line(f"  {DEMO_JUDGE} is a script that counts tool calls, not a model. Nothing was sent.")
    publish_scores(stores, unpublished_dates(stores))
    build = Build(stores)
    with progress_bar() as progress:
        build.run(build.pending_dates(), progress)
    with progress_bar() as progress:
        changes = measure_demo_change(stores, progress)
    for change in changes:
        print_line(f"judge change: {title(change.change)}. {headline(change.row)}")
        print_line("  By design, the script scores a tenth lower with the previous rubric.")


def _review(stores: Stores) -> None:
    """Let the script review, build the dates again that have new scores."""
    if (found := review_demo(stores, datetime.now(UTC))) is None:
        return
    print_line(
        f"reviews: {found.answered} blind reviews, {found.corrected} overrides (one now outdated), "
        f"{pluralize(found.waiting, 'session awaits', 'sessions await')} your review"
    )
    print_line(f"  {DEMO_REVIEWER} and {DEMO_LEAD} are scripts, not people.")
    build = Build(stores)
    with progress_bar() as progress:
        build.run(build.pending_dates(), progress)


def _update_reputation(stores: Stores) -> bool:
    """Update the reputation; return ``False`` with a warning if ClickHouse cannot be used."""
    try:
        rejected = update_reputation(stores, stores.lake.partitions(SESSION_EVALUATIONS))
    except ClickHouseError as error:
        print_error(f"warning: reputation is skipped. {error}")
        return False
    if rejected:
        print_line("  Expected: two signal lines are invalid on purpose.")
    return True


def _landing_dir(settings: Settings) -> Path:
    """Return the landing folder; exit if it has other telemetry, or is none.

    Demo sessions could not be removed from other telemetry again.
    """
    landing_dir = settings.landing_dir
    if not isinstance(landing_dir, Path):
        print_error(
            f"error: the demo needs a folder of its own, and EVAL_LANDING_DIR is {landing_dir}. "
            "Unset it for the demo."
        )
        raise typer.Exit(1)
    others = other_telemetry(Landing(landing_dir))
    if others:
        print_error(
            f"error: {landing_dir} has other telemetry ({one_line(others[0])}), and the demo would "
            "mix generated sessions and scores with it. Use another folder for the demo: "
            "EVAL_DATA_DIR=data-demo make demo"
        )
        raise typer.Exit(1)
    return landing_dir


def _print_newest(stores: Stores, rows: pl.DataFrame) -> None:
    """Print sessions of every agent program and organization, for variety."""
    group = ["source_cli", "organization_id"]
    newest = rows.group_by(group, maintain_order=True).head(_SESSIONS_PER_GROUP)
    shown = newest.sort(*group, "started_at", maintain_order=True)
    title = "\nLatest sessions of each agent program, recorded or generated"
    print_stored(with_details(stores, shown, TABLE_COLUMNS), title)
    others = pluralize(rows.height - shown.height, "other")
    print_line(f"{others}: {_program()} sessions --limit {rows.height}, or --date A..B")


def _print_judged(stores: Stores) -> None:
    """Print the judge's results: bands, failures, missing tools."""
    scorings = ScoreStore(stores.ledger).listed()
    states = Counter(badge(scoring).text.rpartition(" ")[2] for scoring in scorings)
    bands = ", ".join(f"{states[name]} {name}" for name in ("green", "yellow", "red"))
    flagged = sum(bool(flags_of(scoring)) for scoring in scorings)
    print_line(
        f"\nJudged by {DEMO_JUDGE}, 0 to 100: {bands}, {states['Failed']} failed, "
        f"{flagged} flagged: {_program()} judge list"
    )
    named = most_named(missing_tools(stores, last_period(datetime.now(UTC))).tools)
    rows = [
        (row["tool"], row["sessions"], row["asked_sessions"], row["organization_id"])
        for row in named.head(_MAX_TOOLS).iter_rows(named=True)
    ]
    columns = ("tool", "sessions #", "of #", "organization")
    print_table(f"\nTools that {DEMO_JUDGE} found missing", columns, rows, essential=3)


def _print_teams(stores: Stores) -> None:
    """Print the teams, with a dash for those without registered people."""
    if stores.settings.people_view == "off":
        return
    lake = stores.lake
    sessions = lake.read(AGENT_SESSIONS, lake.partitions(AGENT_SESSIONS))
    teams = sessions_by_team(sessions.filter(is_counted()))
    rows = [
        (
            *(row["team"] or "no team", row["people"] or None, row["ids"], row["sessions"]),
            ", ".join(row["repositories"]),
        )
        for row in teams.iter_rows(named=True)
    ]
    columns = ("team", "people #", "ids #", "sessions #", "repositories")
    print_table("\nTeams: a person may have several ids", columns, rows, essential=4)
    program = _program()
    print_line(
        f"who is who: {program} people list, {program} people list unknown  (docs/people.md)"
    )


def _print_masques(lake: Lake, sessions: pl.DataFrame) -> None:
    """Print the masques with their trends; composites of open sessions may still change."""
    dates, ended = lake.partitions(SESSION_PERFORMANCE), sessions.filter("has_ended")
    performance = lake.read(SESSION_PERFORMANCE, dates).join(ended, on=SESSION_KEY, how="semi")
    table = masque_table(performance, dates[-1])
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
        "\nMasques (agent personas, baseline: no masque) by mean composite",
        ("masque", "sessions #", "composite #", "recommendation", "7-day trend #"),
        rows,
        essential=5,
    )
    print_line("(excludes the parts of a session between two masques)")


def _print_best(rows: pl.DataFrame) -> None:
    """Print the summary of the best session with a full score."""
    scored = rows.filter("scorable", ~pl.col("partial"), pl.col("composite").is_not_null())
    for best in scored.sort("composite", "total_tools").tail(1).iter_rows(named=True):
        key = one_line(best["session_key"])
        print_line(f"\nBest session with a full score, {key}:\n")
        print_line(to_yaml(session_summary(best)))


def _print_comparison(stores: Stores) -> None:
    """Print the answers of the model comparison."""
    now = datetime.now(UTC)
    print_line(
        "\nModel comparison (by design: aspen-4 = cedar-5 > birch-4-mini, and dogwood-3 got worse)"
    )
    print_line("effort: the reasoning effort that the agent program requested")
    found = compare_models(stores, usual_question(stores.settings, now), now)
    print_answers(report(for_reviewer(found, waiting_of(stores))))


def _print_next_steps(stores: Stores) -> None:
    """Print where the results are and what to do next."""
    settings, program, prefix = stores.settings, _program(), _data_dir_prefix()
    report = f"{settings.reports_dir}/model_comparison.html"
    print_line("\nLook around")
    for what, where, more in (
        ("web pages", f"{prefix}make serve", "http://127.0.0.1:8400"),
        ("Dagster", f"{prefix}make dev", "http://127.0.0.1:3000"),
        ("report", report, ""),
        ("SQL", f"duckdb -readonly {settings.analytics_path}", "docs/analysts.md"),
        ("terminal", f"{program} sessions", "status, judge list, reputation, doctor"),
        ("review", f"{prefix}make serve", "http://127.0.0.1:8400/reviews"),
    ):
        print_line(f"  {what:11} {where}{f'  ({more})' if more else ''}")
    print_line(f"\nNext: score your own agent's latest session: {sys.argv[0]} score --local")
    print_line(
        "Then connect your own agents (README.md). First remove the demo data: "
        f"rm -r {settings.data_dir}  (after make dev, also var)"
    )


def _program() -> str:
    """Return the program as it was called, with its data folder."""
    return f"{_data_dir_prefix()}{sys.argv[0]}"


def _data_dir_prefix() -> str:
    """Return the prefix that makes a command use the data of this demo; empty by default."""
    folder = os.environ.get("EVAL_DATA_DIR")
    return "" if folder is None else f"EVAL_DATA_DIR={shlex.quote(folder)} "
