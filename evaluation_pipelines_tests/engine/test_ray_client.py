"""The engine ``ray://``: a client of a server that runs, ends in the middle, or is not there."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from threading import Event
from time import monotonic, sleep
from typing import Any

import pytest

from evaluation_pipelines.build import DateBuilt
from evaluation_pipelines.engine import EngineError, Work, open_engine
from evaluation_pipelines.telemetry.ingest import Ingest
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches
from evaluation_pipelines_tests.engine.killed_rounds import TELEMETRY, hashes
from evaluation_pipelines_tests.engine.killed_rounds import on_one_machine as one_machine_hashes
from evaluation_pipelines_tests.engine.ray_nodes import running_cluster
from evaluation_pipelines_tests.engine.steps import DOUBLE, REFUSE
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace

pytestmark = [
    pytest.mark.slow,  # a cluster takes 10 s to start
    pytest.mark.filterwarnings("ignore"),  # those of Ray and of its dependencies
    pytest.mark.parametrize("url", ["postgresql"], indirect=True),
]
SMALL: dict[str, Any] = {"batch_bytes": 500, "parallel_from_bytes": 1, "shards": 2}
"""A request for each of the 24 lines."""


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def client_server() -> Iterator[tuple[str, Any]]:
    """Start a cluster with a server for clients; yield its address and the cluster."""
    port = free_port()
    with pytest.MonkeyPatch.context() as patched:
        # The process that the server forks for a client sometimes ends at once with it.
        patched.setenv("GRPC_ENABLE_FORK_SUPPORT", "0")
        with running_cluster(num_cpus=2, ray_client_server_port=port) as started:
            wait_until_it_listens(port)
            yield f"ray://127.0.0.1:{port}", started


def wait_until_it_listens(port: int) -> None:
    """Wait for a server, which on a busy machine starts later than its cluster."""
    for _ in range(600):
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        sleep(0.1)
    raise TimeoutError(f"nothing listens on port {port}")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Address of a server that stays."""
    with client_server() as (started, _):
        yield started


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Hashes of the tables of one machine."""
    return one_machine_hashes(tmp_path_factory.mktemp("local"))


def is_complete(workplace: Workplace, expected: dict[str, str]) -> bool:
    """Ingest and build; return True if all rows are those of one machine, each counted once."""
    workplace.ingest()
    assert {type(result) for result in workplace.build()} == {DateBuilt}
    counted = IngestBatches(workplace.ledger).totals().events
    return hashes(workplace) == expected and counted == workplace.landed().height


def test_a_client_makes_the_rows_of_one_machine_and_connects_again(
    url: str, tmp_path: Path, address: str, expected: dict[str, str]
) -> None:
    with open_engine(address, url) as engine:
        assert list(engine.run(DOUBLE, range(20), 3)) == [(n, 3 * n) for n in range(20)]
        done: list[int] = []
        with pytest.raises(ValueError, match="3 refused"):
            done.extend(number for number, _ in engine.run(REFUSE, range(20), "refused"))
    assert done == [0, 1, 2]
    with open_workplace(tmp_path, ledger_url=url, engine=address, **SMALL) as workplace:
        workplace.land("logs.jsonl", TELEMETRY)
        assert is_complete(workplace, expected)


def test_an_address_where_nothing_listens_is_an_error_at_once(url: str) -> None:
    began = monotonic()
    with (
        pytest.raises(EngineError, match=r"cannot be used: .*refused\. Check that it runs"),
        open_engine(f"ray://127.0.0.1:{free_port()}", url),
    ):
        pass
    assert monotonic() - began < 5


def test_a_server_that_ends_is_an_error_and_the_next_run_finishes(
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    address: str,
    expected: dict[str, str],
) -> None:
    monkeypatch.setenv("RAY_CLIENT_RECONNECT_GRACE_PERIOD", "3")  # 30 seconds unless set
    with client_server() as (ending, cluster):

        def clock() -> datetime:
            """End the server once something is committed."""
            if cluster.head_node is not None and any((tmp_path / "lake").rglob("*.parquet")):
                cluster.remove_node(cluster.head_node, allow_graceful=False)
            return NOW

        with open_workplace(tmp_path, ledger_url=url, engine=ending, **SMALL) as workplace:
            workplace.land("logs.jsonl", TELEMETRY)
            with pytest.raises(EngineError, match="was lost during decode_byte_range"):
                Ingest(workplace.stores, clock).run()
            assert workplace.landed().height
    with open_workplace(tmp_path, ledger_url=url, engine=address, **SMALL) as workplace:
        assert is_complete(workplace, expected)


def test_after_its_server_ended_an_engine_runs_nothing_on_this_machine(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_CLIENT_RECONNECT_GRACE_PERIOD", "3")
    with client_server() as (ending, cluster), open_engine(ending, url) as engine:
        answers = engine.run(Work(wait_here), [0.0, 60.0], None)
        assert next(answers) == (0.0, None)
        cluster.remove_node(cluster.head_node, allow_graceful=False)
        with pytest.raises(EngineError, match="was lost during wait_here"):
            next(answers)
        with pytest.raises(EngineError, match="was lost during double"):
            list(engine.run(DOUBLE, [1], 2))


def wait_here(_shared: None, seconds: float) -> None:
    Event().wait(seconds)
