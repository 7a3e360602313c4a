"""The sensors, tick by tick on a real instance: when they start a run, and when they do not."""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import pytest
import sqlalchemy as sa

from evaluation_pipelines.adapters.ledger.records import TouchedDate
from evaluation_pipelines.adapters.ledger.tables import TOUCHED_DATES
from evaluation_pipelines.domain.schemas import AGENT_EVENTS_LANDED
from evaluation_pipelines.stages.ingest import Ingest
from evaluation_pipelines_tests.defs.code_location import (
    CodeLocation,
    day,
    failure_of,
    range_tags,
    session_line,
)
from evaluation_pipelines_tests.otlp_builders import claude, request
from evaluation_pipelines_tests.receiver import open_receiver
from evaluation_pipelines_tests.workplace import Workplace, open_workplace

LANDING = "otel_landing_sensor"
TOUCHED = "touched_dates_sensor"
FAILED = "failed_build_sensor"
UNFINISHED = ["", "RUN_ENQUEUED", "RUN_STARTING", "RUN_START", "RUN_CANCELING"]
"""The last event of a run that is created, queued, starting, started or about to be cancelled."""


def asks(location: CodeLocation, sensor: str) -> int:
    """How many runs a tick asks for."""
    return len(location.tick(sensor).run_requests or [])


def touched(location: CodeLocation) -> dict[date, TouchedDate]:
    """Everything the ledger knows of dates."""
    return {each.session_date: each for each in location.workplace.ledger.touched.all()}


def land_at(workplace: Workplace, time: datetime, *numbers: int) -> None:
    """Land a session of each day and ingest it at that time."""
    workplace.land("logs.jsonl", b"".join(map(session_line, numbers)), "ab")
    Ingest(workplace.stores, lambda: time).run()


def fail(location: CodeLocation, number: int, times: int = 1) -> None:
    """Note failed builds of a date, just now."""
    ledger = location.workplace.ledger.touched
    for _ in range(times):
        version = touched(location)[day(number)].version
        ledger.mark_failed(day(number), version, "torn", datetime.now(UTC))


def order_of_builds(location: CodeLocation) -> list[tuple[date, date]]:
    """The stretches that ticks ask for, each noted as built before the next tick."""
    order: list[tuple[date, date]] = []
    while stretches := location.requested(TOUCHED):
        order += stretches
        ((first, last),) = stretches
        for each in touched(location).values():
            if first <= each.session_date <= last:
                location.workplace.ledger.touched.mark_built(each.session_date, each.version)
    return order


def wait_for_retries(location: CodeLocation) -> None:
    """Let the time pass that failed dates wait for."""
    waiting = TOUCHED_DATES.c.next_attempt_at.is_not(None)
    # Not earlier: a run that began after it would count as one that noted nothing.
    due = sa.update(TOUCHED_DATES).where(waiting).values(next_attempt_at=datetime.now(UTC))
    with location.workplace.ledger.engine.begin() as connection:
        connection.execute(due)


# Landing


def test_nothing_landed_asks_for_no_run(location: CodeLocation) -> None:
    assert asks(location, LANDING) == 0
    location.workplace.land("empty.jsonl", b"")
    assert asks(location, LANDING) == 0


def test_a_missing_landing_folder_asks_for_no_run(location: CodeLocation) -> None:
    location.workplace.landing.root.rmdir()

    assert asks(location, LANDING) == 0


def test_a_complete_line_asks_for_one_run_and_none_after_it_was_read(
    location: CodeLocation,
) -> None:
    location.workplace.land("logs.jsonl", session_line(0))
    location.workplace.land("more/logs.jsonl", session_line(1))
    assert location.follow(LANDING).success
    assert asks(location, LANDING) == 0

    location.workplace.land("logs.jsonl", session_line(2), "ab")
    assert asks(location, LANDING) == 1


def test_the_beginning_of_a_line_asks_for_no_run(location: CodeLocation) -> None:
    content = session_line(0)
    location.workplace.land("logs.jsonl", content[:-20])
    assert asks(location, LANDING) == 0

    location.workplace.land("logs.jsonl", content[-20:], "ab")
    assert asks(location, LANDING) == 1


