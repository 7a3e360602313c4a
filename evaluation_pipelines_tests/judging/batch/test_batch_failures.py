"""Failed requests and refused batches: what came counts, and the endpoint's faults are its own."""

from datetime import timedelta

import pytest

from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judge_scripts import (
    Scripted,
    choices_null,
    cut_by_length,
    garbage,
    html,
    http_error,
    says,
)
from evaluation_pipelines_tests.judging.batch.batched import Batched


@pytest.mark.parametrize(
    "status",
    [
        "expired",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("cancelled", "completed")),
    ],
)
def test_what_a_partly_answered_batch_has_counts_and_the_rest_is_due(
    batched: Batched, judge: JudgeEndpoint, status: str
) -> None:
    batched.land("s1", "s2", "s3")
    batched.advance()
    report = batched.finish(status, answered=1)
    assert (report.collected, report.submitted) == (1, 3)  # one second turn, two first turns again
    assert [each["custom_id"].partition(":")[2] for each in judge.batches.requests()[3:]] == [
        *("missing-tools", "score-1", "score-1")
    ] or len(judge.batches.requests()) == 6
    assert {each.attempt for each in batched.all_scores()} == {1}
    batched.finish()
    assert len(batched.finish().totals) >= 1
    assert {each.status for each in batched.all_scores()} == {"completed"}


def test_a_batch_that_is_refused_as_a_whole_leaves_its_sessions_due(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    batched.land("s1", "s2")
    batched.advance()
    judge.batches.fail("the billing limit is reached")
    report = batched.advance()
    assert report.is_endpoint_down
    assert "billing limit" in report.summary()
    assert report.submitted == 0  # not sent again by the run that has seen it fail
    assert [(each.is_open, each.attempt) for each in batched.all_scores()] == [(True, 1)] * 2
    assert batched.advance().submitted == 2


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (http_error(401, "wrong key"), "401"),
        (http_error(400, "no such feature"), "no such feature"),
    ],
)
def test_what_the_endpoint_refuses_for_all_is_not_blamed_on_sessions(
    batched: Batched, judge: JudgeEndpoint, answer: Scripted, reason: str
) -> None:
    batched.land("s1", "s2")
    batched.advance()
    judge.always(answer)
    report = batched.finish()
    assert report.is_endpoint_down
    assert reason in report.summary()
    assert [(each.is_open, each.attempt) for each in batched.all_scores()] == [(True, 1)] * 2


