"""Rows of ``otel_logs`` in ClickHouse: read once, with the results of the same telemetry."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.storage.clickhouse import ClickHouse, open_clickhouse
from evaluation_pipelines.storage.lock import INGEST, held
from evaluation_pipelines.telemetry.otel_logs import (
    FOLDER,
    OtelLogReport,
    late_rows,
    read_otel_logs,
)
from evaluation_pipelines_tests.telemetry.captures import RECORDED, Capture
from evaluation_pipelines_tests.telemetry.collector import FIRST_DAY_S, seeded
from evaluation_pipelines_tests.telemetry.otel_logs_table import CREATE, create, export
from evaluation_pipelines_tests.telemetry.pipeline_steps import read_rows_and_ingest
from evaluation_pipelines_tests.telemetry.pipeline_worker import sequential_workers
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import claude, line

NOT_COMPARED = ("source_file_id", "source_offset", "observed_time", "attributes")
"""Columns that name the source, the time that the exporter does not write, and texts below."""


@pytest.fixture
def clickhouse(clickhouse_over_http_database: str) -> Iterator[ClickHouse]:
    """A database with an empty table."""
    with open_clickhouse(clickhouse_over_http_database, patience_s=0) as opened:
        create(opened)
        yield opened


@pytest.fixture
def workplace(tmp_path: Path, clickhouse_over_http_database: str) -> Iterator[Workplace]:
    """Stores whose source is that table; rows may be ten minutes late."""
    settings = {"otel_logs_dsn": clickhouse_over_http_database, "lock_timeout_seconds": 1}
    with open_workplace(tmp_path / "rows", **settings) as opened:
        yield opened


def read(workplace: Workplace, now: datetime = NOW, **options: Any) -> OtelLogReport:
    with held(workplace.ledger, INGEST) as hold:
        report = read_otel_logs(workplace.stores, hold, lambda: now, patience_s=0, **options)
    assert report is not None
    return report


def prompts(workplace: Workplace) -> list[str]:
    """Return the prompts of all rows that were read, in the order of the files."""
    paths = sorted(workplace.landing.root.glob(f"{FOLDER}/*/*/[!.]*.jsonl"))
    return [
        pair["value"]["stringValue"]
        for path in paths
        for line in path.read_bytes().splitlines()
        for pair in json.loads(line)["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0][
            "attributes"
        ]
        if pair["key"] == "prompt"
    ]


def texts(document: str | None) -> dict[str, str]:
    """Return attributes as the texts that spell them."""
    encode = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode
    return {
        key: value if isinstance(value, str) else "" if value is None else encode(value)
        for key, value in json.loads(document or "{}").items()
    }


def minute(number: float, prompt: str) -> bytes:
    """Return a line with a prompt some minutes after noon."""
    return line(claude("user_prompt", number * 60, prompt=prompt))


def test_captures_are_the_same_events_as_from_files(
    tmp_path: Path, clickhouse: ClickHouse, workplace: Workplace
) -> None:
    contents = [Capture(cli).file("by a collector").read_bytes() for cli in RECORDED]
    rows = sum(export(clickhouse, content.splitlines()) for content in contents)
    assert read(workplace).rows == rows == 1448
    counts = workplace.ingest().counts
    assert read(workplace).rows == 0
    with open_workplace(tmp_path / "files") as from_files:
        for cli, content in zip(RECORDED, contents, strict=True):
            from_files.land(f"{cli}.jsonl", content)
        expected = from_files.ingest().counts
        events, wanted = (
            place.landed().unique("event_id").sort("event_id") for place in (workplace, from_files)
        )
    # Seven stream events of Codex equal another one of their request, which rows do not tell.
    assert wanted.height == events.height + 7
    wanted = wanted.join(events, on="event_id", how="semi", maintain_order="left")
    assert events.drop(NOT_COMPARED).equals(wanted.drop(NOT_COMPARED))
    assert [*map(texts, events["attributes"])] == [*map(texts, wanted["attributes"])]
    assert counts.events == expected.events == 961
    assert counts.unknown_records == expected.unknown_records
    assert counts.value_anomalies == 0


def test_a_row_of_the_overlap_is_read_once(clickhouse: ClickHouse, workplace: Workplace) -> None:
    export(clickhouse, [minute(0, "a"), minute(9, "b")])
    assert read(workplace).rows == 2
    # One is ten minutes older than the newest one that was read, one is sent again.
    export(clickhouse, [minute(-1, "late"), minute(9, "b"), minute(-1.1, "too late")])
    report = read(workplace)
    assert (report.rows, report.known_rows) == (1, 3)
    assert read(workplace).rows == 0
    assert prompts(workplace) == ["a", "b", "late"]


def test_a_clock_that_is_ahead_makes_no_other_row_late(
    clickhouse: ClickHouse, workplace: Workplace
) -> None:
    now = datetime(2026, 6, 1, 12, 5, tzinfo=UTC)
    export(clickhouse, [minute(0, "a"), minute(60 * 24 * 365, "next year")])
    assert read(workplace, now).rows == 2
    export(clickhouse, [minute(4, "b")])
    assert read(workplace, now).rows == 1
    export(clickhouse, [minute(20, "c")])
    assert read(workplace, now + timedelta(minutes=20)).rows == 1
    assert prompts(workplace) == ["a", "next year", "b", "c"]


def test_a_record_without_a_time_is_found_by_its_timestamp(
    clickhouse: ClickHouse, workplace: Workplace
) -> None:
    """Some exporters write 1970, the collector's the observed time."""
    for number in range(3):
        stamp = f"2026-06-01T12:0{number}:00.5Z"
        record = claude("user_prompt", prompt=f"{number}", event__timestamp=stamp)
        record |= {"timeUnixNano": "0", "observedTimeUnixNano": "0"}
        export(clickhouse, [line(record), minute(2 * number, f"timed {number}")])
        read(workplace, rows_per_file=1)
        assert read(workplace).rows == 0
    assert prompts(workplace) == ["timed 0", "0", "1", "timed 1", "2", "timed 2"]
    workplace.ingest()
    event = workplace.landed().row(by_predicate=pl.col("content") == "0", named=True)
    assert event["event_time"] == datetime(2026, 6, 1, 12, 0, 0, 500_000, UTC)


