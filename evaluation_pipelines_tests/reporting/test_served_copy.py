"""The copy in ClickHouse of earlier versions: what `doctor` and `forget` say, and what it drops."""

import re

import pytest

from evaluation_pipelines.reporting.analysts_database import served_copy
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.clickhouse import open_clickhouse
from evaluation_pipelines_tests.erasure.two_people import EMAIL
from evaluation_pipelines_tests.program import Program

COPY = "EVAL_SERVE_CLICKHOUSE_DSN"


def test_the_statements_drop_the_copy_and_no_other_table(
    clickhouse_over_http_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(COPY, clickhouse_over_http_database)
    copy = served_copy(load_settings())
    assert copy is not None
    query = re.search(r"select .*'(?=\. Then unset EVAL_SERVE_CLICKHOUSE_DSN)", copy.advice)
    assert query is not None
    with open_clickhouse(clickhouse_over_http_database) as clickhouse:
        # As they were made; the second is left over from a publish that was killed.
        for name in ("sessions", "_serving_new"):
            clickhouse.run(
                f"create table {name} (a String, _served_as_in String ephemeral '', _served_as "
                "String materialized _served_as_in) engine = MergeTree order by _served_as"
            )
        clickhouse.run("create table otel_logs (a String) engine = MergeTree order by a")
        client = clickhouse._client
        statements = [row[0] for row in client.query(query[0]).result_rows]
        assert len(statements) == 2
        for statement in statements:
            clickhouse.run(statement.rstrip(";"))
        assert client.query("show tables").result_rows == [("otel_logs",)]


def test_doctor_and_forget_fail_and_show_no_password(built_days: Program) -> None:
    before = built_days("sessions", "--format", "csv").out
    built_days.set(COPY, "clickhouse://eva:topsecret@db.test:8123/dashboards")
    said = f"{COPY} names ClickHouse at clickhouse://eva@db.test:8123/dashboards: its copy"
    ran = built_days("doctor", "--offline")
    assert ran.code == 1
    assert f"failed: {said}" in ran.out
    forgot = built_days("forget", "--user", EMAIL)
    assert forgot.code == 1
    assert f"Nothing was erased: {said}" in forgot.err
    for text in (ran.out, forgot.err):
        assert "where database = 'dashboards' and name = '_served_as'. Then unset" in text
        assert "topsecret" not in text
    assert built_days("sessions", "--format", "csv").out == before