def test_a_refused_field_is_not_blamed_on_the_only_session(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    batched.land("s1")
    batched.advance()
    judge.always(http_error(400, "temperature does not support 0.0"))
    assert "temperature does not support" in batched.finish().summary()
    assert [(each.is_open, each.attempt) for each in batched.all_scores()] == [(True, 1)]


def test_a_refused_form_is_not_sent_again(batched: Batched, judge: JudgeEndpoint) -> None:
    batched.land("s1")
    batched.advance()
    fields = [set(judge.batches.requests()[-1]["body"])]
    for refusal in ("temperature does not support 0.0", "Use max_tokens", "no system role"):
        judge.always(http_error(400, refusal))
        assert refusal in batched.finish().summary()
        assert batched.advance().submitted == 1
        fields.append(set(judge.batches.requests()[-1]["body"]))
    always = {"model", "messages"}
    assert fields == [
        always | {"max_completion_tokens", "temperature"},
        always | {"max_completion_tokens"},
        always | {"max_tokens"},
        always | {"max_tokens"},
    ]
    assert judge.batches.requests()[-1]["body"]["messages"][0]["role"] == "user"
    assert [(each.is_open, each.attempt) for each in batched.all_scores()] == [(True, 1)]
    batched.now += timedelta(days=31)
    assert "no system role" in batched.finish().summary()
    batched.advance()
    assert set(judge.batches.requests()[-1]["body"]) == fields[0]


def test_one_rejection_that_names_a_field_fails_its_session_if_others_are_answered(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    batched.land("s1", "s2")
    batched.advance()
    judge.script_turn("score", http_error(400, "more than max_tokens allows"))
    report = batched.finish()
    assert not report.is_endpoint_down
    assert sorted(each.status for each in batched.all_scores()) == ["failed", "in_progress"]
    assert report.submitted == 1  # the next turn of the other one


def test_a_request_that_failed_at_the_provider_is_due_again_later(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    batched.land("s1", "s2", "s3", "s4")
    batched.advance()
    judge.script_turn("score", http_error(500, "oops"), garbage())
    batched.finish()
    failed = [each for each in batched.all_scores() if each.status == "failed"]
    assert [each.retriable for each in failed] == [True, True]
    batched.now += timedelta(hours=21)
    judge.batches.finish()
    batched.advance()
    assert len(batched.all_scores()) == 6


@pytest.mark.parametrize(
    "answers",
    [
        [http_error(500, "oops"), http_error(503, "busy"), http_error(429, "slow")],
        [http_error(400, f"no credit (request req_{n}a)") for n in range(3)],
        [garbage(), choices_null(), html()],
        # Most failed: one reply does not make the others guilty.
        [http_error(500, "oops"), http_error(429, "slow"), Scripted()],
    ],
    ids=["errors", "rejections", "unreadable", "most"],
)
def test_what_most_requests_of_a_batch_got_is_not_blamed_on_their_sessions(
    batched: Batched, judge: JudgeEndpoint, answers: list[Scripted]
) -> None:
    batched.land("s1", "s2", "s3")
    batched.advance()
    judge.script_turn("score", *answers)
    report = batched.finish()
    assert "the endpoint refused a batch: " in report.summary()
    assert (report.is_endpoint_down, report.submitted) == (True, 0)
    assert [(each.is_open, each.attempt) for each in batched.all_scores()] == [(True, 1)] * 3
    assert batched.advance().submitted == 3
    for _ in range(2):
        batched.finish()
    assert {each.status for each in batched.all_scores()} == {"completed"}


def test_a_session_that_is_too_long_fails_even_if_the_endpoint_fails_all_others(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    batched.land("s1", "s2", "s3")
    batched.advance()
    judge.script_turn("score", http_error(400, "prompt is too long"))
    judge.always(http_error(500, "oops"))
    batched.finish()
    ended = sorted((each.status, each.retriable) for each in batched.all_scores())
    assert ended == [("failed", False), ("pending", None), ("pending", None)]


@pytest.mark.parametrize("reply", [says(""), cut_by_length()], ids=["empty", "cut"])
def test_useless_replies_that_fill_a_batch_stop_the_run_and_fail_no_session(
    batched: Batched, judge: JudgeEndpoint, reply: Scripted
) -> None:
    names = [f"s{number}" for number in range(6)]
    batched.land(*names)
    batched.advance()
    judge.script_turn("score", reply, reply, reply, reply, reply)
    report = batched.finish()
    assert "5 of 6 replies of a batch were of no use: the judge's answer was" in report.summary()
    assert (report.is_endpoint_down, report.submitted) == (True, 0)
    scores = batched.all_scores()
    assert [(each.is_open, each.attempt) for each in scores] == [(True, 1)] * 6
    assert sorted(len(each.turn_log) for each in scores) == [0, 0, 0, 0, 0, 1]
    assert all(each.booked_cost_usd for each in scores)  # they are paid
    probe = batched.advance()  # a few, to see whether it works again
    assert (probe.submitted, dict(probe.deferred)) == (5, {"no_room": 1})
    for _ in range(3):
        batched.finish()
    assert {each.status for each in batched.all_scores()} == {"completed"}


def test_an_endpoint_without_batches_is_named_and_nothing_is_created(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    judge.batches.enabled = False
    batched.land("s1", "s2")
    report = batched.advance()
    assert report.is_endpoint_down
    assert report.deferred.total() == 2
    assert "set EVAL_JUDGE_MODE=direct" in report.summary()
    assert (batched.all_scores(), batched.states()) == ([], [])


@pytest.mark.parametrize("route", ["upload", "create"])
def test_a_refused_upload_or_batch_leaves_sessions_due(
    batched: Batched, judge: JudgeEndpoint, route: str
) -> None:
    batched.land("s1")
    judge.batches.script(route, http_error(400, "billing limit"))
    report = batched.advance()
    assert report.is_endpoint_down
    assert "billing limit" in report.summary()
    assert judge.batches.files == {}
    assert batched.states() == ["discarded"]
    batched.finish_all()
