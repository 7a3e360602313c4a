import signal
import sqlite3
import subprocess
import sys
import threading
import traceback
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.engine import create_ledger_engine, reading, writing
from evaluation_pipelines.storage.ledger.errors import (
    LedgerDiskFullError,
    LedgerError,
    LedgerLockedError,
    LedgerNotWritableError,
    LedgerUnavailableError,
    LedgerUrlError,
    NoLedgerError,
    NotALedgerError,
)
from evaluation_pipelines.storage.ledger.ledger import Ledger, open_ledger
from evaluation_pipelines.telemetry.ledger.ingest_batches import SourceFiles
from evaluation_pipelines_tests.storage.ledger.revisions import differences
from evaluation_pipelines_tests.world.ledger import source_file


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A file: what follows is about files."""
    return f"sqlite:///{tmp_path / 'ledger.db'}"


def pragma(ledger: Ledger, name: str) -> object:
    with reading(ledger.engine) as connection:
        return connection.execute(sa.text(f"PRAGMA {name}")).scalar()


def test_a_ledger_that_is_only_looked_at_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(NoLedgerError, match=rf"no ledger {tmp_path}/a/ledger\.db yet"):
        open_ledger(f"sqlite:///{tmp_path}/a/ledger.db", create=False)

    assert list(tmp_path.iterdir()) == []


def test_another_database_that_is_looked_at_is_no_ledger_and_does_not_become_one(
    tmp_path: Path,
) -> None:
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as database:
        database.execute("CREATE TABLE shopping (item TEXT)")
    with pytest.raises(NoLedgerError):
        open_ledger(f"sqlite:///{tmp_path}/ledger.db", create=False)

    with closing(sqlite3.connect(tmp_path / "ledger.db")) as database:
        assert database.execute("SELECT name FROM sqlite_master").fetchall() == [("shopping",)]


def test_the_file_is_set_up_to_survive_a_power_cut_and_many_processes(ledger: Ledger) -> None:
    assert pragma(ledger, "journal_mode") == "wal"
    assert pragma(ledger, "synchronous") == 2  # FULL
    assert pragma(ledger, "foreign_keys") == 1
    assert pragma(ledger, "busy_timeout") == 60_000


def test_opening_a_ledger_that_is_up_to_date_imports_nothing_slow(url: str) -> None:
    open_ledger(url).close()
    slow = ("alembic",) if "postgresql" in url else ("alembic", "sqlalchemy.dialects.postgresql")
    code = (
        "import sys\n"
        "from evaluation_pipelines.storage.ledger.ledger import open_ledger\n"
        f"open_ledger({url!r}).close()\n"
        f"assert not [name for name in sys.modules if name.startswith({slow!r})]\n"
    )
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root)


@pytest.mark.parametrize(
    "url",
    ["ledger.db", "", "sqlite://", "sqlite:///:memory:", "mysql://h/d", "postgresql+no://h/d"],
)
def test_a_url_that_cannot_hold_a_ledger_is_refused_with_advice(url: str) -> None:
    with pytest.raises(LedgerUrlError, match="Use sqlite:///path"):
        open_ledger(url)


def test_a_password_in_the_url_is_not_shown() -> None:
    with pytest.raises(LedgerUrlError) as raised:
        open_ledger("mysql://me:secret@host/db")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("place", ["me:x@host:secret/db", "me:x@secret@host/db"])
def test_a_url_with_unescaped_characters_is_refused_without_its_parts(place: str) -> None:
    with pytest.raises(LedgerUrlError, match=r"write / .* as %2F") as raised:
        open_ledger(f"postgresql+psycopg://{place}")
    error = raised.value
    assert "secret" not in f"{error} {error.__cause__}"


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_text("this is my shopping list\n" * 100)

    with pytest.raises(NotALedgerError, match=r"ledger\.db .*not a database"):
        open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}")


def test_a_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(LedgerNotWritableError, match=r"/file/deeper .*another place"):
        open_ledger(f"sqlite:///{tmp_path}/file/deeper/ledger.db")


def test_a_ledger_that_may_not_be_written_says_so(ledger: Ledger) -> None:
    def forbid_writing(connection: sqlite3.Connection, *_: object) -> None:
        connection.execute("PRAGMA query_only = ON")

    ledger.engine.dispose()
    sa.event.listen(ledger.engine, "connect", forbid_writing)

    with pytest.raises(LedgerNotWritableError, match="permissions"):
        SourceFiles(ledger).add(source_file())


def test_a_full_disk_says_so_and_leaves_the_ledger_intact(ledger: Ledger) -> None:
    def fill_disk(connection: sqlite3.Connection, *_: object) -> None:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")

    SourceFiles(ledger).add(source_file())
    ledger.engine.dispose()
    sa.event.listen(ledger.engine, "connect", fill_disk)

    with pytest.raises(LedgerDiskFullError, match="Free some space"):
        SourceFiles(ledger).add(source_file("f2", path="x" * 100_000))

    sa.event.remove(ledger.engine, "connect", fill_disk)
    ledger.engine.dispose()
    assert SourceFiles(ledger).all() == [source_file()]
    SourceFiles(ledger).add(source_file("f2", path="x" * 100_000))


def test_a_write_waits_for_the_lock_and_then_says_who_to_look_for(url: str, ledger: Ledger) -> None:
    impatient = open_ledger(url, lock_timeout=0.1)
    with writing(ledger.engine), pytest.raises(LedgerLockedError, match="Find the run that hangs"):
        SourceFiles(impatient).add(source_file())

    SourceFiles(impatient).add(source_file())  # the lock is free again
    impatient.close()


def test_a_fresh_file_that_someone_holds_is_waited_for_and_then_named(
    url: str, tmp_path: Path
) -> None:
    holder = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(LedgerLockedError):
        open_ledger(url, lock_timeout=0.1)

    holder.execute("ROLLBACK")
    holder.close()
    open_ledger(url, lock_timeout=0.1).close()


def test_a_fresh_file_that_someone_writes_is_waited_for(url: str, tmp_path: Path) -> None:
    # SQLite itself does not wait for a writer when it is to switch to the write-ahead log.
    writer = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None, check_same_thread=False)
    writer.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.2, writer.execute, ["ROLLBACK"])
    timer.start()

    open_ledger(url).close()

    timer.join()
    writer.close()


BOUND = "the id of a session"


def test_an_error_of_a_statement_is_one_line_without_values(ledger: Ledger) -> None:
    query = sa.text("select * from nowhere where id = :value")
    with pytest.raises(LedgerError, match="nowhere") as raised, reading(ledger.engine) as one:
        one.execute(query, {"value": BOUND})
    assert "\n" not in str(raised.value)
    assert BOUND not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("host", ["127.0.0.1:1", "no-such-host.invalid"])
def test_a_server_that_cannot_be_reached_is_named_in_one_line(host: str) -> None:
    url = f"postgresql+psycopg://me:topsecret@{host}/ledger"
    with pytest.raises(LedgerUnavailableError, match="Check that the server runs") as raised:
        open_ledger(url)
    assert "\n" not in str(raised.value)
    assert "topsecret" not in "".join(traceback.format_exception(raised.value))


def test_postgresql_without_its_driver_says_what_to_install() -> None:
    with pytest.raises(LedgerUrlError, match="pip install"):
        create_ledger_engine("postgresql+pg8000://me@host/db", 5)


OPEN = """
import resource, signal, sys
from evaluation_pipelines.storage.ledger.ledger import open_ledger
limit = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
open_ledger(sys.argv[1]).close()
"""
INSIDE = 100_000
"""Bytes; the tables and indexes of a new ledger take more."""


def test_a_creation_killed_in_its_commit_is_done_by_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    command = [sys.executable, "-c", OPEN, f"sqlite:///{path}", str(INSIDE)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGXFSZ
    assert path.with_name("ledger.db-wal").stat().st_size == INSIDE

    ledger = open_ledger(f"sqlite:///{path}")
    assert differences(ledger.engine) == []
    ledger.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
