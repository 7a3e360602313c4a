"""The code location as Dagster loads it."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.assets.graph.asset_graph import AssetGraph

from evaluation_pipelines.definitions import defs
from evaluation_pipelines.domain.schemas import (
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    SESSION_PERFORMANCE,
    Table,
)

# Asset -> group, kinds, code version, what it is made from, description.
ASSETS = {
    "agent_events_landed": (
        "telemetry",
        {"parquet", "opentelemetry"},
        None,
        set(),
        "One row per event as filed by ingest; a re-sent event appears again. Reported by ingest.",
    ),
    "agent_events": (
        "telemetry",
        {"parquet", "duckdb"},
        "1",
        {"agent_events_landed"},
        "One row per event, deduplicated.",
    ),
    "agent_sessions": (
        "sessions",
        {"parquet", "duckdb"},
        "1",
        {"agent_events"},
        "One row per session window (one masque worn once, or the baseline).",
    ),
    "session_performance": (
        "sessions",
        {"parquet", "polars"},
        "1",
        {"agent_sessions"},
        "One row per session window with its five dimensions.",
    ),
    "analytics_database": (
        "comparison",
        {"duckdb"},
        "1",
        {"agent_events", "agent_sessions", "session_performance"},
        "One read-only DuckDB file with all tables, swapped in as a link; it never locks anybody.",
    ),
}

TABLES = {
    "agent_events_landed": AGENT_EVENTS_LANDED,
    "agent_events": AGENT_EVENTS,
    "agent_sessions": AGENT_SESSIONS,
    "session_performance": SESSION_PERFORMANCE,
}

CHECKS = {
    "agent_events_landed": {"quarantine_share_is_low", "no_date_is_parked"},
    "agent_events": {"every_date_was_built", "keys_are_unique"},
    "agent_sessions": {
        "every_date_was_built",
        "keys_are_unique",
        "every_event_is_in_a_session",
        "sequences_have_no_gaps",
    },
    "session_performance": {
        "every_date_was_built",
        "keys_are_unique",
        "scores_are_in_range",
        "every_score_has_its_session",
        "scores_match_sessions",
    },
}

JOBS = {"ingest_landing", "build_daily_tables", "check_lake"}

# Sensor -> seconds between two ticks.
SENSORS = {
    "otel_landing_sensor": 10,
    "touched_dates_sensor": 5,
    "failed_build_sensor": 30,
    "aggregates_sensor": 30,
}

LOAD_WITHOUT_NETWORK = """
import sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.bind"):
        raise ConnectionError(f"loading the code location used the network: {event} {arguments}")