def test_the_beginning_of_a_line_after_lines_that_were_read_asks_for_no_run(
    location: CodeLocation,
) -> None:
    location.workplace.land("logs.jsonl", session_line(0) + session_line(1)[:100])
    assert location.follow(LANDING).success
    assert asks(location, LANDING) == 0

    location.workplace.land("logs.jsonl", session_line(1)[100:], "ab")
    assert asks(location, LANDING) == 1


def test_an_incomplete_line_is_not_read_again_before_it_grows(location: CodeLocation) -> None:
    """Shown by completing it behind the sensor's back, in as many bytes as before."""
    content = session_line(0).removesuffix(b"\n")
    path = location.workplace.land("logs.jsonl", content[:-1] + b" ")
    assert asks(location, LANDING) == 0
    with path.open("r+b") as handle:
        handle.seek(-1, 2)
        handle.write(content[-1:])
    assert asks(location, LANDING) == 0

    location.workplace.land("logs.jsonl", b"\n", "ab")
    assert asks(location, LANDING) == 1


def test_the_cursor_forgets_files_that_are_read_or_gone(location: CodeLocation) -> None:
    one = location.workplace.land("a.jsonl", session_line(0)[:-20])
    location.workplace.land("b.jsonl", session_line(1)[:-20])
    location.tick(LANDING)
    assert len(json.loads(location.cursors[LANDING] or "")) == 2

    one.unlink()
    location.workplace.land("b.jsonl", session_line(1)[-20:], "ab")
    assert location.follow(LANDING).success
    location.tick(LANDING)
    assert location.cursors[LANDING] == "{}"


def test_an_incomplete_file_does_not_hide_a_complete_one(location: CodeLocation) -> None:
    location.workplace.land("a.jsonl", session_line(0)[:-20])
    assert asks(location, LANDING) == 0
    location.workplace.land("b.jsonl", session_line(1))

    assert asks(location, LANDING) == 1


def test_a_pretty_printed_document_asks_for_a_run_when_it_is_whole(location: CodeLocation) -> None:
    document = json.dumps([request([claude("user_prompt", -480 * 86_400)])], indent=2).encode()
    location.workplace.land("export.json", document[:200])
    assert asks(location, LANDING) == 0

    location.workplace.land("export.json", document[200:], "ab")
    assert location.follow(LANDING).success
    assert asks(location, LANDING) == 0
    assert location.workplace.landed().height == 1


@pytest.mark.parametrize("reached", UNFINISHED)
def test_no_second_ingest_is_asked_for_while_one_is_under_way(
    location: CodeLocation, reached: str
) -> None:
    location.workplace.land("logs.jsonl", session_line(0))
    run = location.start("ingest_landing", reached=reached)
    assert asks(location, LANDING) == 0

    location.instance.delete_run(run.run_id)
    assert asks(location, LANDING) == 1


def test_a_build_under_way_keeps_no_ingest_waiting(location: CodeLocation) -> None:
    location.workplace.land("logs.jsonl", session_line(0))
    location.start("build_daily_tables")

    assert asks(location, LANDING) == 1


