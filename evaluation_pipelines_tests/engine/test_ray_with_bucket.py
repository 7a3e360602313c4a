"""Everything away from one machine at once: Ray, a ledger in PostgreSQL, and the lake in a bucket.

Telemetry of a generated team has the same rows in all tables as with threads, SQLite and a folder.
"""

import hashlib
import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import date, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import polars as pl
import pytest

from evaluation_pipelines.build.build import Build
from evaluation_pipelines.build.results import DateBuilt
from evaluation_pipelines.comparison.masque_lift import write_masque_lift
from evaluation_pipelines.engine.work import EngineError
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_SESSIONS,
    SESSION_PERFORMANCE,
    TABLES,
    Table,
)
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.ledger.errors import LedgerUnavailableError
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches
from evaluation_pipelines_tests.build.test_postgresql import cutting, fresh_ledger, sessions
from evaluation_pipelines_tests.engine.ray_nodes import cluster_with_bucket, killing, nodes
from evaluation_pipelines_tests.object_server import BUCKET
from evaluation_pipelines_tests.telemetry_generator.generator import Extent, write_telemetry
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace

pytest.importorskip("ray", reason="Ray is not installed (pip install ray)")

pytestmark = [
    pytest.mark.slow,  # a cluster of three nodes takes 10 s and 1 GB
    pytest.mark.filterwarnings("ignore"),  # those of Ray and of its dependencies
]
BUILT = (AGENT_EVENTS, AGENT_SESSIONS, SESSION_PERFORMANCE)
SMALL: dict[str, Any] = {"batch_bytes": 4_000, "parallel_from_bytes": 1, "shards": 2}
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
    assert {type(each) for each in workplace.build()} == {DateBuilt}
    write_masque_lift(workplace.stores, NOW)


def hashes(lake: Lake) -> dict[str, str]:
    """Return a hash of each table; landed rows have no key, and are sorted by all columns."""
    return {each.name: row_hash(lake.select(each), each.key) for each in TABLES}


def row_hash(rows: pl.DataFrame, key: Sequence[str]) -> str:
    """Return a hash of rows in the order of their key.

    They are hashed as Parquet: in Arrow any bytes may stand in the place of a null.
    """
    content = BytesIO()
    rows.sort(key or rows.columns).write_parquet(content, compression="uncompressed")
    return hashlib.sha256(content.getvalue()).hexdigest()


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("more", [0, 2])
def test_one_and_three_nodes_with_a_bucket_and_postgresql_make_the_rows_of_one_machine(
    url: str, tmp_path: Path, cluster: Any, on_one_machine: Workplace, more: int
) -> None:
    bucket = f"s3://{BUCKET}/{uuid4().hex}/lake"
    away = {"ledger_url": url, "lake_dir": bucket, "engine": "ray", **IN_PARALLEL}
    landed = on_one_machine.landing.root
    with (
        nodes(cluster, more),
        open_workplace(tmp_path, landing_dir=landed, **away) as workplace,
    ):
        fill(workplace)
        expected = hashes(on_one_machine.lake)
        assert hashes(workplace.lake) == expected
        rows = {each.name: workplace.lake.select(each).height for each in TABLES}
        assert (rows["agent_sessions"], rows["masque_lift"], rows["quarantine"]) == (78, 15, 3)
        assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("rounds", [2])
def test_killed_nodes_and_cut_connections_together_lose_nothing_and_double_nothing(
    url: str, tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    """Steps end with a clear error, or fail a date; they are repeated until nothing is due."""
    # A lease whose release was cut is waited for.
    monkeypatch.setattr("evaluation_pipelines.storage.date_lock.LEASE_S", 2.0)
    with open_workplace(tmp_path / "one machine") as one_machine:
        one_machine.land("logs.jsonl", sessions(24, 3))
        fill(one_machine)
        expected = {each.name: row_hash(built(one_machine, each), each.key) for each in BUILT}
    chance, kills, cuts = random.Random(rounds), 0, 0  # noqa: S311 - no secret
    for number in range(rounds):
        away = {"lake_dir": f"s3://{BUCKET}/{uuid4().hex}/lake", "engine": "ray", **SMALL}
        with (
            fresh_ledger(url, number) as of_round,
            open_workplace(tmp_path / str(number), ledger_url=of_round, **away) as workplace,
        ):
            workplace.land("logs.jsonl", sessions(24, 3))
            with (
                killing(cluster, lambda: chance.uniform(0.5, 5)) as killed,
                cutting(of_round, number) as counted,
            ):
                for _ in range(3):
                    with suppress(LedgerUnavailableError, EngineError):
                        workplace.ingest()
                    with suppress(LedgerUnavailableError, EngineError):
                        workplace.build()
            kills, cuts = kills + len(killed), cuts + len(counted)
            workplace.ingest()
            dates = [each.session_date for each in RebuildQueue(workplace.ledger).all()]
            results = Build(workplace.stores, clock=lambda: NOW + timedelta(days=2)).run(dates)
            assert {type(each) for each in results} == {DateBuilt}
            found = {each.name: row_hash(built(workplace, each), each.key) for each in BUILT}
            assert found == expected
            assert IngestBatches(workplace.ledger).totals().events == workplace.landed().height
    print(f"{rounds} rounds: {kills} nodes killed, connections cut {cuts} times")  # noqa: T201
    assert kills
    assert cuts


def built(workplace: Workplace, table: Table) -> pl.DataFrame:
    """Return the rows of a table without the id of the landing file."""
    return workplace.lake.select(table).drop("source_file_id", strict=False)
