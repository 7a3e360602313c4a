"""The sensor of the landing folder: when a tick requests an ingest, and when not."""

import json
import os
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from evaluation_pipelines.defs.telemetry import sensors
from evaluation_pipelines.storage.landing import LandingError, SkippedFile
from evaluation_pipelines.storage.ledger.engine import writing
from evaluation_pipelines.storage.ledger.tables.telemetry import SOURCE_FILES
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.unread_files import UnreadFile
from evaluation_pipelines_tests.defs.code_location import (
    CodeLocation,
    failure_of,
    session_line,
)
from evaluation_pipelines_tests.world.lake_files import root_of

if TYPE_CHECKING:
    from evaluation_pipelines_tests.servers.landing_bucket import Bucket

LANDING = "otel_landing_sensor"
SETTLED = "evaluation_pipelines.storage.landing._SETTLED_NS"


def test_an_empty_landing_folder_requests_no_run(location: CodeLocation) -> None:
    assert location.request_count(LANDING) == 0
    location.workplace.land("empty.jsonl", b"")
    assert location.request_count(LANDING) == 0


def test_a_complete_line_requests_one_run_until_it_is_read(
    location: CodeLocation,
) -> None:
    location.workplace.land("logs.jsonl", session_line(0))
    location.workplace.land("more/logs.jsonl", session_line(1))
    assert location.run_requested(LANDING).success
    assert location.request_count(LANDING) == 0

    location.workplace.land("logs.jsonl", session_line(2), "ab")
    assert location.request_count(LANDING) == 1


def test_an_object_requests_one_run_until_it_is_read(
    location: CodeLocation, bucket: "Bucket", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVAL_LANDING_DIR", bucket.url)
    bucket.put("a.jsonl", session_line(0)[:-20])
    assert location.request_count(LANDING) == 0
    bucket.put("b.jsonl", session_line(1))
    assert location.run_requested(LANDING).success
    assert location.request_count(LANDING) == 0
    bucket.proxy.requests = 0
    assert location.request_count(LANDING) == 0
    assert bucket.proxy.requests == 1  # the list
    bucket.proxy.always = "500"
    with pytest.raises(LandingError, match="does not answer as it should"):
        location.tick(LANDING)


def test_an_incomplete_line_is_not_read_again_before_it_grows(location: CodeLocation) -> None:
    """The test completes the line without changing the size of the file."""
    content = session_line(0).removesuffix(b"\n")
    path = location.workplace.land("logs.jsonl", content[:-1] + b" ")
    assert location.request_count(LANDING) == 0
    with path.open("r+b") as handle:
        handle.seek(-1, 2)
        handle.write(content[-1:])
    assert location.request_count(LANDING) == 0

    location.workplace.land("logs.jsonl", b"\n", "ab")
    assert location.request_count(LANDING) == 1


def test_the_cursor_drops_files_that_are_read_or_deleted(location: CodeLocation) -> None:
    one = location.workplace.land("a.jsonl", session_line(0)[:-20])
    location.workplace.land("b.jsonl", session_line(1)[:-20])
    location.tick(LANDING)
    assert len(json.loads(location.cursors[LANDING] or "")["incomplete"]) == 2

    one.unlink()
    location.workplace.land("b.jsonl", session_line(1)[-20:], "ab")
    assert location.run_requested(LANDING).success
    location.tick(LANDING)
    assert json.loads(location.cursors[LANDING] or "")["incomplete"] == {}


def test_files_are_not_opened_again_while_nothing_changes(
    location: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SETTLED, 20_000_000)  # instead of two seconds
    path = location.workplace.land("a.jsonl", session_line(0))
    before = path.stat()
    assert location.run_requested(LANDING).success
    location.tick(LANDING)
    looked: list[Stores] = []

    def look(stores: Stores, **_options: bool) -> tuple[list[UnreadFile], list[SkippedFile]]:
        looked.append(stores)
        return [], []

    monkeypatch.setattr(sensors, "find_unread_files", look)
    location.tick(LANDING)
    assert looked == []
    # The same size, the same inode, and the same time of change of its content.
    path.write_bytes(session_line(1))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    location.tick(LANDING)
    assert len(looked) == 1


def test_an_older_ledger_is_noticed_although_no_file_changes(
    location: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SETTLED, 20_000_000)
    location.workplace.land("a.jsonl", session_line(0))
    assert location.run_requested(LANDING).success
    location.tick(LANDING)
    assert location.request_count(LANDING) == 0
    # As after the restore of a ledger from before.
    with writing(location.workplace.ledger.engine) as connection:
        connection.execute(sa.update(SOURCE_FILES).values(position=0, changed_at_ns=None))
    assert location.request_count(LANDING) == 1


def test_no_second_ingest_is_requested_while_one_is_unfinished(location: CodeLocation) -> None:
    location.workplace.land("logs.jsonl", session_line(0))
    run = location.start("ingest_landing", reached="RUN_ENQUEUED")
    assert location.request_count(LANDING) == 0

    location.instance.delete_run(run.run_id)
    assert location.request_count(LANDING) == 1


def test_an_unfinished_build_does_not_delay_an_ingest(location: CodeLocation) -> None:
    location.workplace.land("logs.jsonl", session_line(0))
    location.start("build_daily_tables")

    assert location.request_count(LANDING) == 1


def test_after_a_failed_ingest_the_next_one_waits_a_minute(
    location: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert location.execute("ingest_landing").success
    location.workplace.land("logs.jsonl", session_line(0))
    in_the_way = root_of(location.workplace.lake) / "_tmp"
    in_the_way.rmdir()
    in_the_way.write_text("a file where the folder should be")
    failed = location.run_requested(LANDING)
    assert not failed.success
    assert "Check space and permissions" in failure_of(failed)
    in_the_way.unlink()
    assert location.request_count(LANDING) == 0

    wait = "evaluation_pipelines.defs.telemetry.sensors._SECONDS_AFTER_FAILURE"
    monkeypatch.setattr(wait, 0)  # a minute has passed
    assert location.run_requested(LANDING).success
    assert location.workplace.landed().height == 4
    assert location.request_count(LANDING) == 0


def test_a_successful_ingest_after_a_failed_one_ends_the_wait(
    location: CodeLocation,
) -> None:
    location.instance.report_run_failed(location.start("ingest_landing"))
    assert location.execute("ingest_landing").success
    location.workplace.land("logs.jsonl", session_line(0))

    assert location.request_count(LANDING) == 1


def test_after_a_canceled_ingest_the_next_one_waits_ten_minutes(
    location: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    location.workplace.land("logs.jsonl", session_line(0))
    location.instance.report_run_canceled(location.start("ingest_landing"))
    ticked = location.tick(LANDING)
    assert ticked.run_requests == []
    assert "canceled: the next one waits 10 minutes" in str(ticked.skip_message)

    wait = "evaluation_pipelines.defs.runs.SECONDS_AFTER_CANCELLATION"
    monkeypatch.setattr(wait, 0)  # ten minutes have passed
    assert location.request_count(LANDING) == 1
