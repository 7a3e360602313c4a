"""Judges that are interrupted or killed: their scorings go on, and no reply is lost."""

import asyncio
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from evaluation_pipelines.build import Build
from evaluation_pipelines.judging.endpoint.batch_api import BatchApi
from evaluation_pipelines.judging.endpoint.client import JudgeClient
from evaluation_pipelines.judging.plans import PlanOverrides, load_plans
from evaluation_pipelines.judging.validation import INTERRUPTED, load_labeled, validate
from evaluation_pipelines.schemas import AGENT_SESSIONS, JUDGE_SCORES
from evaluation_pipelines.storage.lock import JUDGE, LockTimeoutError, held
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint, open_judge_endpoint
from evaluation_pipelines_tests.judge_scripts import Scripted, http_error, says, score_reply
from evaluation_pipelines_tests.judged import Judged, fill, open_judged, session_with_texts
from evaluation_pipelines_tests.judging.batch.batched import RUN_FIELDS, open_batched
from evaluation_pipelines_tests.service.scoring_service import wait_for
from evaluation_pipelines_tests.telemetry.collector import seeded
from evaluation_pipelines_tests.telemetry.pipeline_steps import judge as judge_due
from evaluation_pipelines_tests.telemetry.pipeline_worker import sequential_workers
from evaluation_pipelines_tests.workplace import open_workplace
from evaluation_pipelines_tests.world import DAY_S, claude, line

KEY = "s1#baseline-1"


def half_done(judged: Judged, judge: JudgeEndpoint) -> None:
    """Score a session up to its first reply, then let the endpoint go down."""
    fill(judged.workplace, session_with_texts("s1"))
    judge.script_turn("missing-tools", http_error(401))
    assert judged.run().is_endpoint_down
    assert [turn.turn for turn in judged.score(KEY).turn_log] == ["score-1"]


def test_the_next_run_resumes_from_the_stored_reply(judged: Judged, judge: JudgeEndpoint) -> None:
    half_done(judged, judge)

    report = judged.run()
    assert (len(report.totals), report.continued, report.calls) == (1, 1, 1)
    assert judge.turns() == ["score", "missing-tools", "missing-tools"]
    score = judged.score(KEY)
    assert (score.status, score.attempt, score.crashes) == ("completed", 1, 0)
    # The restart sent the same messages again.
    first, second, third = (request.body["messages"] for request in judge.requests)
    assert third == second
    assert third[:2] == first


def test_one_judge_works_at_a_time(judged: Judged, judge: JudgeEndpoint) -> None:
    fill(judged.workplace, session_with_texts("s1"))
    with held(judged.workplace.ledger, JUDGE):
        named = f"process {os.getpid()} on {socket.gethostname()}"
        with pytest.raises(LockTimeoutError, match=named):
            judged.run()
    assert judge.requests == []


def test_a_scoring_that_cannot_be_resumed_fails_with_the_reason(
    judged: Judged, judge: JudgeEndpoint
) -> None:
    half_done(judged, judge)
    more = claude("user_prompt", 600, session__id="s1", prompt="And now the tests.")
    fill(judged.workplace, line(more))

    assert judged.run().discarded == {"the session has changed since": 1}
    lost = judged.scores(KEY)[0]
    assert (lost.status, lost.retriable) == ("failed", True)
    reason = "left unfinished and cannot be resumed: the session has changed since"
    assert (lost.error_message, len(lost.turn_log)) == (reason, 1)  # the paid reply can be read


