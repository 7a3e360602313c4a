"""The local engine: processes that are killed or fail, and results in order."""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import active_children
from pathlib import Path
from threading import Barrier, Event
from time import monotonic, sleep

import pytest

from evaluation_pipelines.engine import EngineError, Work, open_engine, work
from evaluation_pipelines.engine.local import LocalEngine
from evaluation_pipelines.engine.work import in_order
from evaluation_pipelines.settings import SettingsError, load_settings
from evaluation_pipelines_tests.engine.steps import DIE, DOUBLE, DOUBLE_IN_THREADS, REFUSE, WAIT

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
        first, *_ = active_children()
        first.kill()
        first.join()
        answers = engine.run(DOUBLE, NUMBERS, 2)
        assert list(answers) == [(number, 2 * number) for number in NUMBERS]


def test_short_requests_do_not_wait_for_a_long_one(tmp_path: Path) -> None:
    with LocalEngine(2) as engine:
        (_, notes), *_ = engine.run(WAIT, [1, 2, 3], tmp_path)
    assert notes == 3  # the other process did both while the first request ran


def test_processes_end_with_the_engine_even_if_the_caller_stops_early() -> None:
    with LocalEngine(3) as engine:
        for _ in engine.run(DOUBLE, NUMBERS, 2):
            break
        started = active_children()
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
        assert active_children() == []


_PROGRAM = """
import sys
from multiprocessing import active_children
from evaluation_pipelines.engine.local import LocalEngine
from evaluation_pipelines_tests.engine.steps import DOUBLE
with LocalEngine(2) as engine:
    list(engine.run(DOUBLE, range(8), 1))
    print(*(process.pid for process in active_children()), flush=True)
    sys.stdin.read()
"""
"""A program that starts processes, prints their numbers, and waits."""


def is_running(pid: int) -> bool:
    """Return True while there is a process that is not only waited for."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


POSTGRESQL = "postgresql+psycopg://user@host/ledger"


def test_the_local_engine_needs_neither_ray_nor_postgresql() -> None:
    assert isinstance(open_engine("local", "sqlite:///ledger.db"), LocalEngine)


def test_workers_elsewhere_need_a_ledger_that_they_reach() -> None:
    with pytest.raises(EngineError, match="EVAL_LEDGER_URL to a PostgreSQL database"):
        open_engine("ray://cluster:10001", "sqlite:///ledger.db")


def test_without_ray_its_name_is_an_error_that_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "evaluation_pipelines.engine.ray_cluster", raising=False)
    with pytest.raises(EngineError, match=r"pip install 'evaluation-pipelines\[ray\]'"):
        open_engine("ray", POSTGRESQL)


@pytest.mark.parametrize("name", ["ray://host", "ray://:1", "ray://host:x", "spark", ""])
def test_other_names_are_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("EVAL_ENGINE", name)
    if not name:  # as if it were not set
        assert load_settings().engine == "local"
        return
    with pytest.raises(SettingsError, match="must be local, ray or ray://<host>:<port>"):
        load_settings()


def version_with(sql: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the version of this program with one statement, computed anew."""
    (root / "duckdb").mkdir(parents=True)
    (root / "duckdb/agent_events.sql").write_text(sql)
    monkeypatch.setattr(work, "SQL_ROOTS", (root.with_name("missing"), root))
    work.program_version.cache_clear()
    found = work.program_version()
    work.program_version.cache_clear()
    return found


def test_other_sql_is_another_version_wherever_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, other = (
        version_with(sql, tmp_path / name, monkeypatch)
        for name, sql in (("sql", "select 1"), ("_sql", "select 1"), ("other", "select 2"))
    )
    assert one == two
    assert one != other
    monkeypatch.undo()
    assert work.program_version() not in (one, other)  # it has the statements of this project


SOON_S = 20


