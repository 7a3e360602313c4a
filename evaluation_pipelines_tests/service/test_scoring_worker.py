"""The worker of requested scores: budgets, one judge at a time, stop and kill."""

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from evaluation_pipelines.judging.find_due import find_due_in_lake
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.service.live import ScoringWorker
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.lock import JUDGE, held
from evaluation_pipelines_tests.judge_scripts import Scripted
from evaluation_pipelines_tests.judging.ledger.score_builders import new_score
from evaluation_pipelines_tests.program import SCRIPT
from evaluation_pipelines_tests.service.scoring_service import (
    KEY,
    PATH,
    ScoringService,
    open_service,
    wait_for,
)

S1 = PATH.format("s1")


@contextmanager
def worker_of(service: ScoringService) -> Iterator[ScoringWorker]:
    worker = ScoringWorker(service.workplace.stores, service.clock, poll_seconds=0.05)
    worker.start()
    try:
        yield worker
    finally:
        worker.stop()


def ended(service: ScoringService, session_key: str = KEY) -> Score:
    """Wait until a session is scored."""
    wait_for(lambda: not service.score(session_key).is_open)
    return service.score(session_key)


def test_a_request_is_scored_at_once_and_queues_the_tables_of_its_date(tmp_path: Path) -> None:
    with open_service(tmp_path) as service, service.client() as client:
        score_id = client.post(S1).json()["score_id"]
        score = ended(service)

        assert (score.score_id, score.status) == (score_id, "completed")
        assert score.score_triggered_by == "local"
        assert client.get(S1).json()["total_score"] == score.total_score
        queue = RebuildQueue(service.workplace.ledger)
        wait_for(lambda: [date.session_date for date in queue.pending(service.clock())])


def test_two_services_on_the_same_stores_score_a_request_once(tmp_path: Path) -> None:
    with open_service(tmp_path) as service:
        service.judge.latency_s = 0.1
        service.client().post(S1)
        with worker_of(service), worker_of(service):
            assert ended(service).status == "completed"
        assert service.judge.turns() == ["score", "missing-tools"]


def test_dagster_scores_instead_if_the_settings_say_so(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with (
        open_service(tmp_path, service_scoring="dagster") as service,
        service.client() as client,
    ):
        assert client.post(S1).status_code == 202
        begun = {thread.name for thread in set(threading.enumerate()) - before}
        assert "scoring-requests" not in begun
        now, days = service.clock(), service.workplace.lake.partitions(AGENT_SESSIONS)
        found = find_due_in_lake(service.workplace.stores, now, None, lambda _day: True)
        # What the sensor of fresh sessions asks for.
        assert [candidate.is_request for candidate in found.requested().candidates] == [True]
        assert found.days == set(days)


def test_what_no_one_requested_is_left_alone(tmp_path: Path) -> None:
    with open_service(tmp_path) as service:
        # A run left it.
        ScoreStore(service.workplace.ledger).create(
            new_score("other#baseline-1"), service.clock() - timedelta(hours=1)
        )
        service.client().post(S1)
        with worker_of(service):
            ended(service)
        assert service.score("other#baseline-1", "acme").status == "pending"


def test_the_budget_of_the_day_holds_for_requests(tmp_path: Path) -> None:
    with open_service(tmp_path, judge_max_cost_per_day_usd=0.000001) as service:
        service.client().post(S1)
        with worker_of(service):
            wait_for(lambda: service.score().waits)
        assert service.judge.requests == []
        assert service.score().status == "pending"


def test_a_stop_hands_back_what_is_not_finished(tmp_path: Path) -> None:
    with open_service(tmp_path) as service:
        service.judge.script_turn("missing-tools", Scripted(delay_s=30))
        service.client().post(S1)
        with worker_of(service):
            service.judge.wait_for(2)
        released = service.score()
        assert released.status == "pending"
        assert [turn.turn for turn in released.turn_log] == ["score-1"]

        with worker_of(service):
            score = ended(service)
        assert (score.score_id, score.status) == (released.score_id, "completed")
        assert score.crashes == 0
        assert service.judge.turns() == ["score", "missing-tools", "missing-tools"]


def test_what_a_dead_judge_left_is_finished_by_the_service(tmp_path: Path) -> None:
    with open_service(tmp_path) as service:
        score_id = service.client().post(S1).json()["score_id"]
        with held(service.workplace.ledger, JUDGE) as hold:  # and dies
            ScoreStore(service.workplace.ledger, hold=hold).claim(score_id, service.clock())
        with worker_of(service):
            score = ended(service)
        assert (score.score_id, score.status, score.crashes) == (score_id, "completed", 1)


def test_a_service_that_has_lost_the_lock_takes_it_again(tmp_path: Path) -> None:
    with open_service(tmp_path) as service:
        service.judge.may_answer.clear()
        service.client().post(S1)
        with worker_of(service):
            service.judge.wait_for(1)
            database = service.workplace.ledger.engine.url.database
            Path(f"{database}.locks", "judge.lock").unlink()
            service.judge.may_answer.set()
            assert ended(service).status == "completed"
        # The reply that arrived without the lock is used.
        assert service.judge.turns() == ["score", "missing-tools"]


@pytest.mark.slow
def test_the_service_of_the_program_survives_a_kill_and_stops_on_request(tmp_path: Path) -> None:
    with open_service(tmp_path) as service:
        service.judge.script_turn("missing-tools", Scripted(delay_s=30))
        with running_program(service) as (process, address):
            score_id = httpx.post(address + S1, timeout=30).json()["score_id"]
            service.judge.wait_for(2)
            process.kill()
        killed = service.scores.get(score_id)
        assert (killed.status, len(killed.turn_log)) == ("pending", 1)  # no process works on it

        with running_program(service) as (process, address):
            wait_for(lambda: not service.scores.get(score_id).is_open)
            process.send_signal(signal.SIGTERM)
            process.wait(20)
        score = service.scores.get(score_id)
        assert (score.status, score.crashes) == ("completed", 1)
        assert service.judge.turns() == ["score", "missing-tools", "missing-tools"]


def environment_of(service: ScoringService) -> dict[str, str]:
    """Return the environment of programs on the same stores."""
    settings = service.workplace.settings
    return {
        **os.environ,
        "EVAL_DATA_DIR": str(settings.data_dir),
        "EVAL_JUDGE_MODEL": str(settings.judge_model),
        "EVAL_JUDGE_INPUT_USD_PER_MTOK": "1",
        "EVAL_JUDGE_OUTPUT_USD_PER_MTOK": "10",
        "OPENAI_BASE_URL": service.judge.base_url,
    }


@contextmanager
def running_program(
    service: ScoringService, environment: dict[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run the program's service on the same stores; yield its process and its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(SCRIPT), "serve", "--port", str(port), "--no-build"]
    log = service.workplace.settings.data_dir / "serve.log"
    with (
        log.open("ab") as output,
        subprocess.Popen(
            command, env=environment or environment_of(service), stderr=output
        ) as process,
    ):
        try:
            address = f"http://127.0.0.1:{port}"
            wait_for(lambda: is_ready(address), 90)
            yield process, address
        finally:
            process.kill()


def is_ready(address: str) -> bool:
    """Return whether the service answers; a client is made only when it listens."""
    time.sleep(0.1)
    with suppress(OSError, httpx.HTTPError):
        socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), 1).close()
        return httpx.get(f"{address}/ready", timeout=30).status_code == 200
    return False
