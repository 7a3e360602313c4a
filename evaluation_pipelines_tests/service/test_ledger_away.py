"""PostgreSQL refuses connections or freezes while the service runs: 503 soon, then at once."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from time import monotonic

import pytest
import sqlalchemy as sa

from evaluation_pipelines.access.key_ring import KeyRing
from evaluation_pipelines.service.app import create_app
from evaluation_pipelines.service.installation import Installation
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.ledger.engine import (
    lock_for_migration,
    outside_transactions,
    reading,
    writing,
)
from evaluation_pipelines.storage.ledger.errors import LedgerUnavailableError
from evaluation_pipelines.storage.ledger.ledger import open_ledger
from evaluation_pipelines.storage.lock import LockTimeoutError, held
from evaluation_pipelines.storage.stores import open_stores
from evaluation_pipelines_tests.servers import postgresql
from evaluation_pipelines_tests.service.examples import route_table
from evaluation_pipelines_tests.service.live_service import server_in_thread

ONLY_A_CLOCK = pytest.mark.slow
"""Only a clock shows how long something waits for a frozen server."""

NEED_NO_LEDGER = {"/health", "/api", "/docs", "/openapi.json", "/static/{name}"}
MOVED = {
    *("/books", "/books.csv", "/books/{day}", "/doctor"),
    *("/judge", "/judge.csv", "/quarantine", "/quarantine.csv"),
}
"""Old addresses; where they lead to needs the ledger."""


@contextmanager
def refusing(server: sa.URL) -> Iterator[None]:
    """End all connections of a server, and let it refuse new ones, as when it is restarted."""
    admin = sa.create_engine(server.set(database="template1"), isolation_level="AUTOCOMMIT")
    end = "select pg_terminate_backend(pid) from pg_stat_activity where datname = 'postgres'"
    with admin.connect() as connection:
        connection.execute(sa.text("ALTER DATABASE postgres ALLOW_CONNECTIONS false"))
        connection.execute(sa.text(end))
        try:
            yield
        finally:
            connection.execute(sa.text("ALTER DATABASE postgres ALLOW_CONNECTIONS true"))
    admin.dispose()


@contextmanager
def frozen(server: sa.URL) -> Iterator[None]:
    """Let no process of a server run."""
    folder = Path(str(server.query["host"]))
    main = int((folder / "data" / "postmaster.pid").read_text().split()[0])
    found = subprocess.run(["pgrep", "-P", str(main)], capture_output=True, check=True, text=True)
    every = [main, *map(int, found.stdout.split())]
    for pid in every:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in every:
            os.kill(pid, signal.SIGCONT)


def asked(port: int, path: str) -> tuple[int, float]:
    """Return the status of an answer, and the seconds it took."""
    began = monotonic()
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path)
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status, monotonic() - began


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A server of its own: all others would notice."""
    programs = postgresql.installed()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    with postgresql.running_server(programs) as url:
        yield url


@contextmanager
def serving(folder: Path, url: str) -> Iterator[tuple[int, list[str]]]:
    """Run the service on a ledger; yield its port and the paths of its routes."""
    settings = Settings(data_dir=folder, ledger_url=url)
    with open_stores(settings, is_served=True) as stores:
        app = create_app(Installation(stores, KeyRing(stores.ledger)))
        routes = [route.partition(" ") for route in route_table(app)]
        with server_in_thread(app) as port:
            yield port, [path for method, _, path in routes if method == "GET"]


@pytest.fixture(params=["psycopg", "psycopg2"])
def driver(request: pytest.FixtureRequest) -> Iterator[str]:
    """A driver of PostgreSQL."""
    module = pytest.importorskip(request.param)
    yield request.param
    if request.param == "psycopg2":
        module.extensions.set_wait_callback(None)


