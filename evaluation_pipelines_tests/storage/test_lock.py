"""The one lock: who holds it alone, how it becomes free, and whose commits are refused."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from threading import Thread

import pytest
import sqlalchemy as sa
import time_machine

from evaluation_pipelines.storage import lock
from evaluation_pipelines.storage.ledger.engine import writing
from evaluation_pipelines.storage.ledger.ledger import Ledger, open_ledger
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.tables.telemetry import HOLDERS
from evaluation_pipelines.storage.lock import (
    Hold,
    LockLostError,
    LockTimeoutError,
    NoLockError,
    file_system,
    held,
    holders,
)
from evaluation_pipelines.storage.parts import NewPart
from evaluation_pipelines_tests.storage.locks import cut_holders, lose_lock
from evaluation_pipelines_tests.storage.pooler import pooler

DAY = date(2026, 6, 1)
PART = NewPart("agent_sessions", DAY, "old.parquet", 1, 1, "00", "agent_sessions")
on_postgresql = pytest.mark.parametrize("url", ["postgresql"], indirect=True)
on_sqlite = pytest.mark.parametrize("url", ["sqlite"], indirect=True)

HOLD = """
import sys, time
from evaluation_pipelines.storage.ledger.ledger import open_ledger
from evaluation_pipelines.storage.lock import held
with held(open_ledger(sys.argv[1]), "build 2026-06-01"):
    print("held", flush=True)
    time.sleep(600)
