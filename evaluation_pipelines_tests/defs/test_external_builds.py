"""The sensor that reports dates built in a terminal: each once, as a run would report it."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import dagster as dg
import pytest

from evaluation_pipelines.build import Build
from evaluation_pipelines.build import daily_tables as build_tables
from evaluation_pipelines.defs import external_builds
from evaluation_pipelines.defs.automation import parts_version
from evaluation_pipelines.defs.metadata import WAS_BUILT
from evaluation_pipelines.erasure.expire import Expire
from evaluation_pipelines.judging import score_table
from evaluation_pipelines.schemas import (
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    JUDGE_SCORES,
    SESSION_EVALUATIONS,
)
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.ledger.rebuild_queue import expired_dates
from evaluation_pipelines.storage.stores import open_stores
from evaluation_pipelines_tests.defs.code_location import (
    DAILY_TABLES,
    CodeLocation,
    check_texts,
    day,
    range_tags,
    session_line,
)
from evaluation_pipelines_tests.judged import session_with_texts

SENSOR = "terminal_builds_sensor"
FOLLOWED = SESSION_EVALUATIONS.name
"""Runs of each date follow this table: days without sessions are reported in it alone."""
ALL = (AGENT_EVENTS_LANDED.name, *(table for table in DAILY_TABLES if table != FOLLOWED))


@pytest.fixture(autouse=True)
def one_checked_date(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tick makes all tables of the dates that it checks again: here of one, for time."""
    monkeypatch.setattr(external_builds, "_CHECKED_DATES", 1)


def build_in_a_terminal(location: CodeLocation, *numbers: int) -> None:
    location.workplace.land("logs.jsonl", b"".join(map(session_line, numbers)), "ab")
    location.workplace.ingest()
    location.workplace.build()


def known(location: CodeLocation) -> list[date]:
    """Return the dates that the instance knows, which are the same for each asset."""
    (dates,) = {tuple(location.materialized(asset)) for asset in ALL}
    assert {*dates} <= {*location.materialized(FOLLOWED)}
    return list(dates)


def reports(location: CodeLocation, asset: str) -> int:
    return len(location.instance.fetch_materializations(dg.AssetKey(asset), limit=100).records)


def test_dates_built_in_a_terminal_are_reported_once_as_a_run_would_report_them(
    location: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_builds, "_CHECKED_DATES", 2)
    build_in_a_terminal(location, 0, 2)
    lake = location.workplace.lake  # a date without a partition does not stop the others
    lake.write(lake.read(AGENT_SESSIONS, [day(0)]), AGENT_SESSIONS, date(2031, 1, 1))
    assert known(location) == []

    location.tick(SENSOR)
    assert known(location) == [day(0), day(2)]
    assert location.stale(day(0)) == set()
    the_checks_cover_two_dates(location)
    monkeypatch.setattr(external_builds, "_MAX_CHECKED_EVENTS", 1)
    build_in_a_terminal(location, 3)
    location.tick(SENSOR)
    assert known(location) == [day(0), day(2), day(3)]
    assert check_texts(location.check("agent_events", WAS_BUILT))["dates_checked"] == 2
    location.tick(SENSOR)
    assert [reports(location, asset) for asset in ALL] == [3] * len(ALL)

    reported = location.metadata("session_performance", 0)
    location.build(0)
    built = location.metadata("session_performance", 0)
    # Counts that are known only during a build are missing; the rest is the same.
    assert Path(str(reported.pop("path"))).parent == Path(str(built.pop("path"))).parent
    assert reported.items() <= built.items()
    assert {"dagster/partition_row_count", "composites", "preview"} <= reported.keys()


def the_checks_cover_two_dates(location: CodeLocation) -> None:
    for daily in build_tables.DAILY_TABLES:
        if daily.table.name in DAILY_TABLES:
            for name in (WAS_BUILT, *daily.check_descriptions()):
                evaluation = location.check(daily.table.name, name)
                assert evaluation.passed, name
                assert check_texts(evaluation)["dates_checked"] == 2
    for name in (WAS_BUILT, *(check.__name__ for check in score_table.CHECKS)):
        evaluation = location.check(JUDGE_SCORES.name, name)
        assert evaluation.passed
        assert check_texts(evaluation)["dates_checked"] == 2
        assert evaluation.severity is dg.AssetCheckSeverity.ERROR
    assert location.check("agent_events_landed", "no_date_is_parked").passed


