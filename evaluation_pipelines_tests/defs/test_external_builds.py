"""The sensor that tells of dates built in a terminal: each once, as a run would have told it."""

from datetime import date

import dagster as dg
import pytest

from evaluation_pipelines.defs import external_builds
from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED, AGENT_SESSIONS
from evaluation_pipelines_tests.defs.code_location import (
    AGGREGATES,
    DAILY_TABLES,
    UNFINISHED,
    CodeLocation,
    day,
    session_line,
)

SENSOR = "terminal_builds_sensor"
ALL = (AGENT_EVENTS_LANDED.name, *DAILY_TABLES)


def build_in_a_terminal(location: CodeLocation, *numbers: int) -> None:
    location.workplace.land("logs.jsonl", b"".join(map(session_line, numbers)), "ab")
    location.workplace.ingest()
    location.workplace.build()


def known(location: CodeLocation) -> list[date]:
    """Dates that the instance knows, of each asset the same."""
    (dates,) = {tuple(location.materialized(asset)) for asset in ALL}
    return list(dates)


def reports(location: CodeLocation, asset: str) -> int:
    """How often an asset was reported."""
    return len(location.instance.fetch_materializations(dg.AssetKey(asset), limit=100).records)


def test_an_empty_lake_is_nothing_to_tell_of(location: CodeLocation) -> None:
    location.tick(SENSOR)

    assert known(location) == []


def test_dates_built_in_a_terminal_are_told_of_once(location: CodeLocation) -> None:
    build_in_a_terminal(location, 0, 2)
    assert known(location) == []

    location.tick(SENSOR)
    assert known(location) == [day(0), day(2)]
    location.tick(SENSOR)
    assert [reports(location, asset) for asset in ALL] == [2] * len(ALL)


def test_what_is_told_says_what_a_run_says_and_nothing_is_stale(location: CodeLocation) -> None:
    build_in_a_terminal(location, 0)
    location.tick(SENSOR)
    told = location.metadata("session_performance", 0)
    assert location.stale(day(0)) == set()

    location.build(0)
    made = location.metadata("session_performance", 0)
    # The facts that only the making of it knows are missing; the rest is the same.
    assert told.items() <= made.items()
    assert {"dagster/partition_row_count", "composites", "preview", "path"} <= told.keys()


def test_dates_that_runs_have_made_are_not_told_of_again(location: CodeLocation) -> None:
    location.run_ingest(session_line(0))
    location.build(0)
    before = [reports(location, asset) for asset in ALL]
    location.tick(SENSOR)

    assert [reports(location, asset) for asset in ALL] == before


@pytest.mark.parametrize("reached", UNFINISHED)
def test_nothing_is_told_of_while_a_run_may_be_writing(
    location: CodeLocation, reached: str
) -> None:
    build_in_a_terminal(location, 0)
    run = location.start("build_daily_tables", reached=reached)
    location.tick(SENSOR)
    assert known(location) == []

    location.instance.delete_run(run.run_id)
    location.tick(SENSOR)
    assert known(location) == [day(0)]


def test_of_many_dates_the_newest_are_told_of_first(
    location: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_builds, "_DATES_AT_ONCE", 2)
    build_in_a_terminal(location, 0, 1, 2)
    location.tick(SENSOR)
    assert location.materialized("agent_sessions") == [day(1), day(2)]

    location.tick(SENSOR)
    assert location.materialized("agent_sessions") == [day(0), day(1), day(2)]


def test_a_date_that_is_no_partition_keeps_no_other_from_being_told_of(
    location: CodeLocation,
) -> None:
    build_in_a_terminal(location, 0)
    lake = location.workplace.lake
    sessions = lake.partition(AGENT_SESSIONS, day(0))
    odd = lake.partition(AGENT_SESSIONS, date(2031, 1, 1))
    odd.parent.mkdir()
    odd.write_bytes(sessions.read_bytes())
    location.tick(SENSOR)

    assert known(location) == [day(0)]


def test_the_analysts_database_is_published_after_a_build_in_a_terminal(
    location: CodeLocation,
) -> None:
    assert location.aggregates_asked_for() == set()
    build_in_a_terminal(location, 0)
    location.tick(SENSOR)

    assert location.aggregates_asked_for() == {*AGGREGATES}
