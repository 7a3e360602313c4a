"""Migrations of the ledger that end between their first write and their commit.

The kernel kills the process at an exact byte: a file must not grow beyond a limit. Nothing of the
process runs after that, as after SIGKILL.
"""

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from evaluation_pipelines.storage.ledger.ledger import open_ledger
from evaluation_pipelines.storage.ledger.revision import NEWEST_REVISION
from evaluation_pipelines.storage.ledger.service_events import ServiceEvents
from evaluation_pipelines_tests.storage.ledger.former_ledger import (
    FORMER_REVISION,
    differences,
    give_former_events,
    minutes,
)

HALF_A_LOG = 300_000
"""Bytes; the migration of 1000 events of each kind writes a log of 550 kB when it commits."""

OPEN = """
import resource, signal, sys
from evaluation_pipelines.storage.ledger.ledger import open_ledger
limit = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
open_ledger(sys.argv[1]).close()
"""


def test_a_migration_killed_in_its_commit_is_done_by_the_next_start(tmp_path: Path) -> None:
    path = former_ledger(tmp_path, events=1_000)
    assert is_killed_at(path, HALF_A_LOG)
    assert path.with_name("ledger.db-wal").stat().st_size == HALF_A_LOG

    assert revision(path) == FORMER_REVISION
    assert_everything_is_migrated_once(path, events=1_000)


@pytest.mark.slow
def test_a_migration_killed_at_any_byte_is_done_by_the_next_start(tmp_path: Path) -> None:
    """SQLite has no memory for all these events: it writes before the commit as well."""
    events = 8_000
    former = former_ledger(tmp_path, events)
    revisions, logs = [], []
    for limit in range(40_000, 3 * former.stat().st_size, 100_000):
        path = tmp_path / f"{limit}.db"
        path.write_bytes(former.read_bytes())
        is_done = not is_killed_at(path, limit)
        log = path.with_name(f"{limit}.db-wal")
        logs.append(log.stat().st_size if log.exists() else 0)
        revisions.append(revision(path))
        assert_everything_is_migrated_once(path, events)
        if is_done:
            break
    is_inside = [
        log > 0 and each == FORMER_REVISION for log, each in zip(logs, revisions, strict=True)
    ]
    assert sum(is_inside) > 20
    assert set(revisions) == {FORMER_REVISION, NEWEST_REVISION}
    assert is_done


def former_ledger(folder: Path, events: int) -> Path:
    """Return the file of a ledger of before, with as many events of each kind."""
    path = folder / "ledger.db"
    ledger = open_ledger(f"sqlite:///{path}")
    give_former_events(ledger, [f"score-{n}" for n in range(events)], minutes(events))
    ledger.close()
    return path


def is_killed_at(path: Path, limit: int) -> bool:
    """Open the ledger in a process that ends where a file grows beyond ``limit`` bytes."""
    command = [sys.executable, "-c", OPEN, f"sqlite:///{path}", str(limit)]
    code = subprocess.run(command, check=False).returncode
    assert code in (0, -signal.SIGXFSZ)
    return code != 0


def revision(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        (found,) = connection.execute("SELECT version_num FROM ledger_version").fetchone()
        return str(found)


def assert_everything_is_migrated_once(path: Path, events: int) -> None:
    ledger = open_ledger(f"sqlite:///{path}")
    found = ServiceEvents(ledger).after(0)
    assert [each.event_id for each in found] == list(range(7, 7 + 2 * events))
    assert [each.unique_id for each in found[:events]] == [f"uuid-{n}" for n in range(events)]
    assert [each.score_id for each in found[events:]] == [f"score-{n}" for n in range(events)]
    assert differences(ledger.engine) == []
    ledger.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
        assert not tables & {"evaluation_events", "scoring_events"}