@contextmanager
def small_limits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Limits of a process other than the service, a tenth of what they are."""
    with monkeypatch.context() as context:
        for name, seconds in (("NO_ANSWER_S", 6.0), ("_CONNECT_S", 2)):
            context.setattr(f"evaluation_pipelines.storage.ledger.engine.{name}", seconds)
        yield


@ONLY_A_CLOCK
@pytest.mark.parametrize("is_idle", [False, True], ids=["within a transaction", "before one"])
def test_a_frozen_server_ends_a_process_other_than_the_service(
    server: str, driver: str, monkeypatch: pytest.MonkeyPatch, *, is_idle: bool
) -> None:
    named = sa.make_url(server).set(drivername=f"postgresql+{driver}")
    url = named.render_as_string(hide_password=False)
    with (
        small_limits(monkeypatch),
        closing(open_ledger(url, lock_timeout=4)) as ledger,
        ExitStack() as thaw,
    ):

        def use() -> None:
            if is_idle:
                thaw.enter_context(frozen(named))
            with reading(ledger.engine) as connection:
                if not is_idle:
                    thaw.enter_context(frozen(named))
                connection.execute(sa.text("select 1"))

        began = monotonic()
        with pytest.raises(LedgerUnavailableError, match=r"has not answered|timeout expired"):
            use()
        assert 5 < monotonic() - began < 12


def test_a_statement_that_takes_too_long_is_ended_and_a_migration_is_not(
    server: str, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = sa.make_url(server).set(drivername=f"postgresql+{driver}")
    monkeypatch.setattr("evaluation_pipelines.storage.ledger.engine.NO_ANSWER_S", 0.3)
    with closing(
        open_ledger(named.render_as_string(hide_password=False), lock_timeout=0.2)
    ) as ledger:
        slow = sa.text("select pg_sleep(2)")
        with (
            pytest.raises(LedgerUnavailableError, match="the server has not finished it in time"),
            reading(ledger.engine) as connection,
        ):
            connection.execute(slow)
        with writing(ledger.engine) as connection:
            lock_for_migration(connection)
            connection.execute(slow)
        with outside_transactions(ledger.engine) as connection:
            connection.execute(slow)


@ONLY_A_CLOCK
def test_a_lock_of_the_service_waits_for_its_holder_but_for_no_frozen_server(
    server: str, driver: str
) -> None:
    named = sa.make_url(server).set(drivername=f"postgresql+{driver}")
    url = named.render_as_string(hide_password=False)
    with closing(open_ledger(url)) as other, closing(open_ledger(url, is_served=True)) as served:
        with held(other, "judge"):
            began = monotonic()
            with pytest.raises(LockTimeoutError), held(served, "judge", timeout_s=5):
                pass
            assert 5 <= monotonic() - began < 8  # more than a statement may take
        with held(served, "judge") as hold:
            began = monotonic()
            with frozen(named), pytest.raises(LedgerUnavailableError):
                hold.check()
        assert monotonic() - began < 15
        with held(other, "judge", timeout_s=10):
            pass


@pytest.mark.parametrize("go_away", [refusing, pytest.param(frozen, marks=ONLY_A_CLOCK)])
def test_a_server_that_is_away_is_503_soon_and_then_at_once(
    server: str,
    tmp_path: Path,
    driver: str,
    go_away: Callable[[sa.URL], AbstractContextManager[None]],
) -> None:
    named = sa.make_url(server).set(drivername=f"postgresql+{driver}")
    url = named.render_as_string(hide_password=False)
    with serving(tmp_path, url) as (port, paths):
        assert asked(port, "/ready")[0] == 200
        with go_away(named):
            status, seconds = asked(port, "/ready")
            assert status == 503
            assert go_away is refusing or seconds < 5
            answers = {path: asked(port, path) for path in paths}
        answered = {path for path, (status, _) in answers.items() if status != 503}
        assert answered == NEED_NO_LEDGER | MOVED
        assert {answers[path][0] for path in MOVED} == {301}
        assert {f"/operations{path}" for path in MOVED} <= answers.keys() - answered
        waited = [
            path for path, (status, seconds) in answers.items() if status == 503 and seconds > 2
        ]
        assert go_away is refusing or len(waited) <= 1, waited  # whoever tried it again
        end = monotonic() + 20
        while asked(port, "/ready")[0] != 200:
            assert monotonic() < end


@pytest.mark.parametrize("go_away", [refusing, frozen])
def test_a_service_whose_server_is_away_ends_in_good_order(
    server: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    go_away: Callable[[sa.URL], AbstractContextManager[None]],
) -> None:
    with ExitStack() as comes_back:
        with serving(tmp_path, server) as (port, _):
            comes_back.enter_context(go_away(sa.make_url(server)))
            assert asked(port, "/ready")[0] == 503
        assert "the last events are not sent" in caplog.text
        assert [record for record in caplog.records if record.name == "uvicorn.error"] == []
