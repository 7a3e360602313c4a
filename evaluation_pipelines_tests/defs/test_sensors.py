"""All sensors, one after the other: from a line that landed to its score."""

import dagster as dg
import pytest

from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED, MASQUE_LIFT
from evaluation_pipelines_tests.defs.code_location import (
    AGGREGATES,
    DAILY_TABLES,
    CodeLocation,
    day,
    session_line,
)
from evaluation_pipelines_tests.defs.misfortunes import (
    break_landed,
    let_time_pass,
    mend_landed,
    touched,
)

LANDING = "otel_landing_sensor"
TOUCHED = "touched_dates_sensor"
FAILED = "failed_build_sensor"


def test_landing_moves_on_to_scores_by_the_sensors_alone(location: CodeLocation) -> None:
    location.workplace.land("logs.jsonl", session_line(0) + session_line(1))
    assert location.follow(LANDING).success
    assert location.materialized(AGENT_EVENTS_LANDED.name) == [day(0), day(1)]
    assert location.workplace.performance().height == 0

    assert location.follow(TOUCHED).success
    assert location.workplace.performance()["session_id"].to_list() == ["s-0", "s-1"]
    assert [location.asks(each) for each in (LANDING, TOUCHED, FAILED)] == [0, 0, 0]


def test_one_broken_date_of_three_is_retried_alone_parked_and_revived(
    location: CodeLocation,
) -> None:
    location.workplace.land("logs.jsonl", b"".join(map(session_line, range(3))))
    assert location.follow(LANDING).success
    sound = break_landed(location.workplace, 1)
    assert location.requested(TOUCHED) == [(day(0), day(2))]
    assert not location.follow(TOUCHED).success
    assert location.workplace.performance()["session_id"].to_list() == ["s-0", "s-2"]

    for _ in range(3):
        assert location.requested(TOUCHED) == []
        let_time_pass(location.workplace)
        assert location.requested(TOUCHED) == [(day(1), day(1))]
        assert not location.follow(TOUCHED).success
    let_time_pass(location.workplace)
    assert location.requested(TOUCHED) == []
    assert touched(location.workplace)[day(1)].parked

    mend_landed(location.workplace, 1, sound)
    assert location.materialize(1, *DAILY_TABLES).success
    assert location.workplace.performance()["session_id"].to_list() == ["s-0", "s-1", "s-2"]
    assert location.requested(TOUCHED) == []


def test_a_session_that_goes_on_three_days_later_updates_its_first_date_and_only_that(
    location: CodeLocation,
) -> None:
    location.workplace.land("logs.jsonl", b"".join(map(session_line, range(3))))
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
    assert location.workplace.performance().height == 3


def test_aggregates_are_asked_for_once_after_a_build_and_published_together(
    location: CodeLocation,
) -> None:
    assert location.aggregates_asked_for() == set()
    location.run_ingest(session_line(0))
    location.build(0)
    assert location.aggregates_asked_for() == {*AGGREGATES}

    location.execute_aggregates()
    record = location.instance.get_latest_materialization_event(dg.AssetKey("analytics_database"))
    assert record is not None
    assert record.asset_materialization is not None
    assert record.asset_materialization.metadata["rows of agent_sessions"].value == 1
    assert location.workplace.lake.partition(MASQUE_LIFT, None).exists()
    assert location.aggregates_asked_for() == set()


def test_a_build_between_the_request_for_the_database_and_its_run_asks_for_it_again(
    location: CodeLocation,
) -> None:
    location.run_ingest(session_line(0) + session_line(1))
    location.aggregates_asked_for()
    location.build(0)
    assert location.aggregates_asked_for() == {*AGGREGATES}

    # Both within one tick: whether the database holds the second date, nobody can tell.
    location.build(1)
    location.execute_aggregates()
    assert location.aggregates_asked_for() == {*AGGREGATES}

    location.execute_aggregates()
    assert location.aggregates_asked_for() == set()


@pytest.mark.slow
def test_dates_built_while_the_database_is_published_ask_for_it_again_when_that_is_done(
    location: CodeLocation,
) -> None:
    location.run_ingest(session_line(0) + session_line(1))
    location.aggregates_asked_for()
    location.build(0)
    assert location.aggregates_asked_for() == {*AGGREGATES}

    publication = location.begin_aggregates()
    assert location.aggregates_asked_for() == set()
    location.build(1)
    assert location.aggregates_asked_for() == set()
    publication()
    assert location.aggregates_asked_for() == {*AGGREGATES}

    location.execute_aggregates()
    assert location.aggregates_asked_for() == set()
    assert location.aggregates_asked_for() == set()
