"""Killed judge runs: received replies are kept, and no session is scored twice."""

import time
from contextlib import ExitStack
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from evaluation_pipelines.build import Build
from evaluation_pipelines.schemas import AGENT_SESSIONS, JUDGE_SCORES
from evaluation_pipelines.schemas.judge_score import RUN_FIELDS
from evaluation_pipelines_tests.judge_scripts import says, score_reply
from evaluation_pipelines_tests.judging.site import CONCURRENCY, Site, site
from evaluation_pipelines_tests.telemetry.collector import seeded
from evaluation_pipelines_tests.telemetry.pipeline_worker import sequential_workers, two_workers


@pytest.mark.parametrize(
    ("seed", "rounds", "sessions"),
    [(1, 2, 60), pytest.param(2, 100, 2_000, marks=pytest.mark.slow)],
)
def test_a_judge_killed_at_any_moment_loses_no_received_reply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, rounds: int, sessions: int
) -> None:
    random = seeded(seed)
    lost: list[int] = []
    with (
        site(tmp_path, monkeypatch, sessions) as place,
        sequential_workers(rounds, "judge", tmp_path, **place.settings) as workers,
    ):
        for worker in workers:
            before = place.stored()
            worker.go()
            wait_for_more(place, before)
            time.sleep(random.uniform(0, 0.15))
            worker.kill()
            wait_until_idle(place)
            lost.append(place.answered() - place.stored() - sum(lost))
        half_done = [each for each in place.scores() if each.is_open]
        assert max(each.crashes for each in place.scores()) > 0
        place.finish()

        # Each kill loses at most the replies of the calls in flight ...
        assert max(lost) <= CONCURRENCY
        assert sum(lost) > 0 or rounds < 10  # a few kills may miss all calls
        # ... and every other reply is in the ledger: none was requested again.
        assert place.stored() == place.answered() - sum(lost) == 2 * sessions
        assert half_done
        assert_each_is_scored_once(place)


def test_a_run_that_was_killed_leaves_the_rows_of_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = list[pl.DataFrame]()
    for name, kills in (("whole", 0), ("killed", 3)):
        folder = tmp_path / name
        with site(folder, monkeypatch, sessions=40) as place, ExitStack() as stack:
            killed = sequential_workers(kills, "judge", folder, **place.settings)
            place.endpoint.always(says(score_reply(64)))
            for worker in stack.enter_context(killed) if kills else ():
                before = place.stored()
                worker.go()
                wait_for_more(place, before)
                worker.kill()
            place.finish()
            assert any(each.crashes for each in place.scores()) is bool(kills)
            stores = place.workplace.stores
            days = stores.lake.partitions(AGENT_SESSIONS)
            Build(stores, [JUDGE_SCORES.name]).run(days)
            of_run = [each.removesuffix("_us") for each in RUN_FIELDS]
            found.append(stores.lake.read(JUDGE_SCORES, days).drop(of_run).sort("session_key"))
    assert found[0].height == 40
    assert_frame_equal(*found)


@pytest.mark.slow
def test_two_judges_that_start_together_judge_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = 40
    with site(tmp_path, monkeypatch, sessions) as place:
        place.endpoint.latency_s = 0.2  # enough for both to start before one has finished
        with two_workers("judge", tmp_path, **place.settings):
            deadline = time.monotonic() + 60
            while place.stored() < 2 * sessions:
                assert time.monotonic() < deadline
                time.sleep(0.05)

        assert_each_is_scored_once(place)
        assert len(place.endpoint.requests) == 2 * sessions
        assert place.endpoint.max_in_flight <= CONCURRENCY


def assert_each_is_scored_once(place: Site) -> None:
    """Assert that each session has one completed scoring with both replies."""
    scores = place.scores()
    assert len({each.session_key for each in scores}) == len(scores) == place.sessions
    assert {each.status for each in scores} == {"completed"}
    assert {tuple(turn.turn for turn in each.turn_log) for each in scores} == {
        ("score-1", "missing-tools")
    }


def wait_for_more(place: Site, stored: int) -> None:
    """Wait until another reply is stored, so that the kill interrupts some work."""
    deadline = time.monotonic() + 60
    while place.stored() == stored:
        assert time.monotonic() < deadline
        time.sleep(0.002)


def wait_until_idle(place: Site) -> None:
    """Wait until the endpoint has handled the requests of the killed process."""
    deadline = time.monotonic() + 10
    while place.endpoint.in_flight and time.monotonic() < deadline:
        time.sleep(0.005)
