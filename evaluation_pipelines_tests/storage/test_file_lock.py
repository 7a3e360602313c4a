"""The lock that processes of one machine share."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from evaluation_pipelines.storage.file_lock import LockTimeoutError, file_lock
from evaluation_pipelines_tests.full_disk import files_of_at_most

HOLD = """
import sys, time
from pathlib import Path
from evaluation_pipelines.storage.file_lock import file_lock
with file_lock(Path(sys.argv[1]), 5):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_lock_that_is_held_is_waited_for_and_then_named_with_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "a.lock"
    with (
        file_lock(path, 1),
        pytest.raises(LockTimeoutError, match=rf"process {os.getpid()} has .*a\.lock locked"),
        file_lock(path, 0.1),
    ):
        pass
    with file_lock(path, 0):
        pass


def test_who_waits_has_it_when_the_other_is_done(tmp_path: Path) -> None:
    path, order = tmp_path / "a.lock", []

    def second() -> None:
        with file_lock(path, 60):
            order.append("second")

    with file_lock(path, 1):
        waiting = threading.Thread(target=second)
        waiting.start()
        waiting.join(0.2)
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]


def test_a_process_that_is_killed_holds_it_no_more(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LockTimeoutError, match=f"process {holder.pid} "), file_lock(path, 0):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with file_lock(path, 5):
            assert path.read_text() == str(os.getpid())


def test_a_full_disk_has_no_place_for_the_holder_and_the_lock_holds(tmp_path: Path) -> None:
    """What then fails names its own file and what to do."""
    path = tmp_path / "a.lock"
    with (
        files_of_at_most(0),
        file_lock(path, 0),
        pytest.raises(LockTimeoutError, match="process another one has kept"),
        file_lock(path, 0),
    ):
        pass
