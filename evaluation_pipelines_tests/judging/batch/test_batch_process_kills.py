"""Processes killed while they submit and collect batches: no request is sent twice or lost."""

import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from evaluation_pipelines.judging.ledger.batch_store import BatchStore
from evaluation_pipelines.judging.run import RunRequest, judge, utc_now
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines_tests.judging.site import Site, site
from evaluation_pipelines_tests.telemetry.collector import seeded
from evaluation_pipelines_tests.telemetry.pipeline_worker import sequential_workers

ROUNDS = 100


@pytest.mark.slow
def test_batches_of_killed_processes_lose_and_repeat_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = seeded(3)
    left = Counter[str]()
    sessions, limited = 2 * ROUNDS, {"judge_mode": "batch", "judge_max_sessions": 2}
    with (
        site(tmp_path, monkeypatch, sessions, "", **limited) as place,
        sequential_workers(ROUNDS, "judge", tmp_path, **place.settings) as workers,
    ):
        for worker in workers:
            before = states(place)
            worker.go()
            wait_until(partial(has_changed, place, before), place, 60)
            wait_until(lambda: False, place, random.choice((0.02, 0.1, 0.5)) * random.random())
            worker.kill()
            left.update(states(place).values())
        assert {"preparing", "submitting", "submitted"} <= left.keys()
        finish(place)

        assert set(place.endpoint.batches.sent.values()) == {1}
        assert len(place.endpoint.batches.sent) == 2 * place.sessions
        assert place.endpoint.batches.files == {}
        scores = place.scores()
        assert {each.status for each in scores} == {"completed"}
        assert len({each.session_key for each in scores}) == len(scores) == place.sessions
        turns = {tuple(turn.turn for turn in each.turn_log) for each in scores}
        assert turns == {("score-1", "missing-tools")}
        assert len(place.endpoint.requests) == 2 * place.sessions  # each answered once


def states(place: Site) -> dict[str, str]:
    """Return the states of the batches that are not final."""
    return {each.batch_id: each.state for each in BatchStore(place.workplace.ledger).unfinished()}


def has_changed(place: Site, before: dict[str, str]) -> bool:
    """Return whether a batch has begun, ended or changed its state."""
    return states(place) != before


def wait_until(is_done: Callable[[], bool], place: Site, seconds: float) -> None:
    """Let the provider end its batches until a condition holds or the time is over."""
    end = time.monotonic() + seconds
    while not is_done() and time.monotonic() < end:
        place.endpoint.batches.finish()
        time.sleep(0.005)


def finish(place: Site) -> None:
    """Judge without interruption, late enough for lost batches to be given up."""
    stores = place.workplace.stores
    settings = stores.settings.model_copy(update={"judge_max_sessions": None})
    unlimited = type(stores)(settings, stores.landing, stores.lake, stores.ledger)
    days = stores.lake.partitions(AGENT_SESSIONS)
    for _ in range(4):
        place.endpoint.batches.finish()
        later = utc_now() + timedelta(minutes=11)
        judge(unlimited, RunRequest("tests"), days, clock=lambda: later)  # noqa: B023
