"""Batch mode of the judge in Dagster: sent by a run, polled by a sensor, collected by a job."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from evaluation_pipelines.judging.ledger.batch_store import BatchStore
from evaluation_pipelines.judging.plans import load_plans
from evaluation_pipelines.judging.score_requests import request_score
from evaluation_pipelines.schemas import JUDGE_SCORES
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines_tests.defs.code_location import CodeLocation, day, range_tags
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judged import fill, fresh_session, old_session

POLL, FRESH = "judge_batches_sensor", "fresh_sessions_sensor"
TEN_MINUTES = timedelta(minutes=10)


@pytest.fixture
def in_batches(
    location: CodeLocation, judge: JudgeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> Iterator[time_machine.Traveller]:
    assert judge.requests == []
    monkeypatch.setenv("EVAL_JUDGE_MODE", "batch")
    fill(location.workplace, old_session("a"))
    with time_machine.travel(datetime.now(UTC), tick=True) as time:
        yield time


def test_a_batch_is_polled_collected_and_continued(
    location: CodeLocation, judge: JudgeEndpoint, in_batches: time_machine.Traveller
) -> None:
    assert location.request_count(POLL) == 0
    assert location.execute("judge_due", range_tags(day(0), day(0))).success
    assert len(judge.batches.batches) == 1
    judge.batches.finish()
    assert location.request_count(POLL) == 0  # it was sent a moment ago, and is not polled yet
    in_batches.shift(TEN_MINUTES)
    assert location.run_requested(POLL).success
    in_batches.shift(TEN_MINUTES)
    assert location.request_count(POLL) == 0  # polled: the second batch is in progress
    judge.batches.finish()
    in_batches.shift(TEN_MINUTES)
    collected = location.run_requested(POLL)
    assert collected.success
    lines = [log.user_message for log in location.instance.all_logs(collected.run_id)]
    assert any(line.startswith("collecting replies: 1 of 1") for line in lines)
    assert any(line.startswith("scoring.completed a#baseline-1: ") for line in lines)
    assert BatchStore(location.workplace.ledger).unfinished() == []
    assert location.workplace.lake.read(JUDGE_SCORES, [day(0)])["status"].to_list() == ["completed"]
    in_batches.shift(TEN_MINUTES)
    assert location.request_count(POLL) == 0


def test_a_collection_that_the_provider_refuses_fails_and_waits(
    location: CodeLocation, judge: JudgeEndpoint, in_batches: time_machine.Traveller
) -> None:
    location.execute("judge_due", range_tags(day(0), day(0)))
    judge.batches.fail("the token limit is reached")
    in_batches.shift(TEN_MINUTES)
    assert not location.run_requested(POLL).success
    assert location.request_count(POLL) == 0


@pytest.mark.usefixtures("in_batches")
def test_only_requests_of_people_are_judged_before_the_night(
    location: CodeLocation, judge: JudgeEndpoint
) -> None:
    fill(location.workplace, fresh_session("b"), fresh_session("c"))
    assert location.request_count(FRESH) == 0
    workplace, now = location.workplace, datetime.now(UTC)
    stores = Stores(load_settings(), workplace.landing, workplace.lake, workplace.ledger)
    request_score(stores, load_plans(stores, now), SessionName("b"), "ada", now, force=False)

    (request,) = location.tick(FRESH).run_requests or []
    assert request.job_name == "judge_session_now"
    assert location.execute(request.job_name, request.tags, request.run_config).success
    assert judge.turns() == ["score", "missing-tools"]
    assert judge.batches.batches == {}
    assert location.request_count(FRESH) == 0
