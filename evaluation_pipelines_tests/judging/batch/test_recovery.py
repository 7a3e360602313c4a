"""Batches after failed routes and killed processes: no request is sent twice, and none is lost."""

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from evaluation_pipelines.judging.batch.send import BatchFiles
from evaluation_pipelines.judging.endpoint.batch_api import BatchApi
from evaluation_pipelines.judging.ledger.batch_store import BatchStore
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import load_plans
from evaluation_pipelines.judging.run import JudgeRun, RunRequest
from evaluation_pipelines.judging.runner import Interruption
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines_tests import judge_endpoint
from evaluation_pipelines_tests.judge_batches import BatchRoutes, lost
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judge_scripts import (
    Scripted,
    WireRequest,
    garbage,
    half_a_body,
    http_error,
    read_request,
)
from evaluation_pipelines_tests.judging.batch.batched import Batched


@pytest.mark.parametrize(
    ("answer", "created"),
    [
        (lost(), False),
        (lost(), True),
        pytest.param(http_error(500, "oops"), False, marks=pytest.mark.slow),
        pytest.param(http_error(500, "oops"), True, marks=pytest.mark.slow),
        pytest.param(http_error(429, "slow"), False, marks=pytest.mark.slow),
    ],
)
def test_a_creation_without_an_answer_is_found_out_by_the_next_run(
    batched: Batched, judge: JudgeEndpoint, answer: Scripted, created: bool
) -> None:
    batched.land("s1")
    judge.batches.script("create", answer, after=created)
    report = batched.run()
    assert "the next run finds out" in report.summary()
    assert batched.states() == ["submitting"]
    batched.run()
    assert batched.states() == ["submitted" if created else "submitting"]
    batched.now += timedelta(minutes=11)  # it would be listed by now
    batched.run()
    assert batched.states() == (["submitted"] if created else ["discarded", "submitted"])
    batched.finish_all()


@pytest.mark.parametrize(
    ("route", "answer"),
    [
        ("retrieve", garbage()),
        pytest.param("retrieve", http_error(500), marks=pytest.mark.slow),
        pytest.param("content", http_error(500), marks=pytest.mark.slow),
        pytest.param("content", lost(), marks=pytest.mark.slow),
        ("content", half_a_body()),
        ("delete", http_error(500)),
    ],
)
def test_a_poll_or_download_that_fails_is_repeated_by_the_next_run(
    batched: Batched, judge: JudgeEndpoint, route: str, answer: Scripted
) -> None:
    batched.send("s1")
    judge.batches.script(route, answer)
    batched.finish()
    batched.finish_all()


@pytest.fixture(params=[..., None, pytest.param(1_800_000_000_000, marks=pytest.mark.slow)])
def submitted(batched: Batched, judge: JudgeEndpoint, request: pytest.FixtureRequest) -> Batched:
    """Stores with a batch whose provider reports a time, none, or milliseconds as its end."""
    judge.batches.created_at = int(batched.now.timestamp())
    judge.batches.expires_at = request.param
    batched.send("s1")
    return batched


def test_a_batch_that_the_endpoint_does_not_know_is_given_up_when_it_has_expired(
    submitted: Batched, judge: JudgeEndpoint
) -> None:
    judge.batches.batches.clear()  # another key is set
    report = submitted.run()
    assert "check OPENAI_BASE_URL and OPENAI_API_KEY" in report.summary()
    assert (report.submitted, submitted.states()) == (0, ["submitted"])
    submitted.now += timedelta(hours=25)
    assert submitted.run().submitted == 1
    assert submitted.states() == ["discarded", "submitted"]


def test_a_file_of_results_that_cannot_be_read_is_read_again_and_nothing_is_sent_twice(
    submitted: Batched, judge: JudgeEndpoint
) -> None:
    judge.batches.finish()
    (batch,) = judge.batches.batches.values()
    output = judge.batches.files[batch["output_file_id"]]
    judge.batches.files[batch["output_file_id"]] = b"<html>try again</html>\n"
    report = submitted.run()
    assert "its files have 0 of 1 results" in report.summary()
    assert (report.submitted, submitted.states()) == (0, ["submitted"])
    judge.batches.files[batch["output_file_id"]] = output
    assert submitted.run().collected == 1
    submitted.finish_all()


