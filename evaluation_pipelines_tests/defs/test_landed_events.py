"""Landed events, which ingest reports: dates, versions and checks."""

import logging

import dagster as dg
import pytest

from evaluation_pipelines.defs.run_log import SuccessLog
from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED
from evaluation_pipelines_tests.defs.code_location import (
    CodeLocation,
    check_texts,
    day,
    repository,
    session_line,
)
from evaluation_pipelines_tests.world.lake_files import root_of


def test_an_ingest_logs_dates_outside_the_partitions(
    location: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository()  # loaded with a later date, also if this test is the first one
    monkeypatch.setenv("EVAL_START_DATE", "2024-01-01")
    log = location.run_ingest(session_line(-60) + session_line(0))

    assert location.materialized(AGENT_EVENTS_LANDED.name) == [day(0)]
    assert "2024-12-08 is not a partition (yet): kept, not built" in log


def test_an_ingest_reports_the_unread_bytes_of_each_file(location: CodeLocation) -> None:
    location.workplace.land("logs.jsonl", session_line(0) + session_line(1)[:50])
    location.workplace.land("d_f.jsonl", session_line(1))
    result = location.execute("ingest_landing")
    (output,) = (event for event in result.all_events if event.is_successful_output)
    metadata = {name: value.value for name, value in output.step_output_data.metadata.items()}

    assert metadata["dates_touched"] == f"{day(0)}, {day(1)}"
    assert metadata["unread_bytes"] == 50
    # The newest event is the answered request, 30 s after noon.
    assert str(metadata["lag"]).splitlines()[2:] == [
        f"| logs\\.jsonl | 50 | {day(0)} 12:00:30 |".replace("-", "\\-"),
        f"| d\\_f\\.jsonl | 0 | {day(1)} 12:00:30 |".replace("-", "\\-"),
    ]


def test_an_ingest_that_fails_midway_reports_the_dates_it_committed(
    location: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVAL_BATCH_BYTES", "1")  # every line is a batch
    table = root_of(location.workplace.lake) / AGENT_EVENTS_LANDED.name
    table.mkdir(parents=True)
    in_the_way = table / f"session_date={day(1)}"
    in_the_way.write_text("a file where the folder should be")
    location.workplace.land("logs.jsonl", session_line(0) + session_line(1))
    assert not location.execute("ingest_landing").success
    assert location.materialized(AGENT_EVENTS_LANDED.name) == [day(0)]

    in_the_way.unlink()
    assert location.execute("ingest_landing").success
    assert location.materialized(AGENT_EVENTS_LANDED.name) == [day(0), day(1)]


def test_dates_are_shown_as_older_than_their_input_until_they_are_built_again(
    location: CodeLocation,
) -> None:
    location.run_ingest(session_line(0))
    location.build(0)
    assert location.stale(day(0)) == set()

    location.run_ingest(session_line(0, second=60))
    assert location.stale(day(0)) == {"agent_events"}
    location.build(0)
    assert location.stale(day(0)) == set()


def test_unreadable_lines_fail_a_check_after_their_ingest(
    location: CodeLocation,
) -> None:
    location.run_ingest(session_line(0))
    check = location.check("agent_events_landed", "quarantine_share_is_low")
    assert check.passed
    assert check_texts(check)["found"] == "0.00%: 0 of 1"

    location.run_ingest(b"no telemetry\n" * 2 + session_line(1))
    check = location.check("agent_events_landed", "quarantine_share_is_low")
    assert not check.passed
    # 2 of the 4 lines of both ingests
    assert check_texts(check)["found"] == "50.00%: 2 of 4"
    assert check_texts(check)["expected"] == "at most 1.00% of the lines read in the last 24 hours"


@dg.asset(partitions_def=dg.StaticPartitionsDefinition(["a", "b"]))
def rows(context: dg.AssetExecutionContext) -> None:
    """Something in two partitions."""
    context.log.info("said by a step")


@dg.asset
def report(context: dg.AssetExecutionContext) -> None:
    """Something whole."""
    context.log.info("said by a step")


@pytest.fixture
def console(monkeypatch: pytest.MonkeyPatch) -> logging.Handler:
    handler = SuccessLog("DEBUG")
    monkeypatch.setattr(dg.DagsterInstance, "get_yaml_python_handlers", lambda _instance: [handler])
    return handler


@pytest.mark.usefixtures("console")
def test_a_success_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        ran = dg.materialize([rows], instance=instance, partition_key="b")
        told = dg.materialize([report], instance=instance)
    lines = [line for line in capfd.readouterr().out.splitlines() if "succeeded" in line]
    assert [line.partition(" - ")[2] for line in lines] == [
        f"run {ran.run_id[:8]} succeeded: rows",
        f"run {told.run_id[:8]} succeeded: report",
    ]


@pytest.mark.usefixtures("console")
def test_a_failure_is_none(capfd: pytest.CaptureFixture[str]) -> None:
    @dg.asset
    def broken() -> None:
        raise dg.Failure("no")

    with dg.DagsterInstance.ephemeral() as instance:
        dg.materialize([broken], instance=instance, raise_on_error=False)
    assert "succeeded" not in capfd.readouterr().out
