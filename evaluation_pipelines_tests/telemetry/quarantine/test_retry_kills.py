"""A retry that is killed at any step, and the retry after it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches
from evaluation_pipelines_tests.telemetry.pipeline_worker import environment
from evaluation_pipelines_tests.telemetry.quarantine.quarantined_lines import (
    SHORT,
    is_balanced,
    landed,
    long_line,
    retry,
    short_line,
    totals,
    unresolved,
)
from evaluation_pipelines_tests.workplace import Workplace, open_workplace

# Each folder is retried in a process that is killed one step later than the one before: at a file
# that is opened, renamed or deleted there, or at a commit. Prints the steps of the first one that
# ends by itself.
RETRY = """
import os, signal, sys, traceback
import sqlalchemy as sa
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import open_stores
from evaluation_pipelines.telemetry.quarantine.retry import Retry

def retry(folder, steps):
    left = iter(range(steps))
    def step(*_):
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
    def audit(event, arguments):
        is_file = event in ("open", "os.link", "os.rename", "os.remove")
        if is_file and str(arguments[0]).startswith(folder):
            step()
    os.environ["EVAL_DATA_DIR"] = folder
    with open_stores(load_settings()) as stores:
        sa.event.listen(stores.ledger.engine, "commit", step)
        sys.addaudithook(audit)
        Retry(stores).run()

for steps, folder in enumerate(sys.argv[1:]):
    if not (child := os.fork()):
        try:
            retry(folder, steps)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == 0:
        print(steps)
        break
    assert code == -signal.SIGKILL
"""


@pytest.mark.slow
def test_a_retry_that_is_killed_at_any_step_is_completed_by_the_next_one(tmp_path: Path) -> None:
    landing, whole = tmp_path / "landing", tmp_path / "whole"
    content = b"".join(short_line(2 * n) + long_line(2 * n + 1) for n in range(6))
    with open_workplace(
        whole, landing_dir=landing, batch_bytes=7_000, compact_parts=2, **SHORT
    ) as workplace:
        workplace.land("logs.jsonl", content + b"no telemetry\n")
        workplace.ingest()
        workplace.build()
        assert landed(workplace) == [0, 2, 4, 6, 8, 10]
    copies = [tmp_path / f"killed-{number:03}" for number in range(120)]
    for copy in copies:
        shutil.copytree(whole, copy)
    ended = subprocess.run(
        [sys.executable, "-c", RETRY, *map(str, copies)],
        env=environment(whole, landing_dir=landing),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    steps, undone, done = int(ended.stdout), 0, 0
    with open_workplace(copies[steps], landing_dir=landing) as workplace:
        expected = state(workplace)
    assert expected[0] == list(range(12))
    for copy in copies[:steps]:
        with open_workplace(copy, landing_dir=landing) as workplace:
            numbers = landed(workplace)
            assert is_balanced(workplace)
            assert len(numbers) + len(unresolved(workplace)) == 13
            undone, done = undone + (len(numbers) == 6), done + (len(numbers) == 12)
            retry(workplace)
            assert state(workplace) == expected
    assert min(undone, steps - undone - done, done) > 0


def state(workplace: Workplace) -> tuple[object, ...]:
    names = IngestBatches(workplace.ledger).names()
    return landed(workplace), unresolved(workplace), totals(workplace), names
