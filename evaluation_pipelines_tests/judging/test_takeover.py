"""Unfinished scorings: how they are resumed or discarded, and that no reply is lost."""

import os
import signal
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import PlanOverrides
from evaluation_pipelines.storage.lock import JUDGE, LockTimeoutError, held
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint, open_judge_endpoint
from evaluation_pipelines_tests.judge_scripts import Scripted, http_error
from evaluation_pipelines_tests.judged import Judged, fill, open_judged, session_with_texts
from evaluation_pipelines_tests.world import claude, line

KEY = "s1#baseline-1"


def half_done(judged: Judged, judge: JudgeEndpoint) -> None:
    """Score a session up to its first reply, then let the endpoint go down."""
    fill(judged.workplace, session_with_texts("s1"))
    judge.script_turn("missing-tools", http_error(401))
    assert judged.run().is_endpoint_down
    assert [each.turn for each in judged.score(KEY).turn_log] == ["score-1"]


def die(judged: Judged) -> None:
    """Leave the scoring in progress, as a judge that was killed does."""
    with held(judged.workplace.ledger, JUDGE) as hold:
        scores = ScoreStore(judged.workplace.ledger, hold=hold)
        scores.clear_left()
        scores.claim(judged.score(KEY).score_id, judged.now)


def test_the_next_run_resumes_from_the_stored_reply(judged: Judged, judge: JudgeEndpoint) -> None:
    half_done(judged, judge)

    report = judged.run()
    assert (len(report.totals), report.continued, report.calls) == (1, 1, 1)
    assert judge.turns() == ["score", "missing-tools", "missing-tools"]
    score = judged.score(KEY)
    assert (score.status, score.attempt, score.crashes) == ("completed", 1, 0)
    # The restart sent the same messages again.
    first, second, third = (each.body["messages"] for each in judge.requests)
    assert third == second
    assert third[:2] == first


def test_what_a_dead_judge_left_is_taken_up_at_once(judged: Judged, judge: JudgeEndpoint) -> None:
    half_done(judged, judge)
    die(judged)
    assert judged.score(KEY).status == "pending"  # no process works on it

    assert len(judged.run().totals) == 1
    assert judged.score(KEY).crashes == 1


def test_one_judge_works_at_a_time(judged: Judged, judge: JudgeEndpoint) -> None:
    fill(judged.workplace, session_with_texts("s1"))
    with held(judged.workplace.ledger, JUDGE):
        named = f"process {os.getpid()} on {socket.gethostname()}"
        with pytest.raises(LockTimeoutError, match=named):
            judged.run()
    assert judge.requests == []


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (PlanOverrides(), "the session has changed since"),
        (None, "started with another wording of the rubric"),
    ],
)
def test_a_scoring_that_cannot_be_resumed_fails_with_the_reason(
    judged: Judged, judge: JudgeEndpoint, overrides: PlanOverrides | None, reason: str
) -> None:
    half_done(judged, judge)
    if overrides is not None:
        more = claude("user_prompt", 600, session__id="s1", prompt="And now the tests.")
        fill(judged.workplace, line(more))
        report = judged.run()
    else:
        settings = judged.workplace.settings.model_copy(
            update={"judge_rubric": "incident-investigation"}
        )
        other = replace(judged, workplace=replace(judged.workplace, settings=settings))
        report = other.run()

    lost = judged.scores(KEY)[0]
    assert report.discarded == {reason: 1}
    assert (lost.status, lost.retriable) == ("failed", True)
    assert lost.error_message == f"left unfinished and cannot be resumed: {reason}"
    assert len(lost.turn_log) == 1  # the paid reply can still be read


def test_a_run_with_another_model_does_not_discard_unfinished_scorings(
    judged: Judged, judge: JudgeEndpoint
) -> None:
    half_done(judged, judge)

    report = judged.run(overrides=PlanOverrides(model="judge-2"))
    assert (report.candidates, report.discarded.total()) == (0, 0)
    assert judged.score(KEY).status == "pending"
    assert len(judged.run().totals) == 1


def test_a_scoring_is_given_up_after_too_many_deaths(judged: Judged, judge: JudgeEndpoint) -> None:
    half_done(judged, judge)
    for _ in range(10):
        die(judged)

    assert judged.run().discarded == {"10 processes died while scoring it": 1}
    assert judged.score(KEY).status == "failed"


@pytest.mark.usefixtures("interrupt")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_releases_its_scorings_immediately(
    tmp_path: Path, number: signal.Signals
) -> None:
    with (
        open_judge_endpoint() as judge,
        open_judged(tmp_path, judge.base_url, judge_concurrency=2) as judged,
    ):
        fill(judged.workplace, *(session_with_texts(f"s{n}", n) for n in range(6)))
        judge.always(Scripted(delay_s=30), "missing-tools")

        with pytest.raises(KeyboardInterrupt):
            interrupted(judged, judge, number)
        scores = [each for n in range(6) for each in judged.scores(f"s{n}#baseline-1")]
        assert {each.status for each in scores} == {"pending"}
        answered = sum(each.answered for each in judge.requests)
        assert sum(len(each.turn_log) for each in scores) == answered
        # Requests in flight count as paid, since their outcome is unknown.
        in_flight = [
            each for each in scores if (each.booked_cost_usd or 0) > (each.judge_cost_usd or 0)
        ]
        assert len(in_flight) == judge.turns().count("missing-tools") == 2

        judge.always(Scripted(), "missing-tools")
        report = judged.run()
        assert len(report.totals) == 6
        assert judge.turns().count("score") == 6  # none was requested twice


def interrupted(judged: Judged, judge: JudgeEndpoint, number: signal.Signals) -> None:
    """Run and send a signal when two sessions wait for their second reply."""

    def press() -> None:
        deadline = time.monotonic() + 30
        while judge.turns().count("missing-tools") < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.2)
        os.kill(os.getpid(), number)

    threading.Thread(target=press, daemon=True).start()
    judged.run()
