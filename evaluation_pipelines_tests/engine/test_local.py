"""The local engine: processes that are killed or fail, and results in order."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from time import monotonic, sleep

import pytest

from evaluation_pipelines.engine.local import LocalEngine
from evaluation_pipelines.engine.work import EngineError, Request, Work
from evaluation_pipelines_tests.engine.steps import DIE, DOUBLE, DOUBLE_IN_THREADS, REFUSE

NUMBERS = list(range(40))


def elsewhere(requests: list[Request]) -> Iterator[Request]:
    """Yield requests slowly, so that this process does not take all of them itself."""
    for each in requests:
        yield each
        sleep(0.01)


@pytest.mark.parametrize("work", [DOUBLE, DOUBLE_IN_THREADS])
@pytest.mark.parametrize("processes", [1, 3])
def test_every_request_is_answered_once_and_in_order(
    work: Work[int, int, int], processes: int
) -> None:
    with LocalEngine(processes) as engine:
        answers = list(engine.run(work, NUMBERS, 3))
        again = list(engine.run(work, NUMBERS, 4))
    assert answers == [(number, 3 * number) for number in NUMBERS]
    assert again == [(number, 4 * number) for number in NUMBERS]


@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_of_the_work_is_raised_in_its_turn(processes: int) -> None:
    done: list[int] = []
    with LocalEngine(processes) as engine, pytest.raises(ValueError, match="3 refused"):
        done.extend(number for number, _ in engine.run(REFUSE, NUMBERS, "refused"))
    assert done == [0, 1, 2]


@pytest.mark.parametrize(("kills", "survives"), [(1, True), (2, False)])
def test_a_killed_process_is_replaced_once(tmp_path: Path, kills: int, survives: bool) -> None:
    notes = tmp_path / str(kills)
    notes.mkdir()
    with LocalEngine(2) as engine:
        list(engine.run(DOUBLE, [1], 1))
        # The first request runs here at once; the second one may only run in the other process.
        answers = engine.run(DIE, elsewhere([1, 1, 1, 1]), (os.getpid(), notes))
        if survives:
            assert [answer for _, answer in answers] == [1, 1, 1, 1]
        else:
            with pytest.raises(EngineError, match=r"signal 9 during die_here, .* run the step"):
                list(answers)


def test_a_process_killed_while_idle_is_replaced() -> None:
    with LocalEngine(2) as engine:
        assert len(list(engine.run(DOUBLE, NUMBERS, 1))) == 40
        assert engine._processes is not None
        (worker,) = engine._processes._workers
        os.kill(worker._process.pid, signal.SIGKILL)
        answers = engine.run(DOUBLE, elsewhere(NUMBERS), 2)
        assert list(answers) == [(number, 2 * number) for number in NUMBERS]


def test_processes_end_with_the_engine_even_if_the_caller_stops_early() -> None:
    with LocalEngine(3) as engine:
        for _ in engine.run(DOUBLE, NUMBERS, 2):
            break
        assert engine._processes is not None
        started = [each._process for each in engine._processes._workers]
    assert [each.returncode for each in started] == [-signal.SIGKILL] * 2


def test_a_worker_ends_when_its_input_is_closed() -> None:
    with TemporaryFile() as replies:
        number = replies.fileno()
        command = (sys.executable, "-m", "evaluation_pipelines.engine.worker", str(number))
        ended = subprocess.run(
            command, input=b"", capture_output=True, check=False, pass_fds=(number,)
        )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


def test_a_start_of_processes_is_not_paid_for_threads() -> None:
    began = monotonic()
    with LocalEngine(4) as engine:
        assert len(list(engine.run(DOUBLE_IN_THREADS, NUMBERS, 1))) == 40
        assert engine._processes is None
    assert monotonic() - began < 5
