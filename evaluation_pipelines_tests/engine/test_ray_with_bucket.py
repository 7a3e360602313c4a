"""All away from one machine at once: Ray, a ledger in PostgreSQL, telemetry and lake in a bucket.

Telemetry of a generated team has the same rows in all tables as with threads, SQLite and a folder.
"""

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any
from uuid import uuid4

import obstore
import pytest
from obstore.store import from_url

from evaluation_pipelines.build import DateBuilt
from evaluation_pipelines.comparison.masque_lift import write_masque_lift
from evaluation_pipelines.schemas import TABLES
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines_tests.build.test_postgresql import fresh_ledger
from evaluation_pipelines_tests.engine.killed_rounds import disturbed_round, row_hash
from evaluation_pipelines_tests.engine.killed_rounds import on_one_machine as one_machine_hashes
from evaluation_pipelines_tests.engine.ray_nodes import cluster_with_bucket, nodes
from evaluation_pipelines_tests.servers.s3 import BUCKET
from evaluation_pipelines_tests.telemetry_generator.generator import Extent, write_telemetry
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace

pytestmark = [
    pytest.mark.slow,  # a cluster of three nodes takes 10 s and 1 GB
    pytest.mark.filterwarnings("ignore"),  # those of Ray and of its dependencies
]
IN_PARALLEL: dict[str, Any] = {"batch_bytes": 100_000, "parallel_from_bytes": 1, "shards": 4}


@pytest.fixture(scope="module")
def cluster(s3: str) -> Iterator[Any]:
    """A cluster of one node."""
    with cluster_with_bucket(s3) as started:
        yield started


@pytest.fixture(scope="module")
def on_one_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    """Generated telemetry, filled into a folder and SQLite by the local engine."""
    with open_workplace(tmp_path_factory.mktemp("local")) as workplace:
        write_telemetry(
            workplace.landing.root,
            seed=1,
            end=date(2026, 11, 21),
            extent=Extent(days=3, sessions_per_day=20),
            rotate_bytes=2_000_000,
        )
        workplace.land("broken.jsonl", b"no telemetry\n")
        fill(workplace)
        yield workplace


def fill(workplace: Workplace) -> None:
    workplace.ingest()
    assert {type(result) for result in workplace.build()} == {DateBuilt}
    write_masque_lift(workplace.stores, NOW)


def hashes(lake: Lake) -> dict[str, str]:
    """Return a hash of each table without ids of landing files, which an object has others of.

    Rows whose key has such an id are sorted by all columns, as landed rows, which have no key.
    """
    ids = {"source_file_id", "file_id"}
    return {
        table.name: row_hash(
            lake.select(table).drop(ids, strict=False), () if ids & {*table.key} else table.key
        )
        for table in TABLES
    }


def put_files(folder: Path, url: str, s3: str) -> None:
    """Put all files of a folder below a URL, as a collector does."""
    store = from_url(url, endpoint=s3, client_options={"allow_http": True})
    for path in folder.rglob("*"):
        if path.is_file():
            obstore.put(store, path.relative_to(folder).as_posix(), path)


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("more", [0, 2])
def test_one_and_three_nodes_with_a_bucket_and_postgresql_make_the_rows_of_one_machine(
    url: str,
    tmp_path: Path,
    s3: str,
    cluster: Any,
    on_one_machine: Workplace,
    caplog: pytest.LogCaptureFixture,
    more: int,
) -> None:
    bucket = f"s3://{BUCKET}/{uuid4().hex}"
    places = {"lake_dir": f"{bucket}/lake", "landing_dir": f"{bucket}/landing"}
    put_files(on_one_machine.landing.root, places["landing_dir"], s3)
    with (
        nodes(cluster, more),
        open_workplace(
            tmp_path, ledger_url=url, engine="ray", **places, **IN_PARALLEL
        ) as workplace,
    ):
        fill(workplace)
        expected = hashes(on_one_machine.lake)
        assert hashes(workplace.lake) == expected
        rows = {table.name: workplace.lake.select(table).height for table in TABLES}
        assert (rows["agent_sessions"], rows["masque_lift"], rows["quarantine"]) == (78, 15, 3)
        assert "decoded by the ingest alone" not in caplog.text
        assert not {"lake", "landing"} & {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("rounds", [2, 20])
def test_killed_nodes_and_cut_connections_together_lose_nothing_and_double_nothing(
    url: str, tmp_path: Path, cluster: Any, rounds: int
) -> None:
    expected, done = one_machine_hashes(tmp_path / "one machine"), []
    for number in range(rounds):
        with fresh_ledger(url, number) as of_round:
            folder = tmp_path / str(number)
            done.append(disturbed_round(cluster, of_round, folder, number, expected))
            assert done[-1].is_good, str(done[-1])
    assert sum(result.killed for result in done)
    assert sum(result.cuts for result in done)