"""
OTHER_USER = 65534


@contextmanager
def another_process(url: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLD, url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def current(ledger: Ledger) -> list[str]:
    return [part.path for part in Manifest(ledger).current("agent_sessions", DAY)]


def test_a_lock_has_one_holder_in_all_threads_and_others_are_free(ledger: Ledger) -> None:
    pattern = (
        rf"the lock build 2026-06-01 within 0.3 s: process {os.getpid()} on "
        rf"{socket.gethostname()} holds it. Check whether it hangs, end it"
    )
    with held(ledger, "build 2026-06-01", "build 2026-06-02") as hold, held(ledger, "publish"):
        hold.check()
        for names in (["build 2026-06-01"], ["build 2026-05-31", "build 2026-06-01"]):
            with (
                pytest.raises(LockTimeoutError, match=pattern) as refused,
                held(ledger, *names, timeout_s=0.3),
            ):
                pass
            assert refused.value.name == "build 2026-06-01"
        assert [holder.name for holder in holders(ledger)] == [
            "build 2026-06-01",
            "build 2026-06-02",
            "publish",
        ]
    with held(ledger, "build 2026-05-31", "build 2026-06-01"):
        pass
    assert holders(ledger) == []


def test_who_waits_has_the_lock_when_the_other_is_done(ledger: Ledger) -> None:
    order = list[str]()

    def second() -> None:
        with held(ledger, "publish", timeout_s=60):
            order.append("second")

    with held(ledger, "publish"):
        waiting = Thread(target=second)
        waiting.start()
        waiting.join(0.5)
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]


def test_a_process_that_is_killed_holds_nothing_more(url: str, ledger: Ledger) -> None:
    """The lock file that it leaves, and its row, stop no other."""
    with another_process(url) as process:
        with (
            pytest.raises(LockTimeoutError, match=f"process {process.pid} on "),
            held(ledger, "build 2026-06-01"),
        ):
            pass
        assert [holder.process_id for holder in holders(ledger)] == [process.pid]
        process.send_signal(signal.SIGKILL)
        process.wait()
        # PostgreSQL notices the end of a connection within moments.
        with held(ledger, "build 2026-06-01", timeout_s=5) as hold:
            assert [holder.process_id for holder in holders(ledger)] == [os.getpid()]
            Manifest(ledger).switch([PART], datetime.now(UTC), hold)
    assert current(ledger) == ["old.parquet"]


def test_who_is_done_is_not_named_any_more(ledger: Ledger) -> None:
    with held(ledger, "publish", "erase"):
        assert [holder.name for holder in holders(ledger)] == ["erase", "publish"]
    with writing(ledger.engine) as connection:
        assert connection.execute(sa.select(HOLDERS)).all() == []


@on_sqlite
def test_many_may_ask_at_once_for_a_lock_that_is_free(ledger: Ledger) -> None:
    with held(ledger, "publish"):
        path = lock._path(ledger, "publish")
        assert lock._is_locked(path)
    with ThreadPoolExecutor(8) as pool:
        assert not any(pool.map(lock._is_locked, [path] * 2000))


@on_postgresql
def test_ledgers_in_two_schemas_of_a_database_have_locks_of_their_own(url: str) -> None:
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        for schema in ("a", "b"):
            connection.execute(sa.schema.CreateSchema(schema))
    engine.dispose()
    options = [{"options": f"-csearch_path={schema}"} for schema in ("a", "b")]
    urls = [f"{sa.make_url(url).update_query_dict(option)}" for option in options]
    with (
        closing(open_ledger(urls[0])) as a,
        closing(open_ledger(urls[1])) as b,
        held(a, "publish"),
        held(b, "publish"),
    ):
        assert len(holders(a)) == len(holders(b)) == 1


@on_postgresql
@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_a_cut_connection_makes_the_next_commit_fail(url: str, driver: str) -> None:
    opened = open_ledger(url.replace("+psycopg:", f"+{driver}:"))
    with closing(opened) as ledger, held(ledger, "build 2026-06-01") as hold:
        hold.check()
        assert cut_holders(url) == 1
        with pytest.raises(LockLostError, match="build 2026-06-01 is lost: nothing was written"):
            Manifest(ledger).switch([PART], datetime.now(UTC), hold)
        with pytest.raises(LockLostError):
            hold.check()
        with held(ledger, "build 2026-06-01") as other:
            other.check()
        assert current(ledger) == []


def test_a_holder_that_was_overtaken_writes_nothing(ledger: Ledger) -> None:
    """With SQLite: a second machine, whose locks this one does not see."""
    with held(ledger, "build 2026-06-01") as hold:
        lose_lock(ledger, "build 2026-06-01")
        with pytest.raises(LockLostError):
            Manifest(ledger).switch([PART], datetime.now(UTC), hold)
    assert current(ledger) == []


@on_postgresql
def test_who_takes_over_waits_for_a_commit_that_has_checked_the_lock(
    url: str, ledger: Ledger
) -> None:
    """Between the check and the commit the connection is cut."""
    taken = list[Hold]()

    def take_over() -> None:
        with held(ledger, "build 2026-06-01", timeout_s=60) as hold:
            taken.append(hold)

    with held(ledger, "build 2026-06-01") as hold:
        other = Thread(target=take_over)
        with writing(ledger.engine) as connection:
            hold.check(connection)
            cut_holders(url)
            other.start()
            other.join(1)
            assert taken == []
        other.join()
    assert len(taken) == 1


@on_sqlite
def test_a_lock_file_that_was_deleted_is_a_lost_lock(ledger: Ledger) -> None:
    with held(ledger, "publish") as hold:
        shutil.rmtree(f"{ledger.engine.url.database}.locks")
        with pytest.raises(LockLostError, match="publish is lost"):
            hold.check()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make files of another user")
def test_the_owner_of_the_folder_may_lock_what_root_has_locked_before() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        url = f"sqlite:///{folder / 'ledger.db'}"
        with closing(open_ledger(url)) as ledger:
            os.chown(folder, OTHER_USER, OTHER_USER)
            with held(ledger, "build 2026-06-01"):
                locks = folder / "ledger.db.locks"
                made = [locks, *locks.iterdir()]
                assert [path.stat().st_uid for path in made] == [OTHER_USER, OTHER_USER]
        os.chown(folder / "ledger.db", OTHER_USER, OTHER_USER)
        os.seteuid(OTHER_USER)
        try:
            with closing(open_ledger(url)) as ledger, held(ledger, "build 2026-06-01") as hold:
                hold.check()
        finally:
            os.seteuid(0)


@on_postgresql
def test_a_pooler_of_connections_is_refused(url: str, ledger: Ledger) -> None:
    with (
        pooler(url) as pooled,
        closing(open_ledger(pooled)) as through,
        pytest.raises(NoLockError, match="A connection pooler"),
        held(through, "publish"),
    ):
        pass
    with held(ledger, "publish"):
        pass


MOUNTS = """22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:35 / {} rw,relatime shared:2 - nfs4 server:/data rw
41 22 8:2 / {}/local rw,relatime - xfs /dev/sdb1 rw
"""


@on_sqlite
def test_a_ledger_on_a_network_disk_is_refused(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.format(tmp_path, tmp_path))
    assert file_system(tmp_path / "local" / "a", mounts) == "xfs"
    assert file_system(tmp_path.parent, mounts) == "ext4"
    monkeypatch.setattr(lock, "_MOUNTS", mounts)
    with pytest.raises(NoLockError, match=r"nfs4.*Several machines need"), held(ledger, "publish"):
        pass


@pytest.mark.parametrize("hours", [-30, 30])
def test_a_wrong_clock_does_not_matter(ledger: Ledger, hours: int) -> None:
    with held(ledger, "publish") as hold:
        with time_machine.travel(datetime.now(UTC) + timedelta(hours=hours)):
            with pytest.raises(LockTimeoutError), held(ledger, "publish"):
                pass
            hold.check()
        hold.check()
