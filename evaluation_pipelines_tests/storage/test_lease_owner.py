import os
import socket
import subprocess
import sys

import pytest

from evaluation_pipelines.storage.lease_owner import is_gone, new_owner


def test_every_use_of_a_lease_has_a_name_of_its_own() -> None:
    first, second = new_owner(), new_owner()
    assert first != second
    assert first.startswith(f"{socket.gethostname()}:{os.getpid()}:")


def test_a_process_that_has_ended_is_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert is_gone(f"{socket.gethostname()}:{process.pid}:x")


@pytest.mark.parametrize(
    "owner",
    [
        pytest.param(new_owner(), id="this process"),
        pytest.param(f"{socket.gethostname()}:1:x", id="a process of another user"),
        pytest.param(f"elsewhere.{socket.gethostname()}:999999999:x", id="another machine"),
        pytest.param(f"{socket.gethostname()}:{2**70}:x", id="no possible process id"),
        pytest.param(f"{socket.gethostname()}:me:x", id="no process id"),
        pytest.param("worker", id="another kind of name"),
    ],
)
def test_who_may_still_be_at_work_is_not_gone(owner: str) -> None:
    assert not is_gone(owner)
