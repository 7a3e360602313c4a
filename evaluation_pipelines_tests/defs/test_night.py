"""The nightly run: it judges what is due, and builds everything that depends on it once."""

from datetime import UTC, datetime, timedelta

import dagster as dg
import polars as pl
import pytest
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
)

from evaluation_pipelines.defs.night import ASSETS
from evaluation_pipelines.schemas import MODEL_COMPARISON, REPUTATION_SCORES, SESSION_EVALUATIONS
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines_tests.defs.code_location import (
    FIRST_DAY,
    CodeLocation,
    day,
    range_tags,
    repository,
)
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judge_scripts import http_error
from evaluation_pipelines_tests.judged import fill, fresh_session, old_session
from evaluation_pipelines_tests.receiver import Receiver
from evaluation_pipelines_tests.world.lake_files import root_of

NIGHT = "nightly_evaluation"
JUDGED = ("judge_scores", "scorecards", "session_evaluations")


def dates(request: dg.RunRequest | str) -> tuple[str, str]:
    """Return the first and last date of the run that the schedule requests."""
    assert isinstance(request, dg.RunRequest), request
    tags = request.tags
    return tags[ASSET_PARTITION_RANGE_START_TAG], tags[ASSET_PARTITION_RANGE_END_TAG]


def judged(location: CodeLocation) -> dict[str, bool]:
    """Return for each session whether its evaluation has a total of the judge."""
    lake = location.workplace.lake
    rows = lake.select(SESSION_EVALUATIONS, pl.lit(value=True)).rows(named=True)
    return {row["session_id"]: row["judge_total"] is not None for row in rows}


def days_ago(days: int) -> str:
    return str(datetime.now(UTC).date() - timedelta(days=days))


@pytest.mark.slow
@pytest.mark.usefixtures("location", "judge")
def test_one_run_builds_everything_once_and_the_next_one_catches_up(
    settled_location: CodeLocation,
) -> None:
    location, number = settled_location, (datetime.now(UTC).date() - FIRST_DAY).days
    location.run_ingest(old_session("a", number - 4) + old_session("b", number - 3))
    assert location.run_requested("touched_dates_sensor").success
    assert judged(location) == {"a": False, "b": False}
    for sensor in ("aggregates_sensor", "reputation_sensor"):
        location.requested_counts(sensor)

    night = location.run_night()
    assert night.success
    made = {event.asset_key for event in night.get_asset_materialization_events()}
    assert {dg.AssetKey(asset) for asset in ASSETS} <= made
    assert judged(location) == {"a": True, "b": True}
    lake = location.workplace.lake
    assert lake.read_whole(REPUTATION_SCORES).height == 1
    assert lake.read_whole(MODEL_COMPARISON)["runs"].sum() == 2
    # Nothing is built again: neither the dates nor the aggregates.
    assert all(row.is_built for row in RebuildQueue(location.workplace.ledger).all())
    for sensor in ("aggregates_sensor", "reputation_sensor"):
        assert location.requested_counts(sensor) == {}

    # After missed nights one run goes back to the end of the last one.
    location.run_ingest(old_session("c", number - 2) + old_session("d", number - 1))
    assert location.run_requested("touched_dates_sensor").success
    assert dates(location.nightly_request()) == (days_ago(3), days_ago(1))
    assert location.run_night(*JUDGED).success
    assert judged(location) == dict.fromkeys("abcd", True)
    assert dates(location.nightly_request()) == (days_ago(1), days_ago(1))


def test_a_judge_that_is_down_raises_an_alert_and_stops_nothing_else(
    settled_location: CodeLocation, judge: JudgeEndpoint, receiver: Receiver
) -> None:
    location = settled_location
    fill(location.workplace, old_session("a"))
    judge.always(http_error(401))

    assert location.run_night(*JUDGED, "model_comparison_report").success
    (text,) = receiver.texts
    assert "Judge endpoint not responding" in text
    assert "the endpoint answered 401" in text
    # Still due: the next nightly run begins there.
    assert dates(location.nightly_request())[0] == str(day(0))


@pytest.mark.usefixtures("location", "judge")
def test_a_date_that_cannot_be_built_does_not_affect_the_others(
    settled_location: CodeLocation,
) -> None:
    location = settled_location
    fill(location.workplace, old_session("a", 0), old_session("b", 1))
    lake = location.workplace.lake
    for part in Manifest(location.workplace.ledger).current("agent_events_landed", day(0)):
        (root_of(lake) / part.path).write_bytes(b"torn")

    assert location.run_night(*JUDGED, "model_comparison_report").success
    assert location.materialized("session_evaluations") == [day(1)]
    assert not location.check("session_evaluations", "every_date_was_built").passed
    damaged, built = RebuildQueue(location.workplace.ledger).all()
    assert (damaged.attempts, built.is_built) == (1, True)


def test_the_dates_of_a_nightly_run_that_died_are_built_later(
    settled_location: CodeLocation, judge: JudgeEndpoint
) -> None:
    location = settled_location
    fill(location.workplace, old_session("a"))
    # It dies after the judge and before the cards: its dates are held for an hour.
    assert location.run_night("judge_scores").success
    assert judge.requests
    assert location.request_count("touched_dates_sensor") == 0
    ledger = location.workplace.ledger
    later = datetime.now(UTC) + timedelta(minutes=61)
    assert [date.session_date for date in RebuildQueue(ledger).pending(later)] == [day(0)]
    # The retry by Dagster builds them.
    assert location.run_night("scorecards", "session_evaluations").success
    assert judged(location) == {"a": True}


@pytest.mark.usefixtures("location", "judge")
def test_the_nightly_run_goes_back_to_the_oldest_session_that_is_due(
    settled_location: CodeLocation,
) -> None:
    location = settled_location
    assert location.nightly_request() == "there are no sessions yet"
    fill(location.workplace, old_session("a", 3), fresh_session("b"))
    done = location.instance.create_run_for_job(
        repository().get_job(NIGHT), tags=range_tags(day(200), day(201))
    )
    location.instance.report_dagster_event(
        dg.DagsterEvent(dg.DagsterEventType.RUN_SUCCESS.value, NIGHT), done.run_id
    )
    assert dates(location.nightly_request())[0] == str(day(3))
    location.start(NIGHT, range_tags(day(3), day(3)))
    assert location.nightly_request() == (
        "the last nightly run is still running: it does the same work"
    )