@dataclass
class Requests:
    """Requests that were taken, and futures that are answered at once or by the test."""

    count: int
    is_answered: bool = True
    taken: list[int] = field(default_factory=list)
    futures: dict[int, Future[int]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[int]:
        for number in range(self.count):
            self.taken.append(number)
            yield number

    def begin(self, request: int) -> Future[int]:
        """Begin a request."""
        self.futures[request] = Future()
        if self.is_answered:
            self.futures[request].set_result(10 * request)
        return self.futures[request]


def never(_request: int) -> bool:
    return False


@pytest.mark.parametrize("count", [0, 1, 7])
@pytest.mark.parametrize("limit", [1, 3])
@pytest.mark.parametrize("large", [None, 0, 3])
def test_every_request_is_yielded_once_and_in_order(
    count: int, limit: int, large: int | None
) -> None:
    requests = Requests(count)
    found = list(in_order(requests.begin, requests, limit, lambda batch: batch == large))
    assert found == [(number, 10 * number) for number in range(count)]
    assert requests.taken == list(range(count))


def test_as_many_are_begun_as_the_limit_says_and_one_more_for_each_that_was_taken() -> None:
    requests = Requests(9)
    found = in_order(requests.begin, requests, 3, never)
    assert next(found) == (0, 0)
    assert requests.taken == [0, 1, 2, 3]
    assert next(found) == (1, 10)
    assert requests.taken == [0, 1, 2, 3, 4]


def test_a_large_request_is_run_alone() -> None:
    requests = Requests(5)
    found = in_order(requests.begin, requests, 3, lambda request: request == 2)
    assert next(found) == (0, 0)
    assert sorted(requests.futures) == [0, 1]
    assert next(found) == (1, 10)
    assert sorted(requests.futures) == [0, 1, 2]
    assert next(found) == (2, 20)
    assert sorted(requests.futures) == [0, 1, 2, 3, 4]


def test_requests_are_run_in_parallel_while_the_caller_works() -> None:
    together = Barrier(3)

    def run(request: int) -> int:
        if request:
            together.wait(SOON_S)
        return request

    with ThreadPoolExecutor(2) as pool:
        found = in_order(lambda item: pool.submit(run, item), range(3), 3, never)
        assert next(found) == (0, 0)
        together.wait(SOON_S)  # both others are running
        assert list(found) == [(1, 1), (2, 2)]


def test_a_caller_that_stops_waits_for_running_requests_and_cancels_the_others() -> None:
    running, goes_on, ended = Event(), Event(), Event()

    def run(request: int) -> int:
        if request:
            running.set()
            goes_on.wait(SOON_S)
            ended.set()
        return request

    with ThreadPoolExecutor(1) as pool:
        requests = Requests(3)
        begun: list[Future[int]] = []

        def begin(request: int) -> Future[int]:
            begun.append(pool.submit(run, request))
            return begun[-1]

        found = in_order(begin, requests, 3, never)
        next(found)
        running.wait(SOON_S)
        goes_on.set()
        with pytest.raises(KeyboardInterrupt):
            found.throw(KeyboardInterrupt)
        assert ended.is_set()
        assert [future.done() for future in begun] == [True, True, True]


def test_an_error_of_the_requests_themselves_waits_for_what_runs() -> None:
    def broken() -> Iterator[int]:
        yield 0
        raise OSError("no more")

    requests = Requests(1)
    with pytest.raises(OSError, match="no more"):
        list(in_order(requests.begin, broken(), 2, never))
    assert requests.futures[0].done()


def test_after_a_breakdown_all_in_flight_are_begun_again() -> None:
    requests, broken = Requests(4, is_answered=False), list[int]()

    def begin(request: int) -> Future[int]:
        future = requests.begin(request)
        if broken:
            future.set_result(10 * request)
        elif request == 1:
            for pending in requests.futures.values():
                pending.set_exception(BrokenExecutor())
        return future

    found = list(in_order(begin, requests, 2, never, replace=broken.append))
    assert found == [(0, 0), (1, 10), (2, 20), (3, 30)]
    assert broken == [0]
    assert requests.taken == [0, 1, 2, 3]


def test_a_breakdown_that_cannot_be_mended_is_an_error() -> None:
    def refuse(request: int) -> None:
        raise ValueError(f"{request} again")

    def begin(request: int) -> Future[int]:
        future = Requests(1, is_answered=False).begin(request)
        future.set_exception(BrokenExecutor())
        return future

    with pytest.raises(ValueError, match="0 again"):
        next(in_order(begin, range(3), 1, never, replace=refuse))
