"""SIGTERM ends all work of the judge as SIGINT does."""

import asyncio
import os
import signal
import tempfile
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from evaluation_pipelines.judging.endpoint.batch_api import BatchApi
from evaluation_pipelines.judging.endpoint.client import JudgeClient
from evaluation_pipelines.judging.plans import load_plans
from evaluation_pipelines.judging.validation import INTERRUPTED, load_labelled, validate
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judged import Judged
from evaluation_pipelines_tests.judging.batch.batched import open_batched

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
            batched.advance()
        with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
            patched.setattr(tempfile, "tempdir", str(files))
            patched.setattr(BatchApi, step, terminated)
            batched.advance()

        assert seen == [0 if step == "retrieve" else 1]
        assert list(files.glob("judge-batches-*")) == []
        batched.now += timedelta(minutes=11)
        for _ in range(3):
            batched.finish()
        assert [each.status for each in batched.all_scores()] == ["completed"]
        assert set(judge.batches.sent.values()) == {1}


@pytest.mark.usefixtures("_terminated_call")
def test_a_validation_is_interrupted(judged: Judged) -> None:
    stores = judged.workplace.stores
    plan = load_plans(stores, judged.now).default
    before = signal.getsignal(signal.SIGTERM)
    ended = validate(stores, plan, load_labelled(None)[:1])
    assert ended.stop_reason == INTERRUPTED  # with the verdicts that arrived
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.usefixtures("_terminated_call")
def test_a_background_command_that_ignores_sigint_is_interrupted(judged: Judged) -> None:
    stores = judged.workplace.stores
    plan = load_plans(stores, judged.now).default
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        ended = validate(stores, plan, load_labelled(None)[:1])
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.stop_reason == INTERRUPTED
