"""The PostgreSQL server of the tests ends with them, however they end."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evaluation_pipelines_tests import postgresql

SERVING = """
import sys, time
from pathlib import Path
from evaluation_pipelines_tests.postgresql import running_server

with running_server(Path(sys.argv[1])) as url:
    print(url.partition("host=")[2], flush=True)
    time.sleep(60)
"""


def is_ready(programs: Path, folder: str) -> bool:
    command = [str(programs / "pg_isready"), "-q", "-h", folder]
    return subprocess.run(command, check=False).returncode == 0


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_server_ends_with_the_tests_that_started_it(ending: signal.Signals) -> None:
    programs = postgresql.installed()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    command = [sys.executable, "-c", SERVING, str(programs)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as tests:
        assert tests.stdout is not None
        folder = tests.stdout.readline().strip()
        assert is_ready(programs, folder)
        tests.send_signal(ending)
        tests.wait(timeout=10)

    for _ in range(100):
        if not is_ready(programs, folder) and not list(Path(folder).glob("data/postmaster.pid")):
            return
        time.sleep(0.1)
    pytest.fail(f"the server in {folder} runs on")
