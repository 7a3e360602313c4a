"""Batches from submission to the ledger, with a working endpoint."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from evaluation_pipelines.judging import run as judge_run
from evaluation_pipelines.judging.batch import send
from evaluation_pipelines.judging.ledger.batch_store import BatchStore
from evaluation_pipelines.judging.ledger.score_store import ScoreStore, clear_left
from evaluation_pipelines.judging.plans import load_plans
from evaluation_pipelines.judging.run import RunRequest, judge_session
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint, open_judge_endpoint
from evaluation_pipelines_tests.judge_scripts import (
    Scripted,
    cut_by_length,
    http_error,
    refuses,
    says,
    score_reply,
)
from evaluation_pipelines_tests.judged import fill, open_judged, session_with_texts
from evaluation_pipelines_tests.judging.batch.batched import Batched, comparable, open_batched
from evaluation_pipelines_tests.service.scoring_service import wait_for
from evaluation_pipelines_tests.world import claude, line


def test_sessions_are_judged_in_two_batches(batched: Batched, judge: JudgeEndpoint) -> None:
    batched.land("s1", "s2", "s3")

    first = batched.run()
    assert (first.submitted, first.batches, first.calls, first.totals) == (3, 1, 3, [])
    assert judge.requests == []
    waiting = batched.score("s1#baseline-1")
    assert waiting.is_open
    custom_ids = {sent["custom_id"] for sent in judge.batches.requests()}
    assert custom_ids == {f"{score.score_id}:score-1" for score in batched.all_scores()}
    assert batched.run().submitted == 0  # they wait

    second = batched.finish()
    assert (second.collected, second.submitted, second.batches) == (3, 3, 1)
    third = batched.finish()
    assert (len(third.totals), third.candidates, third.collected) == (3, 3, 3)
    assert {score.status for score in batched.all_scores()} == {"completed"}
    assert {score.latency_ms for score in batched.all_scores()} == {None}
    assert set(judge.batches.sent.values()) == {1}
    assert len(judge.batches.sent) == 6
    assert judge.batches.files == {}
    assert batched.states() == ["closed", "closed"]
    assert batched.run().summary() == "nothing is due"


SCRIPTS: list[list[tuple[str, Scripted]]] = [
    [],
    [("score", says("Rather good, 64."))],  # a reminder is needed
    [("score", says("64?")), ("reminder", says("Rather."))],  # and does not help
    [("score", replace(refuses(), text="No."))],
    [("score", cut_by_length())],
    [("score", http_error(400, "maximum context length"))],
    [("missing-tools", http_error(400, "content_filter", "content_filter"))],
    [("missing-tools", says(""))],
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_results_are_those_of_direct_mode_for_the_same_replies(
    batched: Batched, judge: JudgeEndpoint, tmp_path: Path, script: list[tuple[str, Scripted]]
) -> None:
    with (
        open_judge_endpoint() as other,
        open_judged(tmp_path / "direct", other.base_url, judge_concurrency=1) as direct,
    ):
        for endpoint in (judge, other):  # the usual replies depend on the id of the scoring
            endpoint.always(says(score_reply(64)), "score")
            endpoint.always(says(score_reply(64)), "reminder")
            for turn, answer in script:
                endpoint.script_turn(turn, answer)
        fill(batched.workplace, session_with_texts("s1"))
        fill(direct.workplace, session_with_texts("s1"))
        batched.run()
        for _ in range(3):
            batched.finish()
        direct.now = batched.now
        direct.run()
        (ours,), (theirs,) = (judged.scores("s1#baseline-1") for judged in (batched, direct))
    assert comparable(ours) == comparable(theirs)
    assert set(judge.batches.sent.values()) == {1}


def test_money_is_reserved_and_booked_at_the_price_of_batches(batched: Batched) -> None:
    batched.send("s1")
    waiting = batched.score("s1#baseline-1")
    assert waiting.booked_cost_usd == 0
    # A turn with at most 1000 output tokens at 10 USD a million, half price: half a cent and more.
    assert waiting.reserved_cost_usd is not None
    assert 0.005 < waiting.reserved_cost_usd < 0.01
    report = batched.finish()
    second_usd = batched.score("s1#baseline-1").reserved_cost_usd
    assert f"${report.cost_usd:.4f}, up to ${second_usd:.4f} more" in report.summary()
    batched.finish()
    score = batched.score("s1#baseline-1")
    tokens = (score.input_tokens or 0) + (score.cached_tokens or 0), score.output_tokens or 0
    cost = (tokens[0] / 1e6 + tokens[1] / 1e5) / 2
    assert score.judge_cost_usd == pytest.approx(cost)
    assert score.booked_cost_usd == pytest.approx(cost)
    assert score.reserved_cost_usd is None


def test_the_event_loop_does_not_wait_for_batches_of_the_ledger(
    batched: Batched, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, waited = BatchStore._select, list[object]()

    def select(*args: Any) -> Any:
        with suppress(RuntimeError):
            waited.append(asyncio.get_running_loop())
        return original(*args)

    monkeypatch.setattr(BatchStore, "_select", select)
    batched.send("s1")
    batched.finish_all()
    assert not waited


@pytest.mark.parametrize("mode", ["batch", "direct"])
def test_the_report_of_a_collection_or_request_says_which_scores_do_not_count(
    judge: JudgeEndpoint, tmp_path: Path, mode: str
) -> None:
    judge.always(says(score_reply(90)), "score")
    given = {"judge_exclude_flagged": ["inconsistent_total"], "judge_mode": mode}
    with open_batched(tmp_path, judge, **given) as batched:
        batched.land("s1")
        if mode == "direct":
            batched.request()
        report = batched.run()
        if mode == "batch":
            batched.finish()
            report = batched.finish()
    assert (len(report.totals), report.not_counted.total()) == (1, 1)


def test_tokens_that_cannot_be_are_estimated_from_the_request(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    batched.send("s1", "s2")
    for tokens in (0, 10**9):
        usage = {"prompt_tokens": tokens, "completion_tokens": tokens}
        judge.script_turn("score", says(score_reply(64), usage=usage))
    batched.finish()
    batched.finish()
    for score in batched.all_scores():
        assert (score.estimated_usage, score.turn_log[0].is_usage_estimated) == (True, True)
        # An estimate with a margin of what the endpoint counts, four characters to a token.
        prompt = sum(len(m["content"]) for m in _messages(judge, score.score_id))
        assert prompt / 5 < (score.turn_log[0].input_tokens or 0) < prompt / 2
        assert score.booked_cost_usd == pytest.approx(score.judge_cost_usd)


def _messages(judge: JudgeEndpoint, score_id: str) -> list[dict[str, str]]:
    """Return the messages of the score turn of a scoring."""
    requests = {sent["custom_id"]: sent for sent in judge.batches.requests()}
    messages: list[dict[str, str]] = requests[f"{score_id}:score-1"]["body"]["messages"]
    return messages


def test_what_does_not_fit_into_the_budget_is_deferred(
    judge: JudgeEndpoint, tmp_path: Path
) -> None:
    with open_batched(tmp_path, judge, judge_max_cost_per_day_usd=0.01) as batched:
        batched.land("s1", "s2", "s3")
        report = batched.run()
        assert (report.submitted, dict(report.deferred)) == (1, {"max_cost_of_day": 2})
        # The reservation counts for the day on which its batch is polled.
        batched.now += timedelta(days=1)
        assert dict(batched.run().deferred) == {"max_cost_of_day": 2}
        batched.finish()
        report = batched.finish()  # actual costs are lower than what was reserved
        assert report.submitted == 1
    with open_batched(tmp_path / "2", judge) as batched:
        batched.land("s1", "s2", "s3")
        assert dict(batched.run(max_sessions=1).deferred) == {"max_sessions": 2}
        assert len(batched.all_scores()) == 1


def test_files_are_full_at_their_limits(
    batched: Batched, judge: JudgeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    batched.land("s1", "s2", "s3", "s4", "s5")
    monkeypatch.setattr(send, "MAX_REQUESTS", 2)
    report = batched.run()
    assert (report.submitted, report.batches) == (5, 3)
    assert [len(batch["requests"]) for batch in judge.batches.batches.values()] == [2, 2, 1]
    batched.finish()
    assert len(batched.finish().totals) == 5

    batched.land("t1", "t2")
    monkeypatch.setattr(send, "MAX_REQUESTS", 100)
    monkeypatch.setattr(send, "MAX_BYTES", 1)  # a larger session has a file of its own
    assert batched.run().batches == 2


def test_a_session_that_continues_is_scored_anew(batched: Batched) -> None:
    batched.send("s1")
    more = claude("user_prompt", 600, session__id="s1", prompt="And now the tests.")
    fill(batched.workplace, line(more))

    report = batched.finish()  # its first reply is unusable now
    assert dict(report.discarded) == {"the session has changed since": 1}
    assert batched.run().submitted == 1
    batched.finish()
    batched.finish()
    before, after = batched.scores("s1#baseline-1")
    assert (before.status, after.status) == ("failed", "completed")
    assert before.content_hash != after.content_hash


def test_a_session_that_continues_during_its_last_turn_keeps_its_score(batched: Batched) -> None:
    batched.send("s1")
    batched.finish()
    more = claude("user_prompt", 600, session__id="s1", prompt="And now the tests.")
    fill(batched.workplace, line(more))
    report = batched.finish()
    assert (len(report.totals), report.submitted) == (1, 1)


def test_a_request_for_one_session_is_judged_directly(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    batched.land("s1", "s2", "s3")
    stores = batched.workplace.stores
    plans = load_plans(stores, batched.now)
    request = RunRequest("ada")
    clock = lambda: batched.now  # noqa: E731
    result, _ = judge_session(stores, plans, SessionName("s1"), request, force=False, clock=clock)
    assert result.score is not None
    assert result.score.status == "completed"
    batched.request("s2")

    report = batched.run()
    assert (len(report.totals), report.submitted) == (1, 1)
    assert judge.turns() == ["score", "missing-tools"] * 2
    # s3 waits in a batch: the answer comes at once.
    result, _ = judge_session(stores, plans, SessionName("s3"), request, force=False, clock=clock)
    assert (result.answer.http_status, result.score and result.score.is_open) == (202, True)
    forced, _ = judge_session(stores, plans, SessionName("s3"), request, force=True, clock=clock)
    assert forced.answer.http_status == 409


def test_requests_are_served_while_a_batch_is_downloaded(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    batched.land("s1", "s2")
    batched.run(max_sessions=1)
    judge.batches.finish()
    asked = "s1" if batched.all_scores()[0].session_id == "s2" else "s2"
    batched.request(asked)
    judge.batches.script("content", Scripted(delay_s=5), after=True)
    with ThreadPoolExecutor(1) as pool:
        report = pool.submit(batched.run)
        wait_for(lambda: not batched.score(f"{asked}#baseline-1").is_open)
        assert judge.batches.files  # the download has not ended
        assert not report.done()
        assert (report.result(60).collected, report.result().requests) == (1, 1)


def test_a_request_that_fails_during_a_collection_does_not_stop_the_run(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    batched.land("s1", "s2", "s3")
    batched.run(max_sessions=1)  # it stays at the provider
    (out,) = batched.all_scores()
    asked, _ = sorted({"s1", "s2", "s3"} - {out.session_id})
    batched.request(asked)
    judge.script(http_error(401))
    report = batched.run()
    assert (report.submitted, report.stop_reason) == (1, None)


def test_only_sessions_with_replies_are_continued(batched: Batched, judge: JudgeEndpoint) -> None:
    batched.send("s1")
    judge.batches.finish()
    batched.land("s2")
    report = batched.run(only_continue=True)
    assert (report.collected, report.submitted) == (1, 1)
    assert batched.scores("s2#baseline-1") == []
    assert batched.run(only_continue=True).submitted == 0


def test_after_a_change_to_direct_mode_batches_are_still_collected(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    batched.land("s1", "s2")
    batched.run(max_sessions=1)
    judge.batches.finish()
    report = batched.with_settings(judge_mode="direct").run()
    assert (len(report.totals), report.submitted) == (2, 0)
    assert BatchStore(batched.workplace.ledger).unfinished() == []


def test_after_a_collection_a_run_lets_go_for_a_person_who_waits_for_another_judge(
    batched: Batched, judge: JudgeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = list[bool]()

    def begin(*held: Any) -> None:
        rounds.append(True)
        clear_left(*held)

    monkeypatch.setattr(judge_run, "LET_GO_S", 0.1)
    monkeypatch.setattr(judge_run, "clear_left", begin)
    batched.land("s1", "s2", "s3", "s4")
    batched.run(max_sessions=1)
    judge.batches.finish()
    asked = batched.request("s3" if batched.all_scores()[0].session_id == "s4" else "s4").score
    with ScoreStore(batched.workplace.ledger)._rows() as rows:
        rows.change_open(asked.score_id if asked else "", {"endpoint": "http://another.example"})
    rounds.clear()
    judge.latency_s = 0.5
    report = batched.with_settings(judge_mode="direct", judge_concurrency=1).run()
    assert (len(rounds), len(report.totals), report.deferred.total()) == (2, 3, 0)
    assert report.stop_reason is None
