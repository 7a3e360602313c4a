"""Faults of the endpoint and their traces in the ledger."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judge_scripts import (
    Scripted,
    cut_by_length,
    garbage,
    half_a_body,
    hangs,
    http_error,
    reset,
    says,
    score_reply,
)
from evaluation_pipelines_tests.judged import Judged, fill, open_judged, session_with_texts
from evaluation_pipelines_tests.service.scoring_service import wait_for

KEY = "s1#baseline-1"


@pytest.fixture
def judged(judge: JudgeEndpoint, tmp_path: Path) -> Iterator[Judged]:
    """One session and a short time limit."""
    with open_judged(tmp_path, judge.base_url, judge_timeout_seconds=0.5) as opened:
        fill(opened.workplace, session_with_texts("s1"))
        yield opened


@pytest.fixture
def one_by_one(judge: JudgeEndpoint, tmp_path: Path) -> Iterator[Judged]:
    """Sessions that are judged one after another."""
    options = {"judge_concurrency": 1, "judge_timeout_seconds": 5}
    with open_judged(tmp_path, judge.base_url, **options) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the waits between attempts, which the tests of the client cover."""
    limits = "evaluation_pipelines.judging.endpoint.client.CallLimits"
    monkeypatch.setattr(f"{limits}.__init__.__defaults__", _SHORT)


_SHORT = (8, None, None, 300, 4000, 0.0, 3, 0.01, 0.02, 120, 5, 30)
"""The defaults of ``CallLimits`` with waits of 10 and 20 ms."""


def test_a_persistent_fault_fails_the_scoring_which_is_due_again_the_next_night(
    judged: Judged, judge: JudgeEndpoint
) -> None:
    judge.script(*[http_error(500)] * 3)

    assert judged.run().failed.total() == 1
    score = judged.score(KEY)
    assert (score.status, score.retriable, score.attempt) == ("failed", True, 1)
    assert score.error_message == "the endpoint answered 500: status 500"
    assert judged.run().states == {"failed": 1}  # not the same night
    judged.now += timedelta(hours=20)
    assert len(judged.run().totals) == 1
    assert [scoring.attempt for scoring in judged.scores(KEY)] == [1, 2]


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([says("")], "the judge's answer was empty"),
        ([says(score_reply("67/100")), says("72.5")], "no verdict, even after a reminder"),
    ],
)
def test_an_answer_without_a_verdict_fails_and_its_text_is_stored(
    judged: Judged, judge: JudgeEndpoint, answers: list[Scripted], reason: str
) -> None:
    judge.script(*answers)
    judged.run()

    score = judged.score(KEY)
    assert (score.status, score.retriable, score.total_score) == ("failed", True, None)
    assert (score.error_message or "").startswith(reason)
    assert [turn.text for turn in score.turn_log] == [answer.text for answer in answers]
    assert score.judge_cost_usd is not None
    assert score.booked_cost_usd == pytest.approx(score.judge_cost_usd, abs=1e-8)


def test_a_score_completes_without_the_missing_tools_and_stores_the_error(
    judged: Judged, judge: JudgeEndpoint
) -> None:
    judge.always(http_error(500), "missing-tools")
    judge.script_turn("score", http_error(500), garbage())

    assert len(judged.run().totals) == 1
    score = judged.score(KEY)
    assert [turn.attempts for turn in score.turn_log] == [3]
    assert (score.status, score.missing_tools_analysis) == ("completed", None)
    assert score.missing_tools_error == "the endpoint answered 500: status 500"


def test_possible_charges_count_against_the_budget(judged: Judged, judge: JudgeEndpoint) -> None:
    judge.script(hangs(), hangs(), hangs())
    report = judged.run()

    score = judged.score(KEY)
    assert (score.judge_cost_usd, score.turn_log) == (None, ())
    # 3 requests with a reply of 1,000 tokens at 10 USD per million, and their prompts
    assert score.booked_cost_usd is not None
    assert score.booked_cost_usd > 0.03
    assert report.booked_usd == pytest.approx(score.booked_cost_usd)
    assert "1 deferred, 3 calls, $0.0000, up to $0.0" in report.summary()


@pytest.mark.parametrize("fault", [hangs(), reset(), half_a_body()])
def test_silence_is_the_fault_of_the_endpoint_whatever_the_number_of_sessions(
    judged: Judged, judge: JudgeEndpoint, fault: Scripted
) -> None:
    judge.script(fault, fault, fault)

    report = judged.run()
    assert (report.failed.total(), report.deferred["endpoint_down"]) == (0, 1)
    assert report.is_endpoint_down
    assert report.calls == 3
    score = judged.score(KEY)
    assert (score.status, score.attempt) == ("pending", 1)
    assert len(judged.run().totals) == 1  # at once, with all its attempts
    assert judged.score(KEY).attempt == 1


