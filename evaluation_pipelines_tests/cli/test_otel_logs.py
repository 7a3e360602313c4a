"""``ingest`` with a source in ClickHouse."""

import json

import pytest

from evaluation_pipelines.storage.clickhouse import open_clickhouse
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.telemetry.otel_logs_table import create, export
from evaluation_pipelines_tests.world import claude, line, session

NOWHERE = "clickhouse://reader:topsecret@127.0.0.1:9/otel"


@pytest.fixture
def with_rows(program: Program, clickhouse_over_http_database: str) -> Program:
    """The program with a table of two rows as its source."""
    with open_clickhouse(clickhouse_over_http_database, patience_s=0) as clickhouse:
        create(clickhouse)
        export(clickhouse, [line(claude("user_prompt", n, session__id="a")) for n in (1, 2)])
    program.set("EVAL_OTEL_LOGS_DSN", clickhouse_over_http_database)
    return program


def test_rows_and_files_are_read_by_one_command(with_rows: Program) -> None:
    with_rows.land("logs.jsonl", session("b"))
    ran = with_rows("ingest")
    assert ran.code == 0
    assert "otel_logs: 2 new rows, 0 of the overlap read before" in ran.out
    assert "of 2 files, 4 events on 1 date" in ran.out
    again = json.loads(with_rows("ingest", "--format", "json").out)
    assert again["otel_logs"] == {"rows": 0, "known_rows": 2, "files": 0, "why_not": None}


def test_doctor_says_whether_the_table_can_be_read_and_what_was_late(
    with_rows: Program, clickhouse_over_http_database: str
) -> None:
    with_rows.set("EVAL_OTEL_LOGS_OVERLAP_MINUTES", "1")
    with open_clickhouse(clickhouse_over_http_database, patience_s=0) as clickhouse:
        export(clickhouse, [line(claude("user_prompt", 2 * 86_400, session__id="b"))])
        with_rows("ingest")
        export(clickhouse, [line(claude("user_prompt", 3, session__id="a"))])
    seen = with_rows("doctor").out
    assert "telemetry in ClickHouse at clickhouse://evaluation@127.0.0.1" in seen
    assert "1 row of 2026-06-01 in ClickHouse arrived later than the overlap: not read" in seen
    with_rows.set("EVAL_OTEL_LOGS_DSN", NOWHERE)
    seen = with_rows("doctor").out
    nowhere = "telemetry in ClickHouse at clickhouse://reader@127.0.0.1:9/otel"
    assert f"failed: {nowhere} is not responding: " in seen
    assert "topsecret" not in seen
