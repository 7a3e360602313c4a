"""A source in ClickHouse that cannot be read: clear errors without the password."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evaluation_pipelines.settings import SettingsError, load_settings
from evaluation_pipelines.storage.clickhouse import (
    ClickHouseError,
    open_clickhouse,
)
from evaluation_pipelines.storage.lock import INGEST, LockLostError, held
from evaluation_pipelines.telemetry.otel_logs import FOLDER, OtelLogReport, read_otel_logs
from evaluation_pipelines_tests.storage.locks import lose_lock
from evaluation_pipelines_tests.telemetry.otel_logs_table import CREATE, create
from evaluation_pipelines_tests.workplace import Workplace, open_workplace


@pytest.fixture
def workplace(tmp_path: Path, clickhouse_over_http_database: str) -> Iterator[Workplace]:
    """Stores whose source is a database without tables."""
    with open_workplace(tmp_path, otel_logs_dsn=clickhouse_over_http_database) as opened:
        yield opened


def read(workplace: Workplace, **options: Any) -> OtelLogReport | None:
    with held(workplace.ledger, INGEST) as hold:
        return read_otel_logs(workplace.stores, hold, patience_s=0, **options)


def failure(workplace: Workplace) -> str:
    """Read new rows, which must fail; return the message."""
    with pytest.raises(ClickHouseError) as caught:
        read(workplace)
    return str(caught.value)


def test_no_table(workplace: Workplace) -> None:
    message = failure(workplace)
    assert "has no table otel_logs, or its user may not read it" in message
    assert "EVAL_OTEL_LOGS_DSN" in message


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("Body String CODEC(ZSTD(1)),", "", "Body is missing"),
        (
            "LogAttributes Map(LowCardinality(String), String)",
            "LogAttributes String",
            "LogAttributes is String",
        ),
        ("Timestamp DateTime64(9) CODEC(Delta(8)", "Timestamp DateTime CODEC(Delta(4)", "DateTime"),
    ],
)
def test_a_table_with_other_columns(
    clickhouse_over_http_database: str,
    workplace: Workplace,
    before: str,
    after: str,
    complaint: str,
) -> None:
    statement = CREATE.format(name="otel_logs").replace(before, after)
    indexes = [line for line in statement.splitlines() if "INDEX" in line]
    for index in indexes:
        statement = statement.replace(index, "")
    statement = statement.replace("EventName String CODEC(ZSTD(1)),", "EventName String")
    with open_clickhouse(clickhouse_over_http_database, patience_s=0) as clickhouse:
        clickhouse.run(statement)
    message = failure(workplace)
    assert "is not that of the collector's exporter" in message
    assert complaint in message


def test_nothing_is_deleted_after_the_lock_was_lost(tmp_path: Path) -> None:
    with open_workplace(tmp_path, otel_logs_dsn="clickhouse://127.0.0.1:9/otel") as workplace:
        of_the_other = workplace.land(f"{FOLDER}/source/2026-06-01/.reading-2.jsonl", b"half")
        with held(workplace.ledger, INGEST) as hold:
            lose_lock(workplace.ledger, INGEST)
            with pytest.raises(LockLostError):
                read_otel_logs(workplace.stores, hold, patience_s=0)
        assert of_the_other.exists()


def test_files_before_an_error_stay_and_nothing_is_read_twice(
    clickhouse_over_http_database: str, workplace: Workplace
) -> None:
    """ClickHouse counts rows that it then cannot read: a date that it cannot convert."""
    with open_clickhouse(clickhouse_over_http_database, patience_s=0) as clickhouse:
        create(clickhouse, "good")
        clickhouse.run("insert into good (Timestamp) values ('2026-06-01 12:00:00')")
        clickhouse.run(
            "create view otel_logs as select * replace ("
            "if(Timestamp > '2026-06-01 12:30:00', throwIf(Body = 'bad') || Body, Body) as Body) "
            "from good"
        )
        clickhouse.run("insert into good (Timestamp, Body) values ('2026-06-01 13:00:00', 'bad')")
        with pytest.raises(ClickHouseError, match="select_otel_logs"):
            read(workplace, rows_per_file=1)
        assert workplace.ingest().counts.lines == 1
        clickhouse.run("drop view otel_logs")
        clickhouse.run("create view otel_logs as select * from good")
    report = read(workplace)
    assert report is not None
    assert (report.rows, report.known_rows) == (1, 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("EVAL_OTEL_LOGS_DSN", "chdb:///tmp/x"),
        ("EVAL_OTEL_LOGS_DSN", "http://user:topsecret@host"),
        ("EVAL_OTEL_LOGS_TABLE", "logs; drop table x"),
    ],
)
def test_settings_that_are_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=name) as error:
        load_settings()
    assert "topsecret" not in str(error.value)


def test_rows_need_a_landing_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVAL_LANDING_DIR", "s3://bucket/telemetry")
    monkeypatch.setenv("EVAL_OTEL_LOGS_DSN", "clickhouse://reader@127.0.0.1:9/otel")
    with pytest.raises(SettingsError, match="EVAL_LANDING_DIR must be a folder"):
        load_settings()
