"""Erasures that are killed: the next run does the rest."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from evaluation_pipelines.erasure.domain.subject import Subject
from evaluation_pipelines.erasure.forget import Forget
from evaluation_pipelines.erasure.ledger_rows import Erasures
from evaluation_pipelines_tests.erasure.two_people import EMAIL, fill_fresh, found, two_people
from evaluation_pipelines_tests.erasure.whole_installation import fill_everything
from evaluation_pipelines_tests.program import SCRIPT
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace

COMMITS_OF_TWO = 8
"""Commit points of an erasure of one of two people, without other stores."""


class Killed(BaseException):
    """Stands for a kill: nothing catches it."""


def run(workplace: Workplace, subject: Subject, done: Callable[[str], None]) -> None:
    Forget(workplace.stores, "root", rewrite_landing=True, clock=lambda: NOW, done=done).run(
        subject
    )


def killed_after(commits: int) -> Callable[[str], None]:
    left = iter(range(commits - 1))

    def done(_what: str) -> None:
        if next(left, None) is None:
            raise Killed

    return done


def check(workplace: Workplace, folder: Path, subject: Subject) -> None:
    """The run after a kill does everything; a further one has nothing to do."""
    run(workplace, subject, lambda _what: None)
    assert found(folder) == {}
    assert workplace.sessions()["session_id"].to_list() == ["sess-of-ben"]
    assert workplace.ingest().counts.lines == 0
    assert all(row.completed_at for row in Erasures(workplace.ledger).all())
    taken = [row.rows.get("agent_events_landed", 0) for row in Erasures(workplace.ledger).all()]
    assert sum(taken) == 8


@pytest.mark.parametrize(
    "commits",
    [
        pytest.param(number, marks=() if number in (1, 4) else pytest.mark.slow)
        for number in range(1, COMMITS_OF_TWO + 1)
    ],
)
def test_a_run_after_a_kill_at_any_commit_does_the_rest(tmp_path: Path, commits: int) -> None:
    subject = Subject("person", EMAIL)
    with open_workplace(tmp_path) as workplace:
        fill_fresh(workplace, two_people())
        with pytest.raises(Killed):
            run(workplace, subject, killed_after(commits))
        check(workplace, tmp_path, subject)


@pytest.mark.slow
def test_all_commits_are_numbered(tmp_path: Path) -> None:
    with open_workplace(tmp_path) as workplace:
        fill_fresh(workplace, two_people())
        commits = list[str]()
        run(workplace, Subject("person", EMAIL), commits.append)
        assert len(commits) == COMMITS_OF_TWO, commits


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_run_after_a_kill_at_any_moment_does_the_rest(tmp_path: Path, seed: int) -> None:
    folder = tmp_path / "data"
    with open_workplace(folder) as workplace:
        fill_everything(workplace)
    command = [str(SCRIPT), "forget", "--person", "ada", "--rewrite-landing"]
    process = subprocess.Popen(
        command,
        env={**os.environ, "EVAL_DATA_DIR": str(folder)},
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    waiting_s = random.Random(seed).uniform(0.5, 9)  # noqa: S311 - no secret
    time.sleep(waiting_s)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with open_workplace(folder) as workplace:
        check(workplace, folder, Subject("person", "ada"))
