"""The sensor of queued dates: which range a tick requests, and when none."""

from datetime import UTC, date, datetime, timedelta

import pytest

from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines_tests.defs.code_location import (
    UNFINISHED,
    CodeLocation,
    day,
    land_at,
)
from evaluation_pipelines_tests.defs.date_failures import (
    fail_builds,
    let_time_pass,
    queued_dates,
)
from evaluation_pipelines_tests.workplace import open_workplace

SENSOR = "touched_dates_sensor"


def build_order(location: CodeLocation) -> list[tuple[date, date]]:
    """Return the ranges that ticks request, each marked as built before the next tick."""
    order: list[tuple[date, date]] = []
    while ranges := location.requested_ranges(SENSOR):
        order += ranges
        ((first, last),) = ranges
        for queued_date in queued_dates(location.workplace).values():
            if first <= queued_date.session_date <= last:
                RebuildQueue(location.workplace.ledger).mark_built(
                    queued_date.session_date, queued_date.version
                )
    return order


def test_profile_files_that_cannot_be_read_do_not_stop_builds(location: CodeLocation) -> None:
    folder = location.workplace.settings.profiles_dir
    folder.mkdir(parents=True)
    (folder / "x.yaml").symlink_to(folder / "nowhere")
    (folder / "y.yaml").write_text("id: [")
    location.land(0)

    assert location.requested_ranges(SENSOR) == [(day(0), day(0))]


def test_the_range_that_has_waited_longest_comes_first(
    location: CodeLocation,
) -> None:
    noon = datetime(2026, 6, 1, 12, tzinfo=UTC)
    land_at(location.workplace, noon, 7)
    land_at(location.workplace, noon + timedelta(minutes=1), 0, 2, 3)
    # 8 came last, but belongs to the range that has waited longest
    land_at(location.workplace, noon + timedelta(minutes=2), 8)

    assert build_order(location) == [(day(7), day(8)), (day(0), day(0)), (day(2), day(3))]


@pytest.mark.parametrize("reached", UNFINISHED)
def test_no_second_build_is_requested_while_one_is_unfinished(
    location: CodeLocation, reached: str
) -> None:
    location.land(0)
    run = location.start("build_daily_tables", reached=reached)
    assert location.requested_ranges(SENSOR) == []

    location.instance.delete_run(run.run_id)
    assert location.requested_ranges(SENSOR) == [(day(0), day(0))]


def test_an_unfinished_ingest_does_not_delay_a_build(location: CodeLocation) -> None:
    location.land(0)
    location.start("ingest_landing")

    assert location.requested_ranges(SENSOR) == [(day(0), day(0))]


def test_a_date_that_has_failed_is_built_alone_when_it_is_due(location: CodeLocation) -> None:
    location.land(0, 1, 2, 3)
    fail_builds(location.workplace, 1)
    let_time_pass(location.workplace)

    assert build_order(location) == [(day(0), day(0)), (day(1), day(1)), (day(2), day(3))]


def test_dates_outside_the_partitions_are_kept_and_named_and_never_requested(
    location: CodeLocation,
) -> None:
    """They landed before EVAL_START_DATE was changed to a later date."""
    early = -60  # 2024-12-08, before the first of January 2025
    folder = location.workplace.settings.data_dir
    with open_workplace(folder, start_date=date(2024, 1, 1)) as before:
        land_at(before, datetime.now(UTC), early)
    ticked = location.tick(SENSOR)
    assert ticked.run_requests == []
    assert ticked.skip_message == "not in the range of partitions: 2024-12-08"

    location.land(0)
    assert location.requested_ranges(SENSOR) == [(day(0), day(0))]
    assert location.run_requested(SENSOR).success
    assert not queued_dates(location.workplace)[day(early)].is_built
    assert location.workplace.landed()["session_date"].unique().sort().to_list() == [
        day(early),
        day(0),
    ]


def test_a_canceled_build_starts_again_after_ten_minutes_or_by_hand(
    location: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    location.land(0)
    location.instance.report_run_canceled(location.start("build_daily_tables"))
    ticked = location.tick(SENSOR)
    assert ticked.run_requests == []
    assert "canceled: the next one waits 10 minutes" in str(ticked.skip_message)

    assert location.build(0).success
    location.land(1)
    assert location.request_count(SENSOR) == 1
    location.instance.report_run_canceled(location.start("build_daily_tables"))
    assert location.request_count(SENSOR) == 0
    wait = "evaluation_pipelines.defs.runs.SECONDS_AFTER_CANCELLATION"
    monkeypatch.setattr(wait, 0)  # ten minutes have passed
    assert location.request_count(SENSOR) == 1
