"""The sensor of failed builds: a build whose process died is a failed attempt of its dates."""

from datetime import UTC, datetime, timedelta

import pytest

from evaluation_pipelines_tests.defs.code_location import (
    CodeLocation,
    day,
    land_at,
    range_tags,
)
from evaluation_pipelines_tests.defs.date_failures import (
    break_landed,
    fail_builds,
    queued_dates,
)

REBUILDS = "touched_dates_sensor"
FAILED = "failed_build_sensor"


def test_a_killed_build_is_one_failed_attempt_of_its_dates(location: CodeLocation) -> None:
    location.land(0, 1, 2, 3)
    location.tick(FAILED)
    location.build(0)
    location.kill(range_tags(day(0), day(2)))
    location.tick(FAILED)

    found = queued_dates(location.workplace)
    assert [found[day(n)].attempts for n in range(4)] == [0, 1, 1, 0]
    assert found[day(0)].is_built  # before it died
    reason = found[day(1)].last_error or ""
    assert reason.startswith("run ")
    assert reason.endswith("the process is gone")
    assert location.requested_ranges(REBUILDS) == [(day(3), day(3))]  # the others wait for a minute


def test_a_killed_build_is_recorded_once_however_often_the_sensor_ticks(
    location: CodeLocation,
) -> None:
    location.land(0)
    location.tick(FAILED)
    location.kill(range_tags(day(0), day(0)))
    for _ in range(3):
        location.tick(FAILED)
    assert queued_dates(location.workplace)[day(0)].attempts == 1

    location.cursors[FAILED] = None  # the first tick after a reset only sets the cursor
    location.tick(FAILED)
    assert queued_dates(location.workplace)[day(0)].attempts == 1


def test_a_build_that_never_started_is_recorded_too(location: CodeLocation) -> None:
    location.land(0)
    location.tick(FAILED)
    location.kill(range_tags(day(0), day(0)), reached="")
    location.tick(FAILED)

    assert queued_dates(location.workplace)[day(0)].attempts == 1


def test_a_failure_recorded_by_the_build_is_not_counted_twice(
    location: CodeLocation,
) -> None:
    location.land(0, 1)
    break_landed(location.workplace, 1)
    location.tick(FAILED)
    assert not location.run_requested(REBUILDS).success
    reason = queued_dates(location.workplace)[day(1)].last_error or ""
    location.tick(FAILED)

    assert queued_dates(location.workplace)[day(1)].attempts == 1
    assert queued_dates(location.workplace)[day(1)].last_error == reason
    assert reason.startswith("DamagedPartError: ")


def test_a_build_that_could_not_start_is_recorded(
    location: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    location.land(0)
    location.tick(FAILED)
    (request,) = location.tick(REBUILDS).run_requests or []
    with monkeypatch.context() as broken:
        broken.setenv("EVAL_BATCH_BYTES", "no number")
        assert not location.execute("build_daily_tables", request.tags).success
    location.tick(FAILED)

    assert queued_dates(location.workplace)[day(0)].attempts == 1


def test_new_data_after_the_start_of_a_build_resets_the_attempts(location: CodeLocation) -> None:
    land_at(location.workplace, datetime.now(UTC) + timedelta(seconds=5), 0)
    location.tick(FAILED)
    location.kill(range_tags(day(0), day(0)))
    location.tick(FAILED)

    assert queued_dates(location.workplace)[day(0)].attempts == 0


def test_a_killed_build_of_a_parked_date_changes_nothing(location: CodeLocation) -> None:
    location.land(0)
    fail_builds(location.workplace, 0, times=4)
    location.tick(FAILED)
    location.kill(range_tags(day(0), day(0)))
    location.tick(FAILED)

    found = queued_dates(location.workplace)[day(0)]
    assert (found.parked, found.attempts, found.last_error) == (True, 4, "torn")


def test_a_failed_build_without_a_range_is_ignored(location: CodeLocation) -> None:
    location.land(0)
    location.tick(FAILED)
    location.kill({"dagster/partition": str(day(0))})
    location.tick(FAILED)

    assert queued_dates(location.workplace)[day(0)].attempts == 0
