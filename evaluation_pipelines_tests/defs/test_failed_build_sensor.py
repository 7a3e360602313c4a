"""The sensor of failed builds: dates of a build whose process died count as tried."""

from datetime import UTC, datetime, timedelta

import pytest

from evaluation_pipelines_tests.defs.code_location import (
    CodeLocation,
    day,
    land_at,
    range_tags,
)
from evaluation_pipelines_tests.defs.misfortunes import (
    break_landed,
    fail,
    let_time_pass,
    mend_landed,
    touched,
)
from evaluation_pipelines_tests.receiver import open_receiver

TOUCHED = "touched_dates_sensor"
FAILED = "failed_build_sensor"


def test_the_dates_of_a_killed_build_are_noted_as_one_attempt(location: CodeLocation) -> None:
    location.land(0, 1, 2, 3)
    location.tick(FAILED)
    location.build(0)
    location.kill(range_tags(day(0), day(2)))
    location.tick(FAILED)

    found = touched(location.workplace)
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
    assert touched(location.workplace)[day(0)].attempts == 1

    location.cursors[FAILED] = None  # the sensor was reset: its first tick only looks around
    location.tick(FAILED)
    assert touched(location.workplace)[day(0)].attempts == 1


def test_a_build_that_never_started_is_noted_too(location: CodeLocation) -> None:
    location.land(0)
    location.tick(FAILED)
    location.kill(range_tags(day(0), day(0)), reached="")
    location.tick(FAILED)

    assert touched(location.workplace)[day(0)].attempts == 1


def test_a_failure_that_the_build_noted_itself_is_not_counted_twice(
    location: CodeLocation,
) -> None:
    location.land(0, 1)
    break_landed(location.workplace, 1)
    location.tick(FAILED)
    assert not location.follow(TOUCHED).success
    reason = touched(location.workplace)[day(1)].last_error or ""
    location.tick(FAILED)

    assert touched(location.workplace)[day(1)].attempts == 1
    assert touched(location.workplace)[day(1)].last_error == reason
    assert reason.startswith("LakeError: ")


def test_a_date_that_the_build_parked_keeps_its_reason(location: CodeLocation) -> None:
    location.land(0)
    break_landed(location.workplace, 0)
    fail(location.workplace, 0, times=3)
    let_time_pass(location.workplace)
    location.tick(FAILED)
    assert not location.follow(TOUCHED).success
    location.tick(FAILED)

    found = touched(location.workplace)[day(0)]
    assert (found.parked, found.attempts) == (True, 4)
    assert (found.last_error or "").startswith("LakeError: ")


def test_a_date_that_was_revived_before_the_sensor_looked_stays_due(
    location: CodeLocation,
) -> None:
    location.land(0)
    sound = break_landed(location.workplace, 0)
    fail(location.workplace, 0, times=3)
    let_time_pass(location.workplace)
    location.tick(FAILED)
    assert not location.follow(TOUCHED).success
    mend_landed(location.workplace, 0, sound)
    assert location.materialize(0, "agent_events").success
    location.tick(FAILED)

    found = touched(location.workplace)[day(0)]
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

    assert touched(location.workplace)[day(0)].attempts == 1


def test_data_that_came_after_a_build_had_begun_is_a_new_chance(location: CodeLocation) -> None:
    land_at(location.workplace, datetime.now(UTC) + timedelta(seconds=5), 0)
    location.tick(FAILED)
    location.kill(range_tags(day(0), day(0)))
    location.tick(FAILED)

    assert touched(location.workplace)[day(0)].attempts == 0


def test_a_date_whose_builds_are_killed_four_times_is_parked_and_told_once(
    location: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    location.land(0)
    location.tick(FAILED)
    with open_receiver() as receiver:
        monkeypatch.setenv("EVAL_ALERT_WEBHOOK_URL", receiver.url)
        for _ in range(4):
            let_time_pass(location.workplace)
            location.kill(range_tags(day(0), day(0)))
            location.tick(FAILED)
            location.tick(FAILED)

    assert touched(location.workplace)[day(0)].parked
    (alert,) = receiver.texts
    assert alert.startswith("session_date 2025-02-06 is parked after 4 attempts\nrun ")
    assert "the process is gone" in alert


def test_a_killed_build_of_a_parked_date_is_told_to_nobody_again(
    location: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    location.land(0)
    fail(location.workplace, 0, times=4)
    location.tick(FAILED)
    with open_receiver() as receiver:
        monkeypatch.setenv("EVAL_ALERT_WEBHOOK_URL", receiver.url)
        location.kill(range_tags(day(0), day(0)))
        location.tick(FAILED)

    assert receiver.texts == []
    found = touched(location.workplace)[day(0)]
    assert (found.parked, found.attempts, found.last_error) == (True, 4, "torn")


def test_a_failed_build_without_a_range_is_left_alone(location: CodeLocation) -> None:
    location.land(0)
    location.tick(FAILED)
    location.kill({"dagster/partition": str(day(0))})
    location.tick(FAILED)

    assert touched(location.workplace)[day(0)].attempts == 0
