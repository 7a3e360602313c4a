"""Scorings that nothing finishes by itself: left by a run, or asked for while the judge is down."""

import json
import logging
import os
import re
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect

from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import load_plans
from evaluation_pipelines.judging.session_windows import read_windows
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines_tests.judge_scripts import Scripted, hangs, http_error
from evaluation_pipelines_tests.judged import open_judged, session_with_texts
from evaluation_pipelines_tests.judging.ledger.score_builders import new_score
from evaluation_pipelines_tests.program import SCRIPT, Program
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.service.scoring_service import (
    KEY,
    PATH,
    ScoringService,
    open_service,
    wait_for,
)
from evaluation_pipelines_tests.service.test_events import URL
from evaluation_pipelines_tests.service.test_scoring_worker import (
    ended,
    environment_of,
    running_program,
    worker_of,
)

S1 = PATH.format("s1")
JSON = ("--format", "json")
PAGE = f"/sessions/{quote(KEY, safe='')}/score"


def left_by_a_run(service: ScoringService, kind: str) -> None:
    """Let ``judge run`` begin to score the session; kill it, or let its endpoint go down."""
    service.judge.script_turn(
        "missing-tools", Scripted(delay_s=30) if kind == "killed" else http_error(401)
    )
    with subprocess.Popen(
        [str(SCRIPT), "judge", "run"],
        env=environment_of(service),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as run:
        service.judge.wait_for(2, 90)
        if kind == "killed":
            wait_for(lambda: service.score().turn_log)
            run.kill()
        run.wait(60)
    assert len(service.score().turn_log) == 1


@pytest.fixture
def program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Program:
    """The terminal program on the stores of this test's service."""
    started = Program(tmp_path, monkeypatch, capsys)
    monkeypatch.setenv("EVAL_DATA_DIR", str(tmp_path))
    return started


def said(service: ScoringService, program: Program) -> tuple[str, str, str]:
    """Return the state of a session's newest scoring in the terminal, the API and on its page."""
    record = service.client().get(S1).json()["status"]
    page = service.client().get(PAGE).text
    shown = "in_progress" if "Being judged" in page else "not in progress"
    (listed,) = [item["status"] for item in program("judge", "list", *JSON).items()]
    return listed, record, shown


def heard(service: ScoringService) -> list[str]:
    """Return the events of the session, oldest first, as a listener gets them."""
    events = list[str]()
    newest = service.scores.events(service.score().score_id)[-1].event_id
    settings = service.workplace.settings.model_copy(update={"service_scoring": "dagster"})
    listening = Service(replace(service.workplace, settings=settings))  # it does not judge
    url = f"{URL.format('session:s1')}&after=0"
    with listening.client() as client, client.websocket_connect(url) as socket:
        while True:
            event = socket.receive_json()
            events.append(event["type"].removeprefix("scoring."))
            if event["event_id"] == newest:
                return events


@pytest.mark.parametrize(
    "way",
    [
        pytest.param("SIGTERM", marks=pytest.mark.slow),
        pytest.param("SIGKILL", marks=pytest.mark.slow),
        "full disk",
        "power cut",
    ],
)
def test_a_judge_that_dies_is_at_work_on_no_surface_and_a_service_finishes_its_request(
    tmp_path: Path, program: Program, way: str
) -> None:
    with ExitStack() as stack:
        service = stack.enter_context(open_service(tmp_path))
        judge, begun = service.judge, ["started", "progress"]
        judge.may_answer.clear()
        service.client().post(S1)
        command, environment = [str(SCRIPT), "judge", "run"], environment_of(service)
        with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
            judge.wait_for(1, 90)
            assert said(service, program) == ("in_progress",) * 3
            match way:
                case "SIGTERM":
                    process.send_signal(signal.SIGTERM)
                    begun.append("deferred")
                case "SIGKILL":
                    process.kill()
                case "full disk":  # no file of that process may grow
                    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
                    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1, hard))
                    judge.may_answer.set()
                case "power cut":
                    service = stack.enter_context(after_a_power_cut(service, tmp_path / "after"))
                    process.kill()
            process.wait(60)
        judge.may_answer.set()
        assert said(service, program) == ("pending", "pending", "not in progress")
        assert heard(service) == begun
        with worker_of(service):
            assert ended(service).status == "completed"
        assert heard(service)[-1] == "completed"
        # Only the reply that could not be stored was asked for twice.
        assert judge.turns() == ["score", "score", "missing-tools"]