def test_days_without_sessions_leave_one_range_of_dates_to_what_follows(
    location: CodeLocation,
) -> None:
    for sensor in ("books_sensor", "reputation_sensor"):
        location.requested_partitions(sensor, None)
    build_in_a_terminal(location, 0, 2)
    location.tick(SENSOR)
    assert known(location) == [day(0), day(2)]
    assert location.materialized(FOLLOWED) == [day(0), day(1), day(2)]
    assert location.metadata(FOLLOWED, 1)["dagster/partition_row_count"] == 0
    assert location.stale(day(1)) == set()
    days = [str(day(number)) for number in range(3)]
    assert location.requested_partitions("books_sensor", None)["evaluation_books"] == days
    assert location.requested_partitions("reputation_sensor", None)["reputation_events"] == days

    location.workplace.land("late.jsonl", session_line(1), "ab")
    location.workplace.ingest()
    location.build(1)
    assert location.metadata("session_performance", 1)["dagster/partition_row_count"] == 1
    # Days after the last date are not told from telemetry that stopped.
    location.tick(SENSOR)
    assert known(location) == [day(0), day(1), day(2)]


def test_checks_that_a_tick_did_not_reach_are_evaluated_by_the_next(
    location: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_in_a_terminal(location, 0)
    with monkeypatch.context() as busy:
        busy.setattr(external_builds, "_MAX_CHECK_SECONDS", -1.0)
        location.tick(SENSOR)
    assert known(location) == [day(0)]
    location.tick(SENSOR)
    evaluation = location.check("session_performance", WAS_BUILT)
    assert check_texts(evaluation)["dates_checked"] == 1
    location.tick(SENSOR)
    assert location.check("session_performance", WAS_BUILT) == evaluation


def test_the_first_dates_request_what_only_nights_evaluate(location: CodeLocation) -> None:
    assert not location.tick(SENSOR).run_requests
    build_in_a_terminal(location, 0)
    for _ in range(2):  # a second one with the same key starts no run
        (request,) = location.tick(SENSOR).run_requests or []
        assert request.run_key == "first look"
    # Retention of a night, before there were sessions, is not all of it.
    location.instance.report_runless_asset_event(dg.AssetMaterialization("retention"))
    assert location.tick(SENSOR).run_requests
    for asset, name in (
        ("session_performance", "scores_match_sessions"),
        ("scorecards", "profiles_are_calibrated"),
    ):
        evaluated = dg.AssetCheckEvaluation(dg.AssetKey(asset), name, passed=True, metadata={})
        location.instance.report_runless_asset_event(evaluated)
    assert not location.tick(SENSOR).run_requests


def test_dates_that_a_run_may_be_writing_wait_and_others_are_reported(
    location: CodeLocation,
) -> None:
    build_in_a_terminal(location, 0, 2, 4)
    ingest = location.start("ingest_landing")  # it may be writing any date
    location.tick(SENSOR)
    assert known(location) == []
    location.instance.delete_run(ingest.run_id)

    over_dates = location.start("build_daily_tables", range_tags(day(1), day(2)))
    of_one = location.start("build_daily_tables", {"dagster/partition": str(day(4))}, "")
    location.start("nightly_evaluation")
    assert not location.tick(SENSOR).run_requests
    assert known(location) == [day(0)]
    assert location.materialized(FOLLOWED) == [day(0), day(3)]

    for run in (over_dates, of_one):
        location.instance.delete_run(run.run_id)
    assert location.tick(SENSOR).run_requests
    assert known(location) == [day(0), day(2), day(4)]
    assert location.materialized(FOLLOWED) == [day(number) for number in range(5)]


def versions(location: CodeLocation, asset: str, number: int) -> tuple[str, str, int]:
    """Return code version, data version and number of rows of the newest event about a day."""
    which = dg.AssetRecordsFilter(dg.AssetKey(asset), asset_partitions=[str(day(number))])
    (record,) = location.instance.fetch_materializations(which, limit=1).records
    made = record.asset_materialization
    assert made is not None
    assert made.tags is not None
    rows = made.metadata["dagster/partition_row_count"].value
    assert isinstance(rows, int)
    return made.tags["dagster/code_version"], made.tags["dagster/data_version"], rows


def test_dates_that_a_terminal_built_again_are_reported_with_their_new_content(
    settled_location: CodeLocation,
) -> None:
    location = settled_location
    location.run_ingest(session_line(0) + session_line(1))
    location.build(0, 1)
    by_runs = [reports(location, asset) for asset in ALL]
    location.tick(SENSOR)
    assert [reports(location, asset) for asset in ALL] == by_runs
    before = versions(location, "agent_sessions", 0)
    assert before[2] == 1
    more = session_line(0, "another")
    location.workplace.land("more.jsonl", more)
    location.workplace.ingest()
    location.workplace.build()
    location.tick(SENSOR)
    after = versions(location, "agent_sessions", 0)
    assert (after[0], after[2]) == (before[0], 2)
    assert after[1] != before[1]
    assert location.metadata(AGENT_EVENTS_LANDED.name, 0)["dagster/partition_row_count"] == 8
    assert location.stale(day(0)) == set()
    assert reports(location, "agent_sessions") == 3  # the other day stays as it was
    location.tick(SENSOR)
    assert reports(location, "agent_sessions") == 3


def test_a_date_that_newer_code_built_again_is_reported_although_its_rows_are_the_same(
    settled_location: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    location, name = settled_location, "agent_sessions"
    older = [
        replace(table, code_version="0") if table.table.name == name else table
        for table in build_tables.DAILY_TABLES
    ]
    with monkeypatch.context() as before:
        before.setattr(external_builds, "DAILY_TABLES", older)
        build_in_a_terminal(location, 0)
        location.tick(SENSOR)
    location.tick(SENSOR)
    assert versions(location, name, 0)[0] == "0"  # by older code, which the interface shows
    rows = versions(location, name, 0)[1:]
    Build(location.workplace.stores).run([day(0)])
    location.tick(SENSOR)
    code = next(
        table.code_version for table in build_tables.DAILY_TABLES if table.table.name == name
    )
    assert versions(location, name, 0) == (code, *rows)


def test_events_of_before_are_compared_by_content(settled_location: CodeLocation) -> None:
    """Events of earlier versions have no tag of their parts."""
    location, name = settled_location, "agent_sessions"
    build_in_a_terminal(location, 0)
    version = parts_version(location.workplace.lake.parts(AGENT_SESSIONS, [day(0)]))
    for told, number in ((version, 1), ("another", 3)):
        location.instance.report_runless_asset_event(
            dg.AssetMaterialization(
                name, partition=str(day(0)), tags={"dagster/data_version": told}
            )
        )
        location.cursors.clear()
        location.tick(SENSOR)
        assert reports(location, name) == number


def test_what_expired_is_not_reported_again(
    location: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVAL_KEEP_TEXTS_DAYS", "30")
    location.workplace.land("texts.jsonl", session_with_texts("t", -480 * 86_400, "a phrase"))
    location.workplace.ingest()
    location.workplace.build()
    location.tick(SENSOR)
    before = [reports(location, asset) for asset in ALL]
    newest = location.workplace.lake.version()[2]
    with open_stores(load_settings()) as stores:
        Expire(stores).run()
    assert day(0) in expired_dates(location.workplace.ledger)
    assert location.workplace.lake.version()[2] > newest  # parts were rewritten
    location.tick(SENSOR)
    assert [reports(location, asset) for asset in ALL] == before


def test_the_newest_of_many_dates_are_reported_first(
    location: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_builds, "_MAX_SECONDS", 0.0)
    monkeypatch.setattr(external_builds, "_DATES_TOGETHER", 1)
    build_in_a_terminal(location, 0, 1, 2)
    location.tick(SENSOR)
    assert location.materialized("agent_sessions") == [day(2)]

    location.tick(SENSOR)
    location.tick(SENSOR)
    assert location.materialized("agent_sessions") == [day(0), day(1), day(2)]
