"""PostgreSQL stops, or stops to answer, while the service runs: 503 soon, then at once."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from time import monotonic

import pytest
import sqlalchemy as sa

from evaluation_pipelines.access.key_ring import KeyRing
from evaluation_pipelines.service.app import create_app
from evaluation_pipelines.service.installation import Installation
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.stores import open_stores
from evaluation_pipelines_tests import postgresql
from evaluation_pipelines_tests.service.examples import route_table
from evaluation_pipelines_tests.service.live_service import server_in_thread

NEED_NO_LEDGER = {"/health", "/api", "/openapi.json", "/static/{name}"}


@contextmanager
def stopped(folder: Path) -> Iterator[None]:
    """End the server of a folder, as for an upgrade."""
    programs = postgresql.installed()
    assert programs is not None
    control = [f"{programs / 'pg_ctl'}", "-D", f"{folder / 'data'}", "-w"]
    options = (folder / "data" / "postmaster.opts").read_text()
    subprocess.run([*control, "-m", "immediate", "stop"], check=True, user=_owner(folder), cwd="/")
    yield
    given = options.partition(" ")[2].replace('"', "'").strip()
    start = [*control, "-l", f"{folder / 'log'}", "-o", given, "start"]
    subprocess.run(start, check=True, user=_owner(folder), cwd="/", stdout=subprocess.DEVNULL)


def _owner(folder: Path) -> str | int:
    return folder.stat().st_uid


@contextmanager
def frozen(folder: Path) -> Iterator[None]:
    """Let no process of the server run."""
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
    settings = Settings(_env_file=None, data_dir=folder, ledger_url=url)
    with open_stores(settings, is_served=True) as stores:
        app = create_app(Installation(stores, KeyRing(stores.ledger)))
        routes = [each.partition(" ") for each in route_table(app)]
        with server_in_thread(app) as port:
            yield port, [path for method, _, path in routes if method == "GET"]


@pytest.fixture(params=["psycopg", "psycopg2"])
def driver(request: pytest.FixtureRequest) -> Iterator[str]:
    """A driver of PostgreSQL."""
    module = pytest.importorskip(request.param)
    yield request.param
    if request.param == "psycopg2":
        module.extensions.set_wait_callback(None)


@pytest.mark.parametrize("go_away", [stopped, frozen])
def test_a_server_that_is_away_is_503_soon_and_then_at_once(
    server: str,
    tmp_path: Path,
    driver: str,
    go_away: Callable[[Path], AbstractContextManager[None]],
) -> None:
    named = sa.make_url(server).set(drivername=f"postgresql+{driver}")
    url = named.render_as_string(hide_password=False)
    with serving(tmp_path, url) as (port, paths):
        assert asked(port, "/ready")[0] == 200
        with go_away(Path(str(named.query["host"]))):
            status, seconds = asked(port, "/ready")
            assert (status, seconds < 5) == (503, True)
            answers = {path: asked(port, path) for path in paths}
        assert {path for path, (status, _) in answers.items() if status != 503} == NEED_NO_LEDGER
        waited = [
            path for path, (status, seconds) in answers.items() if status == 503 and seconds > 2
        ]
        assert len(waited) <= 1, waited  # whoever tried it again
        end = monotonic() + 20
        while asked(port, "/ready")[0] != 200:
            assert monotonic() < end