def test_many_rows_become_several_files(clickhouse: ClickHouse, workplace: Workplace) -> None:
    records = [claude("user_prompt", second, prompt=f"{second}") for second in range(250)]
    export(clickhouse, [line(record) for record in records[::-1]])
    report = read(workplace, rows_per_file=120)
    # Four minutes of 60 rows and one of 10: two files of two minutes, and one.
    assert (report.rows, report.files) == (250, 3)
    assert prompts(workplace) == [f"{second}" for second in range(250)]


def test_a_table_of_an_older_exporter_with_another_name(
    tmp_path: Path, clickhouse: ClickHouse, clickhouse_over_http_database: str
) -> None:
    older = CREATE.format(name="logs_v1").replace(", TimestampTime", "")
    older = older.replace("toDate(TimestampTime)", "toDate(Timestamp)")
    older = older.replace("TimestampTime DateTime DEFAULT toDateTime(Timestamp),", "")
    clickhouse.run(older.replace("EventName String CODEC(ZSTD(1)),", ""))
    clickhouse.run(
        "insert into logs_v1 (Timestamp, Body, LogAttributes) values "
        "('2026-06-01 12:00:00', 'claude_code.user_prompt', map('session.id', 's'))"
    )
    settings = {"otel_logs_dsn": clickhouse_over_http_database, "otel_logs_table": "logs_v1"}
    with open_workplace(tmp_path, **settings) as workplace:
        assert read(workplace).rows == 1
        assert workplace.ingest().counts.events == 1


def test_bytes_that_are_no_text_do_not_stop_the_read(
    clickhouse: ClickHouse, workplace: Workplace
) -> None:
    clickhouse.run(
        "insert into otel_logs (Timestamp, LogAttributes) values ('2026-06-01 12:00:00', "
        "map('event.name', 'claude_code.user_prompt', 'session.id', 's', 'prompt', '\\xff!'))"
    )
    assert read(workplace).rows == 1
    workplace.ingest()
    assert workplace.landed()["content"].to_list() == ["\N{REPLACEMENT CHARACTER}!"]


def test_a_hidden_file_is_named_although_another_machine_read_on(
    clickhouse: ClickHouse, workplace: Workplace, tmp_path: Path
) -> None:
    """They have one ledger, and a landing folder each."""
    export(clickhouse, [minute(0, "a")])
    read(workplace)
    (path,) = workplace.landing.root.glob(f"{FOLDER}/*/*/*.jsonl")
    path.rename(path.with_name(f".reading-{path.name}"))
    export(clickhouse, [minute(1, "b")])
    settings = {name: getattr(workplace.settings, name) for name in ("ledger_url", "otel_logs_dsn")}
    with open_workplace(tmp_path / "other", **settings) as other:
        assert read(other).rows == 1
        assert prompts(other) == ["b"]
    assert read(workplace).rows == 0
    assert prompts(workplace) == ["a"]


def test_a_file_that_was_not_committed_is_deleted_and_read_again(
    clickhouse: ClickHouse, workplace: Workplace
) -> None:
    """The state after a kill before the commit."""
    export(clickhouse, [minute(0, "a")])
    read(workplace)
    (path,) = workplace.landing.root.glob(f"{FOLDER}/*/*/*.jsonl")
    left = path.with_name(".reading-000000002-01234567.jsonl")
    left.write_bytes(b"half a li")
    export(clickhouse, [minute(1, "b")])
    assert read(workplace).rows == 1
    assert not left.exists()
    assert prompts(workplace) == ["a", "b"]


