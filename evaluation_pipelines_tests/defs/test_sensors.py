"""The sensors in sequence: from a landed line to its score and the aggregates."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from evaluation_pipelines.schemas import MASQUE_LIFT
from evaluation_pipelines.storage.clickhouse import ClickHouse, open_clickhouse
from evaluation_pipelines.storage.lock import INGEST, KEEP_CURRENT, held
from evaluation_pipelines_tests.defs.code_location import (
    AGGREGATES,
    CodeLocation,
    day,
    failure_of,
    range_tags,
    session_line,
)
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.telemetry.otel_logs_table import create, export

LANDING = "otel_landing_sensor"
REBUILDS = "touched_dates_sensor"


def says(location: CodeLocation, sensor: str) -> str:
    """Tick a sensor; return what it says, with any time as 00:00."""
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "00:00", location.tick(sensor).skip_message or "")


def test_each_tick_says_what_it_looked_at(location: CodeLocation, judge: JudgeEndpoint) -> None:
    assert judge.base_url
    assert says(location, LANDING) == "files read: 0, nothing new since 00:00 UTC"
    location.workplace.land("logs.jsonl", session_line(0) + session_line(1))
    location.workplace.ingest()
    location.workplace.land("half.jsonl", session_line(2)[:-9])
    half = "files read: 1, nothing new since 00:00 UTC, 1 end without a complete line"
    assert [says(location, LANDING) for _ in range(2)] == [half, half]
    location.start("build_daily_tables", range_tags(day(0), day(1)))
    assert says(location, REBUILDS) == "a build has not ended"
    assert says(location, "terminal_builds_sensor") == (
        "0 of 2 dates were reported, the rest waits"
    )
    assert says(location, "outside_signals_sensor") == (
        "no file of signals is new or changed, no submitted evaluation waits"
    )
    assert says(location, "fresh_sessions_sensor") == (
        "no session of the last 2 days waits for the judge"
    )
    assert says(location, "judge_batches_sensor") == "0 batches at the provider, none to collect"


def priority(location: CodeLocation, sensor: str) -> str:
    """Tick a sensor, which must request one run; return its priority."""
    (request,) = location.tick(sensor).run_requests or []
    return request.tags["dagster/priority"]


def test_what_sensors_and_nights_ask_for_goes_after_runs_of_people(
    settled_location: CodeLocation,
) -> None:
    """People have 0."""
    location = settled_location
    location.workplace.land("logs.jsonl", session_line(0))
    assert priority(location, LANDING) == "-1"
    location.workplace.ingest()
    assert priority(location, REBUILDS) == "-1"
    location.workplace.build()
    assert priority(location, "terminal_builds_sensor") == "-3"
    night = location.nightly_request()
    assert isinstance(night, dg.RunRequest)
    assert night.tags["dagster/priority"] == "-3"


def test_aggregates_are_requested_once_after_a_build_and_published_together(
    location: CodeLocation,
) -> None:
    assert location.requested_assets() == set()
    location.run_ingest(session_line(0) + session_line(1))
    location.build(0)
    inputs = location.start("build_daily_tables", range_tags(day(1), day(1)))
    assert location.requested_assets() == set()
    location.instance.report_run_canceled(inputs)
    assert location.requested_assets() == {*AGGREGATES}

    location.execute_aggregates()
    record = location.instance.get_latest_materialization_event(dg.AssetKey("analytics_database"))
    assert record is not None
    assert record.asset_materialization is not None
    assert record.asset_materialization.metadata["rows of agent_sessions"].value == 1
    assert Path(location.workplace.lake.place(MASQUE_LIFT, None)).exists()
    assert location.requested_assets() == set()

    location.begin_aggregates()
    location.build(1)
    # Of these assets no input is being built: they wait only because they are being built.
    assert location.requested_assets() == set()


def test_a_build_between_the_request_for_the_database_and_its_run_requests_it_again(
    location: CodeLocation,
) -> None:
    location.run_ingest(session_line(0) + session_line(1))
    location.requested_assets()
    location.build(0)
    assert location.requested_assets() == {*AGGREGATES}

    # Both within one tick: it is unknown whether the database contains the second date.
    location.build(1)
    location.execute_aggregates()
    assert location.requested_assets() == {*AGGREGATES}

    location.execute_aggregates()
    assert location.requested_assets() == set()


def test_the_database_is_published_before_the_books_and_again_with_them(
    location: CodeLocation,
) -> None:
    location.run_ingest(session_line(0))
    location.requested_assets()
    location.build(0)
    close_the_books = location.begin_date(0, "evaluation_books")
    assert location.requested_assets() == {*AGGREGATES}
    location.execute_aggregates()
    assert location.requested_assets() == set()

    close_the_books()
    assert location.requested_assets() == {"analytics_database"}
    location.execute_asset("analytics_database")
    assert location.requested_assets() == set()


def test_the_database_waits_for_books_and_reputation_that_alone_have_changed(
    location: CodeLocation,
) -> None:
    location.run_ingest(session_line(0))
    location.build(0)
    location.requested_assets()
    location.execute_aggregates()
    assert location.requested_assets() == set()
    location.begin_date(0, "evaluation_books")()
    score_agents = location.begin("agent_scores")
    for _ in range(3):
        assert location.requested_assets() == set()

    score_agents()
    assert location.requested_assets() == {"analytics_database"}


def test_sensors_leave_telemetry_to_a_service_that_keeps_it_current(
    location: CodeLocation,
) -> None:
    location.land(0)
    location.workplace.land("logs.jsonl", session_line(1), "ab")
    with held(location.workplace.ledger, KEEP_CURRENT):
        for sensor in (LANDING, REBUILDS):
            ticked = location.tick(sensor)
            assert not ticked.run_requests
            assert (ticked.skip_message or "").startswith(
                f"a service does it: process {os.getpid()} "
            )
    assert location.request_count(LANDING) == 1

    # A service has built the date since the run was requested.
    (requested,) = location.tick(REBUILDS).run_requests or []
    location.workplace.build()
    before = location.workplace.lake.version()
    assert location.execute("build_daily_tables", requested.tags).success
    assert location.workplace.lake.version() == before


SENSOR = "otel_logs_sensor"
NOWHERE = "clickhouse://reader:topsecret@127.0.0.1:9/otel"


@pytest.fixture
def clickhouse(  # after the location, which clears the environment
    location: CodeLocation,  # noqa: ARG001
    clickhouse_over_http_database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[ClickHouse]:
    """A database with an empty table, which the code location has as its source."""
    monkeypatch.setenv("EVAL_OTEL_LOGS_DSN", clickhouse_over_http_database)
    with open_clickhouse(clickhouse_over_http_database, patience_s=0) as opened:
        create(opened)
        yield opened


def test_without_a_table_nothing_is_requested(location: CodeLocation) -> None:
    assert location.tick(SENSOR).skip_message == "EVAL_OTEL_LOGS_DSN is not set"


def test_new_rows_request_an_ingest(location: CodeLocation, clickhouse: ClickHouse) -> None:
    export(clickhouse, [session_line(0)])
    assert location.run_requested(SENSOR).success
    assert location.workplace.landed().height == 4
    # Once more, since the position has moved, and then no more.
    assert location.run_requested(SENSOR).success
    assert location.request_count(SENSOR) == 0
    export(clickhouse, [session_line(1)])
    assert location.request_count(SENSOR) == 1


def test_an_ingest_that_waited_in_vain_fails_and_is_requested_again(
    location: CodeLocation, clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVAL_LOCK_TIMEOUT_SECONDS", "1")
    monkeypatch.setattr("evaluation_pipelines.defs.telemetry.sensors._SECONDS_AFTER_FAILURE", 0)
    export(clickhouse, [session_line(0)])
    with held(location.workplace.ledger, INGEST):
        result = location.run_requested(SENSOR)
    assert not result.success
    assert failure_of(result).startswith("nothing was read: Could not get the lock ingest")
    assert location.run_requested(SENSOR).success
    assert location.workplace.landed().height == 4


def test_a_server_that_is_down_fails_the_step_after_the_files_were_read(
    location: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVAL_OTEL_LOGS_DSN", NOWHERE)
    monkeypatch.setattr("evaluation_pipelines.telemetry.otel_logs.PATIENCE_S", 0)
    location.workplace.land("logs.jsonl", session_line(0))
    result = location.execute("ingest_landing", {})
    assert not result.success
    failure = failure_of(result)
    assert "the landing folder was read, but not all of ClickHouse" in failure
    assert "topsecret" not in failure
    assert location.workplace.landed().height == 4
