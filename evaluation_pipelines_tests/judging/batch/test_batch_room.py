"""Batches that a provider cannot take or does not end."""

from datetime import timedelta

import pytest

from evaluation_pipelines.judging.batch.collect import has_work
from evaluation_pipelines.judging.batch.send import is_too_large, room_for
from evaluation_pipelines.judging.ledger.batch_store import JudgeBatch
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judge_scripts import http_error
from evaluation_pipelines_tests.judging.batch.batched import Batched

QUEUE_FULL = "Enqueued token limit reached for gpt-4o. Limit: 90,000 enqueued tokens."
USELESS = "5 of 6 replies of a batch were of no use: the answer was cut by the token limit"


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
    assert room_for(batches, probe=5) == room


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
    batched.land("s1", "s2", "s3", "s4")
    batched.advance()
    judge.batches.fail(QUEUE_FULL)
    report = batched.advance(only_continue=True)
    assert (report.is_endpoint_down, report.submitted) == (False, 2)
    assert dict(report.deferred) == {"no_room": 2}
    assert "no more requests to judge-1 until" in report.summary()
    for _ in range(4):
        batched.endpoint.batches.finish()  # type: ignore[union-attr]
        batched.advance(only_continue=True)
    sizes = [len(each["requests"]) for each in judge.batches.batches.values()]
    assert sizes == [4, 2, 2, 2, 2]
    assert [(each.status, each.attempt) for each in batched.all_scores()] == [("completed", 1)] * 4


def test_a_session_that_is_too_large_for_the_queue_stops_the_run(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    batched.land("s1")
    batched.advance()
    judge.batches.fail(QUEUE_FULL)
    report = batched.advance()
    assert (report.is_endpoint_down, report.submitted) == (True, 0)
    assert QUEUE_FULL in report.summary()


@pytest.fixture
def late(batched: Batched, judge: JudgeEndpoint) -> Batched:
    """Stores with a batch that should have ended an hour ago, and was canceled just now."""
    judge.batches.created_at = int(batched.now.timestamp())
    batched.land("s1")
    batched.advance()
    stores = batched.workplace.stores
    batched.now += timedelta(hours=24, minutes=59)
    assert not has_work(stores, lambda: batched.now)
    batched.now += timedelta(minutes=6)
    assert has_work(stores, lambda: batched.now)
    report = batched.advance()
    assert "it has not ended in time, and is canceled" in report.summary()
    assert batched.states() == ["cancelling"]
    return batched


def test_a_batch_that_does_not_end_is_canceled_and_its_replies_are_taken(
    late: Batched, judge: JudgeEndpoint
) -> None:
    assert [each["status"] for each in judge.batches.batches.values()] == ["cancelling"]
    assert not has_work(late.workplace.stores, lambda: late.now)
    assert late.finish("cancelled", answered=1).collected == 1
    late.finish_all()


def test_a_batch_that_never_ends_is_given_up_and_its_session_is_due(
    late: Batched, judge: JudgeEndpoint
) -> None:
    late.now += timedelta(hours=25, minutes=1)
    report = late.advance()
    assert "did not end, even canceled: it is given up" in report.summary()
    assert (report.is_endpoint_down, late.states()) == (True, ["discarded"])
    (score,) = late.all_scores()
    assert (score.is_open, score.attempt, judge.batches.files) == (True, 1, {})
    assert (score.booked_cost_usd or 0) > 0  # its request may have been charged
    assert late.advance().submitted == 1


def test_a_provider_that_cannot_cancel_is_waited_for_as_long(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    judge.batches.expires_at = None
    judge.batches.script("cancel", http_error(404, "no such route"))
    batched.land("s1")
    batched.advance()
    batched.now += timedelta(hours=25, minutes=1)
    batched.advance()
    assert batched.states() == ["cancelling"]
    batched.finish_all()