def test_results_that_belong_to_no_waiting_request_are_ignored(
    batched: Batched, judge: JudgeEndpoint
) -> None:
    batched.send("s1")
    judge.batches.finish()
    (batch,) = judge.batches.batches.values()
    output = judge.batches.files[batch["output_file_id"]]
    stranger = output.replace(b'"custom_id": "', b'"custom_id": "00')
    judge.batches.files[batch["output_file_id"]] = b"".join(
        [b"not json\n", b'{"custom_id": 5}\n', b'{"custom_id": "x"}\n', stranger, output, output]
    )
    assert batched.run().collected == 1
    batched.finish_all()


def without_routes(routes: BatchRoutes) -> Callable[[], None]:
    """Make all routes unknown, as at another address; return a function that undoes it."""
    routes.enabled = False
    return lambda: setattr(routes, "enabled", True)


def of_another_account(routes: BatchRoutes) -> Callable[[], None]:
    """Leave routes without batches and files, as another key; return a function that undoes it."""
    had: list[tuple[dict[str, Any], dict[str, Any]]]
    had = [(kept, dict(kept)) for kept in (routes.batches, routes.files)]
    for kept, _ in had:
        kept.clear()

    def undo() -> None:
        for kept, before in had:
            kept.update(before)

    return undo


@pytest.fixture
def submitting(batched: Batched, judge: JudgeEndpoint) -> Batched:
    """Stores with a batch that was created without an answer, 11 minutes ago."""
    batched.land("s1")
    judge.batches.script("create", lost(), after=True)
    batched.run()
    batched.now += timedelta(minutes=11)
    return batched


@pytest.mark.parametrize("change", [without_routes, of_another_account])
def test_another_address_or_key_does_not_discard_a_batch(
    submitting: Batched, judge: JudgeEndpoint, change: Callable[[BatchRoutes], Callable[[], None]]
) -> None:
    undo = change(judge.batches)
    submitting.run()
    assert submitting.states() == ["submitting"]
    undo()
    submitting.run()
    assert submitting.states() == ["submitted"]
    assert set(judge.batches.sent.values()) == {1}


def test_a_batch_that_stays_unknown_is_given_up_after_a_day(
    submitting: Batched, judge: JudgeEndpoint
) -> None:
    of_another_account(judge.batches)
    submitting.now += timedelta(hours=23)
    assert "check OPENAI_BASE_URL and OPENAI_API_KEY" in submitting.run().summary()
    submitting.now += timedelta(hours=1)
    assert submitting.run().submitted == 1
    assert submitting.states() == ["discarded", "submitted"]


def test_a_batch_that_is_listed_without_metadata_is_found_by_its_file(
    submitting: Batched, judge: JudgeEndpoint
) -> None:
    for batch in judge.batches.batches.values():
        batch["metadata"] = None
    submitting.run()
    assert submitting.states() == ["submitted"]


def close_files(submission: BatchFiles) -> None:
    """Close the files that the end of a process would close."""
    for file in submission._files.values():
        file.content.close()


class KilledError(BaseException):
    """The process ends here."""


@pytest.fixture
def kill(monkeypatch: pytest.MonkeyPatch, batched: Batched) -> Callable[..., None]:
    """Return a function that runs until a step is reached, as if the process was killed there.

    Nothing is released afterwards but the lock.
    """

    def run(owner: type, name: str, *, after: bool = False) -> None:
        step = getattr(owner, name)

        def killed(*args: object, **kwargs: object) -> None:
            if after:
                step(*args, **kwargs)
            raise KilledError

        with monkeypatch.context() as patched:
            patched.setattr(owner, name, killed)
            # What would run after a signal, but not after a kill.
            patched.setattr(BatchFiles, "abandon", close_files)
            with pytest.raises(KilledError):
                batched.run()
        batched.now += timedelta(minutes=11)

    return run


