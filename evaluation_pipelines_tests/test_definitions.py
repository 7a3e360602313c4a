"""The code location as Dagster loads it."""

import subprocess
import sys
from pathlib import Path

import dagster as dg

from evaluation_pipelines.definitions import defs

ASSET_KEYS: frozenset[str] = frozenset()

LOAD_WITHOUT_NETWORK = """
import sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.bind"):
        raise ConnectionError(f"loading the code location used the network: {event} {arguments}")

sys.addaudithook(refuse)
import dagster as dg
from evaluation_pipelines.definitions import defs
dg.Definitions.validate_loadable(defs())
"""


def test_the_code_location_holds_exactly_these_assets() -> None:
    # A mistyped dependency would appear here as an asset that nobody wrote.
    keys = defs().resolve_asset_graph().get_all_asset_keys()

    assert {key.to_user_string() for key in keys} == ASSET_KEYS


def test_steps_run_in_the_process_of_their_run() -> None:
    assert defs().executor is dg.in_process_executor


def test_loading_needs_no_environment_file_or_network_and_warns_of_nothing(tmp_path: Path) -> None:
    loading = subprocess.run(
        [sys.executable, "-W", "error", "-c", LOAD_WITHOUT_NETWORK],
        cwd=tmp_path,
        env={},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (loading.returncode, loading.stdout, loading.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []
