"""Killed judge runs: received replies are kept, and no session is scored twice."""

import time
from pathlib import Path

import pytest

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
