"""Sessions that are judged soon after their end, and those that were requested."""

import pytest

from evaluation_pipelines_tests.defs.code_location import (
    CodeLocation,
    day,
    failure_of,
    range_tags,
)
from evaluation_pipelines_tests.defs.judge_runs import FRESH, ask_and_leave, execute_request, scores
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judge_scripts import http_error
from evaluation_pipelines_tests.judged import fill, fresh_session, old_session


def test_an_endpoint_that_is_down_fails_the_run_and_leaves_the_rest_due(
    location: CodeLocation, judge: JudgeEndpoint
) -> None:
    fill(location.workplace, fresh_session("a"), fresh_session("b"))
    judge.always(http_error(401))

    (request,) = location.tick(FRESH).run_requests or []
    failed = execute_request(location, request)
    assert not failed.success
    assert "the judge stopped early, the rest stays due" in failure_of(failed)
    assert "the endpoint answered 401" in failure_of(failed)
    # The endpoint is not called again immediately.
    assert location.tick(FRESH).skip_message == (
        "the last judge run failed less than ten minutes ago"
    )


@pytest.mark.usefixtures("location", "judge")
def test_fresh_sessions_are_judged_a_few_at_a_time(
    location: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVAL_JUDGE_FRESH_SESSIONS", "2")
    fill(
        location.workplace,
        fresh_session("a"),
        fresh_session("b", 3),
        fresh_session("c", 4),
        old_session("old"),
    )
    fill(location.workplace, fresh_session("going on", 0))

    (request,) = location.tick(FRESH).run_requests or []
    assert execute_request(location, request).success
    # The oldest of the fresh sessions; the old session waits for the nightly run.
    assert {score.session_id for score in scores(location)} == {"b", "c"}
    assert {score.score_triggered_by for score in scores(location)} == {"sensor"}
    (request,) = location.tick(FRESH).run_requests or []
    assert execute_request(location, request).success
    assert {score.session_id for score in scores(location)} == {"a", "b", "c"}
    assert location.request_count(FRESH) == 0


def test_sessions_that_could_not_be_judged_are_not_requested_at_every_tick(
    location: CodeLocation, judge: JudgeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVAL_JUDGE_MAX_COST_PER_DAY_USD", "0.00001")
    fill(location.workplace, fresh_session("a"))

    (request,) = location.tick(FRESH).run_requests or []
    assert execute_request(location, request).success
    assert judge.requests == []
    ticked = location.tick(FRESH)
    assert ticked.run_requests == []
    assert "1 sessions wait that the last run did not judge" in (ticked.skip_message or "")
    fill(location.workplace, fresh_session("b"))
    assert location.request_count(FRESH) == 1


@pytest.mark.parametrize(
    ("job", "reached"), [("judge_due", "RUN_START"), ("nightly_evaluation", "RUN_ENQUEUED")]
)
@pytest.mark.usefixtures("location", "judge")
def test_no_second_judge_run_is_requested_while_one_is_unfinished(
    location: CodeLocation, reached: str, job: str
) -> None:
    fill(location.workplace, fresh_session("a"))
    location.start(job, range_tags(day(0), day(0)), reached)

    assert location.request_count(FRESH) == 0


@pytest.mark.usefixtures("location", "judge")
def test_without_a_limit_on_cost_only_requests_are_judged_automatically(
    location: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EVAL_JUDGE_MAX_COST_PER_DAY_USD")
    fill(location.workplace, fresh_session("a"), fresh_session("b"))

    assert location.tick(FRESH).skip_message == (
        "automatic judging is off because its cost has no limit: set "
        "EVAL_JUDGE_MAX_COST_PER_DAY_USD to switch it on"
    )
    ask_and_leave(location, "a")
    (request,) = location.tick(FRESH).run_requests or []
    execute_request(location, request)
    assert [(score.session_id, score.status) for score in scores(location)] == [("a", "completed")]


@pytest.mark.usefixtures("location", "judge")
def test_an_open_request_is_served_however_old_its_session(location: CodeLocation) -> None:
    fill(location.workplace, old_session("a"))
    assert location.request_count(FRESH) == 0
    ask_and_leave(location, "a")

    (request,) = location.tick(FRESH).run_requests or []
    assert execute_request(location, request).success
    assert [score.status for score in scores(location)] == ["completed"]
