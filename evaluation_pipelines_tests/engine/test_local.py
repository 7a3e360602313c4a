"""The local engine: processes that are killed or fail, and results in order."""

import os
import subprocess
import sys
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import monotonic, sleep

import pytest

from evaluation_pipelines.engine import EngineError, Work
from evaluation_pipelines.engine.local import LocalEngine
from evaluation_pipelines_tests.engine.steps import DIE, DOUBLE, DOUBLE_IN_THREADS, REFUSE

NUMBERS = list(range(40))


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
        answers = engine.run(DIE, [1, 2, 3, 4], (os.getpid(), notes))
        if survives:
            assert [answer for _, answer in answers] == [1, 2, 3, 4]
        else:
            with pytest.raises(EngineError, match=r"killed during die_here, .* run the step"):
                list(answers)


def test_a_process_killed_while_idle_is_replaced() -> None:
    with LocalEngine(2) as engine:
        assert len(list(engine.run(DOUBLE, NUMBERS, 1))) == 40
        first, *_ = processes_of(engine)
        first.kill()
        first.join()
        answers = engine.run(DOUBLE, NUMBERS, 2)
        assert list(answers) == [(number, 2 * number) for number in NUMBERS]


def test_processes_end_with_the_engine_even_if_the_caller_stops_early() -> None:
    with LocalEngine(3) as engine:
        for _ in engine.run(DOUBLE, NUMBERS, 2):
            break
        started = processes_of(engine)
    assert not any(process.is_alive() for process in started)


def test_processes_end_when_the_program_is_killed() -> None:
    program = subprocess.Popen(
        (sys.executable, "-c", _PROGRAM), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    pids = [int(pid) for pid in program.stdout.readline().split()]
    assert pids
    program.kill()
    program.communicate()
    deadline = monotonic() + 20
    while any(map(is_running, pids)) and monotonic() < deadline:
        sleep(0.05)
    assert not any(map(is_running, pids))


def test_a_start_of_processes_is_not_paid_for_threads() -> None:
    with LocalEngine(4) as engine:
        assert len(list(engine.run(DOUBLE_IN_THREADS, NUMBERS, 1))) == 40
        assert engine._processes is None


_PROGRAM = """
import sys
from evaluation_pipelines.engine.local import LocalEngine
from evaluation_pipelines_tests.engine.steps import DOUBLE
with LocalEngine(2) as engine:
    list(engine.run(DOUBLE, range(8), 1))
    print(*engine._processes._processes, flush=True)
    sys.stdin.read()
"""
"""A program that starts processes, prints their numbers, and waits."""


def processes_of(engine: LocalEngine) -> list[BaseProcess]:
    """Return the processes of an engine."""
    assert engine._processes is not None
    return list(engine._processes._processes.values())


def is_running(pid: int) -> bool:
    """Return True while there is a process that is not only waited for."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