def test_a_suspect_is_judged_if_a_person_has_asked_for_it_meanwhile(
    judge: JudgeEndpoint, tmp_path: Path
) -> None:
    fault, keys = http_error(500), ("s1#baseline-1", "s2#baseline-1")
    judge.script(fault, Scripted(delay_s=3), fault, fault, Scripted(delay_s=1))
    judge.may_answer.clear()
    with open_judged(tmp_path, judge.base_url, judge_concurrency=2) as judged:
        fill(judged.workplace, session_with_texts("s1"), session_with_texts("s2", 60))
        with ThreadPoolExecutor(1) as pool:
            judging = pool.submit(judged.run)
            judge.wait_for(2)
            judge.may_answer.set()
            (suspect,) = wait_for(lambda: [e for e in keys if judged.score(e).status == "pending"])
            judge.may_answer.clear()
            judged.request(suspect)
            judge.wait_for(5)
            judge.may_answer.set()  # the reply of the other session shows that the endpoint works
            assert len(judging.result(30).totals) == 2
        assert judged.score(suspect).requested_by == "ada"


def test_an_endpoint_that_is_down_stops_the_run_and_leaves_all_sessions_due(
    judged: Judged, judge: JudgeEndpoint
) -> None:
    fill(judged.workplace, *(session_with_texts(f"t{n}", 60 * n) for n in range(39)))
    judge.always(http_error(503))

    report = judged.run()
    assert report.is_endpoint_down
    assert "the judge endpoint is down: 5 calls in a row failed" in (report.stop_reason or "")
    assert (report.failed.total(), report.deferred["endpoint_down"]) == (0, 40)
    assert 0 < report.calls < 100
    judge.always(Scripted())
    assert len(judged.run().totals) == 40


def test_a_refused_key_stops_the_run_and_no_session_loses_an_attempt(
    one_by_one: Judged, judge: JudgeEndpoint
) -> None:
    fill(one_by_one.workplace, session_with_texts("s1"), session_with_texts("s2", 60))
    judge.script(*[http_error(500)] * 3, http_error(401))

    report = one_by_one.run()
    assert "the endpoint answered 401" in (report.stop_reason or "")
    assert (report.failed.total(), report.deferred["endpoint_down"]) == (0, 2)
    assert len(one_by_one.run().totals) == 2
    assert {one_by_one.score(f"s{n}#baseline-1").attempt for n in (1, 2)} == {1}


def test_a_rejected_session_fails_for_good_if_others_are_judged(
    one_by_one: Judged, judge: JudgeEndpoint
) -> None:
    fill(one_by_one.workplace, *(session_with_texts(f"s{n}", 60 * n) for n in (1, 2, 3)))
    judge.script(http_error(400, "bad content"))

    report = one_by_one.run()
    assert (len(report.totals), report.failed.total()) == (2, 1)
    assert [one_by_one.score(f"s{n}#baseline-1").retriable for n in (1, 2, 3)] == [
        False,
        None,
        None,
    ]


def test_credit_that_ends_during_a_run_fails_no_session_although_earlier_replies_still_arrive(
    one_by_one: Judged, judge: JudgeEndpoint
) -> None:
    fill(one_by_one.workplace, *(session_with_texts(f"t{n}", 60 * n) for n in range(6)))
    no_credit = http_error(400, "Your credit balance is too low")
    judge.script_turn("score", no_credit, Scripted(), no_credit, Scripted())
    judge.always(no_credit, "score")

    report = one_by_one.run()
    assert "credit balance is too low. 3 sessions" in (report.stop_reason or "")
    assert (len(report.totals), report.failed.total()) == (2, 0)
    assert report.deferred["endpoint_down"] == 4
    judge.always(Scripted(), "score")
    assert len(one_by_one.run().totals) == 4
    assert {one_by_one.score(f"t{n}#baseline-1").attempt for n in range(6)} == {1}


@pytest.mark.parametrize("reply", [says(""), cut_by_length(), says("5", finish_reason="error")])
def test_useless_replies_in_a_row_stop_a_run(
    one_by_one: Judged, judge: JudgeEndpoint, reply: Scripted
) -> None:
    fill(one_by_one.workplace, *(session_with_texts(f"t{n}", 60 * n) for n in range(12)))
    judge.always(reply)

    report = one_by_one.run()
    assert "replies in a row were unusable" in (report.stop_reason or "")
    assert report.failed.total() <= 8
    assert report.failed.total() + report.deferred["useless_replies"] == 12
    assert report.is_endpoint_down