def test_what_was_read_is_private(clickhouse: ClickHouse, workplace: Workplace) -> None:
    export(clickhouse, [minute(0, "a")])
    read(workplace)
    (path,) = workplace.landing.root.glob(f"{FOLDER}/*/*/*.jsonl")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_rows_that_arrive_too_late_are_counted_and_can_be_read(
    clickhouse: ClickHouse, workplace: Workplace, clickhouse_over_http_database: str
) -> None:
    day = 24 * 60
    export(clickhouse, [minute(0, "a"), minute(day, "b"), minute(day, "b"), minute(2 * day, "c")])
    read(workplace)
    assert late_rows(workplace.stores) == {}
    late = claude("user_prompt", day * 60, prompt="z", event__timestamp="2026-06-02T11:00:00Z")
    export(clickhouse, [minute(1, "x"), minute(day + 1, "y"), line({**late, "timeUnixNano": "0"})])
    # Known, and counted: a repeat within the overlap, and one hour late.
    export(clickhouse, [minute(2 * day, "c"), minute(2 * day - 60, "today")])
    assert read(workplace).rows == 0
    assert late_rows(workplace.stores) == {
        date(2026, 6, 1): 1,
        date(2026, 6, 2): 2,
        date(2026, 6, 3): 1,
    }
    longer = {"otel_logs_dsn": clickhouse_over_http_database, "otel_logs_overlap_minutes": 5760}
    with open_workplace(workplace.settings.data_dir, **longer) as patient:
        read(patient)
    assert late_rows(workplace.stores) == {}
    export(clickhouse, [minute(day + 1, "later")])
    assert read(workplace).rows == 0
    assert late_rows(workplace.stores) == {date(2026, 6, 2): 1}
    workplace.ingest()
    workplace.build()
    # What the longer overlap read once more counts once.
    assert sorted(workplace.events()["content"]) == ["a", "b", "c", "today", "x", "y", "z"]


def test_minutes_without_a_new_row_are_counted_as_well(
    clickhouse: ClickHouse, workplace: Workplace
) -> None:
    """A row that is sent again within the overlap is no late one once the overlap has passed."""
    export(clickhouse, [minute(0, "a")])
    read(workplace)
    export(clickhouse, [minute(0, "a")])
    assert read(workplace).known_rows == 2
    export(clickhouse, [minute(60, "b")])
    read(workplace)
    assert late_rows(workplace.stores) == {}


def test_a_time_before_1970_does_not_stop_the_read(
    clickhouse: ClickHouse, workplace: Workplace
) -> None:
    stamps = ("0001-01-01T00:00:00Z", "1969-12-31T23:59:30Z")
    records = [claude("user_prompt", prompt=stamp, event__timestamp=stamp) for stamp in stamps]
    export(clickhouse, [line({**record, "timeUnixNano": "0"}) for record in records])
    assert read(workplace).rows == 2
    assert read(workplace).rows == 0


STEP = "read_rows_and_ingest"


def insert(clickhouse: ClickHouse, random: Random, numbers: range) -> None:
    """Insert a row per number, a second apart but up to a minute late; some are sent twice."""
    lines = [
        line(claude("user_prompt", FIRST_DAY_S + n - random.uniform(0, 60), prompt=f"prompt {n}"))
        for n in numbers
    ]
    export(clickhouse, [*lines, *random.sample(lines, 3)])


def assert_read_once(workplace: Workplace, rows: int) -> None:
    """Check that each row is one line of the landing folder, and one landed event."""
    expected = sorted(f"prompt {n}" for n in range(rows))
    paths = workplace.landing.root.rglob("*.jsonl")
    lines = [line for path in paths for line in path.read_bytes().splitlines()]
    assert len(lines) == len(set(lines)) == rows
    assert sorted(workplace.landed()["content"]) == expected
    assert list(workplace.landing.root.rglob(".*")) == []


def wait_for_another_file(landing: Path) -> None:
    known = len(list(landing.rglob("*.jsonl")))
    for _ in range(4000):
        if len(list(landing.rglob("*.jsonl"))) > known:
            return
        time.sleep(0.005)
    raise TimeoutError("no file was written")


@pytest.mark.slow
def test_a_read_killed_at_any_time_loses_and_doubles_no_row(
    tmp_path: Path, clickhouse: ClickHouse, clickhouse_over_http_database: str
) -> None:
    random, rounds, hidden = seeded(6), 12, 0
    dsn = {"otel_logs_dsn": clickhouse_over_http_database}
    with sequential_workers(rounds, STEP, tmp_path, **dsn) as workers:
        for number, worker in enumerate(workers):
            insert(clickhouse, random, range(100 * number, 100 * number + 100))
            worker.get_ready()
            worker.go()
            if number % 4:  # in the middle of the files, on a machine of any speed
                wait_for_another_file(tmp_path / "landing")
            time.sleep(random.uniform(0, 0.03))
            worker.kill()
            hidden += any((tmp_path / "landing").rglob(".*"))
    assert hidden > 0  # some kills came before a file had its name
    with open_workplace(tmp_path, **dsn) as workplace:
        read_rows_and_ingest(workplace.stores)
        assert_read_once(workplace, 100 * rounds)
