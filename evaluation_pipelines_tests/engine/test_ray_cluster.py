"""The engine of a Ray cluster: order, errors, no node, other versions, same rows."""

import os
import signal
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.build import Build, DateBuilt
from evaluation_pipelines.engine import EngineError, Work, open_engine
from evaluation_pipelines.schemas import AGENT_EVENTS, AGENT_SESSIONS, SESSION_PERFORMANCE
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches
from evaluation_pipelines_tests.engine.ray_nodes import nodes, running_cluster
from evaluation_pipelines_tests.engine.steps import DOUBLE, REFUSE
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import DAY_S, session
from evaluation_pipelines_tests.world.lake_files import sorted_rows

pytestmark = [
    pytest.mark.slow,  # a cluster of three nodes takes 10 s and 1 GB
    pytest.mark.filterwarnings("ignore"),  # those of Ray and of its dependencies
]
TELEMETRY = b"".join(session(f"s{n}", n % 4 * DAY_S) for n in range(60))
CHUNKS: dict[str, Any] = {"batch_bytes": 4_000, "parallel_from_bytes": 1, "shards": 4}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster of one node; tests add others, and end them."""
    with running_cluster() as started:
        yield started


@pytest.fixture
def address(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have the engine ``ray`` find the cluster."""
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    return str(cluster.address)


def rows(workplace: Workplace) -> dict[str, pl.DataFrame]:
    """Return the rows of the main tables, in the order of their keys, without the file's id."""
    tables = (AGENT_EVENTS, AGENT_SESSIONS, SESSION_PERFORMANCE)
    return {
        table.name: sorted_rows(workplace.lake, table).drop("source_file_id", strict=False)
        for table in tables
    }


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pl.DataFrame]:
    """Rows of the local engine, with a ledger in SQLite."""
    with open_workplace(tmp_path_factory.mktemp("local")) as workplace:
        workplace.land("logs.jsonl", TELEMETRY)
        workplace.ingest()
        workplace.build()
        return rows(workplace)


def finish(workplace: Workplace) -> None:
    """Ingest and build, and assert that everything was read once."""
    workplace.ingest()
    dates = [row.session_date for row in RebuildQueue(workplace.ledger).all()]
    built = Build(workplace.stores, clock=lambda: NOW + timedelta(days=2)).run(dates)
    assert {type(result) for result in built} == {DateBuilt}
    assert IngestBatches(workplace.ledger).totals().events == workplace.landed().height


@pytest.mark.usefixtures("address")
def test_requests_are_answered_in_order_and_errors_raised_in_their_turn() -> None:
    with open_engine("ray", "") as engine:
        assert list(engine.run(DOUBLE, range(20), 3)) == [(n, 3 * n) for n in range(20)]
        done: list[int] = []
        with pytest.raises(ValueError, match="3 refused"):
            done.extend(number for number, _ in engine.run(REFUSE, range(20), "refused"))
    assert done == [0, 1, 2]


@pytest.mark.usefixtures("address")
def test_the_program_keeps_its_handler_of_sigterm() -> None:
    """Dagster's cancels a run; with that of Ray the run would be a failed one."""

    def cancel(*_: object) -> None:
        """Do nothing."""

    before = signal.signal(signal.SIGTERM, cancel)
    try:
        with open_engine("ray", ""):
            assert signal.getsignal(signal.SIGTERM) is cancel
        assert signal.getsignal(signal.SIGTERM) is cancel
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with open_engine("ray", ""):
            pass
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("address")
def test_a_task_that_always_kills_its_process_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evaluation_pipelines.engine.ray_cluster.MAX_RETRIES", 1)
    with open_engine("ray", "") as engine:
        answers = engine.run(Work(end_this_process), [1], None)
        with pytest.raises(EngineError, match="given up by the Ray cluster after 1 more attempts"):
            list(answers)


def end_this_process(_shared: None, _request: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_of_another_version_is_refused() -> None:
    from evaluation_pipelines.engine.ray_cluster import _answer

    # Another version may lack what these bytes name.
    is_result, error = _answer("another", b"no function", b"", b"")
    assert not is_result
    assert isinstance(error, EngineError)
    assert str(error).endswith("Install the same version on all nodes, then run the step again.")


@pytest.mark.usefixtures("address")
def test_a_node_of_another_version_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evaluation_pipelines.engine.ray_cluster.program_version", lambda: "new")
    with open_engine("ray", "") as engine:
        answers = engine.run(DOUBLE, [1], 2)
        with pytest.raises(EngineError, match=r"The worker on .* has version .*, new is wanted"):
            list(answers)


@pytest.mark.usefixtures("address")
@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("more", [0, 2])
def test_one_and_three_nodes_make_the_rows_of_the_local_engine(
    url: str, tmp_path: Path, cluster: Any, expected: dict[str, pl.DataFrame], more: int
) -> None:
    with (
        nodes(cluster, more),
        open_workplace(tmp_path, ledger_url=url, engine="ray", **CHUNKS) as workplace,
    ):
        workplace.land("logs.jsonl", TELEMETRY)
        finish(workplace)
        found = rows(workplace)
        assert all(found[name].equals(of_table) for name, of_table in expected.items())


def test_a_cluster_without_a_node_that_runs_tasks_is_an_error(
    monkeypatch: pytest.MonkeyPatch, cluster: Any
) -> None:
    monkeypatch.setattr("evaluation_pipelines.engine.ray_cluster.NO_NODE_S", 3.0)
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    with open_engine("ray", "") as engine:
        monkeypatch.setattr("ray.nodes", lambda: [{"Alive": False, "Resources": {"CPU": 1.0}}])
        busy = Work(wait_here)
        for _ in range(2):  # each run waits anew
            began = monotonic()
            with pytest.raises(EngineError, match="no node with a CPU for 3 s"):
                list(engine.run(busy, [60.0], None))
            assert monotonic() - began > 3


@pytest.mark.usefixtures("address")
def test_tasks_have_ended_when_a_caller_stops_early(tmp_path: Path) -> None:
    with open_engine("ray", "") as engine:
        answers = engine.run(Work(keep_writing), [0, 1], tmp_path / "written")
        assert next(answers) == (0, None)
        while not (tmp_path / "written").exists():
            Event().wait(0.1)
        answers.close()
        size = (tmp_path / "written").stat().st_size
        Event().wait(0.5)
        assert (tmp_path / "written").stat().st_size == size


def keep_writing(path: Path, times_300: int) -> None:
    for _ in range(300 * times_300):
        with path.open("ab") as file:
            file.write(b".")
        Event().wait(0.1)


def wait_here(_shared: None, seconds: float) -> None:
    Event().wait(seconds)
