"""What a provider refuses, cannot take, does not end, or answers in a way that is not trusted."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from evaluation_pipelines.judging.batch.collect import has_work
from evaluation_pipelines.judging.batch.send import is_too_large, room_for
from evaluation_pipelines.judging.endpoint import batch_api
from evaluation_pipelines.judging.ledger.batch_store import JudgeBatch
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint, open_judge_endpoint
from evaluation_pipelines_tests.judge_scripts import (
    Scripted,
    choices_null,
    cut_by_length,
    garbage,
    html,
    http_error,
    says,
    score_reply,
)
from evaluation_pipelines_tests.judged import fill, session_with_texts
from evaluation_pipelines_tests.judging.batch.batched import Batched, open_batched


@pytest.mark.parametrize(
    "status",
    [
        "expired",
        *(pytest.param(ended, marks=pytest.mark.slow) for ended in ("cancelled", "completed")),
    ],
)
def test_what_a_partly_answered_batch_has_counts_and_the_rest_is_due(
    batched: Batched, judge: JudgeEndpoint, status: str
) -> None:
    batched.send("s1", "s2", "s3")
    report = batched.finish(status, answered=1)
    assert (report.collected, report.submitted) == (1, 3)  # one second turn, two first turns again
    assert [request["custom_id"].partition(":")[2] for request in judge.batches.requests()[3:]] == [
        *("missing-tools", "score-1", "score-1")
    ] or len(judge.batches.requests()) == 6
    assert {score.attempt for score in batched.all_scores()} == {1}
    batched.finish()
    assert len(batched.finish().totals) >= 1
    assert {score.status for score in batched.all_scores()} == {"completed"}


def test_a_batch_that_is_refused_as_a_whole_leaves_its_sessions_due(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    batched.send("s1", "s2")
    judge.batches.fail("the billing limit is reached")
    report = batched.run()
    assert report.is_endpoint_down
    assert "billing limit" in report.summary()
    assert report.submitted == 0  # not sent again by the run that has seen it fail
    assert [(score.is_open, score.attempt) for score in batched.all_scores()] == [(True, 1)] * 2
    assert batched.run().submitted == 2


def test_a_refused_form_is_not_sent_again(batched: Batched, judge: JudgeEndpoint) -> None:
    batched.send("s1")
    fields = [set(judge.batches.requests()[-1]["body"])]
    for refusal in ("temperature does not support 0.0", "Use max_tokens", "no system role"):
        judge.always(http_error(400, refusal))
        assert refusal in batched.finish().summary()
        assert batched.run().submitted == 1
        fields.append(set(judge.batches.requests()[-1]["body"]))
    always = {"model", "messages"}
    assert fields == [
        always | {"max_completion_tokens", "temperature"},
        always | {"max_completion_tokens"},
        always | {"max_tokens"},
        always | {"max_tokens"},
    ]
    assert judge.batches.requests()[-1]["body"]["messages"][0]["role"] == "user"
    assert [(score.is_open, score.attempt) for score in batched.all_scores()] == [(True, 1)]
    batched.now += timedelta(days=31)
    assert "no system role" in batched.finish().summary()
    batched.run()
    assert set(judge.batches.requests()[-1]["body"]) == fields[0]


def test_one_rejection_that_names_a_field_fails_its_session_if_others_are_answered(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    batched.send("s1", "s2")
    judge.script_turn("score", http_error(400, "more than max_tokens allows"))
    report = batched.finish()
    assert not report.is_endpoint_down
    assert sorted(score.status for score in batched.all_scores()) == ["failed", "in_progress"]
    assert report.submitted == 1  # the next turn of the other one


def test_a_request_that_failed_at_the_provider_is_due_again_later(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    batched.send("s1", "s2", "s3", "s4")
    judge.script_turn("score", http_error(500, "oops"), garbage())
    batched.finish()
    failed = [score for score in batched.all_scores() if score.status == "failed"]
    assert [score.retriable for score in failed] == [True, True]
    batched.now += timedelta(hours=21)
    judge.batches.finish()
    batched.run()
    assert len(batched.all_scores()) == 6


@pytest.mark.parametrize(
    "answers",
    [
        [http_error(401, "wrong key")] * 3,
        [http_error(400, "no such feature")] * 3,
        [http_error(500, "oops"), http_error(503, "busy"), http_error(429, "slow")],
        [http_error(400, f"no credit (request req_{n}a)") for n in range(3)],
        [garbage(), choices_null(), html()],
        # Most failed: one reply does not make the others guilty.
        [http_error(500, "oops"), http_error(429, "slow"), Scripted()],
    ],
    ids=["key", "form", "errors", "rejections", "unreadable", "most"],
)
def test_what_most_requests_of_a_batch_got_is_not_blamed_on_their_sessions(
    batched: Batched, judge: JudgeEndpoint, answers: list[Scripted]
) -> None:
    batched.send("s1", "s2", "s3")
    judge.script_turn("score", *answers)
    report = batched.finish()
    assert "the endpoint refused a batch: the endpoint answered " in report.summary()
    assert (report.is_endpoint_down, report.submitted) == (True, 0)
    assert [(score.is_open, score.attempt) for score in batched.all_scores()] == [(True, 1)] * 3
    assert batched.run().submitted == 3
    for _ in range(2):
        batched.finish()
    assert {score.status for score in batched.all_scores()} == {"completed"}


def test_a_session_that_is_too_long_fails_even_if_the_endpoint_fails_all_others(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    batched.send("s1", "s2", "s3")
    judge.script_turn("score", http_error(400, "prompt is too long"))
    judge.always(http_error(500, "oops"))
    batched.finish()
    ended = sorted((score.status, score.retriable) for score in batched.all_scores())
    assert ended == [("failed", False), ("pending", None), ("pending", None)]


@pytest.mark.parametrize("reply", [says(""), cut_by_length()], ids=["empty", "cut"])
def test_useless_replies_that_fill_a_batch_stop_the_run_and_fail_no_session(
    batched: Batched, judge: JudgeEndpoint, reply: Scripted
) -> None:
    names = [f"s{number}" for number in range(6)]
    batched.send(*names)
    judge.script_turn("score", reply, reply, reply, reply, reply)
    report = batched.finish()
    assert "5 of 6 replies of a batch were unusable: the judge's answer was" in report.summary()
    assert (report.is_endpoint_down, report.submitted) == (True, 0)
    scores = batched.all_scores()
    assert [(score.is_open, score.attempt) for score in scores] == [(True, 1)] * 6
    assert sorted(len(score.turn_log) for score in scores) == [0, 0, 0, 0, 0, 1]
    assert all(score.booked_cost_usd for score in scores)  # they are paid
    probe = batched.run()  # a few, to see whether it works again
    assert (probe.submitted, dict(probe.deferred)) == (5, {"no_room": 1})
    for _ in range(3):
        batched.finish()
    assert {score.status for score in batched.all_scores()} == {"completed"}


UNPRICED = says("Rather good.", usage=None)
TOO_LONG = http_error(400, "maximum context length")


@pytest.mark.parametrize(
    ("answers", "shares"),
    [
        ([UNPRICED, UNPRICED], 2),  # a reminder is due, and was not sent yet
        ([http_error(500, "oops")] * 3, 3),
        ([says(score_reply(64)), http_error(500, "oops"), http_error(502, "other")], 2),
        ([says("")] * 5, 5),
        ([TOO_LONG, http_error(500, "oops"), TOO_LONG], 1),
    ],
    ids=["unpriced", "failed", "one answered", "useless", "refused"],
)
def test_each_request_that_may_be_charged_is_booked_with_its_share(
    judge: JudgeEndpoint, tmp_path: Path, answers: list[Scripted], shares: int
) -> None:
    judge.script_turn("score", *answers)
    with open_batched(tmp_path, judge, judge_samples=len(answers)) as batched:
        batched.send("s1")
        reserved = batched.score("s1#baseline-1").reserved_cost_usd
        batched.finish()
        score = batched.score("s1#baseline-1")
    assert reserved
    known = sum(turn.cost_usd or 0 for turn in score.turn_log)
    expected = known + shares / len(answers) * reserved
    assert score.booked_cost_usd == pytest.approx(expected)


def test_an_endpoint_without_batches_is_named_and_nothing_is_created(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    judge.batches.enabled = False
    batched.land("s1", "s2")
    report = batched.run()
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
    report = batched.run()
    assert report.is_endpoint_down
    assert "billing limit" in report.summary()
    assert "0 calls, $0.0000;" in report.summary()
    assert judge.batches.files == {}
    assert batched.states() == ["discarded"]
    batched.finish_all()


KEY = "sk-" + "test-0123456789abcdef"


@pytest.mark.parametrize(
    "answer",
    [
        http_error(401, f"Incorrect API key: {KEY}"),
        Scripted(body=json.dumps({"error": {"code": 401, "message": f"Bad {KEY}"}}).encode()),
        says(f"Bad {KEY}"),
        None,  # the batch is refused as a whole
    ],
)
def test_nothing_of_a_batch_brings_the_key_into_the_ledger(
    judge: JudgeEndpoint, tmp_path: Path, answer: Scripted | None
) -> None:
    with open_batched(tmp_path, judge, OPENAI_API_KEY=KEY) as batched:
        batched.send("s1")
        if answer is None:
            judge.batches.fail(f"Incorrect API key: {KEY}")
            report = batched.run()
        else:
            judge.always(answer)
            report = batched.finish()
        assert "[key]" in f"{report} {report.summary()} {batched.all_scores()}"
        assert KEY not in f"{report} {report.summary()}"
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("ledger*") if path.is_file())
    assert KEY.encode() not in stored


@pytest.mark.parametrize("route", ["upload", "create"])
def test_a_transcript_is_not_sent_to_another_address(
    batched: Batched, judge: JudgeEndpoint, route: str
) -> None:
    batched.land("s1")
    with open_judge_endpoint() as other:
        path = "files" if route == "upload" else "batches"
        location = {"Location": f"{other.base_url}/{path}"}
        judge.batches.script(route, Scripted(status=307, headers=location))
        assert "answered 307" in batched.run().summary()
        assert (other.batches.files, other.batches.batches) == ({}, {})
    assert batched.states() == ["discarded"]


def raw(content: bytes) -> bytes:
    """Return the lines of a file with all characters as they are, not escaped."""
    lines = [json.dumps(json.loads(line), ensure_ascii=False) for line in content.splitlines()]
    return "\n".join(lines).encode()


def test_a_reply_with_other_line_breaks_is_one_line(batched: Batched, judge: JudgeEndpoint) -> None:
    text = f"One\u2028two\u2029three\x85four\x0bfive\x0csix\x1cseven\n{score_reply(64)}"
    judge.script_turn("score", says(text))
    batched.send("s1")
    judge.batches.finish()
    (batch,) = judge.batches.batches.values()
    files, output = judge.batches.files, batch["output_file_id"]
    files[output] = b"\xef\xbb\xbf" + raw(files[output])
    assert batched.run().collected == 1
    assert batched.all_scores()[0].turn_log[0].text == text
    assert len(batched.finish().totals) == 1


def test_a_sent_file_that_is_not_as_it_was_sent_stops_no_collection(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    # The file is read for such counts.
    output = {"prompt_tokens": 100, "completion_tokens": 10**9}
    reasoning = {**output, "completion_tokens_details": {"reasoning_tokens": 10**9}}
    usages = output, reasoning
    judge.script_turn("score", *(says(score_reply(64), usage=usage) for usage in usages))
    fill(batched.workplace, session_with_texts("s1", text="One\u2028two\x85three"))
    batched.send("s2")
    judge.batches.finish()
    (batch,) = judge.batches.batches.values()
    sent = judge.batches.files[batch["input_file_id"]]
    torn = [b"<html>", b"[]", b'{"body": 5}', b'{"body": {"messages": [{"role": 1}]}}', sent]
    judge.batches.files[batch["input_file_id"]] = b"\n".join(torn)
    assert batched.run().collected == 2
    logged = [turn for score in batched.all_scores() for turn in score.turn_log]
    assert [turn.is_usage_estimated for turn in logged] == [True, True]


def test_a_line_that_is_too_long_is_left_out(
    batched: Batched, judge: JudgeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge.batches.created_at = int(batched.now.timestamp())
    judge.script_turn("score", says("x" * 300_000), says(score_reply(64)))
    batched.send("s1", "s2")
    judge.batches.finish()
    monkeypatch.setattr(batch_api, "MAX_LINE_BYTES", 200_000)
    report = batched.run()
    assert report.collected == 1
    assert "have 1 of 2 results" in report.summary()


@pytest.mark.parametrize("route", ["list", "upload", "create", "retrieve"])
def test_an_answer_of_a_route_has_a_limited_size(
    batched: Batched, judge: JudgeEndpoint, route: str
) -> None:
    judge.batches.script(route, Scripted(body=b'{"id": "' + b"x" * 4_100_000 + b'"}'), after=True)
    batched.land("s1")
    summary = batched.run().summary()
    if route == "retrieve":
        summary = batched.finish().summary()
    assert "the endpoint sent more than 4 MB" in summary
    batched.now += timedelta(minutes=11)
    batched.run()
    batched.finish_all()


QUEUE_FULL = "Enqueued token limit reached for gpt-4o. Limit: 90,000 enqueued tokens."
USELESS = "5 of 6 replies of a batch were unusable: the answer was cut by the token limit"


def batch(
    number: int, requests: int, ended: int | None = None, error: str | None = None, **more: object
) -> JudgeBatch:
    """Return a batch that was sent at second ``number``."""
    values: dict[str, object] = dict.fromkeys(JudgeBatch.__slots__)
    state = "submitted" if ended is None else "closed"
    values |= {"batch_id": f"b{number}", "judge_model": "m", "state": state, "requests": requests}
    values |= {"created_at_us": number, "ended_at_us": ended, "error_message": error}
    return JudgeBatch(**{**values, "provider_batch_id": "p", **more})  # type: ignore[arg-type]


def refused(number: int, requests: int) -> JudgeBatch:
    """Return a batch that was refused for its size a second after it was sent."""
    return batch(number, requests, number + 1, QUEUE_FULL, provider_status="failed")


@pytest.mark.parametrize(
    ("batches", "room"),
    [
        ([], None),
        ([batch(1, 100), batch(2, 50, 9)], None),
        ([refused(1, 100)], 50),
        ([refused(1, 100), refused(3, 50)], 25),
        ([refused(1, 1)], 1),
        ([refused(1, 100), batch(3, 50)], 0),
        ([refused(1, 100), batch(3, 50, 5)], 50),
        ([batch(1, 80), refused(2, 20)], 50 - 80),  # 100 were out there together
        ([batch(1, 80, 2), refused(3, 20)], 10),  # the other one had ended
        ([batch(1, 100, 2, QUEUE_FULL, provider_batch_id=None)], 50),
        ([batch(1, 100, 2, USELESS)], 5),
        ([batch(1, 100, 2, USELESS), batch(3, 5)], 0),
        ([batch(1, 100, 2, USELESS), batch(3, 5, 4)], None),
        ([refused(1, 8), batch(3, 4, 4, "503: too many requests")], 4),
    ],
)
def test_earlier_batches_limit_the_requests_at_the_provider(
    batches: list[JudgeBatch], room: int | None
) -> None:
    assert room_for(batches) == room


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        (QUEUE_FULL, True),
        ("token_limit_exceeded", True),
        ("The file is too large.", True),
        ("billing hard limit reached", False),
        ("invalid JSON in line 3", False),
    ],
)
def test_a_refusal_for_size_is_recognized(refusal: str, expected: bool) -> None:
    assert is_too_large(refusal) is expected


def test_a_batch_that_is_too_large_for_the_queue_is_sent_in_parts(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    batched.send("s1", "s2", "s3", "s4")
    judge.batches.fail(QUEUE_FULL)
    report = batched.run(only_continue=True)
    assert (report.is_endpoint_down, report.submitted) == (False, 2)
    assert dict(report.deferred) == {"no_room": 2}
    assert "no more requests to judge-1 until" in report.summary()
    for _ in range(4):
        batched.endpoint.batches.finish()  # type: ignore[union-attr]
        batched.run(only_continue=True)
    sizes = [len(sent["requests"]) for sent in judge.batches.batches.values()]
    assert sizes == [4, 2, 2, 2, 2]
    assert [(score.status, score.attempt) for score in batched.all_scores()] == [
        ("completed", 1)
    ] * 4


def test_a_session_that_is_too_large_for_the_queue_stops_the_run(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    batched.send("s1")
    judge.batches.fail(QUEUE_FULL)
    report = batched.run()
    assert (report.is_endpoint_down, report.submitted) == (True, 0)
    assert QUEUE_FULL in report.summary()


@pytest.fixture
def late(batched: Batched, judge: JudgeEndpoint) -> Batched:
    """Stores with a batch that should have ended an hour ago, and was canceled just now."""
    judge.batches.created_at = int(batched.now.timestamp())
    batched.send("s1")
    stores = batched.workplace.stores
    batched.now += timedelta(hours=24, minutes=59)
    assert not has_work(stores, lambda: batched.now)
    batched.now += timedelta(minutes=6)
    assert has_work(stores, lambda: batched.now)
    report = batched.run()
    assert "it has not ended in time, and is canceled" in report.summary()
    assert batched.states() == ["cancelling"]
    return batched


def test_a_batch_that_does_not_end_is_canceled_and_its_replies_are_taken(
    late: Batched, judge: JudgeEndpoint
) -> None:
    assert [sent["status"] for sent in judge.batches.batches.values()] == ["cancelling"]
    assert not has_work(late.workplace.stores, lambda: late.now)
    assert late.finish("cancelled", answered=1).collected == 1
    late.finish_all()


def test_a_batch_that_never_ends_is_given_up_and_its_session_is_due(
    late: Batched, judge: JudgeEndpoint
) -> None:
    late.now += timedelta(hours=25, minutes=1)
    report = late.run()
    assert "did not end, even canceled: it is given up" in report.summary()
    assert (report.is_endpoint_down, late.states()) == (True, ["discarded"])
    (score,) = late.all_scores()
    assert (score.is_open, score.attempt, judge.batches.files) == (True, 1, {})
    assert (score.booked_cost_usd or 0) > 0  # its request may have been charged
    assert late.run().submitted == 1


def test_a_provider_that_cannot_cancel_is_waited_for_as_long(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    judge.batches.expires_at = None
    judge.batches.script("cancel", http_error(404, "no such route"))
    batched.send("s1")
    batched.now += timedelta(hours=25, minutes=1)
    batched.run()
    assert batched.states() == ["cancelling"]
    batched.finish_all()
