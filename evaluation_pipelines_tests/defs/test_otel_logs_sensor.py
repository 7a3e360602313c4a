"""The sensor of ``otel_logs`` and the ingest that it starts."""

from collections.abc import Iterator

import pytest

from evaluation_pipelines.storage.clickhouse import ClickHouse, open_clickhouse
from evaluation_pipelines.storage.lock import INGEST, held
from evaluation_pipelines_tests.defs.code_location import CodeLocation, failure_of, session_line
from evaluation_pipelines_tests.telemetry.otel_logs_table import create, export

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
    assert failure_of(result).startswith("nothing was read: process ")
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
