"""Ledgers whose creation ends between its first write and its commit.

The kernel kills the process at an exact byte: a file must not grow beyond a limit. Nothing of the
process runs after that, as after SIGKILL. A migration is one transaction in the same way.
"""

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from evaluation_pipelines.storage.ledger.ledger import open_ledger
from evaluation_pipelines_tests.storage.ledger.revisions import differences

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