@pytest.mark.parametrize(
    ("owner", "name", "after", "sent"),
    [
        pytest.param(BatchStore, "begin", True, 0, marks=pytest.mark.slow),
        (ScoreStore, "create", True, 0),  # one scoring names its batch, which is not sent
        pytest.param(BatchStore, "change", True, 0, marks=pytest.mark.slow),
        pytest.param(BatchApi, "upload", False, 0, marks=pytest.mark.slow),
        (BatchApi, "upload", True, 0),
        pytest.param(BatchApi, "create", False, 0, marks=pytest.mark.slow),
        (BatchApi, "create", True, 2),  # it exists, and the ledger does not know
        pytest.param(BatchStore, "note_submitted", False, 2, marks=pytest.mark.slow),
        pytest.param(BatchStore, "note_submitted", True, 2, marks=pytest.mark.slow),
    ],
)
def test_a_kill_during_submission_loses_and_repeats_nothing(
    batched: Batched,
    judge: JudgeEndpoint,
    kill: Callable[..., None],
    owner: type,
    name: str,
    after: bool,
    sent: int,
) -> None:
    batched.land("s1", "s2")
    kill(owner, name, after=after)
    assert len(judge.batches.sent) == sent

    report = batched.run()
    if sent:
        assert report.submitted == 0
    batched.finish_all()


@pytest.mark.parametrize(
    ("owner", "name", "after"),
    [
        pytest.param(BatchStore, "note_polled", True, marks=pytest.mark.slow),
        pytest.param(BatchApi, "lines", False, marks=pytest.mark.slow),
        (ScoreStore, "log_turn", True),  # one reply is stored
        pytest.param(ScoreStore, "release_batch", True, marks=pytest.mark.slow),
        pytest.param(BatchStore, "change", True, marks=pytest.mark.slow),
        (BatchApi, "delete", False),
        pytest.param(BatchApi, "delete", True, marks=pytest.mark.slow),
    ],
)
def test_a_kill_during_collection_loses_and_repeats_nothing(
    batched: Batched,
    judge: JudgeEndpoint,
    kill: Callable[..., None],
    owner: type,
    name: str,
    after: bool,
) -> None:
    batched.send("s1", "s2")
    judge.batches.finish()
    kill(owner, name, after=after)

    batched.run()
    batched.finish_all()
    assert {len(score.turn_log) for score in batched.all_scores()} == {2}


def run_until(batched: Batched, interruption: Interruption) -> None:
    """Run until it is interrupted."""
    stores, now = batched.workplace.stores, batched.now
    ways = load_plans(stores, now), RunRequest("tests"), lambda: now
    run = JudgeRun(stores, *ways, interruption=interruption)
    with pytest.raises(asyncio.CancelledError):
        run.run(stores.lake.partitions(AGENT_SESSIONS))


@pytest.mark.parametrize(("owner", "name"), [(ScoreStore, "create"), (BatchStore, "change")])
def test_what_is_written_when_a_run_is_interrupted_names_no_batch_that_was_given_up(
    batched: Batched, monkeypatch: pytest.MonkeyPatch, owner: type, name: str
) -> None:
    batched.land("s1", "s2")
    interruption, write = Interruption(), getattr(owner, name)

    def late(*args: object, **values: object) -> object:
        if name == "create" or values.get("state") == "submitting":
            interruption.set()
            time.sleep(0.5)  # another process writes meanwhile
        return write(*args, **values)

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, late)
        run_until(batched, interruption)
    batched.finish_all()
    assert batched.states() == ["discarded", "closed", "closed"]


def run_until_received(
    batched: Batched, monkeypatch: pytest.MonkeyPatch, method: str, path_end: str, delay_s: float
) -> list[str]:
    """Run until a request arrives, which takes effect later; return those that did by the end."""
    interruption, effective = Interruption(), list[str]()

    async def read_late(reader: asyncio.StreamReader) -> WireRequest | None:
        request = await read_request(reader)
        if request and request.method == method and request.path.endswith(path_end):
            interruption.set()
            await asyncio.sleep(delay_s)
            effective.append(request.path)
        return request

    with monkeypatch.context() as patched:
        patched.setattr(judge_endpoint, "read_request", read_late)
        run_until(batched, interruption)
    return effective


def test_a_file_that_arrives_after_an_interruption_is_deleted_by_the_next_run(
    batched: Batched, monkeypatch: pytest.MonkeyPatch
) -> None:
    batched.land("s1")
    run_until_received(batched, monkeypatch, "POST", "/v1/files", 1)
    time.sleep(1)
    batched.finish_all()


def test_an_interrupted_run_does_not_wait_for_an_answer(
    batched: Batched, judge: JudgeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    batched.send("s1")
    judge.batches.finish()
    assert run_until_received(batched, monkeypatch, "GET", "/content", 60) == []
    batched.finish_all()