@contextmanager
def after_a_power_cut(service: ScoringService, folder: Path) -> Iterator[ScoringService]:
    """Open what a disk has if the power fails now, in the middle of another commit."""
    folder.mkdir()
    for path in service.workplace.settings.data_dir.iterdir():
        if path.is_dir() and path != folder:
            shutil.copytree(path, folder / path.name)
        elif path.name.startswith("ledger.db") and not path.name.endswith("-shm"):
            shutil.copy(path, folder / path.name)
    with (folder / "ledger.db-wal").open("ab") as log:
        log.write(b"half a frame" * 100)
    with open_judged(folder, service.judge.base_url) as judged:
        os.environ["EVAL_DATA_DIR"] = str(folder)
        yield ScoringService(judged.workplace, service.judge)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "asked_by"),
    [("killed", "api"), ("stopped", "forced"), ("killed", "page"), ("stopped", "terminal")],
)
def test_what_a_run_left_is_scored_when_a_person_asks(
    tmp_path: Path, kind: str, asked_by: str
) -> None:
    with open_service(tmp_path) as service:
        left_by_a_run(service, kind)
        with running_program(service) as (_, address):
            api, page = address + S1, address + PAGE
            wait_for(lambda: httpx.get(api, timeout=60).json()["status"] == "pending")
            before = httpx.get(page, timeout=60).text
            assert "A judge run left it unfinished" in before
            assert "a minute or so" not in before
            assert ">Judge session</button>" in before
            match asked_by:
                case "page":
                    found = re.search(r'form_token" value="(\w+)"', before)
                    assert found
                    form = {"form_token": found[1]}
                    asked = httpx.post(page, data=form, headers={"Origin": address}, timeout=60)
                    assert asked.status_code == 303
                case "terminal":
                    command = [str(SCRIPT), "judge", "s1"]
                    subprocess.run(command, env=environment_of(service), check=True)
                case _:
                    body = {"force_rescore": asked_by == "forced"}
                    assert httpx.post(api, json=body, timeout=60).status_code == 202
            score = ended(service)
        assert (score.status, score.requested_by is not None) == ("completed", True)
        # The reply that was paid for is not asked for again.
        assert service.judge.turns() == ["score", "missing-tools", "missing-tools"]


def test_what_a_run_left_becomes_a_request_once(tmp_path: Path) -> None:
    with open_service(tmp_path) as service:
        left = ScoreStore(service.workplace.ledger).create(
            replace(new_score(KEY, organization_id="default"), **content_of(service)),
            service.clock(),
        )
        client = service.client()
        for force, status in ((True, 202), (True, 409), (False, 202)):
            assert client.post(S1, json={"force_rescore": force}).status_code == status
        score = service.score()
        assert (score.score_id, score.status, score.requested_by) == (
            left.score_id,
            "pending",
            "local",
        )


def content_of(service: ScoringService) -> dict[str, Any]:
    """Return what a request for ``s1`` would score."""
    plans = load_plans(service.workplace.stores, service.clock())
    (window,) = read_windows(
        service.workplace.stores,
        service.workplace.lake.partitions(AGENT_SESSIONS),
        service.clock(),
    )
    setup = plans.default.setup
    return {
        "content_hash": window.content_hash,
        "rubric": setup.rubric,
        "prompt_hash": setup.prompt_hash,
        "judge_model": setup.model,
    }


@pytest.mark.parametrize(
    ("fault", "reason", "calls"),
    [
        (hangs(), "no complete answer within", 3),
        (http_error(401), "the endpoint answered 401", 1),
    ],
)
def test_a_request_fails_after_its_attempts_with_the_reason(
    tmp_path: Path, program: Program, fault: Scripted, reason: str, calls: int
) -> None:
    with open_service(tmp_path, judge_timeout_seconds=0.5) as service:
        service.judge.always(fault)
        service.client().post(S1)
        with worker_of(service):
            score = ended(service)
        record = service.client().get(S1).json()
        assert (score.status, score.retriable) == ("failed", True)
        assert reason in record["error_message"]
        assert len(service.judge.requests) == calls
        assert escape(record["error_message"]) in service.client().get(PAGE).text
        assert said(service, program) == ("failed", "failed", "not in progress")
        assert heard(service) == ["started", "progress", "failed"]


