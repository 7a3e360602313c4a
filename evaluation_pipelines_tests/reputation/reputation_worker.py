"""A process that upserts signals and refreshes scores, for tests that kill it or fill its disk."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import polars as pl

from evaluation_pipelines.reputation.store import ReputationStore, revision_at
from evaluation_pipelines.schemas import REPUTATION_EVENTS
from evaluation_pipelines.storage.clickhouse import ClickHouseError, open_clickhouse
from evaluation_pipelines_tests.reputation.reputation_signals import random_signals, uuid

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
_SIGNALS, _IDENTITIES = 3_000, 20


def state(number: int) -> pl.DataFrame:
    """Return the signals after a number of changes: some move in time, some to another agent."""
    rows = random_signals(_SIGNALS, _IDENTITIES, days=80, end=NOW)
    index = pl.int_range(pl.len())
    others = pl.lit(uuid(number % _IDENTITIES))
    return rows.with_columns(
        timestamp=pl.when(index % 3 == number % 3)
        .then(pl.col("timestamp") - timedelta(hours=number))
        .otherwise("timestamp"),
        identity_id=pl.when(index % 5 == number % 5).then(others).otherwise("identity_id"),
        score_delta=pl.when(index % 2 == number % 2).then(-pl.col("score_delta")).otherwise(0.125),
    )


def put(dsn: str, number: int) -> ReputationStore:
    """Make the store hold a state."""
    with open_clickhouse(dsn, patience_s=30) as clickhouse:
        store = ReputationStore(clickhouse)
        store.migrate(NOW)
        store.upsert(REPUTATION_EVENTS, state(number), revision_at(datetime.now(UTC)))
        return store


@contextmanager
def worker(mode: str, dsn: str) -> Iterator["subprocess.Popen[str]"]:
    """A process that waits for a line before it starts; killed at the end."""
    module = "evaluation_pipelines_tests.reputation.reputation_worker"
    with subprocess.Popen(
        [sys.executable, "-m", module, mode, dsn],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def begin(process: "subprocess.Popen[str]") -> None:
    """Let it begin once everything is imported, and wait until it writes."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("go\n")
    process.stdin.flush()
    assert process.stdout.readline() == "writing\n"


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _repeat(store: ReputationStore) -> None:
    number = 0
    while True:
        number += 1
        store.upsert(REPUTATION_EVENTS, state(number), revision_at(datetime.now(UTC)))
        store.refresh()


def _once(store: ReputationStore) -> None:
    store.upsert(REPUTATION_EVENTS, state(1), revision_at(datetime.now(UTC)))


def _on_a_full_disk(store: ReputationStore) -> None:
    """No file may grow beyond 16 KiB: what an insert meets on a full disk, but for the number."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16 * 1024, hard))
    try:
        _once(store)
        _tell("no error")
    except ClickHouseError as error:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        _tell(f"error: {error}")
    _once(store)
    _tell("done")


_MODES = {"repeat": _repeat, "once": _once, "full": _on_a_full_disk}


def main() -> None:
    """``reputation_worker MODE DSN``."""
    _, mode, dsn = sys.argv
    state(1)
    _tell("ready")
    sys.stdin.readline()
    with open_clickhouse(dsn, patience_s=30) as clickhouse:
        store = ReputationStore(clickhouse)
        store.migrate(NOW)
        _tell("writing")
        _MODES[mode](store)
    os._exit(0)


if __name__ == "__main__":
    main()