sys.addaudithook(refuse)
import dagster as dg
from evaluation_pipelines.definitions import defs
dg.Definitions.validate_loadable(defs())
"""


@cache
def repository() -> dg.RepositoryDefinition:
    """Everything the code location holds."""
    return defs().get_repository_def()


def graph() -> AssetGraph:
    """Its assets and checks."""
    return repository().asset_graph


def checks_by_asset() -> dict[str, set[str]]:
    """Names of all checks."""
    found: dict[str, set[str]] = {}
    for key in graph().asset_check_keys:
        found.setdefault(key.asset_key.to_user_string(), set()).add(key.name)
    return found


def test_the_code_location_holds_exactly_these_assets() -> None:
    # A mistyped dependency would appear here as an asset that nobody wrote.
    keys = graph().get_all_asset_keys()

    assert {key.to_user_string() for key in keys} == ASSETS.keys()


@pytest.mark.parametrize("name", ASSETS)
def test_an_asset_says_what_it_is_where_it_belongs_and_whose_it_is(name: str) -> None:
    asset = graph().get(dg.AssetKey(name))
    group, kinds, code_version, parents, description = ASSETS[name]

    assert asset.group_name == group
    assert asset.kinds == kinds
    assert asset.code_version == code_version
    assert {key.to_user_string() for key in asset.parent_keys} == parents
    assert (asset.description or "").splitlines()[0] == description
    assert asset.owners == ["team:evaluation"]


@pytest.mark.parametrize("name", TABLES)
def test_a_table_shows_its_columns_with_types_and_descriptions(name: str) -> None:
    table: Table = TABLES[name]
    schema = graph().get(dg.AssetKey(name)).metadata["dagster/column_schema"]
    shown = schema.value if isinstance(schema, dg.MetadataValue) else schema

    assert isinstance(shown, dg.TableSchema)
    assert [(each.name, each.type, each.description) for each in shown.columns] == [
        (each.name, str(each.dtype), each.description) for each in table.columns
    ]
    assert all(each.description for each in shown.columns)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_one_partition_for_each_utc_day_up_to_today(name: str) -> None:
    partitions = graph().get(dg.AssetKey(name)).partitions_def

    assert isinstance(partitions, dg.DailyPartitionsDefinition)
    assert partitions.timezone == "UTC"
    keys = partitions.get_partition_keys(current_time=datetime(2026, 6, 1, 12, tzinfo=UTC))
    assert (keys[0], keys[-1]) == ("2025-01-01", "2026-06-01")


@pytest.mark.parametrize("name", ["agent_events", "agent_sessions", "session_performance"])
def test_a_backfill_of_a_daily_table_is_one_run(name: str) -> None:
    assert graph().get(dg.AssetKey(name)).backfill_policy == dg.BackfillPolicy.single_run()


def test_landed_events_are_external_so_that_no_backfill_asks_for_them() -> None:
    landed = graph().get(dg.AssetKey("agent_events_landed"))

    assert landed.is_external
    assert not landed.is_materializable


def test_scores_are_expected_every_working_day() -> None:
    fresh = graph().get(dg.AssetKey("session_performance")).freshness_policy_or_from_metadata

    assert fresh == dg.FreshnessPolicy.time_window(
        warn_window=timedelta(hours=36), fail_window=timedelta(days=4)
    )


def test_every_asset_has_exactly_these_checks_and_each_says_what_it_checks() -> None:
    assert checks_by_asset() == CHECKS
    for key in graph().asset_check_keys:
        description = graph().get_check_spec(key).description or ""
        assert description.endswith(".")
        assert "\n" not in description


def test_there_are_exactly_these_jobs_and_each_says_what_it_does() -> None:
    jobs = [each for each in repository().get_all_jobs() if not each.name.startswith("__")]

    assert {each.name for each in jobs} == JOBS
    assert all(each.description for each in jobs)


def test_a_build_runs_the_rules_of_its_tables_and_no_check_of_the_whole_lake() -> None:
    layer = repository().get_job("build_daily_tables").asset_layer

    assert {key.to_user_string() for key in layer.selected_asset_keys} == {
        "agent_events",
        "agent_sessions",
        "session_performance",
    }
    daily = {
        (key.asset_key.to_user_string(), key.name) for key in layer.asset_graph.asset_check_keys
    }
    assert daily == {
        (asset, name)
        for asset, names in CHECKS.items()
        for name in names
        if asset != "agent_events_landed" and name != "scores_match_sessions"
    }


def test_there_are_exactly_these_sensors_running_from_the_start() -> None:
    sensors = repository().sensor_defs

    assert {each.name: each.minimum_interval_seconds for each in sensors} == SENSORS
    assert {each.default_status for each in sensors} == {dg.DefaultSensorStatus.RUNNING}
    assert all(each.description for each in sensors)


def test_the_lake_is_checked_every_night() -> None:
    (schedule,) = repository().schedule_defs

    assert (schedule.job_name, schedule.cron_schedule) == ("check_lake", "0 3 * * *")
    assert schedule.execution_timezone == "UTC"
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING


def test_a_second_ingest_waits_for_the_first() -> None:
    (step,) = repository().get_job("ingest_landing").nodes

    assert step.definition.pools == {"ingest"}


def test_steps_run_in_the_process_of_their_run() -> None:
    assert defs().executor is dg.in_process_executor


def test_loading_needs_no_environment_file_or_network_and_warns_of_nothing(tmp_path: Path) -> None:
    loading = subprocess.run(
        [sys.executable, "-W", "error", "-c", LOAD_WITHOUT_NETWORK],
        cwd=tmp_path,
        env={},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (loading.returncode, loading.stdout, loading.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []
