"""The location with nothing but the landing folder and a process on one machine.

Dagster and ledger are in PostgreSQL, the lake is in a bucket, and a Ray cluster decodes and builds.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from evaluation_pipelines_tests.defs.code_location import session_line
from evaluation_pipelines_tests.defs.live_location import LiveLocation, start
from evaluation_pipelines_tests.defs.test_live_location import is_published, is_scored
from evaluation_pipelines_tests.docs.documents import FOLDER
from evaluation_pipelines_tests.engine.ray_nodes import cluster_with_bucket
from evaluation_pipelines_tests.servers.s3 import BUCKET
from evaluation_pipelines_tests.workplace import open_workplace

pytestmark = [
    pytest.mark.slow,  # minutes
    pytest.mark.filterwarnings("ignore"),  # those of Ray and of its dependencies
]
PATIENCE_S = 300
"""Each run starts a process, and workers in the cluster."""

RUNS = "{ runsOrError { ... on Runs { results { jobName status } } } }"


@pytest.fixture
def cluster(s3: str) -> Iterator[Any]:
    with cluster_with_bucket(s3) as started:
        yield started


@pytest.fixture
def databases(postgresql_server: str) -> Iterator[dict[str, str]]:
    """URLs of two empty databases, for Dagster and for the ledger."""
    server = sa.make_url(postgresql_server).set(drivername="postgresql+psycopg2")
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT")
    names = {what: f"{what}_{uuid4().hex}" for what in ("dagster", "ledger")}
    with engine.connect() as connection:
        for name in names.values():
            connection.execute(sa.text(f"CREATE DATABASE {name} TEMPLATE template0"))
        yield {
            what: server.set(database=name).render_as_string(hide_password=False)
            for what, name in names.items()
        }
        for name in names.values():
            connection.execute(sa.text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


def documents_home(folder: Path) -> Path:
    """Return a DAGSTER_HOME with the configuration of the documents, its files inside."""
    text = (FOLDER / "systemd" / "dagster.yaml").read_text("utf-8")
    folder.mkdir()
    (folder / "dagster.yaml").write_text(text.replace("/srv/evaluation/", f"{folder}/"), "utf-8")
    return folder


@pytest.mark.usefixtures("cluster")
def test_a_file_becomes_a_score_with_dagster_ledger_lake_and_workers_away(
    tmp_path: Path, databases: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_PG_URL", databases["dagster"])
    away: dict[str, Any] = {
        "ledger_url": databases["ledger"],
        "lake_dir": f"s3://{BUCKET}/{uuid4().hex}/lake",
        "engine": "ray",
        "shards": 2,
        "parallel_from_bytes": 1,
    }
    home = documents_home(tmp_path / "home")
    with (
        open_workplace(tmp_path / "data", **away) as workplace,
        start(tmp_path, home, data_dir=workplace.settings.data_dir, **away) as live,
    ):
        workplace.land("live.jsonl", session_line(20), "ab")
        _, scored_s = live.wait("score", partial(is_scored, workplace, "s-20"), PATIENCE_S)
        _, more_s = live.wait("row", partial(is_published, workplace, "s-20"), PATIENCE_S)
        print(f"file -> score {scored_s:.0f} s, -> analysts {more_s:.0f} s more")  # noqa: T201
        check_that_runs_are_in_postgresql(live, databases["dagster"])
        assert not workplace.settings.data_dir.joinpath("lake").exists()


def check_that_runs_are_in_postgresql(live: LiveLocation, url: str) -> None:
    """Each run was a process of the run launcher; none has failed."""
    runs = live.query(RUNS)["runsOrError"]["results"]
    assert {run["jobName"] for run in runs} >= {"ingest_landing", "build_daily_tables"}
    assert not [run for run in runs if run["status"] in {"FAILURE", "CANCELED"}]
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        stored = connection.scalar(sa.text("select count(*) from runs where status = 'SUCCESS'"))
    engine.dispose()
    assert stored