def test_requests_share_one_circuit_breaker(tmp_path: Path) -> None:
    names = [f"s{n}" for n in range(8)]
    lines = [session_with_texts(name) for name in names]
    with open_service(tmp_path, *lines) as service:
        service.judge.always(http_error(503))
        client = service.client()
        for name in names:
            client.post(PATH.format(name))
        with worker_of(service) as worker:
            wait_for(lambda: waiting(service, names) + failed(service, names) == 8)
            # At most one request of each, and the retries of those that failed before the fifth.
            assert 5 <= len(service.judge.requests) <= 12
            sent = len(service.judge.requests)
            left = next(name for name in names if service.score(key(name)).is_open)
            record = client.get(PATH.format(left)).json()
            assert record["status"] == "pending"
            assert "the judge endpoint is down: " in record["deferred_because"]
            page = client.get(f"/sessions/{quote(key(left), safe='')}/score").text
            assert f"Postponed: {escape(record['deferred_because'])}" in page
            # An endpoint that stays away fails them, without a call.
            for number in range(2, 5):
                for name in names:
                    if service.score(key(name)).is_open:
                        client.post(PATH.format(name))  # asked for again: at once
                worker.notify()
                wait_for(partial(have_waited, service, names, number))
            assert failed(service, names) == 8
        assert len(service.judge.requests) == sent
        assert "is down" in client.get(PATH.format(left)).json()["error_message"]


def have_waited(service: ScoringService, names: list[str], waits: int) -> bool:
    return waiting(service, names, waits) + failed(service, names) == 8


def waiting(service: ScoringService, names: list[str], waits: int = 1) -> int:
    """Return how many requests have waited so often."""
    scores = [service.score(key(name)) for name in names]
    return sum(score.is_open and score.waits >= waits for score in scores)


def key(name: str) -> str:
    return f"{name}#baseline-1"


def failed(service: ScoringService, names: list[str]) -> int:
    return sum(service.score(key(name)).status == "failed" for name in names)


def test_an_unreadable_reply_is_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "ghp_" + "a1B2" * 9
    reply = f"I will not judge {secret}.\n" + "No. " * 100
    with open_service(tmp_path) as service, caplog.at_level(logging.WARNING):
        service.judge.always(Scripted(text=reply))
        score_id = service.client().post(S1).json()["score_id"]
        with worker_of(service):
            assert ended(service).status == "failed"
            wait_for(lambda: score_id in caplog.text)
    (said,) = [record.getMessage() for record in caplog.records if score_id in record.getMessage()]
    assert KEY in said
    assert secret not in said
    shown = said.partition("the judge wrote: ")[2]
    assert shown.startswith("I will not judge [redacted:")
    assert len(shown) == 200


@pytest.mark.slow
def test_a_stop_tells_listeners_what_becomes_of_a_scoring(tmp_path: Path) -> None:
    with open_service(tmp_path) as service:
        service.judge.script_turn("missing-tools", Scripted(delay_s=30))
        with running_program(service) as (process, address):
            url = f"ws{address.removeprefix('http')}/api/v1/events?channel=session:s1"
            with connect(url) as socket:
                assert httpx.post(address + S1, timeout=60).status_code == 202
                service.judge.wait_for(2, 90)
                process.send_signal(signal.SIGTERM)
                events = []
                with suppress(ConnectionClosedError):  # the service closes the connection
                    while True:
                        events.append(json.loads(socket.recv(60)))
            process.wait(60)
        assert [event["type"] for event in events][-1] == "scoring.deferred"
        assert "the judge was stopped" in events[-1]["error_message"]
        assert service.score().status == "pending"


@pytest.mark.slow
def test_the_service_warns_once_if_no_judge_is_set(tmp_path: Path) -> None:
    with open_service(tmp_path, judge_model=None) as service:
        environment = environment_of(service)
        del environment["EVAL_JUDGE_MODEL"]
        with running_program(service, environment):
            log = (service.workplace.settings.data_dir / "serve.log").read_text()
    assert log.count("set EVAL_JUDGE_MODEL to the name of a model") == 1