def test_a_run_with_another_model_does_not_discard_unfinished_scorings(
    judged: Judged, judge: JudgeEndpoint
) -> None:
    half_done(judged, judge)

    report = judged.run(overrides=PlanOverrides(model="judge-2"))
    assert (report.candidates, report.discarded.total()) == (0, 0)
    assert judged.score(KEY).status == "pending"
    assert len(judged.run().totals) == 1


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
        scores = [score for n in range(6) for score in judged.scores(f"s{n}#baseline-1")]
        assert {score.status for score in scores} == {"pending"}
        answered = sum(request.answered for request in judge.requests)
        assert sum(len(score.turn_log) for score in scores) == answered
        # Requests in flight count as paid, since their outcome is unknown.
        in_flight = [
            score for score in scores if (score.booked_cost_usd or 0) > (score.judge_cost_usd or 0)
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


pytestmark = pytest.mark.usefixtures("interrupt")


def terminate() -> None:
    """Send SIGTERM to this process, if it survives that."""
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture
def _terminated_call(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(*_: object) -> None:
        terminate()
        await asyncio.sleep(5)

    monkeypatch.setattr(JudgeClient, "ask", ask)


@pytest.mark.parametrize("step", ["upload", "create", "retrieve"])
def test_batches_leave_no_transcript_and_are_not_sent_twice(
    tmp_path: Path, judge: JudgeEndpoint, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    original, seen = getattr(BatchApi, step), []

    def terminated(*args: object) -> object:
        seen.append(len(list(files.glob("judge-batches-*/*"))))
        terminate()
        return original(*args)

    with open_batched(tmp_path / "stores", judge) as batched:
        batched.land("s1")
        if step == "retrieve":
            batched.run()
        with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
            patched.setattr(tempfile, "tempdir", str(files))
            patched.setattr(BatchApi, step, terminated)
            batched.run()

        assert seen == [0 if step == "retrieve" else 1]
        assert list(files.glob("judge-batches-*")) == []
        batched.now += timedelta(minutes=11)
        for _ in range(3):
            batched.finish()
        assert [score.status for score in batched.all_scores()] == ["completed"]
        assert set(judge.batches.sent.values()) == {1}


@pytest.mark.usefixtures("_terminated_call")
def test_a_background_command_that_ignores_sigint_is_interrupted(judged: Judged) -> None:
    stores = judged.workplace.stores
    plan = load_plans(stores, judged.now).default
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        ended = validate(stores, plan, load_labeled(None)[:1])
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.stop_reason == INTERRUPTED


CONCURRENCY = 4
SETTINGS = {
    "judge_model": "judge-1",
    "judge_concurrency": CONCURRENCY,
    "judge_input_usd_per_mtok": 1.0,
    "judge_output_usd_per_mtok": 10.0,
}
LONG_AGO_S = -480 * DAY_S
"""2025-02-06, in the past of any clock."""


@dataclass
class Site(Judged):
    """Sessions that several processes judge, to compare the endpoint with the ledger."""

    endpoint: JudgeEndpoint = field(default_factory=JudgeEndpoint)

    def answered(self) -> int:
        """Return the number of complete answers that were written to a socket."""
        return sum(request.answered for request in self.endpoint.requests)

    def stored(self) -> int:
        """Return the number of replies in the ledger."""
        return sum(len(score.turn_log) for score in self.all_scores())

    def has_more(self, replies: int) -> bool:
        """Return whether another reply is stored, so that a kill interrupts some work."""
        return self.stored() > replies

    def is_idle(self) -> bool:
        """Return whether the endpoint has handled the requests of a killed process."""
        return not self.endpoint.in_flight

    def finish(self) -> None:
        """Run the judge once more without interruption."""
        judge_due(self.workplace.stores)


@contextmanager
def site(folder: Path, monkeypatch: pytest.MonkeyPatch, sessions: int) -> Iterator[Site]:
    """Open due sessions and an endpoint that gives 64 points after 30 ms."""
    with open_judge_endpoint(0.03, keep_bodies=False) as endpoint:
        endpoint.always(says(score_reply(64)))
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        with open_workplace(folder, OPENAI_BASE_URL=endpoint.base_url, **SETTINGS) as workplace:
            lines = (session_with_texts(f"s{n}", LONG_AGO_S + n) for n in range(sessions))
            fill(workplace, *lines)
            yield Site(workplace, endpoint=endpoint)


@pytest.mark.parametrize(
    ("seed", "rounds", "sessions"),
    [(1, 3, 60), pytest.param(2, 100, 2_000, marks=pytest.mark.slow)],
)
def test_a_judge_killed_at_any_moment_loses_no_received_reply_and_leaves_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, rounds: int, sessions: int
) -> None:
    random = seeded(seed)
    lost: list[int] = []
    with site(tmp_path / "whole", monkeypatch, sessions) as place:
        place.finish()
        whole = published(place)
    folder = tmp_path / "killed"
    with (
        site(folder, monkeypatch, sessions) as place,
        sequential_workers(rounds, "judge", folder, **SETTINGS) as workers,
    ):
        for worker in workers:
            before = place.stored()
            worker.go()
            wait_for(partial(place.has_more, before), 60)
            time.sleep(random.uniform(0, 0.15))
            worker.kill()
            wait_for(place.is_idle)
            lost.append(place.answered() - place.stored() - sum(lost))
        half_done = [score for score in place.all_scores() if score.is_open]
        assert max(score.crashes for score in place.all_scores()) > 0
        place.finish()

        # Each kill loses at most the replies of the calls in flight ...
        assert max(lost) <= CONCURRENCY
        assert sum(lost) > 0 or rounds < 10  # a few kills may miss all calls
        # ... and every other reply is in the ledger: none was requested again.
        assert place.stored() == place.answered() - sum(lost) == 2 * sessions
        assert half_done
        scores = place.all_scores()
        assert len({score.session_key for score in scores}) == len(scores) == sessions
        assert {score.status for score in scores} == {"completed"}
        turns = {tuple(turn.turn for turn in score.turn_log) for score in scores}
        assert turns == {("score-1", "missing-tools")}
        assert_frame_equal(published(place), whole)


def published(place: Site) -> pl.DataFrame:
    """Publish all scores, and return their rows without what belongs to a run."""
    stores = place.workplace.stores
    days = stores.lake.partitions(AGENT_SESSIONS)
    Build(stores, [JUDGE_SCORES.name]).run(days)
    of_run = [field.removesuffix("_us") for field in RUN_FIELDS]
    return stores.lake.read(JUDGE_SCORES, days).drop(of_run).sort("session_key")