def test_after_a_failed_ingest_the_next_one_waits_a_minute(
    location: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    location.workplace.land("logs.jsonl", session_line(0))
    lake = location.workplace.lake.root
    lake.write_text("a file where the folder should be")
    failed = location.follow(LANDING)
    assert not failed.success
    assert "check space and permissions" in failure_of(failed)
    lake.unlink()
    assert asks(location, LANDING) == 0

    wait = "evaluation_pipelines.defs.telemetry.sensors._SECONDS_AFTER_FAILURE"
    monkeypatch.setattr(wait, 0)  # a minute has passed
    assert location.follow(LANDING).success
    assert location.workplace.landed().height == 4
    assert asks(location, LANDING) == 0


def test_an_ingest_that_succeeded_after_one_that_failed_keeps_nothing_waiting(
    location: CodeLocation,
) -> None:
    location.instance.report_run_failed(location.start("ingest_landing"))
    assert location.execute("ingest_landing").success
    location.workplace.land("logs.jsonl", session_line(0))

    assert asks(location, LANDING) == 1


# Touched dates


def test_nothing_touched_asks_for_no_build(location: CodeLocation) -> None:
    ticked = location.tick(TOUCHED)

    assert ticked.run_requests == []


def test_a_contiguous_stretch_is_one_range(location: CodeLocation) -> None:
    location.land(0, 1, 2)

    assert location.requested(TOUCHED) == [(day(0), day(2))]
    assert location.follow(TOUCHED).success
    assert location.requested(TOUCHED) == []


def test_of_several_stretches_the_one_that_waited_longest_comes_first(
    location: CodeLocation,
) -> None:
    noon = datetime(2026, 6, 1, 12, tzinfo=UTC)
    land_at(location.workplace, noon, 7)
    land_at(location.workplace, noon + timedelta(minutes=1), 0, 2, 3)
    # 8 came last, but belongs to the stretch that waited longest
    land_at(location.workplace, noon + timedelta(minutes=2), 8)

    assert order_of_builds(location) == [(day(7), day(8)), (day(0), day(0)), (day(2), day(3))]


@pytest.mark.parametrize("reached", UNFINISHED)
def test_no_second_build_is_asked_for_while_one_is_under_way(
    location: CodeLocation, reached: str
) -> None:
    location.land(0)
    run = location.start("build_daily_tables", reached=reached)
    assert location.requested(TOUCHED) == []

    location.instance.delete_run(run.run_id)
    assert location.requested(TOUCHED) == [(day(0), day(0))]


def test_an_ingest_under_way_keeps_no_build_waiting(location: CodeLocation) -> None:
    location.land(0)
    location.start("ingest_landing")

    assert location.requested(TOUCHED) == [(day(0), day(0))]


def test_a_date_that_failed_is_not_due_before_its_time(location: CodeLocation) -> None:
    location.land(0, 1, 2)
    fail(location, 1)
    due = touched(location)[day(1)].next_attempt_at
    assert due is not None
    assert due > datetime.now(UTC)

    assert order_of_builds(location) == [(day(0), day(0)), (day(2), day(2))]


def test_a_date_that_failed_before_stands_alone_when_it_is_due(location: CodeLocation) -> None:
    location.land(0, 1, 2, 3)
    fail(location, 1)
    wait_for_retries(location)

    assert order_of_builds(location) == [(day(0), day(0)), (day(1), day(1)), (day(2), day(3))]


def test_a_parked_date_is_never_asked_for_until_new_data_arrives(location: CodeLocation) -> None:
    location.land(0)
    fail(location, 0, times=4)
    wait_for_retries(location)
    assert location.requested(TOUCHED) == []

    location.land(0)
    assert location.requested(TOUCHED) == [(day(0), day(0))]


def test_dates_outside_the_partitions_are_kept_and_named_and_never_asked_for(
    location: CodeLocation,
) -> None:
    """They were filed when the partitions still began earlier: EVAL_START_DATE was moved."""
    early = -60  # 2024-12-08, before the first of January 2025
    folder = location.workplace.settings.data_dir
    with open_workplace(folder, start_date=date(2024, 1, 1)) as before:
        land_at(before, datetime.now(UTC), early)
    ticked = location.tick(TOUCHED)
    assert ticked.run_requests == []
    assert ticked.skip_message == "not in the range of partitions: 2024-12-08"

    location.land(0)
    assert location.requested(TOUCHED) == [(day(0), day(0))]
    assert location.follow(TOUCHED).success
    assert not touched(location)[day(early)].is_built
    assert location.workplace.landed()["session_date"].unique().sort().to_list() == [
        day(early),
        day(0),
    ]


def test_an_ingest_says_which_dates_are_no_partitions(
    location: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVAL_START_DATE", "2024-01-01")  # the location was loaded before that
    log = location.run_ingest(session_line(-60) + session_line(0))

    assert location.materialized(AGENT_EVENTS_LANDED.name) == [day(0)]
    assert "2024-12-08 is not a partition (yet): kept, not built" in log


# Builds whose process died


def test_the_dates_of_a_killed_build_are_noted_as_one_attempt(location: CodeLocation) -> None:
    location.land(0, 1, 2, 3)
    location.tick(FAILED)
    location.build(0)
    location.kill(range_tags(day(0), day(2)))
    location.tick(FAILED)

    found = touched(location)
    assert [found[day(n)].attempts for n in range(4)] == [0, 1, 1, 0]
    assert found[day(0)].is_built  # before it died
    reason = found[day(1)].last_error or ""
    assert reason.startswith("run ")
    assert reason.endswith("the process is gone")
    assert location.requested(TOUCHED) == [(day(3), day(3))]  # the others wait their minute


def test_a_killed_build_is_noted_once_however_often_the_sensor_ticks(
    location: CodeLocation,
) -> None:
    location.land(0)
    location.tick(FAILED)
    location.kill(range_tags(day(0), day(0)))
    for _ in range(3):
        location.tick(FAILED)
    assert touched(location)[day(0)].attempts == 1

    location.cursors[FAILED] = None  # the sensor was reset: its first tick only looks around
    location.tick(FAILED)
    assert touched(location)[day(0)].attempts == 1


def test_a_build_that_never_started_is_noted_too(location: CodeLocation) -> None:
    location.land(0)
    location.tick(FAILED)
    location.kill(range_tags(day(0), day(0)), reached="")
    location.tick(FAILED)

    assert touched(location)[day(0)].attempts == 1


def test_a_failure_that_the_build_noted_itself_is_not_counted_twice(
    location: CodeLocation,
) -> None:
    location.land(0, 1)
    break_landed(location, 1)
    location.tick(FAILED)
    assert not location.follow(TOUCHED).success
    reason = touched(location)[day(1)].last_error or ""
    location.tick(FAILED)

    assert touched(location)[day(1)].attempts == 1
    assert touched(location)[day(1)].last_error == reason
    assert reason.startswith("QueryError: ")


def test_a_date_that_the_build_parked_keeps_its_reason(location: CodeLocation) -> None:
    location.land(0)
    break_landed(location, 0)
    fail(location, 0, times=3)
    wait_for_retries(location)
    location.tick(FAILED)
    assert not location.follow(TOUCHED).success
    location.tick(FAILED)

    found = touched(location)[day(0)]
    assert (found.parked, found.attempts) == (True, 4)
    assert (found.last_error or "").startswith("QueryError: ")


def test_a_date_that_was_revived_before_the_sensor_looked_stays_due(
    location: CodeLocation,
) -> None:
    location.land(0)
    sound = break_landed(location, 0)
    fail(location, 0, times=3)
    wait_for_retries(location)
    location.tick(FAILED)
    assert not location.follow(TOUCHED).success
    mend_landed(location, 0, sound)
    assert location.materialize(0, "agent_events").success
    location.tick(FAILED)

    found = touched(location)[day(0)]
    assert (found.parked, found.attempts) == (False, 0)
    assert location.requested(TOUCHED) == [(day(0), day(0))]


def test_a_build_that_could_not_even_begin_is_noted(
    location: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    location.land(0)
    location.tick(FAILED)
    tags = location.tick(TOUCHED).run_requests
    with monkeypatch.context() as broken:
        broken.setenv("EVAL_BATCH_BYTES", "no number")
        assert tags
        assert not location.execute("build_daily_tables", tags[0].tags).success
    location.tick(FAILED)

    assert touched(location)[day(0)].attempts == 1


def test_data_that_came_after_a_build_had_begun_is_a_new_chance(location: CodeLocation) -> None:
    land_at(location.workplace, datetime.now(UTC) + timedelta(seconds=5), 0)
    location.tick(FAILED)
    location.kill(range_tags(day(0), day(0)))
    location.tick(FAILED)

    assert touched(location)[day(0)].attempts == 0


def test_a_date_whose_builds_are_killed_four_times_is_parked_and_told_once(
    location: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    location.land(0)
    location.tick(FAILED)
    with open_receiver() as receiver:
        monkeypatch.setenv("EVAL_ALERT_WEBHOOK_URL", receiver.url)
        for _ in range(4):
            wait_for_retries(location)
            location.kill(range_tags(day(0), day(0)))
            location.tick(FAILED)
            location.tick(FAILED)

    assert touched(location)[day(0)].parked
    (alert,) = receiver.texts
    assert alert.startswith("session_date 2025-02-06 is parked after 4 attempts\nrun ")
    assert "the process is gone" in alert


def test_a_failed_build_without_a_range_is_left_alone(location: CodeLocation) -> None:
    location.land(0)
    location.tick(FAILED)
    location.kill({"dagster/partition": str(day(0))})
    location.tick(FAILED)

    assert touched(location)[day(0)].attempts == 0


# All of them, one after the other


def test_landing_moves_on_to_scores_by_the_sensors_alone(location: CodeLocation) -> None:
    location.workplace.land("logs.jsonl", session_line(0) + session_line(1))
    assert location.follow(LANDING).success
    assert location.materialized(AGENT_EVENTS_LANDED.name) == [day(0), day(1)]
    assert location.workplace.performance().height == 0

    assert location.follow(TOUCHED).success
    assert location.workplace.performance()["session_id"].to_list() == ["s-0", "s-1"]
    quiet: Sequence[str] = (LANDING, TOUCHED, FAILED)
    assert [asks(location, each) for each in quiet] == [0, 0, 0]


def test_one_broken_date_of_three_is_retried_alone_parked_and_revived(
    location: CodeLocation,
) -> None:
    location.workplace.land("logs.jsonl", b"".join(map(session_line, range(3))))
    assert location.follow(LANDING).success
    sound = break_landed(location, 1)
    assert location.requested(TOUCHED) == [(day(0), day(2))]
    assert not location.follow(TOUCHED).success
    assert location.workplace.performance()["session_id"].to_list() == ["s-0", "s-2"]

    for _ in range(3):
        assert location.requested(TOUCHED) == []
        wait_for_retries(location)
        assert location.requested(TOUCHED) == [(day(1), day(1))]
        assert not location.follow(TOUCHED).success
    wait_for_retries(location)
    assert location.requested(TOUCHED) == []
    assert touched(location)[day(1)].parked

    mend_landed(location, 1, sound)
    assert location.materialize(1, "agent_events", "agent_sessions", "session_performance").success
    assert location.workplace.performance()["session_id"].to_list() == ["s-0", "s-1", "s-2"]
    assert location.requested(TOUCHED) == []


def test_a_session_that_goes_on_three_days_later_updates_its_first_date_and_only_that(
    location: CodeLocation,
) -> None:
    location.workplace.land("logs.jsonl", b"".join(map(session_line, range(5))))
    assert location.follow(LANDING).success
    assert location.follow(TOUCHED).success
    before = {
        path: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in location.workplace.lake.root.rglob("*.parquet")
    }

    location.workplace.land("logs.jsonl", session_line(1, second=3 * 86_400), "ab")
    assert location.follow(LANDING).success
    assert location.requested(TOUCHED) == [(day(1), day(1))]
    assert location.follow(TOUCHED).success
    assert location.requested(TOUCHED) == []

    changed = {
        path.parent.name
        for path in location.workplace.lake.root.rglob("*.parquet")
        if before.get(path) != (path.read_bytes(), path.stat().st_mtime_ns)
    }
    assert changed == {"session_date=2025-02-07"}
    sessions = location.workplace.sessions().filter(session_id="s-1")
    assert sessions["prompts"].to_list() == [2]
    # From noon of day 1 to 30 s after noon of day 4.
    assert sessions["duration_s"].to_list() == [3 * 86_400 + 30.0]
    assert location.workplace.performance().height == 5


def break_landed(location: CodeLocation, number: int) -> bytes:
    """Tear the landed part of a date; gives what it was."""
    (part,) = location.workplace.ledger.parts.current(AGENT_EVENTS_LANDED.name, day(number))
    path = location.workplace.lake.root / part.path
    sound = path.read_bytes()
    path.write_bytes(b"torn")
    return sound


def mend_landed(location: CodeLocation, number: int, sound: bytes) -> None:
    """Give the landed part of a date back."""
    (part,) = location.workplace.ledger.parts.current(AGENT_EVENTS_LANDED.name, day(number))
    (location.workplace.lake.root / part.path).write_bytes(sound)
