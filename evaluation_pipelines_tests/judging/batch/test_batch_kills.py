"""Killed and concurrent runs in batch mode: no request is sent twice, and none is lost."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from evaluation_pipelines.judging.batch.send import BatchFiles
from evaluation_pipelines.judging.endpoint.batch_api import BatchApi
from evaluation_pipelines.judging.ledger.batch_store import BatchStore
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judging.batch.batched import Batched


def close_files(submission: BatchFiles) -> None:
    """Close the files that the end of a process would close."""
    for each in submission._files.values():
        each.content.close()


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
                batched.advance()
        batched.now += timedelta(minutes=11)

    return run


@pytest.mark.parametrize(
    ("owner", "name", "after", "sent"),
    [
        (ScoreStore, "create", True, 0),  # one scoring names its batch, which is not sent
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

    report = batched.advance()
    if sent:
        assert report.submitted == 0
    batched.finish_all()


@pytest.mark.parametrize(
    ("owner", "name", "after"),
    [
        pytest.param(BatchApi, "lines", False, marks=pytest.mark.slow),
        (ScoreStore, "log_turn", True),  # one reply is stored
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
    batched.land("s1", "s2")
    batched.advance()
    judge.batches.finish()
    kill(owner, name, after=after)

    batched.advance()
    batched.finish_all()
    assert {len(each.turn_log) for each in batched.all_scores()} == {2}
