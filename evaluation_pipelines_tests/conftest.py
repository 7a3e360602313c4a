"""Fixtures that many tests share."""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
import sqlalchemy as sa
from hypothesis import settings

from evaluation_pipelines.reputation.store import ReputationStore
from evaluation_pipelines.settings.data import USUAL_START_DATE
from evaluation_pipelines.storage.clickhouse import open_clickhouse
from evaluation_pipelines.storage.ledger.ledger import Ledger, open_ledger
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.servers import clickhouse_databases, postgresql
from evaluation_pipelines_tests.servers.clickhouse_databases import REAL_SERVER
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import DAY_S, session
from evaluation_pipelines_tests.world.built_before import build_by

if TYPE_CHECKING:
    from evaluation_pipelines_tests.servers.landing_bucket import Bucket

# The code location would begin with the demo, if the data folder of this checkout has one.
os.environ.setdefault("EVAL_START_DATE", USUAL_START_DATE.isoformat())

# What is imported and collected is no garbage: looking for it takes half of the time of both.
gc.disable()

# The examples of the profile ``ci``, which `make test-all` takes, but fewer of them.
settings.register_profile("few", settings.get_profile("ci"), max_examples=30)


@pytest.fixture
def workplace(tmp_path: Path) -> Iterator[Workplace]:
    """Empty stores in a temporary folder."""
    with open_workplace(tmp_path) as opened:
        yield opened


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """URL of a PostgreSQL server: the one that TEST_POSTGRESQL_URL names, else one of our own."""
    if given := os.environ.get("TEST_POSTGRESQL_URL"):
        yield given
        return
    programs = postgresql.installed()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    with postgresql.running_server(programs) as url:
        yield url


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """Address of an S3 server with an empty bucket."""
    from evaluation_pipelines_tests.servers.s3 import running_server  # slow to import

    with running_server() as endpoint:
        yield endpoint


@pytest.fixture
def bucket(s3: str, monkeypatch: pytest.MonkeyPatch) -> Iterator["Bucket"]:
    """An empty prefix of the bucket."""
    from evaluation_pipelines_tests.servers.landing_bucket import landing_bucket  # slow to import

    with landing_bucket(s3, monkeypatch) as opened:
        yield opened


@pytest.fixture
def in_bucket(program: Program, bucket: "Bucket", monkeypatch: pytest.MonkeyPatch) -> Program:
    """The terminal program whose telemetry is in the bucket."""
    monkeypatch.setenv("EVAL_LANDING_DIR", bucket.url)
    return program


@pytest.fixture
def program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Program:
    """The terminal program in an empty folder."""
    return Program(tmp_path, monkeypatch, capsys)


_THREE_DAYS = b"".join(session(f"s{day}", day * DAY_S) for day in range(3))


@pytest.fixture
def three_days(program: Program) -> Program:
    """The same, with a session each on June 1st, 2nd and 3rd ingested."""
    program.land("logs.jsonl", _THREE_DAYS)
    program("ingest")
    return program


@pytest.fixture
def built_days(program: Program) -> Program:
    """The same, built."""
    build_by(program, _THREE_DAYS)
    return program


@pytest.fixture(scope="module")
def embedded_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The DSN of an engine within this process, which can hold only one at a time."""
    with clickhouse_databases.embedded(tmp_path_factory.mktemp("engine") / "data") as dsn:
        yield dsn


@pytest.fixture(scope="session")
def clickhouse_over_http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The DSN of a server."""
    with clickhouse_databases.server(tmp_path_factory.mktemp("server") / "data") as dsn:
        yield dsn


@pytest.fixture
def clickhouse_over_http_database(clickhouse_over_http: str) -> Iterator[str]:
    """The DSN of a database of its own on a server."""
    with clickhouse_databases.database(clickhouse_over_http) as dsn:
        yield dsn


@pytest.fixture(params=["embedded_engine", "clickhouse_over_http"])
def clickhouse_dsn(request: pytest.FixtureRequest) -> Iterator[str]:
    """The DSN of a database of its own: a test runs within this process and over HTTP."""
    with clickhouse_databases.database(request.getfixturevalue(request.param)) as dsn:
        yield dsn


@pytest.fixture
def one_clickhouse_dsn(request: pytest.FixtureRequest) -> Iterator[str]:
    """The DSN of a database of its own: on the real server where one is named, else embedded."""
    where = "clickhouse_over_http" if REAL_SERVER in os.environ else "embedded_engine"
    with clickhouse_databases.database(request.getfixturevalue(where)) as dsn:
        yield dsn


@pytest.fixture
def reputation_store(one_clickhouse_dsn: str) -> Iterator[ReputationStore]:
    """An empty store of reputation."""
    with open_clickhouse(one_clickhouse_dsn, patience_s=0) as clickhouse:
        store = ReputationStore(clickhouse)
        store.migrate(NOW)
        yield store


_LONG = ("docs/test_outputs.py", "cli/test_demo.py", "_kills.py")
_OF_THE_LEDGER = ("ledger", "storage/", "test_postgresql.py", "from_two_machines")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests that take longest: at the end they would run alone on one core.

    Only tests of the ledger, its locks and statements always run on PostgreSQL, too.
    """
    items.sort(key=lambda item: not any(name in item.nodeid for name in _LONG))
    for item in items:
        file, _, case = item.nodeid.partition("::")
        if "[postgresql" in case and not any(name in file for name in _OF_THE_LEDGER):
            item.add_marker("slow")


def pytest_collection_finish() -> None:
    """Leave modules and collected tests out of later garbage collections: they stay anyway."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where a ledger will be; nothing is there yet."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'ledger.db'}"
        return
    server = sa.make_url(request.getfixturevalue("postgresql_server"))
    name = f"ledger_{uuid4().hex}"
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name} TEMPLATE template0"))
        yield server.set(database=name).render_as_string(hide_password=False)
        connection.execute(sa.text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    """A fresh ledger."""
    opened = open_ledger(url)
    yield opened
    opened.close()


@pytest.fixture
def interrupt() -> Iterator[None]:
    """Handle Ctrl-C even if a shell has started the tests in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
